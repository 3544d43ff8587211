"""Names of kernels, ladders and recipes: what a shell offers, and what to say of an unknown one."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .formatting import count, suggest


def name_recipes() -> dict[str, list[str]]:
    """The names of each ladder's recipes, and of kernels without any."""
    from tirstep.modules import kernels
    from tirstep.transforms.recipes import LADDERS

    names = dict.fromkeys([*LADDERS, *kernels()])
    return {name: [recipe.name for recipe in LADDERS.get(name, ())] for name in names}


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
    known = {"recipe": [*by_recipe], "ladder": [it for it in ladders if ladders[it]]}
    known["name"] = [*ladders, *by_recipe]
    if name in known[wanted]:
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
    hint = suggest(name, known[wanted])
    if not name:
        hint = "give a name, or a program of yours: FILE.py, say"
    elif wanted != "ladder" and Path(name).exists():
        hint = f"for the {'folder' if Path(name).is_dir() else 'file'} here, write ./{name}"
    if name in ladders:
        return f"the kernel '{name}' has no recipes; {hint}"
    what = "kernel, ladder or recipe" if wanted == "name" else wanted
    return f"there is no {what} '{name}'; {hint}"
