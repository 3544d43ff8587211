"""What ``tirstep why`` does: names the first bad step or pass, and writes a script of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tirstep.lowering_checks.bisect import (
    FirstBad,
    RunBisection,
    bisect_run,
    require_ours,
    run_reproducer,
    write_reproducer,
)
from tirstep.lowering_checks.steps import step_label

from .refusals import UseError
from .screen import Screen
from .selection import format_shape, pick_recipe, run_wished
from .texts import count
from .wishes import Wish


def explain(name: str, wish: Wish, *, seed: int, script: Path | None) -> int:
    """Name the first bad step or pass and write a script of it; 1 if there is one."""
    run = run_wished(pick_recipe(name), wish)
    path = script or Path(f"why_{run.recipe.name}.py")
    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; give --script a file in one that is")
    require_ours(path)
    screen = Screen()
    with screen.working():
        screen.doing(f"running the steps of {run.recipe.name}")
        found = bisect_run(run, seed=seed)
    place = f"{run.recipe.name}  {format_shape(run.problem.shape)}, seed {seed}"
    if found.first_bad is None:
        _tell_that_all_is_well(screen, place, len(run.steps), found)
        return 0
    _tell_first_bad(screen, place, found, found.first_bad)
    with screen.working():
        screen.doing("running the script")
        write_reproducer(found.first_bad, path)
        shown = run_reproducer(path)
    screen.line()
    screen.line(("script  ", "dim"), str(path))
    verb = "shows it" if shown.is_shown else "does not show it on this machine"
    screen.line(("run     ", "dim"), f"the script {verb}: {shown.text}", wrap=True)
    return 1


def _tell_that_all_is_well(screen: Screen, place: str, steps: int, found: RunBisection) -> None:
    screen.line((f"{place}: ", "bold"), ("nothing is wrong", "green"))
    screen.line((f"{count(steps, 'step')}, as they stand and as TVM lowers them", "dim"))
    _tell_judged(screen, found)
    for text, steps_of in _group(found.not_run).items():
        told = f"in {count(steps_of, 'step')}, {text}"
        screen.line(("not run ", "yellow"), told, wrap=True)


def _tell_judged(screen: Screen, found: RunBisection) -> None:
    """Which device ran what, and in how many steps."""
    told: dict[str, list[str]] = {}
    for (device, what), steps in Counter((one.device, one.state) for one in found.judged).items():
        told.setdefault(device, []).append(f"{count(steps, 'step')} {what}")
    for device, whats in told.items():
        screen.line(("judged  ", "dim"), f"by {device}: {', '.join(whats)}", wrap=True)


def _group(not_run: Sequence[str]) -> Counter[str]:
    """What could not be run, and in how many steps; a pass has another number in each step."""
    return Counter(
        re.sub(r"^all from \d+", "all passes from", one.partition(", ")[2]) for one in not_run
    )


def _tell_first_bad(screen: Screen, place: str, found: RunBisection, bad: FirstBad) -> None:
    screen.line((f"{place}: ", "bold"), (_name(bad), "bold red"), wrap=True)
    if bad.step is not None and bad.is_pass:
        screen.line(("step    ", "dim"), _explain(bad, step_label(bad.step)), wrap=True)
    if bad.step is not None:
        screen.line(("source  ", "dim"), bad.step.location)
    screen.line(("wrong   ", "dim"), bad.finding.message, wrap=True)
    _tell_judged(screen, found)
    for one in bad.not_run:
        screen.line(("not run ", "yellow"), f"{one}; it may be the first bad as well", wrap=True)
    for one in found.not_run:
        screen.line(("not run ", "yellow"), one, wrap=True)
    screen.line()
    if bad.source:
        for line in bad.source.splitlines():
            screen.line(line)
    elif bad.diff.lines:
        screen.diff(bad.diff.lines)
    elif bad.step is not None and bad.step.index == 0 and not bad.is_pass:
        screen.line("the kernel as it was written: no step comes before it")
    else:
        screen.line(f"nothing differs between {bad.diff.before} and {bad.diff.after}")


def _name(bad: FirstBad) -> str:
    """What is bad, without what the line already says."""
    return bad.label if bad.kind != "pass" else f"pass {bad.number} {bad.name}"


def _explain(bad: FirstBad, label: str) -> str:
    """What is right and what is wrong, where it is not the step that is bad."""
    if bad.kind == "refused":
        return (
            f"{label} is not wrong as it stands, as far as it could be run: TVM does not lower it"
        )
    if bad.source:
        return f"{label} is right after the last pass that could be run, and its source is wrong"
    if bad.kind == "between":
        return (
            f"what stands between the two could not be judged, or not in the same way, in {label}"
        )
    return f"{label} is right as it stands, and wrong after this pass of TVM"
