"""Runs one case: candidates compute the same inputs, are checked, and are timed in turns.

Candidates are recipes with their configs, and peers as baselines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tirstep.lowering_checks import run_recipe
from tirstep.lowering_checks.devices import find_unbound_sblocks
from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import AnyProblem, Problem
from tirstep.modules.validation import KernelError
from tirstep.transforms.errors import TransformError
from tirstep.transforms.recipes import RECIPES, Recipe

from . import PeerMissing, shorten
from .accuracy import Expectation, Reference
from .cases import MEANINGS, PlannedCase
from .machine import (
    Launch,
    Machine,
    Replay,
    find_first_error,
    plan_repeats,
    require_alive,
    take_results,
    upload_inputs,
)
from .peers import Peer
from .results import Case, Outcome, summarize

Prepare = Callable[[Machine, Problem, Sequence[Any]], Launch]

TYPES = ("dtype", "acc", "out")
DOUBLES_AT_ONCE = 6
"""Tensors in float64 that a check holds, each as large as the largest of a problem."""


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
