"""``tirstep steps``: the TIR of each step, or its trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .request import (
    Config,
    Dtype,
    FunctionName,
    Json,
    KernelOptions,
    OnlyStep,
    RecipeName,
    Request,
    Shape,
    do_each,
    make_request,
    pick_step,
    run_requested,
)

if TYPE_CHECKING:
    from tirstep.transforms.recipes import Recipe, Step

    from .json_output import Document


def command(
    recipe: RecipeName,
    step: OnlyStep = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print the traces, as Python, and not the TIR.")
    ] = False,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Print the TIR of each step of a recipe, as TVMScript."""
    request = make_request(shape, dtype, option, config, function=function)
    return do_each(
        recipe,
        request,
        lambda picked: print_steps(picked, request, step, with_traces=trace, as_json=json),
        as_json=json,
    )


def print_steps(
    recipe: Recipe, request: Request, name: str | None, *, with_traces: bool, as_json: bool
) -> int:
    """Print the steps of a recipe, or the one of a name."""
    from tirstep.lowering_checks import print_module

    from .json_output import print_document, run_keys
    from .screen import Screen, step_heading

    run = run_requested(recipe, request)
    steps = run.steps if name is None else (pick_step(run, name),)
    if as_json:
        print_document("steps", **run_keys(run), steps=[_step_keys(step) for step in steps])
        return 0
    screen = Screen()
    for number, shown in enumerate(steps):
        if number:
            screen.line()
        # Headings are comments of Python, so that in a pipe what is printed stays a program.
        screen.line(*step_heading(run, shown))
        screen.program(str(shown.trace) if with_traces else print_module(shown.module))
    return 0


def _step_keys(step: Step) -> Document:
    from tirstep.lowering_checks import print_module

    return {
        "number": step.index,
        "name": step.name,
        "source": step.location,
        "tir": print_module(step.module),
        "trace": str(step.trace),
    }
