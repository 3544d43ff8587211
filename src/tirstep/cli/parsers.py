"""How an option's value is read: what cannot be is refused in our words, and not in typer's."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from .refusals import UseError

Number = TypeVar("Number", int, float)


def whole_number(option: str, *, least: int) -> Callable[[object], int]:
    """A reader of whole numbers from `least` up."""
    return _reader(option, int, least, "whole number")


def number(option: str, *, least: int) -> Callable[[object], float]:
    """A reader of numbers from `least` up."""
    return _reader(option, float, least, "number")


def one_of(option: str, known: Sequence[str]) -> Callable[[str], str]:
    """A reader of a few words."""

    def read(text: str) -> str:
        if text not in known:
            raise UseError(f"{option} {text}: choose {' or '.join(known)}")
        return text

    return read


def _reader(
    option: str, kind: Callable[[str], Number], least: int, words: str
) -> Callable[[object], Number]:
    def read(value: object) -> Number:
        text = str(value)  # typer has defaults read, too
        with contextlib.suppress(ValueError):
            if least <= (found := kind(text)) < math.inf:
                return found
        raise UseError(f"{option} {text}: give a {words} from {least} up")

    return read
