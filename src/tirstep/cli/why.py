"""``tirstep why``: names the first bad step or pass, and writes a script of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .formatting import count, format_shape
from .request import (
    RECIPE_OPTIONS,
    RecipeName,
    Request,
    at_least,
    do_tasks,
    pick_each,
    pick_recipe,
    run_requested,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.lowering_checks import Finding
    from tirstep.lowering_checks.bisect import FirstBad, RunBisection
    from tirstep.transforms.recipes import Recipe

    from .screen import Screen


@with_options("seed", *RECIPE_OPTIONS, "reference")
def command(
    recipe: RecipeName,
    request: Request,
    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            "-o",
            metavar="FILE",
            help="Where to write what reproduces it. [default: why_RECIPE.py]",
        ),
    ] = None,
    left_open: Annotated[
        str | None,
        typer.Option(
            "--open",
            metavar="SIZES",
            help="Sizes that the module leaves open, m,n or all; it runs at --shape all the same.",
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            parser=at_least("--timeout", 1, float),
            help="For how long states are interpreted; what is left is said to be not run.",
        ),
    ] = 120,
) -> int:
    """Name the step, or pass of TVM, that makes a recipe wrong.

    Every step is run as it stands, and then as TVM lowers it. The first bad one is printed with its
    diff, and written as a script that shows it: with TVM and NumPy alone, or with tirstep where
    these do not show it here.
    """
    if left_open is not None:
        request = replace(request, symbolic=tuple(left_open.split(",")))
    if script is not None:
        picked = pick_recipe(recipe, request, by="--script")
        return explain(picked, request, script, timeout)
    return do_tasks(
        [
            (it.name, partial(explain, it, request, None, timeout))
            for it in pick_each(recipe, request)
        ]
    )


def explain(recipe: Recipe, request: Request, script: Path | None, timeout: float) -> int:
    """Name the first bad step or pass and write a script of it; 1 if there is one."""
    from tirstep.lowering_checks import check_ownership
    from tirstep.lowering_checks.bisect import (
        bisect_run,
        require_ours,
        run_reproducer,
        write_reproducer,
    )

    from .screen import Screen

    if request.symbolic == ("all",):
        if not recipe.symbolic:
            raise UseError(f"{recipe.name} lets a module leave no size open; leave --open out")
        request = replace(request, symbolic=tuple(recipe.symbolic))
    run = run_requested(recipe, request)
    path = script or Path(f"why_{run.recipe.name}.py")
    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; give --script a file in one that is")
    require_ours(path)
    screen = Screen()
    with screen.working():
        screen.doing(f"running the steps of {run.recipe.name}")
        found = bisect_run(run, seed=request.seed, timeout=timeout)
    place = f"{run.recipe.name}  {format_shape(run.problem.shape)}, seed {request.seed}"
    place = place.replace("  ,", ",")  # a module has no sizes
    if found.first_bad is None:
        last = run.steps[-1]
        unsound = [each.at(last.location) for each in check_ownership(last.module, where=last.name)]
        _show_that_all_is_well(screen, place, len(run.steps), found, unsound)
        return 1 if unsound else 0
    _show_first_bad(screen, place, found, found.first_bad)
    with screen.working():
        screen.doing("running the script")
        write_reproducer(found.first_bad, path)
        shown = run_reproducer(path)
    screen.line()
    screen.line(("script  ", "dim"), str(path))
    verb = "shows it" if shown.is_shown else "does not show it on this machine"
    screen.line(("run     ", "dim"), f"the script {verb}: {shown.text}", wrap=True)
    return 1


def _show_that_all_is_well(
    screen: Screen, place: str, steps: int, found: RunBisection, unsound: Sequence[Finding]
) -> None:
    """No answer is wrong; `unsound` is what is wrong with the threads of the last step."""
    if unsound:
        told = "no answer is wrong, but the last step is unsound on a GPU"
        screen.line((f"{place}: ", "bold"), (told, "bold red"))
        for finding in unsound:
            screen.line(("wrong   ", "dim"), str(finding), wrap=True)
    elif found.not_run:  # which may be where it is wrong
        screen.line((f"{place}: ", "bold"), ("nothing is wrong in what was judged", "yellow"))
    else:
        screen.line((f"{place}: ", "bold"), ("nothing is wrong", "green"))
    told = "1 step, as it stands and as TVM lowers it"
    if steps > 1:
        told = f"{steps} steps, as they stand and as TVM lowers them"
    screen.line((told, "dim"))
    _show_judged(screen, found)
    # A pass has another number in each step.
    not_run = Counter(
        re.sub(r"^all from \d+", "all passes from", text.partition(", ")[2])
        for text in found.not_run
    )
    for text, steps_of in not_run.items():
        told = f"in {count(steps_of, 'step')}, {text}"
        screen.line(("not run ", "yellow"), told, wrap=True)


def _show_judged(screen: Screen, found: RunBisection) -> None:
    """Which device ran what, and in how many steps."""
    told: dict[str, list[str]] = {}
    for (device, what), steps in Counter(
        (each.device, each.state) for each in found.judged
    ).items():
        told.setdefault(device, []).append(f"{count(steps, 'step')} {what}")
    for device, whats in told.items():
        screen.line(("judged  ", "dim"), f"by {device}: {', '.join(whats)}", wrap=True)


def _show_first_bad(screen: Screen, place: str, found: RunBisection, bad: FirstBad) -> None:
    from tirstep.lowering_checks.steps import step_label

    what = bad.label if bad.kind != "pass" else f"pass {bad.number} {bad.name}"
    screen.line((f"{place}: ", "bold"), (what, "bold red"), wrap=True)
    if bad.step is not None and bad.is_pass:
        screen.line(("step    ", "dim"), _explain(bad, step_label(bad.step)), wrap=True)
    if bad.step is not None:
        screen.line(("source  ", "dim"), bad.step.location)
    screen.line(("wrong   ", "dim"), bad.finding.message, wrap=True)
    _show_judged(screen, found)
    for text in bad.not_run:
        screen.line(("not run ", "yellow"), f"{text}; it may be the first bad as well", wrap=True)
    for text in found.not_run:
        screen.line(("not run ", "yellow"), text, wrap=True)
    screen.line()
    if bad.source:
        for line in bad.source.splitlines():
            screen.line(line)
    elif bad.diff.lines:
        screen.diff(bad.diff.lines)
    elif bad.step is not None and bad.step.index == 0 and bad.kind in ("step", "refused"):
        screen.line("the kernel as it was written: no step comes before it")
    else:
        screen.line(f"nothing differs between {bad.diff.before} and {bad.diff.after}")


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
