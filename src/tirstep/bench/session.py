"""Candidates of a case, which are recipes with their configs, and peers as baselines: all run on
the same tensors, are checked, and are timed in turns. A whole run is the ceilings and then the
cases, each reported as it comes; its candidates are compiled on all cores before.

Outputs are filled with NaN before every run that is checked, so that what nobody writes is wrong.
The same code checks arrays of NumPy and tensors of PyTorch: `xp` is the module they belong to.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.device import blank
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.lowering_checks.numeric import describe_wrong, find_wrong
from tirstep.modules import AnyProblem, Problem
from tirstep.modules.error_bounds import bound_storing, round_end
from tirstep.modules.inputs import Array
from tirstep.modules.validation import KernelError
from tirstep.transforms.recipes import RECIPES, Recipe
from tirstep.transforms.schedule import TransformError

from . import BenchError, PeerMissing, shorten
from .cases import MEANINGS, PlannedCase
from .compile_pool import CompileJob, compile_all, name_library
from .peers import Peer
from .results import BenchRun, Case, Outcome, summarize

if TYPE_CHECKING:
    from .torch_machine import TorchMachine as Machine

DOUBLES_AT_ONCE = 6
"""Tensors in float64 that a check holds, each as large as the largest of a problem."""
COMPILE_LIMIT = 120.0
"""Seconds that one candidate may take to compile."""
FEW_JOBS = 4
"""So few are compiled when they are needed: processes take seconds to start."""
TYPES = ("dtype", "acc", "out")

Tell = Callable[[str], None]
"""Takes one line of progress."""
Prepare: TypeAlias = "Callable[[Machine, Problem, Sequence[Any]], Launch]"
"""Compiles something for a problem's tensors on a machine."""
Launch = Callable[[], Any]
"""Computes once, into the output that it was made for, or into one that it returns."""


@dataclass(frozen=True)
class Replay:
    """A launch as it is timed.

    Attributes
    ----------
    run : computes once; returns None where the results are in `outputs`
    outputs : the tensors that `run` writes, or wrote the first time
    launched : ``"graph"`` for a recorded CUDA graph, ``"call"`` where recording failed
    kept : what must live as long as the replay
    """

    run: Callable[[], object]
    outputs: tuple[Any, ...]
    launched: str
    kept: object = field(default=None, repr=False)


@dataclass(frozen=True)
class Reference:
    """Inputs of a problem, and what is expected of them, computed when it is first asked for.

    Attributes
    ----------
    is_exact : for whole numbers, where nothing is tolerated but the rounding of a narrow output
    """

    problem: Problem
    inputs: Sequence[Array]
    is_exact: bool = False

    @cached_property
    def right(self) -> tuple[Array, ...]:
        """The outputs in float64; of whole numbers, as their types store them."""
        right = map(np.asarray, self.problem.reference(self.inputs))
        if not self.is_exact:
            return tuple(right)
        pairs = zip(right, self.problem.outputs, strict=True)
        return tuple(round_end(values, output.dtype, 1) for values, output in pairs)

    @cached_property
    def bound(self) -> tuple[Array, ...]:
        """How far from them each element may be."""
        if self.is_exact:
            return tuple(map(np.zeros_like, self.right))
        return tuple(map(np.asarray, self.problem.error_bound(self.inputs)))


@dataclass(frozen=True)
class Expectation:
    """What an output must be, in float64, and how far from it each element may be.

    Attributes
    ----------
    name, dtype : of the output
    """

    name: str
    dtype: str
    expected: Any
    bound: Any
    xp: Any

    def stored_in(self, dtype: str) -> Expectation:
        """The expectation for a peer whose result is of another type: it may round once more."""
        if dtype == self.dtype:
            return self
        bound = bound_storing(self.expected, self.bound, dtype, self.xp)
        return replace(self, dtype=dtype, bound=bound)

    def find_error(self, output: Any) -> str | None:
        """One sentence of what is wrong with an output in float64; None if it is right.

        A NaN is wrong: it is what outputs are filled with, and stays where nothing is written.
        """
        if tuple(output.shape) != tuple(self.expected.shape):
            return f"the shape is {tuple(output.shape)}, not {tuple(self.expected.shape)}"
        ends = (self.expected - self.bound, self.expected + self.bound)
        wrong = find_wrong(output, self.expected, ends, self.xp)
        if not wrong.any():
            return None
        right = self.expected
        return describe_wrong(
            self.name, output, right, ends, wrong, reference="float64", xp=self.xp
        )


