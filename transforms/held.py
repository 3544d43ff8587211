"""What is asked of a schedule at the end alone: held back for it, and for copies of it, until then.

To ask costs more than most transforms do, and who runs several of them needs the last answer alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from tvm.s_tir import Schedule


@dataclass
class Held:
    """Something that is not asked of a schedule yet.

    Attributes
    ----------
    schedules : the one that is worked on, and the copies of it on which something is tried
    is_of_copies : whether it is held back of these copies, too
    """

    schedules: list[Schedule]
    is_of_copies: ClassVar[bool] = False

    def has(self, sch: Schedule) -> bool:
        """Whether it is held back of a schedule."""
        return any(sch is each for each in self.schedules)

    def ask(self, error: Exception | None) -> None:
        """Ask at the end, or behind an error, which may come of what is wrong; that is raised."""
        raise NotImplementedError


class AskedTooLateError(Exception):
    """An answer may be due where the question would come up; what is within has to run again."""


_Kind = TypeVar("_Kind", bound=Held)
_held: ContextVar[tuple[Held, ...]] = ContextVar("_held", default=())


@contextlib.contextmanager
def held_back(questions: Sequence[Held]) -> Iterator[None]:
    """While this lasts, questions wait, each in the place of what waited of its kind."""
    token = _held.set((*questions, *_held.get()))
    try:
        yield
    finally:
        _held.reset(token)


def find_held(kind: type[_Kind], sch: Schedule) -> _Kind | None:
    """The question of a kind that is held back of a schedule; None where it is asked."""
    held = next((each for each in _held.get() if isinstance(each, kind)), None)
    return held if held is not None and held.has(sch) else None


@contextlib.contextmanager
def tried_on_copy(sch: Schedule, copy: Schedule) -> Iterator[None]:
    """While this lasts, a copy is asked what its schedule is, but for questions of that alone."""
    following = [each for each in _held.get() if each.is_of_copies and each.has(sch)]
    for each in following:
        each.schedules.append(copy)
    try:
        yield
    finally:
        for each in following:
            each.schedules.pop()
