"""``tirstep why``: names the first bad step or pass, and writes a script of it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tirstep.printing import print_error

from .formatting import count
from .request import (
    RECIPE_OPTIONS,
    Request,
    do_tasks,
    option,
    pick_each,
    pick_recipe,
    run_requested,
    with_options,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.transforms.recipes import Recipe


@with_options("seed", *RECIPE_OPTIONS, "reference")
def command(
    *,
    recipe: str,
    request: Request,
    script: Path | None = option(
        "--script -o", "FILE", "Where to write the reproducing script. [default: why_RECIPE.py]"
    ),
    left_open: str | None = option(
        "--open",
        "SIZES",
        "Sizes to leave symbolic in the module, m,n or all; it still runs at --shape.",
    ),
    timeout: float = option(
        "--timeout",
        "SECONDS",
        "Time limit for running the steps and what TVM lowers them to; the rest is reported "
        "as not run.",
        default=120,
        least=1,
        kind=float,
    ),
    json: bool,
) -> int:
    """Find the step, or the TVM pass, that makes a recipe wrong.

    Every step is run as it is, and then as TVM lowers it. The first bad state is printed with its
    diff, and a script that reproduces it is written, which needs only TVM and NumPy, or also
    tirstep where those cannot show the fault on this machine.
    """
    if left_open is not None:
        request = replace(request, symbolic=tuple(left_open.split(",")))
    if script is not None:
        picked = pick_recipe(recipe, request, by="--script")
        return explain(picked, request, script, timeout, as_json=json)
    return do_tasks(
        [
            (it.name, partial(explain, it, request, None, timeout, as_json=json))
            for it in pick_each(recipe, request)
        ],
        as_json=json,
    )


def explain(
    recipe: Recipe, request: Request, script: Path | None, timeout: float, *, as_json: bool = False
) -> int:
    """Name the first bad step or pass and write a script of it; 1 if there is one, 3 if nothing
    could be judged.
    """
    from tirstep.lowering_checks import check_ownership
    from tirstep.lowering_checks.bisect import (
        bisect_run,
        require_ours,
        run_reproducer,
        write_reproducer,
    )
    from tirstep.lowering_checks.devices import CpuDevice, SimulatorDevice
    from tirstep.lowering_checks.judgement import Status, judge_numbers
    from tirstep.lowering_checks.legality.bounds import check_bounds
    from tirstep.lowering_checks.reference import ModuleProblem
    from tirstep.lowering_checks.steps import step_label
    from tirstep.lowering_checks.verdict import list_smaller_runs

    from .formats import print_document, read_keys, run_keys
    from .screen import Screen

    if request.symbolic == ("all",):
        if not recipe.symbolic:
            raise UseError(f"{recipe.name} has no sizes that can be symbolic; leave --open out")
        request = replace(request, symbolic=tuple(recipe.symbolic))
    run = run_requested(recipe, request)
    refusal = run.problem.find_refusal()
    if refusal is not None and SimulatorDevice().find_obstacle(run.steps[-1].module):
        Screen(quiet=as_json).line((f"{run.recipe.name}: ", "bold"), ("not judged", "yellow"))
        print_error(refusal)
        if as_json:
            print_document("why", **run_keys(run), status=Status.NOT_JUDGED, reason=refusal)
        return 3
    path = script or Path(f"why_{run.recipe.name}.py")
    if not path.parent.is_dir():
        raise UseError(f"there is no folder {path.parent}; create it, or give another --script")
    require_ours(path)
    screen = Screen(quiet=as_json)
    with screen.working():
        screen.doing(f"running the steps of {run.recipe.name}")
        smaller = [it.run for it in list_smaller_runs(run)]
        for tried in (*smaller, run):
            found = bisect_run(tried, seed=request.seed, timeout=timeout)
            if found.first_bad is not None:
                break
        run = tried
    place = f"{run.recipe.name}  {run.problem.shape_text}, seed {request.seed}"
    place = place.replace("  ,", ",")  # a module has no sizes
    bad = found.first_bad

    def tell(code: int, status: Status, **keys: object) -> int:
        """The document where it is asked for; the exit code."""
        if as_json:
            told = read_keys(found, "judged not_run")
            first = (
                None if bad is None else read_keys(bad, "what=label kind number name finding diff")
            )
            about = {**run_keys(run), "seed": request.seed, "status": status, "first_bad": first}
            print_document("why", ok=not code, **about, **told, **keys)
        return code

    def say(word: str, text: str, style: str = "dim") -> None:
        screen.line((f"{word:8}", style), text)

    def say_judged() -> None:
        """Which device ran what, and in how many steps."""
        told: dict[str, list[str]] = {}
        for each, steps in Counter(found.judged).items():
            told.setdefault(each.device, []).append(f"{count(steps, 'step')} {each.state}")
        for device, whats in told.items():
            say("judged", f"by {device}: {', '.join(whats)}")

    if bad is None:
        last, steps = run.steps[-1], len(run.steps)
        unsound = [*check_bounds(last.module, where=last.name)]
        unsound += check_ownership(last.module, where=last.name)
        unsound = [each.at(last.location) for each in unsound]
        unknown: list[str] = []
        if isinstance(run.problem, ModuleProblem):  # lines that never ran, or nothing to compare
            is_bound = SimulatorDevice().find_obstacle(last.module) is None
            device = SimulatorDevice() if is_bound else CpuDevice()
            with screen.working():
                screen.doing("looking for lines that never ran")
                judged = judge_numbers(
                    run.problem, last.module, device, where=last.name, seed=request.seed
                )
            unknown += judged.unrun or [judged.reason] * (judged.status is Status.NOT_JUDGED)
        told, style = "nothing is wrong", "green"
        if unsound:  # the threads of the last step
            told, style = "all results are right, but the last step is unsound on a GPU", "bold red"
        elif found.not_run or unknown:  # which may be where it is wrong
            told, style = "nothing is wrong in the parts that were judged", "yellow"
        screen.line((f"{place}: ", "bold"), (told, style))
        for finding in unsound:
            say("wrong", str(finding))
        told = f"{steps} steps, as they stand and as TVM lowers them"
        screen.line((told if steps > 1 else "1 step, as it stands and as TVM lowers it", "dim"))
        say_judged()
        if smaller:
            sizes = " and ".join(it.problem.shape_text for it in smaller)
            say("judged", f"at {sizes}, in the same way: nothing is wrong")
        # A pass has another number in each step.
        numbered = (text.partition(", ")[2] for text in found.not_run)
        not_run = Counter(re.sub(r"^all from \d+", "all passes from", text) for text in numbered)
        for text, steps_of in not_run.items():
            say("not run", f"in {count(steps_of, 'step')}, {text}", "yellow")
        for text in unknown:
            say("unknown", text, "yellow")
        status = Status.RIGHT if found.judged and not unknown else Status.NOT_JUDGED
        code = 1 if unsound else 0 if status is Status.RIGHT else 3
        return tell(code, Status.WRONG if unsound else status, unsound=unsound, unknown=unknown)

    what = bad.label if bad.kind != "pass" else f"pass {bad.number} {bad.name}"
    screen.line((f"{place}: ", "bold"), (what, "bold red"))
    if bad.step is not None:
        what = "is right as scheduled, and wrong after this pass of TVM"
        if bad.kind == "refused":
            what = "is not wrong as scheduled, as far as it could be run: TVM does not lower it"
        elif bad.source:
            what = "is right after the last pass that could be run, and its source is wrong"
        label = step_label(bad.step)
        told = f"{label} {what}"
        if bad.kind == "between" and not bad.source:
            how = "could not be judged, or only in another way"
            told = f"the states between the two {how}, in {label}"
        if bad.is_pass:
            say("step", told)
        screen.line(("source  ", "dim"), bad.step.location)
    say("wrong", bad.finding.message)
    say_judged()
    for text in bad.not_run:
        say("not run", f"{text}; that may be the first bad one, too", "yellow")
    for text in found.not_run:
        say("not run", text, "yellow")
    screen.line()
    if bad.source:
        screen.program(bad.source, "cuda")
    elif bad.diff.lines:
        screen.diff(bad.diff.lines)
    elif bad.step is not None and bad.step.index == 0 and bad.kind in ("step", "refused"):
        screen.line("the kernel as it was written: no step comes before it")
    else:
        screen.line(f"nothing differs between {bad.diff.before} and {bad.diff.after}")
    with screen.working():
        screen.doing("running the script")
        write_reproducer(bad, path)
        shown = run_reproducer(path)
    screen.line()
    screen.line(("script  ", "dim"), str(path))
    verb = "shows it" if shown.is_shown else "does not show it on this machine"
    say("run", f"the script {verb}: {shown.text}")
    return tell(1, Status.WRONG, script=path, shown=shown.is_shown, script_says=shown.text)
