"""``tirstep lower``: the passes of TVM that lower a step and what each changed, or the source that
TVM generates of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .request import RECIPE_OPTIONS, Request, flag, option, pick_step, run_each, with_options
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Run
    from tirstep.lowering_checks.compile.passes import Pass

LEXERS = {"cuda": "cuda", "opencl": "c", "metal": "cpp", "webgpu": "wgsl", "llvm": "llvm"}


@with_options(*RECIPE_OPTIONS)
def command(
    *,
    recipe: str,
    request: Request,
    step: str | None = option("--step", "STEP", "A step, by name or number. [default: the last]"),
    target: str,
    pass_name: str | None = option(
        "--pass",
        "PASS",
        "Print the module after this pass, by name or number, or with --diff its diff.",
    ),
    source: bool = flag(
        "--source",
        "Print the source that TVM generates instead: CUDA, OpenCL, Metal, WGSL or LLVM IR; for "
        "llvm, thread bindings are made serial.",
    ),
    diff: bool = flag("--diff", "Print the diffs of the passes that changed the module."),
    context: int,
    json: bool,
) -> int:
    """Show what TVM's lowering passes do to a step.

    Prints a table of the passes, which of them changed the module, and their times; or, by option,
    their diffs or the generated source. Needs no GPU.
    """
    if source and (diff or pass_name is not None):
        raise UseError("--source is the result of all passes; give it without --pass and --diff")

    def show(run: Run) -> int:
        from rich.text import Text

        from tirstep.lowering_checks import CheckError, print_module
        from tirstep.lowering_checks.compile.passes import lower_through_passes
        from tirstep.lowering_checks.steps import step_label

        from .formats import print_document, read_keys, run_keys
        from .screen import Screen, change_words, make_table, step_heading

        at, screen = pick_step(run, step), Screen(quiet=json)
        with screen.working():
            screen.doing(f"lowering {run.label(at)}")
            lowering = lower_through_passes(at.module, target)
        if source:
            text, language = lowering.source.strip("\n"), lowering.language
            if not text:
                why = lowering.failed or "no loop is bound to a GPU yet"
                raise CheckError(f"{run.label(at)} has no source for {lowering.target}: {why}")
            if json:
                keys = {"step": step_label(at), "target": target, "language": language}
                print_document("lower", **run_keys(run), **keys, text=f"{text}\n")
                return 0
            if screen.is_terminal:
                screen.line(*step_heading(run, at))
            screen.program(f"{text}\n", LEXERS[language])
            return 0
        passes: Sequence[Pass] = lowering.changed if diff else lowering.passes
        if pass_name is not None:
            passes = [lowering.get_pass(pass_name)]
        found = {each.number: each.diff(context=context) for each in passes if each.changed}
        if json:

            def keys_of(shown: Pass) -> dict[str, object]:
                own = found.get(shown.number)
                return {
                    **read_keys(shown, "number name changed"),
                    "time_us": shown.seconds * 1e6,
                    "added": 0 if own is None else own.added,
                    "removed": 0 if own is None else own.removed,
                    **({"diff": "" if own is None else str(own)} if diff else {}),
                    **({"tir": print_module(shown.module)} if pass_name is not None else {}),
                }

            print_document(
                "lower",
                **run_keys(run),
                step=step_label(at),
                target=lowering.target,
                passes_run=len(lowering.passes),
                passes=[keys_of(each) for each in passes],
                refused=None if lowering.failed is None else str(lowering.failed),
            )
        elif diff or pass_name is not None:
            for place, each in enumerate(passes):
                if place:
                    screen.line()
                # A line above a diff or a module, which ``patch`` and Python skip.
                own = found.get(each.number)
                is_seen = own is not None and bool(own.lines)
                change = change_words(own) if is_seen else [("the text does not change", "dim")]
                spent = (f"  {each.seconds * 1e3:.2f} ms", "dim")
                screen.line((f"# {each.label}  ", "bold"), *change, spent)
                if diff:
                    screen.diff(() if own is None else own.lines)
                else:
                    screen.program(print_module(each.module))
        else:
            rows, width = [], max((len(str(it.number)) for it in passes), default=0)
            for each in sorted(passes, key=lambda each: each.number):
                shown = Text(each.name, "cyan" if each.changed else "dim")
                lines = Text.assemble(*change_words(found.get(each.number)))
                spent_ms = f"{each.seconds * 1e3:.2f}"
                rows.append((f"{each.number:>{width}}", shown, lines, spent_ms))
            shape = f"  {run.problem.shape_text}".rstrip()
            screen.line((run.label(at), "bold"), (f"{shape}  for {lowering.target}", "dim"))
            screen.line()
            screen.table(make_table(("", "pass"), ("lines", "ms"), rows))
            screen.line()
            all_ms = sum(each.seconds for each in lowering.passes) * 1e3
            counts = f"{len(lowering.passes)} passes, {len(lowering.changed)} changed the module"
            screen.line(f"{counts}, {all_ms:.1f} ms")
        if lowering.failed is not None:
            screen.line(("refused  ", "bold red"), str(lowering.failed))
        return 1 if lowering.failed is not None else 0

    return run_each(recipe, request, show, as_json=json)
