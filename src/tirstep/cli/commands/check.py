"""``tirstep check``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import complete_recipe, require_recipe
from ..options import DeviceName, Dtype, GoldenDir, Json, KernelOptions, Seed, Shape, Sizes
from ..refusals import UseError
from ..wishes import Request, make_wish


def command(
    recipes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE",
            show_default=False,
            help="Recipes: see tirstep list.",
            autocompletion=complete_recipe,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every recipe, and golden files that no recipe makes.")
    ] = False,
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Hold each step against its golden, and its numbers against NumPy."""
    wish = make_wish(shape, dtype, option, config)
    names = recipes or []
    if everything == bool(names):
        raise UseError("name the recipes to check, or give --all" + (", not both" * everything))
    if everything and not wish.is_empty:
        raise UseError("--all checks every recipe at its example; name recipes for another config")
    for name in names:
        require_recipe(name)
    from ..check import check_recipes

    return check_recipes(names, Request(wish, golden_dir, device, seed), as_json=json)
