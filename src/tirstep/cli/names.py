"""Names of kernels, ladders and recipes: what a shell offers, and what to say of an unknown one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from .formatting import count, suggest


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


def explain_unknown(name: str, wanted: Literal["recipe", "ladder", "name"]) -> str | None:
    """What to say of a name that is no recipe, no ladder with recipes, or none of kernels, ladders
    and recipes; None of one that is.
    """
    ladders = name_recipes()
    by_recipe = {recipe: ladder for ladder, recipes in ladders.items() for recipe in recipes}
    if wanted == "name":
        if name in ladders or name in by_recipe:
            return None
        near = _suggest(name, [*ladders, *by_recipe])
        return f"there is no kernel, ladder or recipe '{name}'; {near}"
    if wanted == "recipe":
        if name in by_recipe:
            return None
        if ladders.get(name):
            return (
                f"'{name}' is a ladder of {count(len(ladders[name]), 'recipe')}: name "
                f"one of them (tirstep list {name}), or see all with tirstep ladder {name}"
            )
        return f"there is no recipe '{name}'; {_suggest(name, [*by_recipe])}"
    if ladders.get(name):
        return None
    if name in by_recipe:
        return (
            f"'{name}' is a recipe of the ladder {by_recipe[name]}: give tirstep ladder "
            f"{by_recipe[name]}, or tirstep check {name}"
        )
    near = suggest(name, [ladder for ladder, recipes in ladders.items() if recipes])
    if name in ladders:
        return f"the kernel '{name}' has no recipes; {near}"
    return f"there is no ladder '{name}'; {near}"


def _suggest(name: str, known: Sequence[str]) -> str:
    """What to do about an unknown name; it may be that of a folder or file, spelt like a recipe."""
    if not name:
        return "give a name, or a program of yours: FILE.py, say"
    if Path(name).exists():
        return f"for the {'folder' if Path(name).is_dir() else 'file'} here, write ./{name}"
    return suggest(name, known)
