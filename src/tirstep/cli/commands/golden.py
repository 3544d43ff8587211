"""``tirstep golden``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import complete_either, require_either
from ..options import GoldenDir, Json
from ..refusals import UseError


def command(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RECIPE]",
            show_default=False,
            help="Recipes, or kernels for their whole ladders. [default: those that have goldens]",
            autocompletion=complete_either,
        ),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write them anew; not under CI.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="All recipes of tirstep, also those without goldens.")
    ] = False,
    golden_dir: GoldenDir = None,
    json: Json = False,
) -> int:
    """Say which goldens would change, or write them anew.

    Writing touches the folders of these recipes and their kernels alone: there it deletes the
    goldens of steps that are no more. Files that no recipe makes are told, and stay.
    """
    if recipes and every:
        raise UseError("RECIPE and --all both say which goldens are meant; give one")
    for name in recipes or []:
        require_either(name)
    from ..golden import compare_goldens, write_goldens

    return (write_goldens if write else compare_goldens)(
        recipes or [], golden_dir, every=every, as_json=json
    )
