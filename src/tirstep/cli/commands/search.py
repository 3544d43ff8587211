"""``tirstep search``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..catalogue import require_recipe
from ..options import Dtype, KernelOptions, RecipeName, Seed, Sizes
from ..parsers import number, whole_number
from ..wishes import make_wish, separate_lists

Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        parser=number("--patience", least=1),
        help="What one candidate may take to compile.",
    ),
]


def command(
    recipe: RecipeName,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="SIZES",
            help="The kernel's shape, 1024x512x2048; may be repeated. [default: those of the "
            "recipe's tutorial]",
        ),
    ] = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            parser=whole_number("--limit", least=1),
            help="So many candidates at random. [default: all of them]",
        ),
    ] = None,
    seed: Seed = 0,
    patience: Patience = 60,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="FILE", help="A table of the best configs to put the winners into."
        ),
    ] = None,
) -> int:
    """Find a recipe's fastest config on a GPU.

    The candidates are the values that the recipe declares as choices; one given with --set is the
    same in all of them, and --set tile_k=8,16 has these two in place of its choices. Every
    candidate is checked exactly before it may win. The best of them take turns with PyTorch at the
    end. A table keeps the faster one where it has an entry for the shape already.
    """
    single, among = separate_lists(config or [])
    wish = make_wish(None, dtype, option, single)
    require_recipe(recipe)
    from ..search import Hunt, search_sizes

    return search_sizes(recipe, shape or [], wish, Hunt(limit, among, seed, patience, into))
