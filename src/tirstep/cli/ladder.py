"""``tirstep ladder``: the recipes of a ladder, judged, in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirstep.lowering_checks import Verdict, count_accesses
from tirstep.modules import KernelError
from tirstep.transforms.recipes import Ladder

from .diff import change_words
from .documents import device_keys, finding_keys, print_document, rung_documents
from .judge import Judge, make_judge, plan
from .refusals import UseError
from .rungs import Rung, baseline_of, find_common_shape
from .screen import Screen
from .selection import ExampleName, pick_ladder, spell_command
from .steps import heading
from .table import show_table
from .texts import describe_recipe
from .verdicts import say_where, show_findings, verdict_words
from .wishes import Request

SHAPES = {
    "option": "as given with --shape",
    "seed": "the shape of the tutorial",
    "golden": "the shape of the goldens",
}


@dataclass(frozen=True)
class Look:
    """How a ladder is shown: with every step's diff before it, with rows for steps, as JSON."""

    diffs: bool
    steps: bool
    json: bool


def show_ladder(name: str, request: Request, look: Look) -> int:
    """Judge a ladder and show it; 1 if any check failed."""
    ladder = pick_ladder(name)
    judge = make_judge(request)
    example: ExampleName = "seed" if judge.device.has_clock else "golden"
    shape_from = example if request.wish.shape is None else "option"
    screen = Screen()
    with screen.working():
        rungs = plan(ladder, judge, screen, example=example)
        _require_any(name, rungs)
        if not look.json:
            _show_begin(screen, name, judge, rungs, shape_from)
        for rung in rungs:
            _climb(rung, judge, screen, with_diffs=look.diffs and not look.json)
    is_good = not judge.folder and not any(rung.findings for rung in rungs)
    if look.json:
        _print_document(
            name, ladder, judge, rungs, shape_from, with_diffs=look.diffs, is_good=is_good
        )
    else:
        _show_end(screen, judge, rungs, look)
    return 0 if is_good else 1


def _require_any(name: str, rungs: Sequence[Rung]) -> None:
    """Where every recipe refuses, the user asked for what cannot be."""
    first = rungs[0].refusal
    if first is None or any(rung.refusal is None for rung in rungs):
        return
    if isinstance(first, KernelError):
        raise first
    raise UseError(f"no recipe of {name} takes this; {rungs[0].recipe.name} says: {first}")


def _show_begin(
    screen: Screen, name: str, judge: Judge, rungs: Sequence[Rung], shape_from: str
) -> None:
    shape, where = find_common_shape(rungs), SHAPES[shape_from]
    title = f" at {shape}, {where}" if shape else f", each recipe at {where}"
    dtypes = {rung.run.problem.options["dtype"]: None for rung in rungs if rung.run}
    screen.line((name, "bold"), title, f", {', '.join(dtypes)}" if dtypes else "")
    say_where(screen, judge)
    if judge.folder:
        screen.line()
    show_findings(screen, judge.folder)


def _climb(rung: Rung, judge: Judge, screen: Screen, *, with_diffs: bool) -> None:
    def report(rung: Rung, verdict: Verdict) -> None:
        if not with_diffs or rung.run is None:
            return
        screen.line()
        words = heading(rung.run, verdict.step)
        if verdict.diff is None:
            screen.line(*words)
        else:
            screen.line(*words, "  ", *change_words(verdict.diff))
            screen.diff(verdict.diff.lines)
        screen.line(*verdict_words(verdict))
        show_findings(screen, verdict.findings)

    if with_diffs:
        screen.line()
        about = describe_recipe(rung.recipe)
        screen.line((rung.recipe.name, "bold underline"), (f"  {about}", "dim"), wrap=True)
    judge.climb(rung, screen, report, timed=True)
    if judge.device.name == "simulator" and rung.run is not None and not rung.findings:
        rung.counts = count_accesses(rung.run.problem, rung.run.steps[-1].module)
    if with_diffs and rung.refusal is not None:
        screen.line(("skipped: ", "yellow"), str(rung.refusal), wrap=True)
    if with_diffs:
        show_findings(screen, rung.trouble)


def _show_end(screen: Screen, judge: Judge, rungs: Sequence[Rung], look: Look) -> None:
    screen.line()
    show_table(screen, rungs, judge.device, with_steps=look.steps)
    skipped = [rung for rung in rungs if rung.refusal is not None]
    if skipped:
        screen.line()
    for rung in skipped:
        words = ((f"{rung.recipe.name} skipped: ", "yellow"), str(rung.refusal))
        screen.line(*words, wrap=True)
    found = [finding for rung in rungs for finding in rung.findings]
    if found and not look.diffs:
        screen.line()
        show_findings(screen, found)
    _show_next(screen, rungs, judge.request, look)


def _show_next(screen: Screen, rungs: Sequence[Rung], request: Request, look: Look) -> None:
    """Where to look next: of the last recipe that ran."""
    last = next((rung.run for rung in reversed(rungs) if rung.run is not None), None)
    if look.diffs or last is None:
        return
    places = {
        "diff": "what each of its steps changed",
        "facts": "what the GPU gets of it",
        "report": "all of it as an HTML page",
    }
    commands = {spell_command(name, last, request): place for name, place in places.items()}
    width = max(map(len, commands))
    screen.line()
    for words, place in commands.items():
        screen.line(("next  ", "dim"), f"{words:<{width}}  ", (place, "dim"))


def _print_document(
    name: str,
    ladder: Ladder,
    judge: Judge,
    rungs: Sequence[Rung],
    shape_from: str,
    *,
    with_diffs: bool,
    is_good: bool,
) -> None:
    baseline = baseline_of(rungs)
    print_document(
        "ladder",
        ladder=name,
        kernel=ladder[0].kernel,
        device=device_keys(judge.device),
        golden_dir=judge.golden_dir,
        seed=judge.request.seed,
        ok=is_good,
        shape_from=shape_from,
        shape=find_common_shape(rungs),
        baseline=None if baseline is None else baseline.recipe.name,
        findings=[finding_keys(finding) for finding in judge.folder],
        recipes=rung_documents(rungs, with_diffs=with_diffs),
    )
