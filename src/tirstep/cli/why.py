"""What ``tirstep why`` does: names the culprit, and writes the script of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tirstep.lowering_checks.culprit import (
    Culprit,
    Search,
    require_ours,
    run_reproducer,
    search_culprit,
    write_reproducer,
)
from tirstep.lowering_checks.steps import step_label

from .refusals import UseError
from .screen import Screen
from .selection import format_shape, pick_recipe, run_wished
from .texts import count
from .wishes import Wish


def explain(name: str, wish: Wish, *, seed: int, script: Path | None) -> int:
    """Name the culprit and write a script of it; 1 if there is one."""
    run = run_wished(pick_recipe(name), wish)
    path = script or Path(f"why_{run.recipe.name}.py")
    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; give --script a file in one that is")
    require_ours(path)
    screen = Screen()
    with screen.working():
        screen.doing(f"running the steps of {run.recipe.name}")
        found = search_culprit(run, seed=seed)
    place = f"{run.recipe.name}  {format_shape(run.problem.sizes)}, seed {seed}"
    if found.culprit is None:
        _tell_that_all_is_well(screen, place, len(run.steps), found)
        return 0
    _tell_culprit(screen, place, found, found.culprit)
    with screen.working():
        screen.doing("running the script")
        write_reproducer(found.culprit, path)
        shown = run_reproducer(path)
    screen.line()
    screen.line(("script  ", "dim"), str(path))
    verb = "shows it" if shown.is_shown else "does not show it on this machine"
    screen.line(("run     ", "dim"), f"the script {verb}: {shown.text}", wrap=True)
    return 1


def _tell_that_all_is_well(screen: Screen, place: str, steps: int, found: Search) -> None:
    screen.line((f"{place}: ", "bold"), ("nothing is wrong", "green"))
    screen.line((f"{count(steps, 'step')}, as they stand and as TVM lowers them", "dim"))
    _tell_judged(screen, found)
    for text, steps_of in _group(found.not_run).items():
        told = f"in {count(steps_of, 'step')}, {text}"
        screen.line(("not run ", "yellow"), told, wrap=True)


def _tell_judged(screen: Screen, found: Search) -> None:
    """Which device ran what, and in how many steps."""
    told: dict[str, list[str]] = {}
    for (device, what), steps in Counter((one.by, one.what) for one in found.judged).items():
        told.setdefault(device, []).append(f"{count(steps, 'step')} {what}")
    for device, whats in told.items():
        screen.line(("judged  ", "dim"), f"by {device}: {', '.join(whats)}", wrap=True)


def _group(not_run: Sequence[str]) -> Counter[str]:
    """What could not be run, and in how many steps; a pass has another number in each step."""
    return Counter(
        re.sub(r"^all from \d+", "all passes from", one.partition(", ")[2]) for one in not_run
    )


def _tell_culprit(screen: Screen, place: str, found: Search, culprit: Culprit) -> None:
    screen.line((f"{place}: ", "bold"), (_name(culprit), "bold red"), wrap=True)
    if culprit.step is not None and culprit.is_pass:
        screen.line(("step    ", "dim"), _explain(culprit, step_label(culprit.step)), wrap=True)
    if culprit.step is not None:
        screen.line(("source  ", "dim"), culprit.step.source)
    screen.line(("wrong   ", "dim"), culprit.finding.message, wrap=True)
    _tell_judged(screen, found)
    for one in culprit.not_run:
        screen.line(("not run ", "yellow"), f"{one}; it may be at fault as well", wrap=True)
    for one in found.not_run:
        screen.line(("not run ", "yellow"), one, wrap=True)
    screen.line()
    if culprit.source:
        for line in culprit.source.splitlines():
            screen.line(line)
    elif culprit.diff.lines:
        screen.diff(culprit.diff.lines)
    elif culprit.step is not None and culprit.step.index == 0 and not culprit.is_pass:
        screen.line("the kernel as it was written: no step comes before it")
    else:
        screen.line(f"nothing differs between {culprit.diff.before} and {culprit.diff.after}")


def _name(culprit: Culprit) -> str:
    """Who is at fault, without what the line already says."""
    return culprit.who if culprit.kind != "pass" else f"pass {culprit.number} {culprit.name}"


def _explain(culprit: Culprit, label: str) -> str:
    """What is right and what is wrong, where it is not the step that is accused."""
    if culprit.kind == "refused":
        return (
            f"{label} is not wrong as it stands, as far as it could be run: TVM does not lower it"
        )
    if culprit.source:
        return f"{label} is right after the last pass that could be run, and its source is wrong"
    if culprit.kind == "between":
        return (
            f"what stands between the two could not be judged, or not in the same way, in {label}"
        )
    return f"{label} is right as it stands, and wrong after this pass of TVM"
