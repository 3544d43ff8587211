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


def name_recipes() -> dict[str, list[str]]:
    """The names of each ladder's recipes, and of kernels without any."""
    from tirstep.modules import kernels
    from tirstep.transforms.recipes import LADDERS

    names = dict.fromkeys([*LADDERS, *kernels()])
    return {name: [recipe.name for recipe in LADDERS.get(name, ())] for name in names}


def list_names(kind: Literal["recipe", "ladder", "name"]) -> list[str]:
    """Names of recipes, of ladders with recipes, or of kernels, ladders and recipes."""
    ladders = name_recipes()
    recipes = [recipe for ladder in ladders.values() for recipe in ladder]
    with_recipes = [name for name, ladder in ladders.items() if ladder]
    return {"recipe": recipes, "ladder": with_recipes, "name": [*ladders, *recipes]}[kind]


def complete(*kinds: Literal["recipe", "ladder"]) -> Callable[[str], list[str]]:
    """Shell completion: the names of these kinds that start with a word."""

    def offer(incomplete: str) -> list[str]:
        return [it for kind in kinds for it in list_names(kind) if it.startswith(incomplete)]

    return offer


def explain_unknown(name: str, wanted: Literal["recipe", "ladder", "name"]) -> str | None:
    """The sentence about a name that is not a recipe, a ladder with recipes, or any of kernels,
    ladders and recipes; None of one that is.
    """
    ladders = name_recipes()
    by_recipe = {recipe: ladder for ladder, recipes in ladders.items() for recipe in recipes}
    known = list_names(wanted)
    if name in known:
        return None
    if wanted == "recipe" and ladders.get(name):
        return (
            f"'{name}' is a ladder of {count(len(ladders[name]), 'recipe')}: name "
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
    if name in ladders:
        return f"the kernel '{name}' has no recipes; {hint}"
    what = "kernel, ladder or recipe" if wanted == "name" else wanted
    return f"there is no {what} '{name}'; {hint}"
