"""``tirstep report``: judges the recipes, builds the report, and writes the page.

`jobs` judges and lowers, and makes the values of `document`, which has the page of them: the
files of the folder `page`, put together as they are, without a build step and without a network.
"""

from __future__ import annotations

from pathlib import Path

from tirstep.programs.naming import is_program

from ..formatting import complete, count
from ..request import (
    LADDER,
    PROGRAMS,
    RECIPE_OPTIONS,
    Request,
    argument,
    flag,
    option,
    pick_recipes,
    with_options,
)
from ..wrong_use import UseError

HEAD = 2000  # bytes of a page that hold its marker


OUTPUT = option("--output -o", "FILE", "The HTML file to write.", default=Path("report.html"))


@with_options("golden_dir", "device", "seed", *RECIPE_OPTIONS, "reference")
def command(
    *,
    recipes: list[str] = argument(
        "RECIPE",
        f"Recipes, or kernels for their whole ladders (see tirstep list), {PROGRAMS}",
        autocompletion=complete("ladder", "recipe"),
    ),
    request: Request,
    output: Path = OUTPUT,
    checks: bool = flag(
        "--checks/--no-checks", "Also check, count and time the steps.", default=True
    ),
    ladder: bool = LADDER,
    target: str,
    json: bool,
) -> int:
    """Write an HTML page of every step and every lowering pass.

    One HTML file, opened from disk: diffs of TIR and CUDA beside the recipe's Python, the line of
    TIR that each line of CUDA comes from, facts, traces, verdicts, and times or the simulator's
    counts. An existing report is replaced; other files are not.
    """
    from tirstep.files import write_file
    from tirstep.lowering_checks import get_device
    from tirstep.lowering_checks.compile.compiling import get_target
    from tirstep.lowering_checks.judgement import get_exit_code

    from ..formats import print_document, read_keys
    from ..screen import Screen
    from .document import render_report
    from .jobs import build_report, do_jobs

    among = tuple(
        it.spelling or it.name for it in pick_recipes(recipes, request, prefer_ladders=ladder)
    )
    get_target(target)
    require_replaceable(output)
    screen = Screen(quiet=json)
    with screen.working():
        device = get_device(request.device)
        parts = do_jobs(among, request, target, checks, screen)
        if all(part.refusal is not None for part in parts):
            shown = parts if any(map(is_program, recipes)) else parts[:1]
            told = "; ".join(f"{it.name} says: {it.refusal}" for it in shown)
            raise UseError(f"no recipe accepts this; {told}")
        kind = "program" if all(map(is_program, among)) else "recipe"
        report = build_report(parts, kind=kind, device=device if checks else None, target=target)
        page = render_report(report)
    write_file(output, page)
    steps = [step for part in parts for step in part.steps]
    passes = sum(len(step.passes) for step in steps)
    shapes = {part.shape for part in parts if part.steps}
    where = f" at {shapes.pop()}" if len(shapes) == 1 and all(shapes) else ""
    made = len(steps) - sum(bool(part.steps) for part in parts)  # the input is none
    steps_made = f", {count(made, 'step')}" if made else ""
    screen.line(
        (str(output), "bold"),
        f"  {count(len(parts), kind)}{steps_made}{where}, "
        f"{passes} passes that changed something, {len(page.encode()) / 1e6:.1f} MB",
    )
    code = get_exit_code(part.status for part in parts if part.status) if checks else 0
    for part in parts:
        if part.refusal is not None:
            screen.line((f"{part.name} skipped: ", "yellow"), part.refusal)
            code = 2 if part.is_broken else code
        checked = part.steps[-1].checks if part.steps else None
        if checked is not None and checked["reason"]:
            words = ((f"{part.name} {part.status}: ", "yellow"), checked["reason"])
            screen.line(*words)
        of_steps = [it for step in part.steps if step.checks for it in step.checks["findings"]]
        for finding in (*of_steps, *part.findings):
            screen.line((f"{finding.where}: ", "bold red"), finding.message)
    if json:
        of_part = "recipe=name status reason=refusal findings"
        documents = [{**read_keys(it, of_part), "steps": max(len(it.steps) - 1, 0)} for it in parts]
        keys = {"passes": passes, "bytes": len(page.encode()), "recipes": documents}
        print_document("report", file=output, target=target, ok=not code, **keys)
    return code


def require_replaceable(path: Path) -> None:
    """Refuse, before the work, to write where there is no folder or over another's file."""
    from tirstep.files import require_writable

    from .document import MARKER

    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; create it, or give another --output")
    if path.exists():
        text = path.read_bytes()[:HEAD] if path.is_file() else None
        if text is None or (text and MARKER.encode() not in text):  # an empty file is no loss
            raise UseError(f"{path} is not a tirstep report, and is kept; give another name")
    require_writable(path)
