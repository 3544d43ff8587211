"""``tirstep record``: what recipes come to under this TVM, in a folder for ``upgrade-report``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .catalogue import complete_either, require_either
from .formatting import count
from .request import PROGRAMS, FunctionName, Request, make_request, pick_recipes
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks.upgrades import RecordedRecipe, VersionRecord
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen

RECORD = "record.json"

RecordedRecipes = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE]",
        show_default=False,
        help=f"Recipes, or kernels for their whole ladders, {PROGRAMS} [default: all of tirstep]",
        autocompletion=complete_either,
    ),
]


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to; a new folder, or one of a record.")
    ],
    recipes: RecordedRecipes = None,
    function: FunctionName = None,
) -> int:
    """Write down what recipes are under this TVM.

    At each recipe's golden example: the TIR of each step and its facts, and what its last step
    computes, on the simulator. record.json is written last; without it the record is not finished.
    """
    from .screen import Screen

    for name in recipes or []:
        require_either(name)
    request = make_request(None, None, None, None, function=function)
    require_record_or_empty(folder)
    chosen = pick_chosen(recipes or [], request)
    screen = Screen()
    with screen.working():
        record = _write(folder, chosen, screen)
    refused = sum(recipe.refusal is not None for recipe in record.recipes.values())
    told = f", {refused} of them refused" if refused else ""
    screen.line((str(folder), "bold"), f"  {count(len(record.recipes), 'recipe')}{told}")
    return 0


def pick_chosen(names: Sequence[str], request: Request) -> list[Recipe]:
    """The recipes that are named, or all of tirstep."""
    from tirstep.transforms.recipes import RECIPES

    return pick_recipes(names or [*RECIPES], request)


def require_record_or_empty(folder: Path) -> None:
    """Raise `UseError` for a folder of other things, of which a record would be no part."""
    if folder.exists() and not folder.is_dir():
        raise UseError(f"{folder} is no folder; give a new one, or one of a record")
    # One whose writing was ended before has no record.json, but folders of steps alone.
    if folder.is_dir() and any(path.is_file() and path.name != RECORD for path in folder.iterdir()):
        raise UseError(f"{folder} has other files; give a new folder, or one of a record")
    _require_own_folders(folder)


def _require_own_folders(folder: Path) -> None:
    """Raise `UseError` for a record beside folders that are none of its steps: they would go with
    it, which a new one replaces.
    """
    record = folder / RECORD
    if not record.is_file():
        return
    try:
        own = set(json.loads(record.read_text("utf-8"))["recipes"])
    except (ValueError, TypeError, KeyError):
        own = set()
    for path in sorted(folder.iterdir()):
        if path.name != RECORD and (
            path.name not in own or any(each.suffix != ".py" for each in path.iterdir())
        ):
            raise UseError(f"{path} is no part of the record there; move it, or give a new folder")


def _write(folder: Path, recipes: Sequence[Recipe], screen: Screen) -> VersionRecord:
    from tirstep.lowering_checks import get_device
    from tirstep.lowering_checks.upgrades import record_recipe, write_record

    device = get_device("simulator")

    def record_each() -> Iterator[tuple[str, RecordedRecipe]]:
        for recipe in recipes:
            screen.doing(f"recording {recipe.name}")
            yield recipe.name, record_recipe(recipe, device)

    return write_record(folder, record_each())
