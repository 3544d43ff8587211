"""``tirstep source``: what TVM generates of a step, and what each step changed in it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from .request import (
    Config,
    Context,
    Dtype,
    FunctionName,
    Json,
    KernelOptions,
    RecipeName,
    Shape,
    StepName,
    TargetName,
    do_each,
    make_request,
    pick_step,
    run_requested,
)

if TYPE_CHECKING:
    from tirstep.lowering_checks import Diff, Run
    from tirstep.lowering_checks.compile.passes import Lowering
    from tirstep.transforms.recipes import Recipe, Step

    from .screen import Screen

    Lowered = tuple[Step, Lowering]

LEXERS = {"cuda": "cuda", "opencl": "c", "llvm": "llvm"}


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
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Print the source that TVM generates of a step.

    CUDA, OpenCL or LLVM IR; for llvm, thread bindings are made serial. Needs no GPU.
    """
    request = make_request(shape, dtype, option, config, function=function)

    def show(picked: Recipe) -> int:
        run = run_requested(picked, request)
        last = run.steps[-1] if step is None else pick_step(run, step)
        if not diff:
            return _print_source(run, last, target, as_json=json)
        return _print_diffs(run, last, target, context, only_last=step is not None, as_json=json)

    return do_each(recipe, request, show, as_json=json)


def _print_source(run: Run, step: Step, target: str, *, as_json: bool) -> int:
    """Print the source of a step; raises `CheckError` where it has none."""
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, run_keys
    from .screen import Screen, step_heading

    screen = Screen()
    (lowered,) = _lower(screen, run, (step,), target)
    text, language = _require_source(run, lowered), lowered[1].language
    if as_json:
        label = step_label(step)
        keys = {"step": label, "target": target, "language": language, "text": text}
        print_document("source", **run_keys(run), **keys)
        return 0
    if screen.is_terminal:
        screen.line(*step_heading(run, step))
    screen.program(text, LEXERS[language])
    return 0


def _print_diffs(
    run: Run, last: Step, target: str, context: int, *, only_last: bool, as_json: bool
) -> int:
    """Print what each step changed in the source, or the last one only.

    A step that has no source, since it is not bound yet, is passed over: the next one is compared
    with the last that has one.
    """
    from tirstep.lowering_checks import CheckError

    from .json_output import diff_keys, print_document, run_keys
    from .screen import Screen, diff_heading

    screen = Screen()
    lowered = _lower(screen, run, run.steps[: last.index + 1], target)
    if only_last:
        _require_source(run, lowered[-1])
    pairs = list(itertools.pairwise(each for each in lowered if each[1].source))
    pairs = pairs[-1:] if only_last else pairs
    if not pairs:
        raise CheckError(
            f"{run.recipe.name}: fewer than two steps have a source for {target}, so there is no "
            "diff; print it without --diff"
        )
    diffs = [_diff(run, before, after, context) for before, after in pairs]
    if as_json:
        keys = [diff_keys(diff) for diff in diffs]
        print_document("source", **run_keys(run), target=target, diffs=keys)
        return 0
    for place, (diff, (_, (step, _))) in enumerate(zip(diffs, pairs, strict=True)):
        if place:
            screen.line()
        screen.line(*diff_heading(diff, step))
        screen.diff(diff.lines)
    return 0


def _lower(screen: Screen, run: Run, steps: tuple[Step, ...], target: str) -> list[Lowered]:
    from tirstep.lowering_checks.compile.passes import lower_through_passes

    lowered = []
    with screen.working():
        for step in steps:
            screen.doing(f"lowering {run.label(step)}")
            lowered.append((step, lower_through_passes(step.module, target)))
    return lowered


def _require_source(run: Run, lowered: Lowered) -> str:
    from tirstep.lowering_checks import CheckError

    step, lowering = lowered
    source = lowering.source.strip("\n")
    if not source:
        why = lowering.failed or "no loop is bound to a GPU yet"
        raise CheckError(f"{run.label(step)} has no source for {lowering.target}: {why}")
    return f"{source}\n"


def _diff(run: Run, before: Lowered, after: Lowered, context: int) -> Diff:
    from tirstep.lowering_checks.diff import diff_texts
    from tirstep.lowering_checks.steps import step_label

    names = tuple(f"{run.recipe.name}/{step_label(step)}" for step, _ in (before, after))
    texts = (_require_source(run, lowered) for lowered in (before, after))
    return diff_texts(*texts, names=(names[0], names[1]), context=context)
