"""Small pieces of prose."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tirstep.modules import AnyProblem
    from tirstep.transforms.recipes import Recipe


def first_sentence(doc: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((doc or "").strip().split("\n\n")[0].split())
    # The dots of "a + ... + z" end nothing.
    return re.split(r"(?<=[^.][.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0]


def describe_recipe(recipe: Recipe) -> str:
    """What a rung adds, and why; of other recipes the first sentence of their docstring."""
    added = f"{spell_config(recipe.delta)}: " if recipe.delta else ""
    return added + first_sentence(recipe.doc)


def count(number: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spell(value: object) -> str:
    """A value as ``--set`` and ``--option`` take it."""
    if isinstance(value, list | tuple):
        return ",".join(map(spell, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def spell_config(config: Mapping[str, object]) -> str:
    """Knobs with their values, ``threads=16,16 tile_k=8``."""
    return " ".join(f"{name}={spell(value)}" for name, value in config.items())


def format_shape(shape: Mapping[str, int]) -> str:
    """A shape as ``--shape`` takes it."""
    return "x".join(map(str, shape.values()))


def get_dtype(problem: AnyProblem) -> str:
    """The data type of a problem: its option, or where there is none that of its first output; ""
    of a program that has no output.
    """
    known = problem.options.get("dtype")
    outputs = problem.outputs if problem.find_refusal() is None else problem.arguments
    return str(known or next((tensor.dtype for tensor in outputs), ""))


def join_alternatives(words: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


MANY = 40
"""Names of kernels and recipes that are not listed in a sentence."""


def suggest(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name: the names that look like it, or else all, if few."""
    names = list(known)
    if alike := difflib.get_close_matches(name, names, n=3, cutoff=0.5):
        return f"did you mean {join_alternatives(alike)}?"
    if len(names) > MANY:
        return "tirstep list says which there are"
    return f"there are: {', '.join(names)}" if names else "there are none"
