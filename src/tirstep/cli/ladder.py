"""``tirstep ladder``: the recipes of a ladder, judged, in a table."""

from __future__ import annotations

from .formatting import complete, get_dtype
from .request import (
    PROGRAMS,
    RECIPE_OPTIONS,
    ExampleName,
    Request,
    argument,
    flag,
    pick_ladder,
    with_options,
)
from .wrong_use import UseError

SHAPES = {
    "option": "as given with --shape",
    "default": "the default shape",
    "golden": "the shape of the goldens",
}


@with_options("golden_dir", "device", "seed", *RECIPE_OPTIONS)
def command(
    *,
    name: str = argument(
        "LADDER",
        f"A ladder, or a kernel for its ladder (see tirstep list), {PROGRAMS}",
        autocompletion=complete("ladder"),
    ),
    request: Request,
    steps: bool = flag("--steps", "A row for each step, too."),
    strict: bool,
    json: bool,
) -> int:
    """Judge all recipes of a ladder, slow to fast, in a table.

    Goldens and numbers of every step, the lines that each recipe changes, and on a GPU its time.

    A knob given with --set goes to every recipe that has it.
    """
    from tirstep.lowering_checks import count_accesses
    from tirstep.modules import KernelError

    from .formats import print_document, read_keys
    from .judging import (
        Judge,
        find_baseline,
        find_exit_code,
        get_common_shape,
        rung_documents,
        show_findings,
        show_judge,
        show_ladder_table,
    )
    from .screen import Screen

    ladder = pick_ladder(name, request)
    judge, screen = Judge(request), Screen(quiet=json)
    example: ExampleName = "default" if judge.device.has_clock else "golden"
    shape_from = example if request.shape is None else "option"
    with screen.working():
        rungs = judge.plan(ladder, screen.doing, example=example)
        first = rungs[0].error
        if first is not None and all(rung.error is not None for rung in rungs):
            if isinstance(first, KernelError):
                raise first
            if rungs[0].is_broken:
                raise UseError("; ".join(f"{it.recipe.name}: {it.refusal}" for it in rungs))
            raise UseError(f"no recipe of {name} accepts this; {rungs[0].recipe.name}: {first}")
        shape, where = get_common_shape(rungs), SHAPES[shape_from]
        title = f" at {shape}, {where}" if shape else f", each recipe at {where}"
        dtypes = {get_dtype(rung.run.problem): None for rung in rungs if rung.run}
        screen.line((name, "bold"), title, f", {', '.join(dtypes)}" if dtypes else "")
        show_judge(screen, judge)
        show_findings(screen, judge.folder_findings, apart=True)
        for rung in rungs:
            with rung.keeping_others(is_alone=len(rungs) == 1):
                for _ in judge.judge(rung, screen.doing, timed=True):
                    pass
                if judge.device.name == "simulator" and rung.run is not None and not rung.findings:
                    last = rung.run.steps[-1].module
                    # A program of the user's may launch nothing.
                    if judge.device.find_obstacle(last) is None:
                        rung.counts = count_accesses(rung.run.problem, last)
    code = find_exit_code(rungs, judge.folder_findings, strict)
    if json:
        baseline = find_baseline(rungs)
        print_document(
            "ladder",
            ladder=name,
            kernel=ladder[0].kernel_name,
            device=read_keys(judge.device, "name description"),
            golden_dir=judge.golden_dir,
            seed=request.seed,
            ok=not code,
            shape_from=shape_from,
            shape=shape,
            baseline=None if baseline is None else baseline.recipe.name,
            findings=judge.folder_findings,
            recipes=rung_documents(rungs),
        )
        return code
    screen.line()
    show_ladder_table(screen, rungs, judge.device, with_steps=steps)
    skipped = [rung for rung in rungs if rung.error is not None]
    if skipped:
        screen.line()
    for rung in skipped:
        is_or_was = "cannot be run" if rung.is_broken else "skipped"
        screen.line((f"{rung.recipe.name} {is_or_was}: ", "yellow"), str(rung.refusal))
    show_findings(screen, [it for rung in rungs for it in rung.findings], apart=True)
    return code