def take_results(result: Any, outputs: Sequence[Any]) -> tuple[Any, ...]:
    """What a launch computed: what it returned, one result or several, or else `outputs`."""
    if result is None:
        return tuple(outputs)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def plan_repeats(seconds: Sequence[float], rounds: int, budget: float) -> list[int]:
    """How often each is to run, from one time of each: `rounds`, fewer where that takes too long.

    What is slow gets as many runs as fit into `budget` seconds, three at least, and one if a
    single run takes longer than that.
    """
    return [
        1 if once > budget else max(min(3, rounds), min(rounds, int(budget / max(once, 1e-9))))
        for once in seconds
    ]


def order_turns(repeats: Sequence[int]) -> Iterator[int]:
    """Whose turn it is: rounds of all that have runs left, each beginning with another one.

    So the drift of the clock touches all of them alike, and none always follows the same other.
    """
    left = list(repeats)
    for number in range(max(left, default=0)):
        for place in range(len(left)):
            turn = (place + number) % len(left)
            if left[turn] > 0:
                left[turn] -= 1
                yield turn


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


class Tried(NamedTuple):
    """What became of a candidate: how it is run again, or why it is out.

    Attributes
    ----------
    status : ``"ok"``, ``"wrong"``, ``"failed"``, or ``"missing"`` where a peer does not have the
        kernel or a recipe refuses the shape
    note : the reason in words
    """

    status: str
    note: str = ""
    replay: Replay | None = None


class Runner:
    """The tensors of a problem on a machine, and what their outputs must be."""

    def __init__(self, machine: Machine, reference: Reference) -> None:
        problem = reference.problem
        self.machine, self.problem = machine, problem
        inputs = [
            array.item() if kind.is_scalar else machine.upload(array)
            for kind, array in zip(problem.inputs, reference.inputs, strict=True)
        ]
        outputs = [machine.upload(blank(output)) for output in problem.outputs]
        self.arguments = problem.make_arguments(inputs, outputs)
        self._expectations = machine.expect(reference)

    def try_once(self, name: str, prepare: Prepare, *, is_checked: bool = True) -> Tried:
        """Compile, run and check a candidate.

        Raises `BenchError` where it leaves the device unusable.
        """
        machine, outputs = self.machine, self.problem.take_outputs(self.arguments)
        try:
            launch = prepare(machine, self.problem, self.arguments)
            self._poison(outputs)
            replay = machine.record(launch, outputs)
            error = self.find_error(replay) if is_checked else None
        except (PeerMissing, TransformError, KernelError) as raised:
            return Tried("missing", shorten(raised))
        except Exception as raised:  # whatever a framework raises: the others still run
            note = shorten(raised)
            try:
                machine.clear()
                machine.free_bytes()
            except Exception as gone:  # a fault inside of a kernel ends the device's context
                raise BenchError(
                    f"{name} left the device unusable ({note}); leave it out, or find what is "
                    "wrong with tirstep check, and begin again"
                ) from gone
            return Tried("failed", note)
        return Tried("ok", replay=replay) if error is None else Tried("wrong", error)

    def find_error(self, replay: Replay) -> str | None:
        """Run once more on outputs of NaN; what is wrong with them, None if they are right."""
        self._poison(replay.outputs)
        outputs = take_results(replay.run(), replay.outputs)  # others each time, it may be
        if len(outputs) != len(self._expectations):
            names = ", ".join(each.name for each in self._expectations)
            returns = f"it returns {len(outputs)} results"
            return f"{returns}, and the outputs are {names}; return them all"
        pairs = zip(self._expectations, outputs, strict=True)
        errors = (self.machine.find_error(expectation, output) for expectation, output in pairs)
        return next(filter(None, errors), None)

    def fill(self, inputs: Sequence[Array]) -> None:
        """Other values of the inputs, which are timed but not checked."""
        tensors = self.problem.take_inputs(self.arguments)
        for kind, tensor, array in zip(self.problem.inputs, tensors, inputs, strict=True):
            if not kind.is_scalar:  # a recorded launch keeps its numbers
                tensor[...] = self.machine.upload(array)

    def _poison(self, outputs: Sequence[Any]) -> None:
        for tensor in outputs:
            self.machine.poison(tensor)


