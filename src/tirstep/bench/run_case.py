"""Runs one case: candidates compute the same inputs, are checked, and take turns at the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tirstep.lowering_checks.devices.device import blank
from tirstep.modules import Problem
from tirstep.modules.errors import KernelError
from tirstep.transforms.errors import TransformError

from . import PeerMissing, shorten
from .accuracy import Expectation, Reference
from .candidates import BuiltAhead, Contender, find_contenders, find_shortage
from .cases import Work
from .machine import Launch, Machine, Replay, plan_repeats, require_alive
from .results import Case, Outcome, summarize

Tell = Callable[[str], None]
"""Takes one line of progress."""


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Attributes
    ----------
    rounds : runs of each contender
    budget : seconds that a contender may run for the clock; slow ones run less often
    seed : of the random inputs; each case draws others
    """

    rounds: int = 50
    budget: float = 1.0
    seed: int = 0


@dataclass
class Entrant:
    """A contender that computed the right result, and its outcome so far."""

    contender: Contender
    replay: Replay
    outcome: Outcome
    place: int


def run_case(
    work: Work,
    machine: Machine,
    settings: Settings,
    tell: Tell,
    find_reference: Callable[[], Reference] | None = None,
    built: BuiltAhead | None = None,
) -> Case:
    """Measure a work.

    `find_reference` has its inputs, which are drawn here without it, and `built` what was compiled
    ahead.

    A contender that fails or is wrong gets no time, and a reason; the others go on. A shape for
    which the device has too little memory is skipped. Raises `BenchError` where a contender leaves
    the device unusable.
    """
    problem = work.problem
    case = Case(
        work.suite,
        problem.kernel.name,
        dict(problem.shape),
        dict(problem.options),
        problem.flops,
        problem.bytes,
    )
    if shortage := find_shortage(problem, machine):
        return replace(case, skipped=shortage)
    reference = find_reference() if find_reference else draw_reference(work, settings)
    tensors = [machine.upload(array) for array in reference.inputs]
    output = machine.upload(blank(problem.outputs[0]))
    expectation = machine.expect(reference)
    field = _Field(problem, machine, settings, [*tensors, output], expectation, tell)
    outcomes = field.run([*find_contenders(work, built or {})])
    del tensors, output, expectation, field
    machine.clear()
    return replace(case, outcomes=tuple(outcomes))


def draw_reference(work: Work, settings: Settings) -> Reference:
    """The inputs of a work."""
    return Reference(work.problem, work.problem.float_inputs(settings.seed))


@dataclass
class _Field:
    """What all contenders of a case share."""

    problem: Problem
    machine: Machine
    settings: Settings
    arguments: Sequence[Any]
    expectation: Expectation
    tell: Tell

    def run(self, contenders: Sequence[Contender]) -> list[Outcome]:
        outcomes, entrants = [], []
        for place, contender in enumerate(contenders):
            self.tell(f"{self.problem.kernel.name} {contender.name}")
            outcome, replay = self._admit(contender)
            outcomes.append(outcome)
            if replay is not None:
                entrants.append(Entrant(contender, replay, outcome, place))
        self.tell(f"{self.problem.kernel.name}: timing {len(entrants)} contenders")
        for entrant, outcome in zip(entrants, self._time(entrants), strict=True):
            outcomes[entrant.place] = outcome
        return outcomes

    def _admit(self, contender: Contender) -> tuple[Outcome, Replay | None]:
        """Prepare, run once, check. A contender is not timed unless its result is right."""
        outcome = Outcome(contender.name, contender.kind, "ok", config=contender.config)
        try:
            launch = contender.prepare(self.machine, self.problem, self.arguments)
            replay = self._make_replay(contender, launch)
            error = self._check(contender, replay)
        except (PeerMissing, TransformError, KernelError) as error_:
            return replace(outcome, status="missing", note=shorten(error_)), None
        except Exception as error_:  # whatever a framework raises: the others still run
            require_alive(self.machine, contender.name, error_)
            return replace(outcome, status="failed", note=shorten(error_)), None
        if error is not None:
            return replace(outcome, status="wrong", note=error), None
        return replace(outcome, launched=replay.launched), replay

    def _make_replay(self, contender: Contender, launch: Launch) -> Replay:
        if contender.kind == "cpu":
            return Replay(launch, None, "call")
        self.machine.poison(self.arguments[-1])
        return self.machine.record(launch, self.arguments[-1])

    def _check(self, contender: Contender, replay: Replay) -> str | None:
        if contender.kind != "cpu":
            self.machine.poison(replay.output)
        result = replay.run()  # a launch may return another tensor each time
        output = replay.output if result is None else result
        return self.machine.find_error(self.expectation, output)

    def _time(self, entrants: Sequence[Entrant]) -> Iterator[Outcome]:
        on_gpu = [one for one in entrants if one.contender.kind != "cpu"]
        replays = [one.replay for one in on_gpu]
        first = [one[0] for one in self.machine.time(replays, [1] * len(replays))]
        repeats = plan_repeats(first, self.settings.rounds, self.settings.budget)
        seconds = iter(self.machine.time(replays, repeats))
        for entrant in entrants:
            if entrant.contender.kind == "cpu":
                yield self._finish(entrant, self._time_on_cpu(entrant))
            else:
                yield self._finish(entrant, next(seconds))

    def _time_on_cpu(self, entrant: Entrant) -> list[float]:
        launch = entrant.replay.run
        (repeats,) = plan_repeats(
            self.machine.time_cpu(launch, 1), self.settings.rounds, self.settings.budget
        )
        return self.machine.time_cpu(launch, repeats)

    def _finish(self, entrant: Entrant, seconds: Sequence[float]) -> Outcome:
        """The outcome with its time, if the result is still right."""
        if error := self._check(entrant.contender, entrant.replay):
            return replace(entrant.outcome, status="wrong", note=f"after the timed runs, {error}")
        return replace(entrant.outcome, time=summarize(seconds))
