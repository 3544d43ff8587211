"""``tirstep tune``: a recipe's fastest config, into a database of MetaSchedule's."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tirstep.processes import count_cores

from .formatting import count, format_shape, get_dtype, spell
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
from .search import Timeout, explain_none, make_plans, tell_sample
from .wrong_use import UseError

if TYPE_CHECKING:
    from tirstep.bench.search import SearchPlan
    from tirstep.tuning.tuner import TunePlan, TuneResult

    from .screen import Screen

CPU = "llvm"
LEAST_BATCH = 4


Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help="The folder of the database; what is in it stays."
    ),
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="SIZES",
        help="The kernel's shape, 1024x512x2048; may be repeated. [default: those of the "
        "recipe's tutorial]",
    ),
]
TrialCount = Annotated[
    int,
    typer.Option(
        "--trials",
        metavar="N",
        parser=at_least("--trials", 1, int),
        help="Configs to build and time in all, those of an interrupted run included.",
    ),
]
OrderSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        parser=at_least("--seed", 0, int),
        help="Of the order of configs and of the inputs.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        parser=at_least("--jobs", 1, int),
        help="Processes that compile. [default: one a core]",
    ),
]
Table = Annotated[
    Path | None,
    typer.Option(
        "--into", metavar="FILE", help="A table of the best configs to put the winner into, too."
    ),
]


def command(
    recipe: RecipeName,
    output: Output,
    shape: Shapes = None,
    dtype: Dtype = None,
    option: KernelOptions = None,
    config: Config = None,
    function: FunctionName = None,
    trials: TrialCount = 64,
    target: TargetName = "cuda",
    seed: OrderSeed = 0,
    jobs: Jobs = None,
    timeout: Timeout = 60,
    into: Table = None,
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
    if into is not None:
        from tirstep.bench.best_table import require_table

        require_table(into)
    searches = make_plans(recipe, shape or [], request, among, None, timeout)
    wanted = Wanted(
        output, _find_target(target), trials, seed, jobs or count_cores(), timeout, into
    )
    _require_linker()
    return max(tune_one(search, wanted) for search in searches)


@dataclass(frozen=True)
class Wanted:
    """How candidates are tried, and where the best goes; `target` is TVM's."""

    folder: Path
    target: Any
    trials: int
    seed: int
    jobs: int
    timeout: float
    into: Path | None


def tune_one(search: SearchPlan, wanted: Wanted) -> int:
    """Tune at one shape; 1 where no candidate was right."""
    from tirstep.files import locked
    from tirstep.tuning.database import require_database
    from tirstep.tuning.trials import Trials

    from .screen import Screen

    plan = _make_plan(search, wanted)
    require_database(wanted.folder, plan.workload, plan.target)
    screen = Screen()
    file = Trials.locate(wanted.folder, plan.describe())
    try:
        with locked(file, seconds=0), screen.working():
            trials = Trials.open(wanted.folder, plan.describe())
            found = _tune(plan, wanted, trials, screen)
    except TimeoutError:
        raise UseError(
            f"another process tunes this into {wanted.folder} now; wait until it has ended, or "
            "give another folder"
        ) from None
    _show(screen, search, plan, found)
    if found.best is None:
        return 1
    _write(screen, wanted.folder, plan, found)
    if wanted.into is not None:
        _keep(screen, wanted.into, search, plan, found)
    return 0


def _make_plan(search: SearchPlan, wanted: Wanted) -> TunePlan:
    from tirstep.tuning.space import read_choices, read_fixed
    from tirstep.tuning.tuner import TunePlan

    choices = read_choices(search.recipe, search.among, search.fixed)
    fixed = read_fixed(search.recipe, choices, search.fixed)
    return TunePlan(
        search.recipe,
        search.problem,
        wanted.target,
        fixed,
        choices,
        wanted.trials,
        wanted.seed,
        max(LEAST_BATCH, 2 * wanted.jobs),
        _list_promising(search, wanted, fixed, choices),
    )


def _list_promising(
    search: SearchPlan, wanted: Wanted, fixed: dict[str, object], choices: Any
) -> list[dict[str, int]]:
    """What is known to be fast on this machine's GPU; of another target nothing is."""
    import tvm

    from tirstep.tuning.starting import list_promising

    if str(wanted.target.kind.name) != "cuda":
        return []
    name = str(tvm.cuda(0).device_name)
    return list_promising(
        search.recipe, search.problem, fixed, choices, device=name, seed=wanted.seed
    )


def _write(screen: Screen, folder: Path, plan: TunePlan, found: TuneResult) -> None:
    """Put the best into the database."""
    from tirstep.tuning.database import add_record

    assert found.best is not None
    with screen.working():
        screen.doing("replaying it with TVM alone")
        trace = found.best.trace
        is_new = add_record(folder, plan.workload, trace, found.seconds, plan.target)
    word = "wrote" if is_new else "it is already in"
    screen.line((f"{word} {folder}", "green"), "  replayed with TVM alone")


