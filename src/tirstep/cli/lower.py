"""``tirstep lower``: the passes of TVM that lower a step and what each changed, or the source that
TVM generates of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .request import (
    CONTEXT,
    JSON,
    RECIPE_NAME,
    RECIPE_OPTIONS,
    STEP_NAME,
    TARGET_NAME,
    Request,
    flag,
    option,
    pick_step,
    run_each,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.compile.passes import Pass

LEXERS = {"cuda": "cuda", "opencl": "c", "llvm": "llvm"}


@with_options(*RECIPE_OPTIONS)
def command(
    *,
    recipe: str = RECIPE_NAME,
    request: Request,
    step: str | None = STEP_NAME,
    target: str = TARGET_NAME,
    pass_name: str | None = option(
        "--pass",
        "PASS",
        "Print the module after this pass, by name or number; --diff for its diff.",
    ),
    source: bool = flag(
        "--source",
        "Print the source that TVM generates instead: CUDA, OpenCL or LLVM IR; for llvm, "
        "thread bindings are made serial.",
    ),
    diff: bool = flag("--diff", "Print the diffs of the passes that changed the module."),
    context: int = CONTEXT,
    json: bool = JSON,
) -> int:
    """Show what TVM's lowering passes make of a step, or its source.

    The passes, which of them changed the module, and their times; or the diffs; or the source.
    Needs no GPU.
    """
    if source and (diff or pass_name is not None):
        raise UseError("--source is what comes of all passes; give it without --pass and --diff")

    def show(run: Run) -> int:
        if source:
            return _print_source(run, step, target, as_json=json)
        return _show_passes(run, step, target, pass_name, context, diffs=diff, as_json=json)

    return run_each(recipe, request, show, as_json=json)


def _show_passes(
    run: Run,
    step_name: str | None,
    target: str,
    name: str | None,
    context: int,
    *,
    diffs: bool,
    as_json: bool,
) -> int:
    """Lower a step and show its passes, or the one of a name; 1 where TVM refuses it."""
    from tirstep.lowering_checks import print_module
    from tirstep.lowering_checks.compile.passes import lower_through_passes
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, read_keys, run_keys
    from .screen import Screen, change_words

    step, screen = pick_step(run, step_name), Screen(quiet=as_json)
    with screen.working():
        screen.doing(f"lowering {run.label(step)}")
        lowering = lower_through_passes(step.module, target)
    passes: Sequence[Pass] = lowering.changed if diffs else lowering.passes
    if name is not None:
        passes = [lowering.get_pass(name)]
    found = {each.number: each.diff(context=context) for each in passes if each.changed}

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
    elif diffs or name is not None:
        for place, each in enumerate(passes):
            if place:
                screen.line()
            # A line above a diff or a module, which ``patch`` and Python skip.
            diff = found.get(each.number)
            is_seen = diff is not None and bool(diff.lines)
            change = change_words(diff) if is_seen else [("changes nothing that is printed", "dim")]
            spent = (f"  {each.seconds * 1e3:.2f} ms", "dim")
            screen.line((f"# {each.label}  ", "bold"), *change, spent)
            if diffs:
                screen.diff(() if diff is None else diff.lines)
            else:
                screen.program(print_module(each.module))
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False)
        for column in ("", "pass", "lines", "ms"):
            table.add_column(column, justify="left" if column == "pass" else "right", no_wrap=True)
        for each in sorted(passes, key=lambda each: each.number):
            shown = Text(each.name, "cyan" if each.changed else "dim")
            lines = Text.assemble(*change_words(found.get(each.number)))
            table.add_row(str(each.number), shown, lines, f"{each.seconds * 1e3:.2f}")
        screen.line((run.label(step), "bold"), (f"  for {lowering.target}", "dim"))
        screen.line()
        screen.table(table)
        screen.line()
        spent_ms = sum(each.seconds for each in lowering.passes) * 1e3
        counts = f"{len(lowering.passes)} passes, {len(lowering.changed)} changed the module"
        screen.line(f"{counts}, {spent_ms:.1f} ms")
    if lowering.failed is not None:
        screen.line(("refused  ", "bold red"), str(lowering.failed), wrap=True)
    return 1 if lowering.failed is not None else 0


def _print_source(run: Run, step_name: str | None, target: str, *, as_json: bool) -> int:
    """Print the source of a step; raises `CheckError` where it has none."""
    from tirstep.lowering_checks import CheckError
    from tirstep.lowering_checks.compile.passes import lower_through_passes
    from tirstep.lowering_checks.steps import step_label

    from .json_output import print_document, run_keys
    from .screen import Screen, step_heading

    step, screen = pick_step(run, step_name), Screen()
    with screen.working():
        screen.doing(f"lowering {run.label(step)}")
        lowering = lower_through_passes(step.module, target)
    source, language = lowering.source.strip("\n"), lowering.language
    if not source:
        why = lowering.failed or "no loop is bound to a GPU yet"
        raise CheckError(f"{run.label(step)} has no source for {lowering.target}: {why}")
    if as_json:
        keys = {"step": step_label(step), "target": target, "language": language}
        print_document("lower", **run_keys(run), **keys, text=f"{source}\n")
        return 0
    if screen.is_terminal:
        screen.line(*step_heading(run, step))
    screen.program(f"{source}\n", LEXERS[language])
    return 0
