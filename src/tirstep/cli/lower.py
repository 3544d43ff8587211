"""``tirstep lower``: the passes of TVM that lower a step and what each changed, or the source that
TVM generates of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .request import (
    RECIPE_OPTIONS,
    Context,
    Json,
    RecipeName,
    Request,
    StepName,
    TargetName,
    pick_step,
    run_each,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Diff, Run
    from tirstep.lowering_checks.compile.passes import Lowering, Pass
    from tirstep.transforms.recipes import Step

    from .screen import Part, Screen

    Lowered = tuple[Step, Lowering]

LEXERS = {"cuda": "cuda", "opencl": "c", "llvm": "llvm"}


@with_options(*RECIPE_OPTIONS)
def command(
    recipe: RecipeName,
    request: Request,
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
    source: Annotated[
        bool,
        typer.Option(
            "--source",
            help="Print the source that TVM generates instead: CUDA, OpenCL or LLVM IR; for llvm, "
            "thread bindings are made serial.",
        ),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff",
            help="Print the diffs of the passes that changed the module; with --source, what each "
            "step changed in it, or what the one of --step did.",
        ),
    ] = False,
    context: Context = 3,
    json: Json = False,
) -> int:
    """Show what TVM's lowering passes make of a step, or its source.

    The passes, which of them changed the module, and their times; or the diffs; or the source.
    Needs no GPU.
    """
    if changed and (diff or pass_name is not None):
        raise UseError("--changed lists passes; give it without --diff and --pass")
    if source and (changed or pass_name is not None):
        raise UseError("--source is what comes of all passes; give it without --pass and --changed")

    def show(run: Run) -> int:
        lowered = pick_step(run, step)
        if source and diff:
            only_last = step is not None
            return _print_source_diffs(run, lowered, target, context, only_last, as_json=json)
        if source:
            return _print_source(run, lowered, target, as_json=json)
        return _show_passes(
            run, lowered, target, pass_name, context, changed=changed, diffs=diff, as_json=json
        )

    return run_each(recipe, request, show, as_json=json)


def _lower(screen: Screen, run: Run, steps: Sequence[Step], target: str) -> list[Lowered]:
    from tirstep.lowering_checks.compile.passes import lower_through_passes

    lowered = []
    with screen.working():
        for step in steps:
            screen.doing(f"lowering {run.label(step)}")
            lowered.append((step, lower_through_passes(step.module, target)))
    return lowered


def _show_passes(
    run: Run,
    step: Step,
    target: str,
    name: str | None,
    context: int,
    *,
    changed: bool,
    diffs: bool,
    as_json: bool,
) -> int:
    """Lower a step and show its passes, or the one of a name; 1 where TVM refuses it."""
    from tirstep.lowering_checks import print_module
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, read_keys, run_keys
    from .screen import Screen, change_words

    screen = Screen(quiet=as_json)
    ((_, lowering),) = _lower(screen, run, [step], target)
    passes: Sequence[Pass] = lowering.changed if changed or diffs else lowering.passes
    if name is not None:
        passes = [lowering.get_pass(name)]
    found = {each.number: each.diff(context=context) for each in passes if each.changed}

    def heading(shown: Pass) -> list[Part]:
        """The line above a pass's diff or module, which ``patch`` and Python skip."""
        diff = found.get(shown.number)
        is_seen = diff is not None and bool(diff.lines)
        change = change_words(diff) if is_seen else [("changes nothing that is printed", "dim")]
        return [(f"# {shown.label}  ", "bold"), *change, (f"  {shown.seconds * 1e3:.2f} ms", "dim")]

    def keys(shown: Pass) -> dict[str, object]:
        diff = found.get(shown.number)
        return {
            **read_keys(shown, "number name changed"),
            "time_us": shown.seconds * 1e6,
            "added": 0 if diff is None else diff.added,
            "removed": 0 if diff is None else diff.removed,
            **({"diff": "" if diff is None else str(diff)} if diffs else {}),
            **({"tir": print_module(shown.module)} if name is not None else {}),
        }

    if as_json:
        print_document(
            "lower",
            **run_keys(run),
            step=step_label(step),
            target=lowering.target,
            passes_run=len(lowering.passes),
            passes=[keys(each) for each in passes],
            refused=None if lowering.failed is None else str(lowering.failed),
        )
    elif diffs:
        for place, each in enumerate(passes):
            if place:
                screen.line()
            screen.line(*heading(each))
            screen.diff(found[each.number].lines if each.number in found else ())
    elif name is not None:
        screen.line(*heading(passes[0]))
        screen.program(print_module(passes[0].module))
    else:
        _show_table(screen, run.label(step), lowering, passes, found)
    if lowering.failed is not None:
        screen.line(("refused  ", "bold red"), str(lowering.failed), wrap=True)
    return 1 if lowering.failed is not None else 0