def prepare_recipe(recipe: Recipe, config: Mapping[str, object], library: Path | None) -> Prepare:
    """What loads the file that another process compiled; without one it compiles the recipe's last
    step.
    """
    if library is not None and library.exists():
        return lambda machine, problem, arguments: machine.load(library, arguments)

    def prepare(machine: Machine, problem: Problem, arguments: Sequence[Any]) -> Launch:
        options = get_options(recipe, problem)
        run = run_recipe(recipe, problem.shape, options=options, config=config)
        module = run.steps[-1].module
        if len(run.steps) == 1 and (unbound := find_unbound_sblocks(module)):
            raise KernelError(
                f"no schedule binds {', '.join(unbound)} to a GPU; give a function of a schedule"
            )
        return machine.compile(module, arguments)

    return prepare


def prepare_peer(peer: Peer) -> Prepare:
    """What a peer runs."""
    return lambda machine, problem, arguments: machine.prepare_peer(peer, problem, arguments)


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


def describe_shortage(problem: Problem, machine: Machine) -> str | None:
    """Why the device has too little memory for a problem and its check, by an estimate that errs
    upwards; None if it has enough.
    """
    largest = max(math.prod(tensor.shape) for tensor in (*problem.inputs, *problem.outputs))
    needed, free = 3 * problem.bytes + DOUBLES_AT_ONCE * 8 * largest, machine.free_bytes()
    if needed <= free:
        return None
    return f"needs {needed / 2**30:.1f} GiB on the device, and {free / 2**30:.1f} are free"


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


CompiledAhead = Mapping[tuple[Problem, str], Mapping[Path, Mapping[str, object]]]
"""By problem and by the name of a recipe: libraries, and the config of each. Where one is not there
its candidate is compiled again in its turn, to say why.
"""


def list_candidates(
    planned: PlannedCase, built: CompiledAhead
) -> Iterator[tuple[Outcome, Prepare]]:
    """The recipes of a case, then its peers, before they ran; what is not built is compiled in its
    turn.
    """
    for recipe in planned.recipes:
        ahead = built.get((planned.problem, recipe.name), {})
        variants: list[tuple[Path | None, Mapping[str, object]]] = [*ahead.items()]
        for library, config in variants or [
            (None, it) for it in list_configs_of(recipe, planned.problem)
        ]:
            name = f"{recipe.name} tail={config['tail']}" if "tail" in config else recipe.name
            outcome = Outcome(name, "recipe", "ok", config=config)
            yield outcome, prepare_recipe(recipe, config, library)
    for peer in planned.peers:
        yield Outcome(peer.name, "peer", "ok"), prepare_peer(peer)


def list_configs_of(recipe: Recipe, problem: Problem) -> list[dict[str, object]]:
    """The sizes that a recipe takes part with: its own, or where these do not divide the shape,
    with each of its tails that can. Where none can, its own: they say why.
    """

    def is_taken(config: dict[str, object]) -> bool:
        options = get_options(recipe, problem)
        try:
            run_recipe(recipe, problem.shape, options=options, config=config)
        except (TransformError, KernelError):
            return False
        return True

    own = dict(recipe.default_example.config)
    if is_taken(own):
        return [own]
    tails = [{**own, "tail": tail} for tail in recipe.tails if tail != "refuse"]
    return [config for config in tails if is_taken(config)] or [own]


