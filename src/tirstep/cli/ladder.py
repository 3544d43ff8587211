"""``tirstep ladder``: the recipes of a ladder, judged, in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .formatting import describe_recipe, get_dtype
from .names import complete_ladder
from .request import (
    PROGRAMS,
    Config,
    DeviceName,
    Dtype,
    ExampleName,
    FunctionName,
    GoldenDir,
    Json,
    KernelOptions,
    Request,
    Seed,
    Shape,
    make_request,
    pick_ladder,
    spell_command,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.transforms.recipes import Ladder

    from .judging import Judge, JudgedRecipe
    from .screen import Screen

SHAPES = {
    "option": "as given with --shape",
    "default": "the default shape",
    "golden": "the shape of the goldens",
}


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="LADDER",
            help=f"A ladder, or a kernel's (see tirstep list), {PROGRAMS}",
            autocompletion=complete_ladder,
        ),
    ],
    diff: Annotated[
        bool, typer.Option("--diff", help="First print each step's diff and verdicts, as it goes.")
    ] = False,
    steps: Annotated[bool, typer.Option("--steps", help="A row for each step, too.")] = False,
    golden_dir: GoldenDir = None,
    device: DeviceName = "auto",
    seed: Seed = 0,
    shape: Shape = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    json: Json = False,
) -> int:
    """Judge all recipes of a ladder, slow to fast, in a table.

    Goldens and numbers of every step, the lines that each recipe changes, and on a GPU its time.

    Without --shape, a GPU takes the shape of each recipe's own example, and the
    CPU that of its goldens. A size given with --set goes to every recipe that has it.
    """
    request = make_request(
        shape, dtype, option, config, golden_dir, device, seed, function=function
    )
    return judge_ladder(name, request, with_diffs=diff, with_steps=steps, as_json=json)


def judge_ladder(
    name: str, request: Request, *, with_diffs: bool, with_steps: bool, as_json: bool
) -> int:
    """Judge a ladder and show it; 1 if any check failed, 2 if a recipe of several raises."""
    from .judging import make_judge
    from .screen import Screen

    ladder = pick_ladder(name, request)
    judge, screen = make_judge(request), Screen(quiet=as_json)
    example: ExampleName = "default" if judge.device.has_clock else "golden"
    shape_from = example if request.shape is None else "option"
    with screen.working():
        rungs = judge.plan(ladder, screen.doing, example=example)
        _require_any(name, rungs)
        _show_begin(screen, name, judge, rungs, shape_from)
        for rung in rungs:
            with rung.keeping_others(is_alone=len(rungs) == 1):
                _judge(rung, judge, screen, with_diffs=with_diffs and not as_json)
    is_broken = any(rung.is_broken for rung in rungs)
    is_good = not (is_broken or judge.folder_findings or any(rung.findings for rung in rungs))
    if as_json:
        _print_document(
            name, ladder, judge, rungs, shape_from, with_diffs=with_diffs, is_good=is_good
        )
    else:
        _show_end(screen, judge, rungs, with_steps=with_steps)
        if not with_diffs:
            _show_findings_and_next(screen, rungs, request)
    return 2 if is_broken else 0 if is_good else 1


def _require_any(name: str, rungs: Sequence[JudgedRecipe]) -> None:
    """Where every recipe refuses, the user asked for what cannot be."""
    from tirstep.modules import KernelError

    first = rungs[0].error
    if first is None or any(rung.error is None for rung in rungs):
        return
    if isinstance(first, KernelError) or rungs[0].is_broken:
        raise first
    raise UseError(f"no recipe of {name} takes this; {rungs[0].recipe.name} says: {first}")


def _show_begin(
    screen: Screen, name: str, judge: Judge, rungs: Sequence[JudgedRecipe], shape_from: str
) -> None:
    from .judging import get_common_shape, show_findings, show_judge

    shape, where = get_common_shape(rungs), SHAPES[shape_from]
    title = f" at {shape}, {where}" if shape else f", each recipe at {where}"
    dtypes = {get_dtype(rung.run.problem): None for rung in rungs if rung.run}
    screen.line((name, "bold"), title, f", {', '.join(dtypes)}" if dtypes else "")
    show_judge(screen, judge)
    if judge.folder_findings:
        screen.line()
    show_findings(screen, judge.folder_findings)


def _judge(rung: JudgedRecipe, judge: Judge, screen: Screen, *, with_diffs: bool) -> None:
    """Judge a recipe; with its diffs, what is found of each step is shown as it comes."""
    from tirstep.lowering_checks import count_accesses

    from .judging import show_findings, verdict_words
    from .screen import change_words, step_heading

    if with_diffs:
        screen.line()
        about = describe_recipe(rung.recipe)
        screen.line((rung.recipe.name, "bold underline"), (f"  {about}", "dim"), wrap=True)
    for verdict in judge.judge(rung, screen.doing, timed=True):
        if not with_diffs:
            continue
        screen.line()
        heading = step_heading(verdict.run, verdict.step)
        if verdict.diff is None:
            screen.line(*heading)
        else:
            screen.line(*heading, "  ", *change_words(verdict.diff))
            screen.diff(verdict.diff.lines)
        screen.line(*verdict_words(verdict))
        show_findings(screen, verdict.findings)
    if judge.device.name == "simulator" and rung.run is not None and not rung.findings:
        last = rung.run.steps[-1].module
        if judge.device.find_obstacle(last) is None:  # a program of the user's may launch nothing
            rung.counts = count_accesses(rung.run.problem, last)
    if with_diffs and rung.error is not None:
        screen.line(("skipped: ", "yellow"), str(rung.refusal), wrap=True)
    if with_diffs:
        show_findings(screen, rung.own_findings)


def _show_end(
    screen: Screen, judge: Judge, rungs: Sequence[JudgedRecipe], *, with_steps: bool
) -> None:
    from .tables import show_ladder_table

    screen.line()
    show_ladder_table(screen, rungs, judge.device, with_steps=with_steps)
    skipped = [rung for rung in rungs if rung.error is not None]
    if skipped:
        screen.line()
    for rung in skipped:
        is_or_was = "cannot be run" if rung.is_broken else "skipped"
        words = ((f"{rung.recipe.name} {is_or_was}: ", "yellow"), str(rung.refusal))
        screen.line(*words, wrap=True)


def _show_findings_and_next(
    screen: Screen, rungs: Sequence[JudgedRecipe], request: Request
) -> None:
    """All findings, and where to look next: of the last recipe that ran."""
    from .judging import show_findings

    found = [finding for rung in rungs for finding in rung.findings]
    if found:
        screen.line()
        show_findings(screen, found)
    last = next((rung.run for rung in reversed(rungs) if rung.run is not None), None)
    if last is None:
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
    rungs: Sequence[JudgedRecipe],
    shape_from: str,
    *,
    with_diffs: bool,
    is_good: bool,
) -> None:
    from .json_output import device_keys, finding_keys, print_document
    from .judging import find_baseline, get_common_shape, rung_documents

    baseline = find_baseline(rungs)
    print_document(
        "ladder",
        ladder=name,
        kernel=ladder[0].kernel_name,
        device=device_keys(judge.device),
        golden_dir=judge.golden_dir,
        seed=judge.request.seed,
        ok=is_good,
        shape_from=shape_from,
        shape=get_common_shape(rungs),
        baseline=None if baseline is None else baseline.recipe.name,
        findings=[finding_keys(finding) for finding in judge.folder_findings],
        recipes=rung_documents(rungs, with_diffs=with_diffs),
    )
