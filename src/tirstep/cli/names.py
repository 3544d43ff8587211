"""Names of kernels, ladders and recipes: what a shell offers, and what to say of an unknown one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .formatting import count, suggest

Ladders = Mapping[str, Sequence[str]]
"""The names of recipes by ladder; of kernels without recipes, none."""


def name_recipes() -> dict[str, list[str]]:
    """The names of each ladder's recipes, those of plugins too, and of kernels without any."""
    from tirstep.programs.plugins import list_kernels, list_ladders

    ladders = list_ladders()
    names = dict.fromkeys([*ladders, *list_kernels()])
    return {name: [recipe.name for recipe in ladders.get(name, ())] for name in names}


def complete_recipe(incomplete: str) -> list[str]:
    """The recipes whose names begin so, for a shell to offer."""
    names = (recipe for ladder in name_recipes().values() for recipe in ladder)
    return [name for name in names if name.startswith(incomplete)]


def complete_ladder(incomplete: str) -> list[str]:
    """The same of ladders."""
    return [name for name, it in name_recipes().items() if it and name.startswith(incomplete)]


def complete_either(incomplete: str) -> list[str]:
    """The same of ladders and recipes."""
    return [*complete_ladder(incomplete), *complete_recipe(incomplete)]


def explain_unknown_recipe(name: str, ladders: Ladders) -> str | None:
    """What to say of a name that is no recipe; None of a recipe."""
    recipes = [recipe for ladder in ladders.values() for recipe in ladder]
    if name in recipes:
        return None
    if ladders.get(name):
        return (
            f"'{name}' is a ladder of {count(len(ladders[name]), 'recipe')}: name "
            f"one of them (tirstep list {name}), or see all with tirstep ladder {name}"
        )
    return f"there is no recipe '{name}'; {_suggest(name, recipes)}"


def explain_unknown_ladder(name: str, ladders: Ladders) -> str | None:
    """What to say of a name that is no ladder with recipes; None of one."""
    if ladders.get(name):
        return None
    for ladder, recipes in ladders.items():
        if name in recipes:
            return (
                f"'{name}' is a recipe of the ladder {ladder}: give tirstep ladder {ladder}, or "
                f"tirstep check {name}"
            )
    known = [ladder for ladder, recipes in ladders.items() if recipes]
    if name in ladders:
        return f"the kernel '{name}' has no recipes; {suggest(name, known)}"
    return f"there is no ladder '{name}'; {suggest(name, known)}"


def explain_unknown_name(name: str, ladders: Ladders) -> str | None:
    """What to say of a name that is no kernel, ladder or recipe; None of one that is."""
    names = [*ladders, *(recipe for ladder in ladders.values() for recipe in ladder)]
    if name in names:
        return None
    return f"there is no kernel, ladder or recipe '{name}'; {_suggest(name, names)}"


def _suggest(name: str, known: Sequence[str]) -> str:
    """What to do about an unknown name; it may be that of a folder or file, spelt like a recipe."""
    if not name:
        return "give a name, or a program of yours: FILE.py, say"
    if Path(name).exists():
        return f"for the {'folder' if Path(name).is_dir() else 'file'} here, write ./{name}"
    return suggest(name, known)
