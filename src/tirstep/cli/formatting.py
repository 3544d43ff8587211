"""Names of kernels, ladders and recipes, what a shell offers of them, and small pieces of prose."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tirstep.modules import AnyProblem


def first_sentence(doc: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join((doc or "").strip().split("\n\n")[0].split())
    # The dots of "a + ... + z" end nothing.
    return re.split(r"(?<=[^.][.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0]


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


def get_dtype(problem: AnyProblem) -> str:
    """The data type of a problem: its option, or where there is none that of its first output; ""
    of a program that has no output.
    """
    known = problem.options.get("dtype")
    outputs = problem.outputs if problem.find_refusal() is None else problem.arguments
    return str(known or next((tensor.dtype for tensor in outputs), ""))


def spell_shape(problem: AnyProblem) -> str:
    """The sizes as ``--shape`` takes them: those in the text of a module that leaves none open."""
    literal = getattr(problem.kernel, "literal_sizes", {})
    return problem.shape_text or "x".join(map(str, literal.values()))


def join_alternatives(words: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


MANY = 40
"""Names of kernels and recipes that are not listed in a sentence."""


def suggest(
    name: str, known: Iterable[str], listing: str = "tirstep list says which there are"
) -> str:
    """Advice about an unknown name: the names that look like it, or else all, if few, or what
    lists them.
    """
    names = list(known)
    if alike := difflib.get_close_matches(name, names, n=3, cutoff=0.5):
        return f"did you mean {join_alternatives(alike)}?"
    if len(names) > MANY:
        return listing
    return f"there are: {', '.join(names)}" if names else "there are none"


def list_names(kind: Literal["recipe", "ladder", "name"]) -> list[str]:
    """Names of recipes, of ladders, or of kernels, ladders and recipes."""
    from tirstep.modules import kernels
    from tirstep.transforms.recipes import LADDERS, RECIPES

    every = dict.fromkeys([*LADDERS, *kernels(), *RECIPES])
    return [*{"recipe": RECIPES, "ladder": LADDERS, "name": every}[kind]]


def complete(*kinds: Literal["recipe", "ladder"]) -> Callable[[str], list[str]]:
    """Shell completion: the names of these kinds that start with a word."""

    def offer(incomplete: str) -> list[str]:
        return [it for kind in kinds for it in list_names(kind) if it.startswith(incomplete)]

    return offer


def explain_unknown(name: str, wanted: Literal["recipe", "ladder", "name"]) -> str | None:
    """The sentence about a name that is not a recipe, a ladder with recipes, or any of kernels,
    ladders and recipes; None of one that is.
    """
    known = list_names(wanted)
    if name in known:
        return None
    from tirstep.modules import kernels
    from tirstep.transforms.recipes import LADDERS

    by_recipe = {recipe.name: ladder for ladder, own in LADDERS.items() for recipe in own}
    if wanted == "recipe" and name in LADDERS:
        return (
            f"'{name}' is a ladder of {count(len(LADDERS[name]), 'recipe')}: name "
            f"one of them (tirstep list {name}), or see all with tirstep ladder {name}"
        )
    if wanted == "ladder" and name in by_recipe:
        return (
            f"'{name}' is a recipe of the ladder {by_recipe[name]}: give tirstep ladder "
            f"{by_recipe[name]}, or tirstep check {name}"
        )
    hint = suggest(name, known)
    if not name:
        hint = "give a name, or a program of yours: FILE.py, say"
    elif wanted != "ladder" and Path(name).exists():
        hint = f"for the {'folder' if Path(name).is_dir() else 'file'} here, write ./{name}"
    if name in kernels():
        return f"the kernel '{name}' has no recipes; {hint}"
    what = "kernel, ladder or recipe" if wanted == "name" else wanted
    return f"there is no {what} '{name}'; {hint}"
