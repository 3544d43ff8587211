"""What ``tirstep report`` does: judges the recipes, builds the report, and writes the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tirstep.files import require_writable, write_file
from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.compile.compiling import get_target

from ..refusals import UseError
from ..screen import Screen
from ..selection import pick_recipes
from ..texts import count
from ..wishes import Request
from .build import build_report
from .jobs import Job, do_jobs
from .model import FindingPart, RecipePart, Report
from .render import MARKER, render_report

HEAD = 2000  # bytes of a page that hold its marker


def write_report(
    names: Sequence[str], request: Request, output: Path, *, target: str, checks: bool
) -> int:
    """Write the page; 1 if a check failed."""
    recipes = pick_recipes(names)
    get_target(target)
    _require_ours(output)
    among = tuple(recipe.name for recipe in recipes)
    jobs = [Job(name, among, request, target, checks) for name in among]
    screen = Screen()
    with screen.working():
        device = get_device(request.device)
        parts = do_jobs(jobs, screen)
        _require_any(parts)
        report = build_report(parts, device=device if checks else None, target=target)
        page = render_report(report)
    write_file(output, page)
    _tell(screen, output, report, len(page.encode()))
    return 1 if any(_findings(part) for part in parts) else 0


def _require_ours(path: Path) -> None:
    """Refuse, before the work, to write where there is no folder or over another's file."""
    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; give --output a file in one that is")
    if path.exists():
        text = path.read_bytes()[:HEAD] if path.is_file() else None
        if text is None or (text and MARKER.encode() not in text):  # an empty file is no loss
            raise UseError(f"{path} is no report of tirstep's; it stays: give another name")
    require_writable(path)


def _require_any(parts: Sequence[RecipePart]) -> None:
    """Where every recipe refuses, the user asked for what cannot be."""
    if all(part.refusal is not None for part in parts):
        raise UseError(f"no recipe takes this; {parts[0].name} says: {parts[0].refusal}")


def _findings(part: RecipePart) -> list[FindingPart]:
    of_steps = [one for step in part.steps if step.checks for one in step.checks.findings]
    return [*of_steps, *part.trouble]


def _tell(screen: Screen, output: Path, report: Report, size: int) -> None:
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
        for finding in _findings(part):
            screen.line((f"{finding.where}: ", "bold red"), finding.message, wrap=True)
