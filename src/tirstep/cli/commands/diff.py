"""``tirstep diff``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import complete_recipe, require_recipe
from ..options import Context, Dtype, Json, KernelOptions, RecipeName, Shape, Sizes
from ..wishes import make_pair, make_wish

Before = Annotated[
    str | None,
    typer.Argument(metavar="FROM", show_default=False, help="A step, by name or number."),
]
After = Annotated[
    str | None,
    typer.Argument(metavar="TO", show_default=False, help="Another. [default: the last]"),
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="OTHER",
        help="Diff with a step of another recipe.",
        autocompletion=complete_recipe,
    ),
]
OwnStep = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="STEP", help="With --against: RECIPE's step. [default: the last]"
    ),
]
OtherStep = Annotated[
    str | None,
    typer.Option(
        "--against-step", metavar="STEP", help="With --against: OTHER's step. [default: the last]"
    ),
]


def command(
    recipe: RecipeName,
    before: Before = None,
    after: After = None,
    against: Against = None,
    step: OwnStep = None,
    against_step: OtherStep = None,
    context: Context = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Print the diff of each step, or of any two steps.

    Both steps may be of one recipe, or of two. What is printed in a pipe is what patch reads.
    """
    pair = make_pair(recipe, against, (before, after), (step, against_step))
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    if against is not None:
        require_recipe(against)
    from ..diff import print_diffs

    return print_diffs(pair, wish, context=context, as_json=json)
