"""What ``tirstep report`` does: judges the recipes, builds the report, and writes the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tirstep.lowering_checks import find_device
from tirstep.lowering_checks.targets import find_target
from tirstep.transforms.recipes import LADDERS, RECIPES, Recipe

from ..refusals import UseError, nearest
from ..screen import Screen
from ..texts import count
from ..wishes import Request
from .build import build_report
from .jobs import Job, do_jobs
from .model import FindingPart, RecipePart, Report
from .render import MARKER, render_report

HEAD = 2000  # characters of a page that hold its marker


def write_report(
    names: Sequence[str], request: Request, output: Path, *, target: str, checks: bool
) -> int:
    """Write the page; 1 if a check failed."""
    recipes = pick_recipes(names)
    find_target(target)
    _require_ours(output)
    among = tuple(recipe.name for recipe in recipes)
    jobs = [Job(name, among, request, target, checks) for name in among]
    screen = Screen()
    with screen.working():
        device = find_device(request.device)
        parts = do_jobs(jobs, screen)
        _require_any(parts)
        report = build_report(parts, device=device if checks else None, target=target)
        page = render_report(report)
    output.write_text(page, encoding="utf-8")
    _tell(screen, output, report, len(page.encode()))
    return 1 if any(_findings(part) for part in parts) else 0


def pick_recipes(names: Sequence[str]) -> list[Recipe]:
    """The recipes of some names, each once; the name of a kernel stands for its ladder."""
    picked: dict[str, Recipe] = {}
    for name in names:
        if name not in RECIPES and name not in LADDERS:
            hint = nearest(name, [*LADDERS, *RECIPES])
            raise UseError(f"there is no recipe or ladder '{name}'; {hint}")
        for recipe in LADDERS[name] if name in LADDERS else (RECIPES[name],):
            picked[recipe.name] = recipe
    return list(picked.values())


def _require_ours(path: Path) -> None:
    """Refuse, before the work, to write where there is no folder or over another's file."""
    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; give --output a file in one that is")
    if not path.exists():
        return
    if path.is_dir() or MARKER not in path.read_text("utf-8", "replace")[:HEAD]:
        raise UseError(f"{path} is no report of tirstep's; it stays: give another name")


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
