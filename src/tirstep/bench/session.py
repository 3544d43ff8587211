"""A whole run: candidates are compiled on all cores, the ceilings are measured, and then every
case, each reported as it comes: its candidates compute the same inputs, are checked, and are timed
in turns.

Candidates are recipes with their configs, and peers as baselines.
"""

from __future__ import annotations

import datetime
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from tirstep.lowering_checks import run_recipe
from tirstep.modules import AnyProblem, Problem, kernels
from tirstep.modules.validation import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import Recipe

from . import BenchError
from .cases import PlannedCase
from .compile_pool import CompileJob, compile_all, installed, name_library
from .machine import Machine, Reference, Replay, plan_repeats
from .peers import PEERS, Peer
from .results import BenchRun, Case, Outcome, summarize
from .runner import (
    Prepare,
    Runner,
    get_options,
    prepare_library,
    prepare_peer,
    prepare_recipe,
)

DOUBLES_AT_ONCE = 6
"""Tensors in float64 that a check holds, each as large as the largest of a problem."""
COMPILE_LIMIT = 120.0
"""Seconds that one candidate may take to compile."""
FEW_JOBS = 4
"""So few are compiled when they are needed: processes take seconds to start."""
AHEAD = 3
"""So many threads, and so many references of problems to come."""

T = TypeVar("T")
Begun = TypeVar("Begun")


@dataclass(frozen=True)
class Candidate:
    """Who takes part: a recipe with its sizes, or a peer."""

    name: str
    kind: str
    prepare: Prepare
    config: dict[str, object]


def describe_shortage(problem: Problem, machine: Machine) -> str | None:
    """Why the device has too little memory for a problem; None if it has enough."""
    needed, free = compute_needed_bytes(problem), machine.free_bytes()
    if needed <= free:
        return None
    return f"needs {needed / 2**30:.1f} GiB on the device, and {free / 2**30:.1f} are free"


@dataclass(frozen=True)
class CompiledConfig:
    """Sizes with which a recipe takes part, and the file that it was compiled into.

    Attributes
    ----------
    library : None where it failed, and is compiled again in its turn, to say why
    """

    config: dict[str, object]
    library: Path | None


CompiledAhead = Mapping[tuple[Problem, str], Sequence[CompiledConfig]]
"""By problem and by the name of a recipe or peer."""


def compute_needed_bytes(problem: Problem) -> int:
    """Device memory for a problem and its check: an estimate that errs upwards."""
    largest = max(math.prod(tensor.shape) for tensor in (*problem.inputs, *problem.outputs))
    return 3 * problem.bytes + DOUBLES_AT_ONCE * 8 * largest


def list_candidates(planned: PlannedCase, built: CompiledAhead) -> Iterator[Candidate]:
    """The recipes of a case, then its peers; what is not built is compiled in its turn."""
    for recipe in planned.recipes:
        variants = built.get((planned.problem, recipe.name)) or [
            CompiledConfig(sizes, None) for sizes in list_configs_of(recipe, planned.problem)
        ]
        for it in variants:
            compiled = prepare_library(it.library) if it.library else None
            prepare = compiled or prepare_recipe(recipe, it.config)
            yield Candidate(name_candidate(recipe, it.config), "recipe", prepare, it.config)
    for peer in planned.peers:
        libraries = [it.library for it in built.get((planned.problem, peer.name), ())]
        library = next(filter(None, libraries), None)
        prepare = prepare_library(library) if library else prepare_peer(peer)
        yield Candidate(peer.name, peer.kind, prepare, {})


def list_configs_of(recipe: Recipe, problem: Problem) -> list[dict[str, object]]:
    """The sizes that a recipe takes part with: its own, or where these do not divide the shape,
    with each of its tails that can. Where none can, its own: they say why.
    """
    own = dict(recipe.default_example.config)
    sizes = [own, *({**own, "tail": tail} for tail in recipe.tails if tail != "refuse")]
    if _takes(recipe, problem, own):
        return [own]
    return [config for config in sizes[1:] if _takes(recipe, problem, config)] or [own]


def name_candidate(recipe: Recipe, sizes: Mapping[str, object]) -> str:
    """What a recipe is called with its sizes: ``matmul_tiled tail=guard``."""
    return f"{recipe.name} tail={sizes['tail']}" if "tail" in sizes else recipe.name