def compile_ahead(cases: Sequence[PlannedCase], machine: Machine, tell: Tell) -> CompiledAhead:
    """Compile the recipes of cases.

    A recipe takes part with its own sizes, or where these do not divide the shape, with each of its
    tails that can. What is not in the answer is compiled when its turn comes.
    """
    wanted = {(it.problem, recipe.name): recipe for it in cases for recipe in it.recipes}
    built: dict[tuple[Problem, str], dict[Path, Mapping[str, object]]] = {}
    for is_own in (True, False) if len(wanted) > FEW_JOBS else ():
        jobs: list[tuple[tuple[Problem, str], CompileJob]] = []
        for key, recipe in ((key, it) for key, it in wanted.items() if key not in built):
            own, problem = recipe.default_example.config, key[0]
            tails = [it for it in recipe.tails if it not in ("refuse", own.get("tail"))]
            name, options = recipe.spelling or recipe.name, get_options(recipe, problem)
            for config in [own] if is_own else [{**own, "tail": tail} for tail in tails]:
                library = str(name_library())
                jobs.append((key, CompileJob(name, dict(problem.shape), options, config, library)))

        def report(done: int, count: int = len(jobs)) -> None:
            tell(f"compiled {done} of {count} candidates")

        every = [job for _, job in jobs]
        try:
            reasons = compile_all(every, machine.target, limit=COMPILE_LIMIT, report=report)
        except BenchError as error:  # each can still be compiled in its turn
            tell(str(error))
            break
        for (key, job), reason in zip(jobs, reasons, strict=True):
            if not reason.startswith("refused:"):
                built.setdefault(key, {})[Path(job.library)] = job.config
    return built


def run_case(
    planned: PlannedCase,
    machine: Machine,
    settings: Settings,
    tell: Tell,
    built: CompiledAhead | None = None,
) -> Case:
    """Measure a case: nobody is timed whose result is not right, before and after.

    `built` is what was compiled ahead. A candidate that fails or is wrong gets no time, and a
    reason; the others go on. A shape for which the device has too little memory is skipped. Raises
    `BenchError` where a candidate leaves the device unusable.
    """
    problem = planned.problem
    kernel, options = problem.kernel.name, get_case_options(problem)
    case = Case(planned.suite, kernel, dict(problem.shape), options, problem.flops, problem.bytes)
    if shortage := describe_shortage(problem, machine):
        return replace(case, skipped=shortage)
    tell(f"{kernel}: computing the reference")
    runner = Runner(machine, Reference(problem, problem.float_inputs(settings.seed)))
    outcomes, replays = list[Outcome](), dict[int, Replay]()
    for place, (outcome, prepare) in enumerate([*list_candidates(planned, built or {})]):
        tell(f"{kernel} {outcome.candidate}")
        tried, launched = runner.try_once(outcome.candidate, prepare), ""
        if tried.replay is not None:
            replays[place], launched = tried.replay, tried.replay.launched
        outcomes.append(replace(outcome, status=tried.status, note=tried.note, launched=launched))
    tell(f"{kernel}: timing {len(replays)} candidates")
    in_turns = [*replays.values()]
    once = [seconds[0] for seconds in machine.time(in_turns, [1] * len(in_turns))]
    times = machine.time(in_turns, plan_repeats(once, settings.rounds, settings.budget))
    for (place, replay), seconds in zip(replays.items(), times, strict=True):
        if error := runner.find_error(replay):
            note = f"after the timed runs, {error}"
            outcomes[place] = replace(outcomes[place], status="wrong", note=note)
        else:
            outcomes[place] = replace(outcomes[place], time=summarize(seconds))
    machine.clear()
    return replace(case, outcomes=tuple(outcomes))


def get_case_options(problem: Problem) -> dict[str, object]:
    """A problem's options, with a dtype where it has none: a module's is that of its sums."""
    return {"dtype": problem.accumulator, **problem.options}


def run_bench(
    cases: Sequence[PlannedCase], machine: Machine, settings: Settings, tell: Tell
) -> Iterator[BenchRun]:
    """Measure the ceilings and then the cases, one by one: the run so far, after each case.

    Raises `BenchError` where a candidate leaves the device unusable.
    """
    tell("measuring the machine's ceilings")
    dtypes = dict.fromkeys(str(get_case_options(planned.problem)["dtype"]) for planned in cases)
    moved = dict.fromkeys(planned.problem.bytes for planned in cases)
    run = BenchRun(
        machine.device,
        machine.versions,
        datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        {**machine.method, **asdict(settings)},
        machine.measure_ceilings([*dtypes], [*moved]),
    )
    built = compile_ahead(cases, machine, tell)
    for planned in cases:
        run = replace(run, cases=(*run.cases, run_case(planned, machine, settings, tell, built)))
        yield run