def _show_table(
    screen: Screen,
    label: str,
    lowering: Lowering,
    passes: Sequence[Pass],
    diffs: Mapping[int, Diff],
) -> None:
    from rich.table import Table
    from rich.text import Text

    from .screen import change_words

    table = Table(box=None, pad_edge=False)
    for column in ("", "pass", "lines", "ms"):
        table.add_column(column, justify="left" if column == "pass" else "right", no_wrap=True)
    for each in sorted(passes, key=lambda each: each.number):
        name = Text(each.name, "cyan" if each.changed else "dim")
        lines = Text.assemble(*change_words(diffs.get(each.number)))
        table.add_row(str(each.number), name, lines, f"{each.seconds * 1e3:.2f}")
    screen.line((label, "bold"), (f"  for {lowering.target}", "dim"))
    screen.line()
    screen.table(table)
    screen.line()
    spent = sum(each.seconds for each in lowering.passes) * 1e3
    counts = f"{len(lowering.passes)} passes, {len(lowering.changed)} changed the module"
    screen.line(f"{counts}, {spent:.1f} ms")


def _print_source(run: Run, step: Step, target: str, *, as_json: bool) -> int:
    """Print the source of a step; raises `CheckError` where it has none."""
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, run_keys
    from .screen import Screen, step_heading

    screen = Screen()
    (lowered,) = _lower(screen, run, [step], target)
    text, language = _require_source(run, lowered), lowered[1].language
    if as_json:
        keys = {"step": step_label(step), "target": target, "language": language, "text": text}
        print_document("lower", **run_keys(run), **keys)
        return 0
    if screen.is_terminal:
        screen.line(*step_heading(run, step))
    screen.program(text, LEXERS[language])
    return 0


def _print_source_diffs(
    run: Run, last: Step, target: str, context: int, only_last: bool, *, as_json: bool
) -> int:
    """Print what each step changed in the source, or the last one only.

    A step that has no source, since it is not bound yet, is passed over: the next one is compared
    with the last that has one.
    """
    from tirstep.lowering_checks import CheckError
    from tirstep.lowering_checks.diff import diff_texts
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, run_keys
    from .screen import Screen, show_diffs

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
    diffs = []
    for pair in pairs:
        first, second = (f"{run.recipe.name}/{step_label(step)}" for step, _ in pair)
        texts = (_require_source(run, each) for each in pair)
        diffs.append(diff_texts(*texts, names=(first, second), context=context))
    if as_json:
        print_document("lower", **run_keys(run), target=target, diffs=diffs)
    else:
        show_diffs(screen, diffs, [step for _, (step, _) in pairs])
    return 0


def _require_source(run: Run, lowered: Lowered) -> str:
    from tirstep.lowering_checks import CheckError

    step, lowering = lowered
    source = lowering.source.strip("\n")
    if not source:
        why = lowering.failed or "no loop is bound to a GPU yet"
        raise CheckError(f"{run.label(step)} has no source for {lowering.target}: {why}")
    return f"{source}\n"