def require_timeable(problem: AnyProblem) -> None:
    """Raise `KernelError` for a program that cannot be run again and again on the same tensors:
    one that reads what it wrote, or one that writes nothing.
    """
    changed = [problem.arguments[place].name for place in problem.in_out]
    if not problem.outputs:
        reason = "it has no output"
    elif changed:
        reason = f"it reads and writes {', '.join(changed)}, which each run would change"
    else:
        return
    raise KernelError(
        f"{problem.kernel.name}: it cannot be timed: {reason}; check it, or give it another "
        "signature"
    )


def get_case_options(problem: Problem) -> dict[str, object]:
    """A problem's options, with a dtype where it has none: a module's is that of its sums."""
    return {"dtype": problem.accumulator, **problem.options}


def _takes(recipe: Recipe, problem: Problem, sizes: dict[str, object]) -> bool:
    try:
        run_recipe(recipe, problem.shape, options=get_options(recipe, problem), config=sizes)
    except (TransformError, KernelError):
        return False
    return True


Tell = Callable[[str], None]
"""Takes one line of progress."""


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Attributes
    ----------
    rounds : runs of each candidate
    budget : seconds that a candidate may run for the clock; slow ones run less often
    seed : of the random inputs; each case draws others
    """

    rounds: int = 50
    budget: float = 1.0
    seed: int = 0


def run_case(
    planned: PlannedCase,
    machine: Machine,
    settings: Settings,
    tell: Tell,
    find_reference: Callable[[], Reference] | None = None,
    built: CompiledAhead | None = None,
) -> Case:
    """Measure a case.

    `find_reference` has its inputs, which are drawn here without it, and `built` what was compiled
    ahead.

    A candidate that fails or is wrong gets no time, and a reason; the others go on. A shape for
    which the device has too little memory is skipped. Raises `BenchError` where a candidate leaves
    the device unusable.
    """
    problem = planned.problem
    case = Case(
        planned.suite,
        problem.kernel.name,
        dict(problem.shape),
        get_case_options(problem),
        problem.flops,
        problem.bytes,
    )
    if shortage := describe_shortage(problem, machine):
        return replace(case, skipped=shortage)
    reference = find_reference() if find_reference else draw_reference(planned, settings)
    candidates = [*list_candidates(planned, built or {})]
    outcomes = _run_candidates(candidates, Runner(machine, reference), settings, tell)
    machine.clear()
    return replace(case, outcomes=tuple(outcomes))


def _run_candidates(
    candidates: Sequence[Candidate], runner: Runner, settings: Settings, tell: Tell
) -> list[Outcome]:
    """What each did; nobody is timed whose result is not right, before and after."""
    kernel, machine = runner.problem.kernel.name, runner.machine
    outcomes, replays = list[Outcome](), dict[int, Replay]()
    for place, it in enumerate(candidates):
        tell(f"{kernel} {it.name}")
        tried = runner.try_once(it.name, it.prepare, on_cpu=it.kind == "cpu")
        launched = ""
        if tried.replay is not None:
            replays[place], launched = tried.replay, tried.replay.launched
        outcome = Outcome(it.name, it.kind, tried.status, tried.note, it.config, launched=launched)
        outcomes.append(outcome)
    tell(f"{kernel}: timing {len(replays)} candidates")
    on_gpu = [place for place in replays if candidates[place].kind != "cpu"]
    taken = dict(zip(on_gpu, _time([replays[it] for it in on_gpu], machine, settings), strict=True))
    for place, replay in replays.items():
        if (seconds := taken.get(place)) is None:
            first = machine.time_cpu(replay.run, 1)
            (repeats,) = plan_repeats(first, settings.rounds, settings.budget)
            seconds = machine.time_cpu(replay.run, repeats)
        if error := runner.find_error(replay):
            note = f"after the timed runs, {error}"
            outcomes[place] = replace(outcomes[place], status="wrong", note=note)
        else:
            outcomes[place] = replace(outcomes[place], time=summarize(seconds))
    return outcomes


def _time(replays: Sequence[Replay], machine: Machine, settings: Settings) -> list[list[float]]:
    """In turns: one run of each says how often it is to run."""
    first = [seconds[0] for seconds in machine.time(replays, [1] * len(replays))]
    return machine.time(replays, plan_repeats(first, settings.rounds, settings.budget))


def draw_reference(planned: PlannedCase, settings: Settings) -> Reference:
    """The inputs of a case."""
    return Reference(planned.problem, planned.problem.float_inputs(settings.seed))


def compile_ahead(
    cases: Sequence[PlannedCase], machine: Machine, cache: Path, tell: Tell
) -> CompiledAhead:
    """Compile the recipes of cases, and what the schedules of `PEERS` make of their kernels.

    A recipe takes part with its own sizes, or where these do not divide the shape, with each of its
    tails that can. What is not in the answer, or has no library, is compiled when its turn comes.
    """
    wanted: dict[tuple[Problem, str], Recipe | Peer] = {}
    for planned in cases:
        # Processes know the table of peers alone, and its kernels.
        known = planned.problem.kernel.name in kernels()
        peers = [it for it in planned.peers if known and it.schedule and PEERS.get(it.name) is it]
        wanted |= {(planned.problem, it.name): it for it in planned.recipes}
        wanted |= {(planned.problem, it.name): it for it in peers}
    if len(wanted) <= FEW_JOBS:
        return {}
    built: dict[tuple[Problem, str], list[CompiledConfig]] = {}

    def compile_(jobs: Sequence[tuple[tuple[Problem, str], CompileJob]]) -> None:
        """Add to `built` what is not refused."""
        reasons = compile_all(
            [job for _, job in jobs],
            machine.target,
            cache,
            limit=COMPILE_LIMIT,
            report=lambda done, reason: tell(f"compiled {done} of {len(jobs)} candidates"),
        )
        for (key, job), reason in zip(jobs, reasons, strict=True):
            if not reason.startswith("refused:"):
                library = None if reason or not Path(job.library).exists() else Path(job.library)
                built.setdefault(key, []).append(CompiledConfig(dict(job.config), library))

    try:
        compile_([(key, _make_job(key[0], it, {})) for key, it in wanted.items()])
        compile_(
            [
                (key, _make_job(key[0], it, {"tail": tail}))
                for key, it in wanted.items()
                if isinstance(it, Recipe) and key not in built
                for tail in it.tails
                if tail not in ("refuse", it.default_example.config.get("tail"))
            ]
        )
    except BenchError as error:  # each can still be compiled in its turn
        tell(str(error))
    return built


def _make_job(problem: Problem, candidate: Recipe | Peer, more: Mapping[str, object]) -> CompileJob:
    """A recipe with its config and `more`, or a peer's schedule, which has none."""
    name, options, config = candidate.name, dict(problem.options), dict[str, object]()
    if isinstance(candidate, Recipe):
        name = candidate.spelling or name
        options = get_options(candidate, problem)
        config = {**candidate.default_example.config, **more}
    kernel, library = problem.kernel.name, str(name_library())
    return CompileJob(name, dict(problem.shape), options, config, library, kernel)