def _tune(plan: TunePlan, wanted: Wanted, trials: Any, screen: Screen) -> TuneResult:
    """Tune with a builder and a runner of their own, which end with it."""
    from tirstep.tuning import building, running, tuner

    def start(number: int) -> Any:
        return building.WorkerProcesses(number, wanted.timeout, plan.recipe.spelling)

    compiling = start(wanted.jobs)
    # One process does both: it has nothing to compile while it times.
    timing = compiling if wanted.jobs == 1 else start(1)
    with tempfile.TemporaryDirectory(prefix="tirstep-") as scratch:
        builder = building.CandidateBuilder(Path(scratch), compiling)
        runner = running.CandidateRunner(plan.problem, timing, wanted.seed)
        try:
            return tuner.tune(plan, builder, runner, trials, screen.doing)
        finally:
            compiling.close()
            timing.close()


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


def _require_linker() -> None:
    from tvm.support import cc

    if cc.get_cc() is None:
        raise UseError("there is no C++ compiler here, which links candidates; install g++")


def _show(screen: Screen, search: SearchPlan, plan: TunePlan, found: TuneResult) -> None:
    from tirstep.bench.search import SearchResult

    shape, dtype = format_shape(plan.problem.shape), get_dtype(plan.problem)
    screen.line((f"{plan.recipe.name}{shape and f' at {shape}'}, {dtype}", "bold"))
    kept = f", {found.kept} of them by an earlier run" if found.kept else ""
    screen.line((f"tried {count(found.tried, 'candidate')} of {found.total}{kept}", "dim"))
    if found.stale:
        stale = f"{count(found.stale, 'trial')} of an earlier run made another program"
        screen.line((f"{stale}, and did not count", "yellow"))
    for reason, number in found.out.most_common():
        screen.line((f"  {number:>5} {reason}{tell_sample(found.samples, reason)}", "dim"))
    if found.repeated:
        screen.line((f"  {found.repeated:>5} the same program as another config", "dim"))
    if found.best is None:
        screen.line(("no candidate ran and was exact", "bold red"))
        if found.out:
            tried = max(found.tried, found.out.total())
            skipped = SearchResult(tried=tried, skipped=found.out, samples=found.samples)
            screen.line(explain_none(search, skipped), wrap=True)
        return
    _show_time(screen, "best", found.seconds)
    if found.default_seconds:
        _show_time(screen, "as it is", found.default_seconds)
    chosen = {name: value for name, value in found.best.config.items() if value is not None}
    words = " ".join(f"--set {name}={spell(value)}" for name, value in chosen.items())
    screen.line((f"{'config':<9}", "dim"), words)
    if str(plan.target.kind.name) == CPU and _has_threads(found):
        screen.line(
            ("a GPU's threads ran one after the other: the times say nothing of a GPU", "yellow")
        )


def _has_threads(found: TuneResult) -> bool:
    """Whether what was timed on the CPU is a schedule for a GPU."""
    from tvm.tirx import For

    from tirstep.transforms.tir import find_all, get_axis

    if found.best is None:
        return False
    body = found.best.sch.mod["main"].body
    return any("Idx" in (get_axis(loop) or "") for loop in find_all(body, For))


def _show_time(screen: Screen, who: str, seconds: Sequence[float]) -> None:
    from tirstep.bench.results import summarize

    time = summarize(seconds)
    spread = f"{time.lower_us:,.1f} to {time.upper_us:,.1f}"
    screen.line((f"{who:<9}", "dim"), f"{time.median_us:,.1f} us", (f"  {spread}", "dim"))


def _keep(
    screen: Screen, file: Path, search: SearchPlan, plan: TunePlan, found: TuneResult
) -> None:
    """Put the winner into a table of best configs."""
    from tirstep.bench.best_table import record_best
    from tirstep.bench.results import summarize
    from tirstep.bench.search import SearchResult

    assert found.best is not None
    result = SearchResult(
        config=found.best.config,
        best=summarize(found.seconds),
        tried=found.tried,
        skipped=found.out,
    )
    if record_best(file, search, result, _describe_device(plan), _find_versions()):
        screen.line((f"wrote {file}", "green"))
    else:
        screen.line((f"{file} has a faster config for this, which stays", "yellow"))


def _describe_device(plan: TunePlan) -> dict[str, object]:
    import platform

    import tvm

    kind = str(plan.target.kind.name)
    if kind == CPU:
        return {"name": "CPU", "architecture": platform.machine()}
    device = tvm.device(kind)
    return {
        "name": str(device.device_name),
        "architecture": str(plan.target.attrs.get("arch", kind)),
    }


def _find_versions() -> dict[str, str]:
    import tvm

    import tirstep

    return {"tirstep": tirstep.__version__, "apache-tvm": str(tvm.__version__)}
