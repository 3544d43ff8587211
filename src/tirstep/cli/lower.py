"""``tirstep lower``: the passes of TVM that lower a step, and what each changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Diff, Run
    from tirstep.lowering_checks.compile.passes import Lowering, Pass
    from tirstep.transforms.recipes import Recipe, Step

    from .json_output import Document
    from .screen import Part, Screen

    Diffs = Mapping[int, Diff]


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
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Show what each of TVM's lowering passes does to a step.

    The passes, which of them changed the module, and their times; or the diffs. Needs no GPU.
    """
    if changed and (diff or pass_name is not None):
        raise UseError("--changed lists passes; give it without --diff and --pass")
    request = make_request(shape, dtype, option, config, function=function)
    options = PassOptions(pass_name, changed, diff, context)

    def show(picked: Recipe) -> int:
        run = run_requested(picked, request)
        lowered = run.steps[-1] if step is None else pick_step(run, step)
        return show_passes(run, lowered, target, options, as_json=json)

    return do_each(recipe, request, show, as_json=json)


@dataclass(frozen=True)
class PassOptions:
    """What is to be shown; `pass_name` is of the only pass, by name or number."""

    pass_name: str | None
    only_changed: bool
    diffs: bool
    context: int


def show_passes(run: Run, step: Step, target: str, options: PassOptions, *, as_json: bool) -> int:
    """Lower a step and show its passes; 1 where TVM refuses it."""
    from tirstep.lowering_checks import print_module
    from tirstep.lowering_checks.compile.passes import lower_through_passes

    from .screen import Screen

    screen = Screen(quiet=as_json)
    with screen.working():
        screen.doing(f"lowering {run.label(step)}")
        lowering = lower_through_passes(step.module, target)
    only_changed = options.only_changed or options.diffs
    passes: Sequence[Pass] = lowering.changed if only_changed else lowering.passes
    if options.pass_name is not None:
        passes = [lowering.get_pass(options.pass_name)]
    diffs = {each.number: each.diff(context=options.context) for each in passes if each.changed}
    if as_json:
        keys = [_pass_keys(each, diffs, options) for each in passes]
        _print_document(run, step, lowering, keys)
    elif options.diffs:
        _print_diffs(screen, passes, diffs)
    elif options.pass_name is not None:
        screen.line(*_heading(passes[0], diffs))
        screen.program(print_module(passes[0].module))
    else:
        _print_table(screen, run.label(step), lowering, passes, diffs)
    if lowering.failed is not None:
        screen.line(("refused  ", "bold red"), str(lowering.failed), wrap=True)
    return 1 if lowering.failed is not None else 0


def _print_diffs(screen: Screen, passes: Sequence[Pass], diffs: Diffs) -> None:
    for place, each in enumerate(passes):
        if place:
            screen.line()
        screen.line(*_heading(each, diffs))
        screen.diff(diffs[each.number].lines if each.number in diffs else ())


def _heading(shown: Pass, diffs: Diffs) -> list[Part]:
    """The line above a pass's diff or module, which ``patch`` and Python skip."""
    from .screen import change_words

    diff = diffs.get(shown.number)
    is_seen = diff is not None and bool(diff.lines)
    change = change_words(diff) if is_seen else [("changes nothing that is printed", "dim")]
    return [(f"# {shown.label}  ", "bold"), *change, (f"  {shown.seconds * 1e3:.2f} ms", "dim")]


def _print_table(
    screen: Screen, label: str, lowering: Lowering, passes: Sequence[Pass], diffs: Diffs
) -> None:
    from rich.table import Table
    from rich.text import Text

    from .screen import change_words

    table = Table(box=None, pad_edge=False)
    for column in ("", "pass", "lines", "ms"):
        table.add_column(column, justify="left" if column == "pass" else "right", no_wrap=True)
    for each in sorted(passes, key=lambda each: each.number):
        number, name = str(each.number), Text(each.name, "cyan" if each.changed else "dim")
        lines = Text.assemble(*change_words(diffs.get(each.number)))
        table.add_row(number, name, lines, f"{each.seconds * 1e3:.2f}")
    screen.line((label, "bold"), (f"  for {lowering.target}", "dim"))
    screen.line()
    screen.table(table)
    screen.line()
    spent = sum(each.seconds for each in lowering.passes) * 1e3
    counts = f"{len(lowering.passes)} passes, {len(lowering.changed)} changed the module"
    screen.line(f"{counts}, {spent:.1f} ms")


def _print_document(run: Run, step: Step, lowering: Lowering, passes: Sequence[Document]) -> None:
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, run_keys

    print_document(
        "lower",
        **run_keys(run),
        step=step_label(step),
        target=lowering.target,
        passes_run=len(lowering.passes),
        passes=passes,
        refused=None if lowering.failed is None else str(lowering.failed),
    )


def _pass_keys(shown: Pass, diffs: Diffs, options: PassOptions) -> Document:
    from tirstep.lowering_checks import print_module

    diff = diffs.get(shown.number)
    return {
        "number": shown.number,
        "name": shown.name,
        "changed": shown.changed,
        "time_us": shown.seconds * 1e6,
        "added": 0 if diff is None else diff.added,
        "removed": 0 if diff is None else diff.removed,
        **({"diff": "" if diff is None else str(diff)} if options.diffs else {}),
        **({"tir": print_module(shown.module)} if options.pass_name is not None else {}),
    }