def run_bench(
    cases: Sequence[PlannedCase],
    machine: Machine,
    settings: Settings,
    cache: Path,
    tell: Tell,
) -> Iterator[BenchRun]:
    """Measure the ceilings and then the cases, one by one: the run so far, after each case.

    `cache` is the folder of compiled kernels. Raises `BenchError` where a
    candidate leaves the device unusable.
    """
    tell("measuring the machine's ceilings")
    dtypes = dict.fromkeys(str(get_case_options(planned.problem)["dtype"]) for planned in cases)
    moved = dict.fromkeys(planned.problem.bytes for planned in cases)
    with installed(cache):
        run = BenchRun(
            machine.device,
            machine.versions,
            datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            {**machine.method, **asdict(settings)},
            machine.measure_ceilings([*dtypes], [*moved]),
        )
        built, free = compile_ahead(cases, machine, cache, tell), machine.free_bytes()

        def work_out(planned: PlannedCase) -> Reference:
            reference = draw_reference(planned, settings)
            if not machine.has_reference(planned.problem):
                _ = reference.right, reference.bound
            return reference

        def begin(planned: PlannedCase) -> tuple[PlannedCase, Callable[[], Reference] | None]:
            """What returns a case's reference, unless it is too large for the device."""
            fits = compute_needed_bytes(planned.problem) <= free
            return planned, begin_reference(partial(work_out, planned)) if fits else None

        for planned, find_reference in look_ahead(cases, begin):
            case = run_case(planned, machine, settings, tell, find_reference, built)
            run = run.add(case)
            yield run


def look_ahead(items: Iterable[T], begin: Callable[[T], Begun]) -> Iterator[Begun]:
    """What was begun for each item, in order, when `AHEAD` later ones are begun, too."""
    coming: deque[Begun] = deque()
    for item in items:
        coming.append(begin(item))
        if len(coming) > AHEAD:
            yield coming.popleft()
    yield from coming


def begin_reference(work_out: Callable[[], Reference]) -> Callable[[], Reference]:
    """Work a reference out in a thread that nobody waits for at the end: Ctrl-C ends a run at once,
    and NumPy may be minutes from it. Returns what returns it.
    """
    future: Future[Reference] = Future()

    def run() -> None:
        try:
            future.set_result(work_out())
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result
