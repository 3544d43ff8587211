"""``tirstep source``."""

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
from ..wishes import make_wish


def command(
    recipe: RecipeName,
    step: StepName = None,
    target: TargetName = "cuda",
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help="Print what each step changed in it; with --step, what that one did."
        ),
    ] = False,
    context: Context = 3,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Print the source that TVM generates of a step.

    CUDA, OpenCL or LLVM IR; for llvm, thread bindings are made serial. Needs no GPU.
    """
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    from ..source import print_diffs, print_source

    if diff:
        return print_diffs(recipe, wish, step, target, context=context, as_json=json)
    return print_source(recipe, wish, step, target, as_json=json)
