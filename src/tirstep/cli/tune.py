"""``tirstep tune``: a recipe's fastest config, into a database of MetaSchedule's."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tirstep.processes import count_cores

from .formatting import count
from .request import (
    CONFIG,
    DTYPE,
    FUNCTION_NAME,
    KERNEL_OPTIONS,
    RECIPE_NAME,
    SEED,
    TARGET_NAME,
    make_request,
    option,
    separate_lists,
)
from .search import (
    SHAPES,
    TIMEOUT,
    make_plans,
    show_config,
    show_none,
    show_reasons,
    show_time,
    show_tried,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.tuning.tuner import TunePlan, TuneResult

    from .screen import Screen

CPU = "llvm"


def command(
    recipe: str = RECIPE_NAME,
    output: Path = option(
        "--output -o", "DIR", "The folder of the database; what is in it stays.", default=...
    ),
    shape: list[str] | None = SHAPES,
    dtype: str | None = DTYPE,
    option: list[str] | None = KERNEL_OPTIONS,
    config: list[str] | None = CONFIG,
    function: str | None = FUNCTION_NAME,
    trials: int = option(
        "--trials",
        "N",
        "Configs to build and time in all, those of an interrupted run included.",
        default=64,
        least=1,
    ),
    target: str = TARGET_NAME,
    seed: int = SEED,
    jobs: int | None = option(
        "--jobs", "N", "Processes that compile. [default: one a core]", least=1
    ),
    timeout: float = TIMEOUT,
) -> int:
    """Tune a recipe's choices into a database of MetaSchedule's.

    The design space is the recipe with its choices as decisions; --set tile_k=8,16 has these two in
    place of its own. Each candidate is checked exactly before it is timed. The fastest goes into a
    database that TVM applies without tirstep, which is tried first. Every trial is kept in DIR:
    the same command after an interruption goes on where it was, and with more --trials it goes on
    from the end. On a GPU of this machine tirstep search measures closer, against PyTorch.
    """
    import tvm
    from tvm.support import cc

    from tirstep.lowering_checks.compile.compiling import get_target
    from tirstep.tuning.tuner import make_plan

    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    searches = make_plans(recipe, shape or [], request, among, None, timeout)
    goal, device = get_target(target), ""
    kind = str(goal.kind.name)
    if kind != CPU and not tvm.device(kind).exist:
        raise UseError(
            f"there is no device for --target {target} here, and candidates are timed; tune on a "
            f"machine that has one, or with --target {CPU}, where threads run one after the other"
        )
    if target == "cuda":  # the GPU here, and not the one that `cuda` is taken for elsewhere
        goal = tvm.target.Target.from_device(tvm.cuda(0))
    if kind == "cuda":
        device = str(tvm.cuda(0).device_name)
    if cc.get_cc() is None:
        raise UseError("there is no C++ compiler here, which links candidates; install g++")
    processes = jobs or count_cores()
    sizes = {"trials": trials, "seed": seed, "batch": max(4, 2 * processes)}
    plans = [make_plan(search, goal, device=device, **sizes) for search in searches]
    return max(_tune(plan, output, processes) for plan in plans)


def _tune(plan: TunePlan, folder: Path, jobs: int) -> int:
    """Tune at one shape, with processes that end with it; 1 where no candidate was right."""
    from tirstep.bench.trials import Trials
    from tirstep.files import locked
    from tirstep.tuning import candidates
    from tirstep.tuning.database import add_record, require_database
    from tirstep.tuning.tuner import Tuner

    from .screen import Screen

    require_database(folder, plan.workload, plan.target)
    screen = Screen()
    file = Trials.locate(folder, plan.describe())
    try:
        with locked(file, seconds=0), screen.working(), contextlib.ExitStack() as ended:
            trials = Trials(folder, plan.describe())
            scratch = ended.enter_context(tempfile.TemporaryDirectory(prefix="tirstep-"))
            limit, spelling = plan.compile_limit, plan.recipe.spelling
            compiling = timing = candidates.start_processes(jobs, limit, spelling)
            if jobs > 1:  # one process alone does both: it does not compile while it times
                timing = candidates.start_processes(1, limit, spelling)
            for processes in (compiling, timing):
                ended.callback(processes.close)
            builder = candidates.CandidateBuilder(Path(scratch), compiling)
            runner = candidates.CandidateRunner(plan.problem, timing, plan.seed)
            found = Tuner(plan, builder, runner, trials, screen.doing).run()
    except TimeoutError:
        raise UseError(
            f"another process tunes this into {folder} now; wait until it has ended, or "
            "give another folder"
        ) from None
    _show(screen, plan, found)
    if found.winner is None:
        return 1
    with screen.working():
        screen.doing("replaying it with TVM alone")
        trace = found.winner.sch.trace
        is_new = add_record(folder, plan.workload, trace, found.times, plan.target)
    word = "wrote" if is_new else "it is already in"
    screen.line((f"{word} {folder}", "green"), "  replayed with TVM alone")
    return 0


def _show(screen: Screen, plan: TunePlan, found: TuneResult) -> None:
    from tvm.tirx import For

    from tirstep.transforms.tir import find_all, get_axis

    kept = f", {found.kept} of them by an earlier run" if found.kept else ""
    tried = f"{count(found.tried, 'candidate')} of {found.total}{kept}"
    show_tried(screen, plan, tried)
    if found.stale:
        stale = f"{count(found.stale, 'trial')} of an earlier run made another program"
        screen.line((f"{stale}, and did not count", "yellow"))
    show_reasons(screen, found)
    if found.repeated:
        screen.line((f"  {found.repeated:>5} the same program as another config", "dim"))
    if found.winner is None:
        most = max(found.tried, found.skipped.total())
        show_none(screen, plan, replace(found, tried=most))
        return
    show_time(screen, "best", found.best)
    show_time(screen, "as it is", found.default)
    show_config(screen, found.winner.config)
    loops = find_all(found.winner.sch.mod["main"].body, For)
    if str(plan.target.kind.name) == CPU and any("Idx" in (get_axis(it) or "") for it in loops):
        screen.line(
            ("a GPU's threads ran one after the other: the times say nothing of a GPU", "yellow")
        )
