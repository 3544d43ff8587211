"""``tirstep steps``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import require_recipe
from ..options import Dtype, Json, KernelOptions, RecipeName, Shape, Sizes
from ..wishes import make_wish


def command(
    recipe: RecipeName,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="STEP", help="Only this step, by name or number."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the traces, as Python, and not the TIR.")
    ] = False,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Print the TIR of each step of a recipe, as TVMScript."""
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    from ..steps import print_steps

    return print_steps(recipe, wish, only=step, as_trace=trace, as_json=json)
