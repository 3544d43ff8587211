"""``tirstep why``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..catalogue import require_recipe
from ..options import Dtype, KernelOptions, RecipeName, Seed, Shape, Sizes
from ..wishes import make_wish


def command(
    recipe: RecipeName,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            "-o",
            metavar="FILE",
            help="Where to write what reproduces it. [default: why_RECIPE.py]",
        ),
    ] = None,
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
) -> int:
    """Name the step, or the pass of TVM, that makes a recipe wrong.

    Every step is run as it stands, and then as TVM lowers it. A culprit is printed with its diff,
    and written as a script that shows it with TVM and NumPy alone.
    """
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    from ..why import explain

    return explain(recipe, wish, seed=seed, script=script)
