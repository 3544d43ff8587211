"""``tirstep lower``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import require_recipe
from ..options import (
    Context,
    Dtype,
    Json,
    KernelOptions,
    RecipeName,
    Shape,
    Sizes,
    StepName,
    TargetName,
)
from ..refusals import UseError
from ..wishes import make_wish


def command(
    recipe: RecipeName,
    step: StepName = None,
    target: TargetName = "cuda",
    pass_name: Annotated[
        str | None,
        typer.Option(
            "--pass",
            metavar="PASS",
            help="Print the module after this pass, by name or number; --diff for its diff.",
        ),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="List only the passes that changed the module.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Print the diffs of the passes that changed the module.")
    ] = False,
    context: Context = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Show what each of TVM's lowering passes does to a step.

    The passes, which of them changed the module, and their times; or the diffs. Needs no GPU.
    """
    if changed and (diff or pass_name is not None):
        raise UseError("--changed lists passes; give it without --diff and --pass")
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    from ..lower import Look, show_passes

    look = Look(pass_name, only_changed=changed, diffs=diff, context=context, json=json)
    return show_passes(recipe, wish, step, target, look)
