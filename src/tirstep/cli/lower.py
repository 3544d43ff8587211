"""``tirstep lower``: the passes of TVM that lower a step, and what each changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from tirstep.lowering_checks import Diff, Run, print_module
from tirstep.lowering_checks.compile.passes import Lowering, Pass, lower_through_passes
from tirstep.lowering_checks.steps import step_label
from tirstep.transforms.recipes import Step

from .diff import change_words
from .documents import Document, print_document, run_keys
from .screen import Part, Screen
from .selection import pick_recipe, pick_step, run_wished
from .wishes import Wish


@dataclass(frozen=True)
class Look:
    """What is to be shown.

    Attributes
    ----------
    pass_name : only this pass, by name or number
    """

    pass_name: str | None
    only_changed: bool
    diffs: bool
    context: int
    json: bool


def show_passes(name: str, wish: Wish, step_name: str | None, target: str, look: Look) -> int:
    """Lower a step and show its passes; 1 where TVM refuses it."""
    run = run_wished(pick_recipe(name), wish)
    step = run.steps[-1] if step_name is None else pick_step(run, step_name)
    screen = Screen()
    with screen.working():
        screen.doing(f"lowering {run.label(step)}")
        lowering = lower_through_passes(step.module, target)
    if look.pass_name is not None:
        passes: Sequence[Pass] = [lowering.get_pass(look.pass_name)]
    else:
        passes = lowering.changed if look.only_changed or look.diffs else lowering.passes
    diffs = {one.number: one.diff(context=look.context) for one in passes if one.changed}
    if look.json:
        _print_document(run, step, lowering, look, passes, diffs)
    elif look.pass_name is not None and not look.diffs:
        screen.line(*_heading(passes[0], diffs.get(passes[0].number)))
        screen.program(print_module(passes[0].module))
    elif look.diffs:
        _print_diffs(screen, passes, diffs)
    else:
        _print_table(screen, run.label(step), lowering, passes, diffs)
    if lowering.failed is not None and not look.json:
        screen.line(("refused  ", "bold red"), str(lowering.failed), wrap=True)
    return 1 if lowering.failed is not None else 0


def _print_diffs(screen: Screen, passes: Sequence[Pass], diffs: dict[int, Diff]) -> None:
    for place, one in enumerate(passes):
        if place:
            screen.line()
        diff = diffs.get(one.number)
        screen.line(*_heading(one, diff))
        screen.diff(diff.lines if diff is not None else ())


def _heading(one: Pass, diff: Diff | None) -> list[Part]:
    """The line above a pass's diff or module, which ``patch`` and Python skip."""
    is_seen = diff is not None and bool(diff.lines)
    change = change_words(diff) if is_seen else [("changes nothing that is printed", "dim")]
    return [(f"# {one.label}  ", "bold"), *change, (f"  {_milliseconds(one)}", "dim")]


def _print_table(
    screen: Screen, label: str, lowering: Lowering, passes: Sequence[Pass], diffs: dict[int, Diff]
) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("", "pass", "lines", "ms"):
        table.add_column(column, justify="left" if column == "pass" else "right", no_wrap=True)
    for one in sorted(passes, key=lambda one: one.number):
        number, name = str(one.number), Text(one.name, "cyan" if one.changed else "dim")
        lines = Text.assemble(*change_words(diffs.get(one.number)))
        table.add_row(number, name, lines, f"{one.seconds * 1e3:.2f}")
    screen.line((label, "bold"), (f"  for {lowering.target}", "dim"))
    screen.line()
    screen.table(table)
    screen.line()
    spent = sum(one.seconds for one in lowering.passes) * 1e3
    counts = f"{len(lowering.passes)} passes, {len(lowering.changed)} changed the module"
    screen.line(f"{counts}, {spent:.1f} ms")


def _milliseconds(one: Pass) -> str:
    return f"{one.seconds * 1e3:.2f} ms"


def _print_document(
    run: Run,
    step: Step,
    lowering: Lowering,
    look: Look,
    passes: Sequence[Pass],
    diffs: dict[int, Diff],
) -> None:
    print_document(
        "lower",
        **run_keys(run),
        step=step_label(step),
        target=lowering.target,
        passes_run=len(lowering.passes),
        passes=[_pass_keys(one, diffs.get(one.number), look) for one in passes],
        refused=None if lowering.failed is None else str(lowering.failed),
    )


def _pass_keys(one: Pass, diff: Diff | None, look: Look) -> Document:
    return {
        "number": one.number,
        "name": one.name,
        "changed": one.changed,
        "time_us": one.seconds * 1e6,
        "added": 0 if diff is None else diff.added,
        "removed": 0 if diff is None else diff.removed,
        **({"diff": "" if diff is None else str(diff)} if look.diffs else {}),
        **({"tir": print_module(one.module)} if look.pass_name is not None else {}),
    }
