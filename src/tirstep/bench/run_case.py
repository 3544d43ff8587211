"""Runs one case: candidates compute the same inputs, are checked, and take turns at the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.modules.validation import KernelError
from tirstep.transforms.errors import TransformError

from . import PeerMissing, shorten
from .accuracy import Expectation, Reference
from .candidates import (
    Candidate,
    CompiledAhead,
    describe_shortage,
    get_case_options,
    list_candidates,
)
from .cases import PlannedCase
from .machine import (
    Launch,
    Machine,
    Replay,
    find_first_error,
    plan_repeats,
    require_alive,
    take_results,
)
from .results import Case, Outcome, summarize

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
    tensors = [machine.upload(array) for array in reference.inputs]
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
