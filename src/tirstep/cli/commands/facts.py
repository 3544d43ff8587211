"""``tirstep facts``."""

from __future__ import annotations

from typing import Annotated

import typer

from ..catalogue import require_recipe
from ..options import Dtype, Json, KernelOptions, RecipeName, Shape, Sizes, TargetName
from ..refusals import UseError
from ..wishes import make_wish


def command(
    recipe: RecipeName,
    step: Annotated[
        str | None,
        typer.Option("--step", metavar="STEP", help="Only this step, by name or number."),
    ] = None,
    target: TargetName = "cuda",
    arch: Annotated[
        list[str] | None,
        typer.Option(
            "--arch",
            metavar="ARCH",
            help="Compile for this architecture, such as sm_80; may be given several times.",
        ),
    ] = None,
    all_archs: Annotated[
        bool, typer.Option("--all-archs", help="Compile for every architecture from sm_75 on.")
    ] = False,
    counts: Annotated[
        bool,
        typer.Option(
            "--counts",
            help="Count what the first GPU block does, on the simulator: seconds for each step.",
        ),
    ] = False,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Sizes = None,
    json: Json = False,
) -> int:
    """Say what the GPU gets of each step.

    The launch, memory accesses, barriers; with --arch or --all-archs also registers, spills,
    occupancy and instructions, for which it needs a compiler for CUDA (pip install 'tirstep[cuda]',
    or nvcc), but no GPU; with --counts traffic and bank conflicts. What stands in a loop, and a
    call of a helper, counts once. Without --shape, that of the tutorial that the recipe comes from.
    """
    if arch and all_archs:
        raise UseError("--all-archs is every architecture; give it without --arch")
    wish = make_wish(shape, dtype, option, config)
    require_recipe(recipe)
    from ..facts import find_architectures, show_facts

    architectures = find_architectures(arch or [], all_archs=all_archs)
    return show_facts(recipe, wish, step, target, architectures, counts=counts, as_json=json)
