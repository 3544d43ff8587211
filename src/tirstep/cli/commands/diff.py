"""``tirstep diff``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import Context, Dtype, Json, KernelOptions, RecipeName, Shape, Sizes
from ..wishes import make_pair, make_wish


def command(
    recipe: RecipeName,
    before: Annotated[
        str | None,
        typer.Argument(metavar="FROM", show_default=False, help="A step, by name or number."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Argument(metavar="TO", show_default=False, help="Another. [default: the last]"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="OTHER", help="Diff with a step of another recipe."),
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(
            "--step", metavar="STEP", help="With --against: RECIPE's step. [default: the last]"
        ),
    ] = None,
    against_step: Annotated[
        str | None,
        typer.Option(
            "--against-step",
            metavar="STEP",
            help="With --against: OTHER's step. [default: the last]",
        ),
    ] = None,
    context: Context = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    sizes: Sizes = None,
    json: Json = False,
) -> int:
    """Print the diff of each step, or of any two steps.

    Both steps may be of one recipe, or of two. What is printed in a pipe is what patch reads.
    """
    pair = make_pair(recipe, against, (before, after), (step, against_step))
    wish = make_wish(shape, dtype, option, sizes)
    from ..diff import print_diffs

    return print_diffs(pair, wish, context=context, as_json=json)
