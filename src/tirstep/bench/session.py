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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import AnyProblem, Problem, kernels
from tirstep.modules.validation import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import RECIPES, Recipe

from . import BenchError, PeerMissing, shorten
from .cases import MEANINGS, PlannedCase
from .compile_pool import CompileJob, compile_all, installed, name_library
from .machine import (
    Expectation,
    Launch,
    Machine,
    Reference,
    Replay,
    find_first_error,
    plan_repeats,
    require_alive,
    take_results,
    upload_inputs,
)
from .peers import PEERS, Peer
from .results import BenchRun, Case, Outcome, summarize

Prepare = Callable[[Machine, Problem, Sequence[Any]], Launch]

TYPES = ("dtype", "acc", "out")
DOUBLES_AT_ONCE = 6
"""Tensors in float64 that a check holds, each as large as the largest of a problem."""
COMPILE_LIMIT = 120.0
"""Seconds that one candidate may take to compile."""
FEW_JOBS = 4
"""So few are compiled when they are needed: processes take seconds to start."""
AHEAD = 3
"""So many threads, and so many references of problems to come."""

T = TypeVar("T")


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
        for sizes, library in ((compiled.config, compiled.library) for compiled in variants):
            prepare = _prepare_library(library) if library else prepare_recipe(recipe, sizes)
            yield Candidate(name_candidate(recipe, sizes), "recipe", prepare, sizes)
    for peer in planned.peers:
        libraries = [
            compiled.library
            for compiled in built.get((planned.problem, peer.name), ())
            if compiled.library
        ]
        prepare = _prepare_library(libraries[0]) if libraries else _prepare_peer(peer)
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


def get_options(recipe: Recipe, problem: Problem) -> dict[str, object]:
    """The kernel's options for a recipe: the problem's, but in the form that the recipe schedules.

    A ladder may begin with another textbook form of its kernel, such as conv1d over all positions
    of the signal; types and meanings are always the problem's.
    """
    others = [it for it in RECIPES.values() if it.kernel == recipe.kernel]
    form = {
        name: value
        for name, value in recipe.default_example.options.items()
        if name not in (*TYPES, *MEANINGS)
        and any(it.default_example.options.get(name) != value for it in others)
    }
    return {**problem.options, **form}


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


def prepare_recipe(recipe: Recipe, sizes: dict[str, object]) -> Prepare:
    """What compiles a recipe's last step for some tensors."""

    def prepare(machine: Machine, problem: Problem, arguments: Sequence[Any]) -> Launch:
        options = get_options(recipe, problem)
        run = run_recipe(recipe, problem.shape, options=options, config=sizes)
        module = run.steps[-1].module
        if len(run.steps) == 1 and (unbound := find_unbound_sblocks(module)):
            raise KernelError(
                f"no schedule binds {', '.join(unbound)} to a GPU; give a function of a schedule"
            )
        return machine.compile(module, arguments)

    return prepare


def _prepare_library(library: Path) -> Prepare:
    return lambda machine, problem, arguments: machine.load(library, arguments)


def _prepare_peer(peer: Peer) -> Prepare:
    return lambda machine, problem, arguments: machine.prepare_peer(peer, problem, arguments)


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


@dataclass
class Admitted:
    """A candidate that computed the right result, and its outcome so far."""

    candidate: Candidate
    replay: Replay
    outcome: Outcome
    place: int


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
    tensors = upload_inputs(machine, problem, reference.inputs)
    outputs = [machine.upload(blank(output)) for output in problem.outputs]
    arguments = problem.make_arguments(tensors, outputs)
    runner = _CaseRunner(problem, machine, settings, arguments, machine.expect(reference), tell)
    outcomes = runner.run([*list_candidates(planned, built or {})])
    del tensors, outputs, arguments, runner
    machine.clear()
    return replace(case, outcomes=tuple(outcomes))


def draw_reference(planned: PlannedCase, settings: Settings) -> Reference:
    """The inputs of a case."""
    return Reference(planned.problem, planned.problem.float_inputs(settings.seed))


