"""``tirstep report``: judges the recipes, builds the report, and writes the page.

`jobs` judges and lowers, `build` makes the values of `model`, and `render` the page of them: the
files of the folder `page`, put together as they are, without a build step and without a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..formatting import count
from ..names import complete_either
from ..request import (
    PROGRAMS,
    RECIPE_OPTIONS,
    Request,
    TargetName,
    pick_recipes,
    spell_request,
    with_options,
)
from ..wrong_use import UseError
from .own_files import noting_files

if TYPE_CHECKING:
    from tirstep.lowering_checks import Finding

    from ..screen import Screen
    from .model import RecipePart, Report

HEAD = 2000  # bytes of a page that hold its marker


Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The HTML file to write.")
]
EveryStep = Annotated[
    bool,
    typer.Option(
        "--every-step",
        help="SASS, and counts at the recipe's own example, of every step, not of the last alone.",
    ),
]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Serve the page on this machine, make it again when a file of the recipes or one "
        "that they import changes, and reload it; Ctrl-C ends.",
    ),
]


@with_options("golden_dir", "device", "seed", *RECIPE_OPTIONS, "reference")
def command(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE",
            help=f"Recipes, or kernels for their whole ladders (see tirstep list), {PROGRAMS}",
            autocompletion=complete_either,
        ),
    ],
    request: Request,
    output: Output = Path("report.html"),
    checks: Annotated[
        bool, typer.Option("--checks/--no-checks", help="Check, count and time the steps, too.")
    ] = True,
    every_step: EveryStep = False,
    watch: Watch = False,
    target: TargetName = "cuda",
) -> int:
    """Write an HTML page of every step and every lowering pass.

    One HTML file, opened from disk: diffs and blame of TIR and CUDA beside the recipe's Python,
    SASS, loop nests, facts, traces, verdicts, and times or the simulator's counts. A report of ours
    is replaced, no other file.

    Without --shape, a GPU takes the shape of each recipe's own example, and the
    CPU that of its goldens.
    """
    with noting_files():
        if watch:
            flags = ["--checks" if checks else "--no-checks", *["--every-step"] * every_step]
            return _watch([*recipes, *flags, "--target", target, *spell_request(request)], output)
        return write_report(
            recipes, request, output, target=target, checks=checks, every_step=every_step
        )


def _watch(arguments: Sequence[str], output: Path) -> int:
    from tirstep.programs.naming import STDIN

    from ..screen import Screen
    from .watch import watch_report

    if any(word.partition(":")[0] == STDIN for word in arguments):
        raise UseError("--watch waits for a file to change, and standard input has none; name one")
    require_replaceable(output)
    return watch_report([*arguments, "--output", str(output)], output, Screen().line)


def write_report(
    names: Sequence[str],
    request: Request,
    output: Path,
    *,
    target: str,
    checks: bool,
    every_step: bool = False,
) -> int:
    """Write the page; 1 if a check failed, 2 if one of the user's programs cannot be run."""
    from tirstep.files import write_file
    from tirstep.lowering_checks import get_device
    from tirstep.lowering_checks.compile.compiling import get_target

    from ..screen import Screen
    from .build import build_report
    from .jobs import RecipeJob, do_jobs
    from .render import render_report

    among = tuple(it.spelling or it.name for it in pick_recipes(names, request))
    get_target(target)
    require_replaceable(output)
    screen = Screen()
    with screen.working():
        device = get_device(request.device)
        jobs = [RecipeJob(name, among, request, target, checks, every_step) for name in among]
        parts = do_jobs(jobs, screen)
        if all(part.refusal is not None for part in parts):
            raise UseError(f"no recipe takes this; {parts[0].name} says: {parts[0].refusal}")
        report = build_report(parts, device=device if checks else None, target=target)
        page = render_report(report)
    write_file(output, page)
    _show_end(screen, output, report, len(page.encode()))
    if any(part.refusal is not None and part.status == "failed" for part in parts):
        return 2
    return 1 if any(_get_findings(part) for part in parts) else 0


def require_replaceable(path: Path) -> None:
    """Refuse, before the work, to write where there is no folder or over another's file."""
    from tirstep.files import require_writable

    from .render import MARKER

    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; give --output a file in one that is")
    if path.exists():
        text = path.read_bytes()[:HEAD] if path.is_file() else None
        if text is None or (text and MARKER.encode() not in text):  # an empty file is no loss
            raise UseError(f"{path} is no report of tirstep's; it stays: give another name")
    require_writable(path)


def _get_findings(part: RecipePart) -> list[Finding]:
    of_steps = [each for step in part.steps if step.checks for each in step.checks.findings]
    return [*of_steps, *part.findings]


def _show_end(screen: Screen, output: Path, report: Report, size: int) -> None:
    steps = sum(len(part.steps) for part in report.recipes)
    passes = sum(len(step.passes) for part in report.recipes for step in part.steps)
    screen.line(
        (str(output), "bold"),
        f"  {count(len(report.recipes), 'recipe')}, {count(steps, 'step')}, "
        f"{passes} passes that changed something, {size / 1e6:.1f} MB",
    )
    for part in report.recipes:
        if part.refusal is not None:
            screen.line((f"{part.name} skipped: ", "yellow"), part.refusal, wrap=True)
        for finding in _get_findings(part):
            screen.line((f"{finding.where}: ", "bold red"), finding.message, wrap=True)
