"""``tirstep tune``: a recipe's fastest config, into a database of MetaSchedule's."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tirstep.processes import count_cores

from .formatting import count
from .request import (
    Config,
    Dtype,
    FunctionName,
    KernelOptions,
    RecipeName,
    TargetName,
    at_least,
    make_request,
    separate_lists,
)
from .search import (
    Shapes,
    Timeout,
    make_plans,
    show_config,
    show_none,
    show_reasons,
    show_time,
    show_tried,
)
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.bench.search import SearchPlan
    from tirstep.tuning.tuner import TunePlan, TuneResult

    from .screen import Screen

CPU = "llvm"
LEAST_BATCH = 4


def command(
    recipe: RecipeName,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder of the database; what is in it stays."
        ),
    ],
    shape: Shapes = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    trials: Annotated[
        int,
        typer.Option(
            "--trials",
            metavar="N",
            parser=at_least("--trials", 1, int),
            help="Configs to build and time in all, those of an interrupted run included.",
        ),
    ] = 64,
    target: TargetName = "cuda",
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            parser=at_least("--seed", 0, int),
            help="Of the order of configs and of the inputs.",
        ),
    ] = 0,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            parser=at_least("--jobs", 1, int),
            help="Processes that compile. [default: one a core]",
        ),
    ] = None,
    timeout: Timeout = 60,
) -> int:
    """Tune a recipe's choices into a database of MetaSchedule's.

    The design space is the recipe with its choices as decisions; --set tile_k=8,16 has these two in
    place of its own. Each candidate is checked exactly before it is timed. The fastest goes into a
    database that TVM applies without tirstep, which is tried first. Every trial is kept in DIR:
    the same command after an interruption goes on where it was, and with more --trials it goes on
    from the end. On a GPU of this machine tirstep search measures closer, against PyTorch.
    """
    single, among = separate_lists(config or [])
    request = make_request(None, dtype, option, single, function=function)
    searches = make_plans(recipe, shape or [], request, among, None, timeout)
    found = _find_target(target)
    wanted = Wanted(output, found, trials, seed, jobs or count_cores(), timeout)
    from tvm.support import cc

    if cc.get_cc() is None:
        raise UseError("there is no C++ compiler here, which links candidates; install g++")
    return max(_tune_one(search, wanted) for search in searches)


@dataclass(frozen=True)
class Wanted:
    """How candidates are tried, and where the best goes; `target` is TVM's."""

    folder: Path
    target: Any
    trials: int
    seed: int
    jobs: int
    timeout: float


def _find_target(name: str) -> Any:
    """TVM's target, of a device that is here."""
    import tvm

    from tirstep.lowering_checks.compile.compiling import get_target

    target = get_target(name)
    kind = str(target.kind.name)
    if kind != CPU and not tvm.device(kind).exist:
        raise UseError(
            f"there is no device for --target {name} here, and candidates are timed; tune on a "
            f"machine that has one, or with --target {CPU}, where threads run one after the other"
        )
    # As the GPU here is, and not as the one that `cuda` is taken for elsewhere.
    return tvm.target.Target.from_device(tvm.cuda(0)) if name == "cuda" else target


def _tune_one(search: SearchPlan, wanted: Wanted) -> int:
    """Tune at one shape, with processes that end with it; 1 where no candidate was right."""
    from tirstep.bench.trials import Trials
    from tirstep.files import locked
    from tirstep.tuning import candidates, tuner
    from tirstep.tuning.database import add_record, require_database

    from .screen import Screen

    plan = _make_plan(search, wanted)
    require_database(wanted.folder, plan.workload, plan.target)
    screen = Screen()
    file = Trials.locate(wanted.folder, plan.describe())
    try:
        with locked(file, seconds=0), screen.working(), contextlib.ExitStack() as ended:
            trials = Trials.open(wanted.folder, plan.describe())
            scratch = ended.enter_context(tempfile.TemporaryDirectory(prefix="tirstep-"))
            limit, spelling = wanted.timeout, plan.recipe.spelling
            compiling = timing = candidates.start_processes(wanted.jobs, limit, spelling)
            if wanted.jobs > 1:  # one process alone does both: it does not compile while it times
                timing = candidates.start_processes(1, limit, spelling)
            for processes in (compiling, timing):
                ended.callback(processes.close)
            builder = candidates.CandidateBuilder(Path(scratch), compiling)
            runner = candidates.CandidateRunner(plan.problem, timing, wanted.seed)
            found = tuner.tune(plan, builder, runner, trials, screen.doing)
    except TimeoutError:
        raise UseError(
            f"another process tunes this into {wanted.folder} now; wait until it has ended, or "
            "give another folder"
        ) from None
    _show(screen, search, plan, found)
    if found.winner is None:
        return 1
    with screen.working():
        screen.doing("replaying it with TVM alone")
        trace = found.winner.sch.trace
        is_new = add_record(wanted.folder, plan.workload, trace, found.times, plan.target)
    word = "wrote" if is_new else "it is already in"
    screen.line((f"{word} {wanted.folder}", "green"), "  replayed with TVM alone")
    return 0


def _make_plan(search: SearchPlan, wanted: Wanted) -> TunePlan:
    """What is tuned; on this machine's GPU, what is known to be fast comes first."""
    import tvm

    from tirstep.tuning.space import read_choices, read_fixed
    from tirstep.tuning.tuner import TunePlan, list_promising

    recipe, problem, seed = search.recipe, search.problem, wanted.seed
    choices = read_choices(recipe, search.among, search.fixed)
    fixed, promising = read_fixed(recipe, choices, search.fixed), []
    if str(wanted.target.kind.name) == "cuda":
        name = str(tvm.cuda(0).device_name)
        promising = list_promising(recipe, problem, fixed, choices, device=name, seed=seed)
    batch = max(LEAST_BATCH, 2 * wanted.jobs)
    return TunePlan(
        recipe, problem, wanted.target, fixed, choices, wanted.trials, seed, batch, promising
    )


def _show(screen: Screen, search: SearchPlan, plan: TunePlan, found: TuneResult) -> None:
    kept = f", {found.kept} of them by an earlier run" if found.kept else ""
    tried = f"{count(found.tried, 'candidate')} of {found.total}{kept}"
    show_tried(screen, plan.recipe, plan.problem, tried)
    if found.stale:
        stale = f"{count(found.stale, 'trial')} of an earlier run made another program"
        screen.line((f"{stale}, and did not count", "yellow"))
    show_reasons(screen, found.skipped, found.samples)
    if found.repeated:
        screen.line((f"  {found.repeated:>5} the same program as another config", "dim"))
    if found.winner is None:
        most = max(found.tried, found.skipped.total())
        show_none(screen, search, replace(found, tried=most))
        return
    show_time(screen, "best", found.best)
    show_time(screen, "as it is", found.default)
    show_config(screen, found.winner.config)
    if str(plan.target.kind.name) == CPU and _has_threads(found.winner.sch.mod):
        screen.line(
            ("a GPU's threads ran one after the other: the times say nothing of a GPU", "yellow")
        )


def _has_threads(module: Any) -> bool:
    """Whether what was timed on the CPU is a schedule for a GPU."""
    from tvm.tirx import For

    from tirstep.transforms.tir import find_all, get_axis

    return any("Idx" in (get_axis(loop) or "") for loop in find_all(module["main"].body, For))
