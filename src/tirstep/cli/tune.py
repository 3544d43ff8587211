"""``tirstep tune``: a recipe's fastest knobs, into a database of MetaSchedule's."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from tirstep.processes import count_cores

from .formatting import count
from .request import make_request, option, separate_lists, with_options
from .search import SHAPES, TIMEOUT, describe_result, make_plans, show_result
from .wrong_use import UseError


@with_options()
def command(
    *,
    recipe: str,
    output: Path = option(
        "--output -o", "DIR", "The folder of the database; records are added to it.", default=...
    ),
    shape: list[str] | None = SHAPES,
    dtype: str | None,
    option: list[str] | None,
    config: list[str] | None,
    function: str | None,
    trials: int = option(
        "--trials",
        "N",
        "Candidates to build and time in all, those of an interrupted run included.",
        default=64,
        least=1,
    ),
    target: str,
    seed: int,
    jobs: int | None = option(
        "--jobs", "N", "How many processes compile. [default: one per core]", least=1
    ),
    timeout: float = TIMEOUT,
    json: bool,
) -> int:
    """Tune a recipe's knobs into a MetaSchedule database.

    The design space is the recipe with its knobs as decisions; --set tile_k=8,16 replaces a knob's
    values. Each candidate is checked exactly before it is timed. The fastest goes into a database
    that TVM applies without tirstep, which is tested before it is written. Every trial is kept in
    DIR: the same command resumes an interrupted run, and with more --trials it continues one. For a
    GPU of this machine, tirstep search measures more precisely, and compares with PyTorch.
    """
    import tvm
    from tvm.support import cc
    from tvm.tirx import For

    from tirstep.bench.search import Trials
    from tirstep.files import locked
    from tirstep.lowering_checks.compile.compiling import get_target
    from tirstep.transforms.tir import find_all, get_axis
    from tirstep.tuning import candidates
    from tirstep.tuning.database import add_record, require_database
    from tirstep.tuning.tuner import Tuner, make_plan

    from .formats import print_document
    from .screen import Screen

    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    searches = make_plans(recipe, shape or [], request, among, None, timeout)
    goal, device = get_target(target), ""
    kind = str(goal.kind.name)
    if kind != candidates.CPU and not tvm.device(kind).exist:
        raise UseError(
            f"there is no device for --target {target} here, and candidates are timed; tune on a "
            f"machine that has one, or with --target {candidates.CPU}, where threads run one after "
            "the other"
        )
    if target == "cuda":  # the GPU here, and not the one that `cuda` is taken for elsewhere
        goal = tvm.target.Target.from_device(tvm.cuda(0))
    if kind == "cuda":
        device = str(tvm.cuda(0).device_name)
    if cc.get_cc() is None:
        raise UseError("there is no C++ compiler here to link candidates; install g++")
    processes, code, documents = jobs or count_cores(), 0, []
    sizes = {"trials": trials, "seed": seed, "batch": max(4, 2 * processes)}
    for plan in [make_plan(search, goal, device=device, **sizes) for search in searches]:
        require_database(output, plan.workload, plan.target)
        screen, file = Screen(quiet=json), Trials.locate(output, plan.describe())
        try:
            with locked(file, seconds=0), screen.working(), contextlib.ExitStack() as ended:
                known = Trials(output, plan.describe())
                scratch = ended.enter_context(tempfile.TemporaryDirectory(prefix="tirstep-"))
                limits = plan.compile_limit, plan.recipe.spelling
                compiling = timing = candidates.start_processes(processes, *limits)
                if processes > 1:  # one process alone does both: it does not compile while it times
                    timing = candidates.start_processes(1, *limits)
                for each in (compiling, timing):
                    ended.callback(each.close)
                own = candidates.Candidates(
                    plan.problem, plan.seed, Path(scratch), compiling, timing
                )
                found = Tuner(plan, own, known, screen.doing).run()
        except TimeoutError:
            raise UseError(
                f"another process is tuning this into {output}; wait until it has ended, or "
                "give another folder"
            ) from None
        kept = f", {found.kept} of them by an earlier run" if found.kept else ""
        tried = f"{count(found.tried, 'candidate')} of {found.total}{kept}"
        stale = f"{count(found.stale, 'trial')} of an earlier run made a different program"
        told = [(f"{stale}, and did not count", "yellow")] if found.stale else []
        same = f"  {found.repeated:>5} the same program as another" if found.repeated else ""
        show_result(screen, plan, found, tried, before=told, after=same)
        documents.append(describe_result(plan, found))
        if found.winner is None:
            code = 1
            continue
        if kind == candidates.CPU and any(
            "Idx" in (get_axis(loop) or "")
            for loop in find_all(found.winner.sch.mod["main"].body, For)
        ):
            serial = "GPU threads ran one after the other: these times say nothing about a GPU"
            screen.line((serial, "yellow"))
        with screen.working():
            screen.doing("replaying it with only TVM")
            trace = found.winner.sch.trace
            is_new = add_record(output, plan.workload, trace, found.times, plan.target)
        word = "wrote" if is_new else "it is already in"
        screen.line((f"{word} {output}", "green"), "  replayed with only TVM")
    if json:
        about = {"database": output, "target": str(goal), "seed": seed}
        print_document("tune", **about, ok=not code, searches=documents)
    return code