@dataclass
class _CaseRunner:
    """What all candidates of a case share."""

    problem: Problem
    machine: Machine
    settings: Settings
    arguments: Sequence[Any]
    expectations: Sequence[Expectation]
    tell: Tell

    def run(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        outcomes, timed = [], []
        for place, candidate in enumerate(candidates):
            self.tell(f"{self.problem.kernel.name} {candidate.name}")
            outcome, replay = self._admit(candidate)
            outcomes.append(outcome)
            if replay is not None:
                timed.append(Admitted(candidate, replay, outcome, place))
        self.tell(f"{self.problem.kernel.name}: timing {len(timed)} candidates")
        for admitted, outcome in zip(timed, self._time(timed), strict=True):
            outcomes[admitted.place] = outcome
        return outcomes

    def _admit(self, candidate: Candidate) -> tuple[Outcome, Replay | None]:
        """Prepare, run once, check. A candidate is not timed unless its result is right."""
        outcome = Outcome(candidate.name, candidate.kind, "ok", config=candidate.config)
        try:
            launch = candidate.prepare(self.machine, self.problem, self.arguments)
            replay = self._make_replay(candidate, launch)
            error = self._check(candidate, replay)
        except (PeerMissing, TransformError, KernelError) as raised:
            return replace(outcome, status="missing", note=shorten(raised)), None
        except Exception as raised:  # whatever a framework raises: the others still run
            require_alive(self.machine, candidate.name, raised)
            return replace(outcome, status="failed", note=shorten(raised)), None
        if error is not None:
            return replace(outcome, status="wrong", note=error), None
        return replace(outcome, launched=replay.launched), replay

    def _make_replay(self, candidate: Candidate, launch: Launch) -> Replay:
        if candidate.kind == "cpu":
            return Replay(launch, (), "call")
        outputs = self.problem.take_outputs(self.arguments)
        for tensor in outputs:
            self.machine.poison(tensor)
        return self.machine.record(launch, outputs)

    def _check(self, candidate: Candidate, replay: Replay) -> str | None:
        if candidate.kind != "cpu":
            for tensor in replay.outputs:
                self.machine.poison(tensor)
        outputs = take_results(replay.run(), replay.outputs)  # others each time, it may be
        return find_first_error(self.machine, self.expectations, outputs)

    def _time(self, timed: Sequence[Admitted]) -> Iterator[Outcome]:
        on_gpu = [each for each in timed if each.candidate.kind != "cpu"]
        replays = [each.replay for each in on_gpu]
        first = [seconds[0] for seconds in self.machine.time(replays, [1] * len(replays))]
        repeats = plan_repeats(first, self.settings.rounds, self.settings.budget)
        seconds = iter(self.machine.time(replays, repeats))
        for admitted in timed:
            if admitted.candidate.kind == "cpu":
                yield self._finish(admitted, self._time_on_cpu(admitted))
            else:
                yield self._finish(admitted, next(seconds))

    def _time_on_cpu(self, admitted: Admitted) -> list[float]:
        launch = admitted.replay.run
        (repeats,) = plan_repeats(
            self.machine.time_cpu(launch, 1), self.settings.rounds, self.settings.budget
        )
        return self.machine.time_cpu(launch, repeats)

    def _finish(self, admitted: Admitted, seconds: Sequence[float]) -> Outcome:
        """The outcome with its time, if the result is still right."""
        if error := self._check(admitted.candidate, admitted.replay):
            return replace(admitted.outcome, status="wrong", note=f"after the timed runs, {error}")
        return replace(admitted.outcome, time=summarize(seconds))


@dataclass(frozen=True)
class _Compilation:
    """A candidate to compile: a recipe with its config, or a peer's schedule without one."""

    problem: Problem
    candidate: Recipe | Peer
    config: Mapping[str, object]

    def make_job(self) -> CompileJob:
        problem, candidate = self.problem, self.candidate
        options = dict(problem.options)
        if isinstance(candidate, Recipe):
            options = get_options(candidate, problem)
        spelling = candidate.spelling if isinstance(candidate, Recipe) else ""
        return CompileJob(
            spelling or candidate.name,
            dict(problem.shape),
            options,
            dict(self.config),
            str(name_library()),
            kernel=problem.kernel.name,
        )


def compile_ahead(
    cases: Sequence[PlannedCase], machine: Machine, cache: Path, tell: Tell
) -> CompiledAhead:
    """Compile the recipes of cases, and what the schedules of `PEERS` make of their kernels.

    A recipe takes part with its own sizes, or where these do not divide the shape, with each of its
    tails that can. What is not in the answer, or has no library, is compiled when its turn comes.
    """
    compilations = [
        _Compilation(planned.problem, recipe, recipe.default_example.config)
        for planned in cases
        for recipe in planned.recipes
    ]
    compilations += [
        _Compilation(planned.problem, peer, {})
        for planned in cases
        for peer in planned.peers
        # Processes know the table alone, and its kernels.
        if peer.schedule
        and PEERS.get(peer.name) is peer
        and planned.problem.kernel.name in kernels()
    ]
    compilations = [*{(each.problem, each.candidate.name): each for each in compilations}.values()]
    if len(compilations) <= FEW_JOBS:
        return {}
    built: dict[tuple[Problem, str], list[CompiledConfig]] = {}
    refused = _compile(compilations, machine, cache, tell, built)
    tails = [
        _Compilation(each.problem, each.candidate, {**each.config, "tail": tail})
        for each in refused
        if isinstance(each.candidate, Recipe)
        for tail in each.candidate.tails
        if tail not in ("refuse", each.config.get("tail"))
    ]
    if tails:
        _compile(tails, machine, cache, tell, built)
    return built


def _compile(
    compilations: Sequence[_Compilation],
    machine: Machine,
    cache: Path,
    tell: Tell,
    built: dict[tuple[Problem, str], list[CompiledConfig]],
) -> list[_Compilation]:
    """Add what compiled to `built`; returns what was refused."""
    jobs = [compilation.make_job() for compilation in compilations]

    def report(done: int, reason: str) -> None:
        tell(f"compiled {done} of {len(jobs)} candidates")

    try:
        reasons = compile_all(jobs, machine.target, cache, limit=COMPILE_LIMIT, report=report)
    except BenchError as error:  # each can still be compiled in its turn
        tell(str(error))
        return []
    refused = []
    for compilation, job, reason in zip(compilations, jobs, reasons, strict=True):
        if reason.startswith("refused:"):
            refused.append(compilation)
        else:
            library = Path(job.library)
            compiled = CompiledConfig(
                dict(compilation.config), library if not reason and library.exists() else None
            )
            built.setdefault((compilation.problem, compilation.candidate.name), []).append(compiled)
    return refused


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
        built = compile_ahead(cases, machine, cache, tell)
        with closing(_pair_with_references(cases, machine, settings)) as coming:
            for planned, find_reference in coming:
                case = run_case(planned, machine, settings, tell, find_reference, built)
                run = run.add(case)
                yield run


def _pair_with_references(
    cases: Sequence[PlannedCase], machine: Machine, settings: Settings
) -> Generator[tuple[PlannedCase, Callable[[], Reference] | None], None, None]:
    """Each case, with what returns its reference unless it is too large for the device."""
    free = machine.free_bytes()

    def fits(planned: PlannedCase) -> bool:
        return compute_needed_bytes(planned.problem) <= free

    def work_out(planned: PlannedCase) -> Reference:
        reference = draw_reference(planned, settings)
        if not machine.has_reference(planned.problem):
            _ = reference.right, reference.bound
        return reference

    ahead = look_ahead([planned for planned in cases if fits(planned)], work_out)
    for planned in cases:
        yield planned, next(ahead) if fits(planned) else None


def look_ahead(
    items: Iterable[T], work_out: Callable[[T], Reference]
) -> Iterator[Callable[[], Reference]]:
    """What returns an item's reference, for each in order; those of later items are begun."""
    coming: deque[Future[Reference]] = deque()
    for item in items:
        coming.append(_begin_reference(work_out, item))
        if len(coming) > AHEAD:
            yield coming.popleft().result
    while coming:
        yield coming.popleft().result


def _begin_reference(work_out: Callable[[T], Reference], item: T) -> Future[Reference]:
    """Work a reference out in a thread that nobody waits for at the end: Ctrl-C ends a run at once,
    and NumPy may be minutes from it.
    """
    future: Future[Reference] = Future()

    def run() -> None:
        try:
            future.set_result(work_out(item))
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
