"""What more GPUs would do: the rounds of a search over workers of a clock that is only counted.

Nothing here was measured on many GPUs: task times are measured, or given, and the rest is
decided by `Rounds` and `Scheduler` as they are. What a network and Ray's own messages take is left
out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from tirstep.bench.attendance import Attendance
from tirstep.bench.rounds import Rounds
from tirstep.bench.search import ROUND
from tirstep.bench.workers import COMPILE, MEASURE, Contest, Screened, Sizes

from .scheduling import WIDTH, CompiledCandidate, Event, Scheduler, Task

REFUSED_SECONDS = 0.05
"""A candidate that compiles in less was refused: nothing compiles so fast."""


@dataclass(frozen=True)
class TaskTimes:
    """Seconds.

    Attributes
    ----------
    compiling, measuring : of each candidate, which take turns where there are more candidates; what
        compiles in less than `REFUSED_SECONDS` is not measured
    warm_up : of a GPU's clocks, once for each group that is measured
    start : of a worker
    end : of the finalists, on one GPU
    """

    compiling: Sequence[float]
    measuring: Sequence[float]
    warm_up: float
    start: float
    end: float


@dataclass(frozen=True)
class Simulated:
    """How a search would go.

    Attributes
    ----------
    seconds : from the first worker's start to the end
    busy : by step, the part of the time that its workers had something to do
    waited : by step, the part of the time from the first candidate to the last that they had not
    """

    gpus: int
    compilers: int
    seconds: float
    busy: dict[str, float]
    waited: dict[str, float]

    @property
    def limit(self) -> str:
        """What more of would help most: the step whose workers wait least."""
        if max(self.busy.values()) < 0.5:
            return "starting, and the finalists on one GPU"
        step = max(self.busy, key=lambda step: self.busy[step])
        return {COMPILE: "cores that compile", MEASURE: "GPUs"}[step]


@dataclass
class _Clock:
    """An engine whose workers take the time that they are said to take, and never fail."""

    times: TaskTimes
    workers: dict[str, list[str]]
    now: float = 0.0
    busy: dict[str, float] = field(default_factory=lambda: {COMPILE: 0.0, MEASURE: 0.0})
    _pending: list[tuple[float, int, str, Sequence[Task]]] = field(default_factory=list)
    _occupied: set[str] = field(default_factory=set)
    _begun: int = 0

    def __post_init__(self) -> None:
        self.attendance = Attendance(lambda: self.now)
        for step, names in self.workers.items():
            for name in names:
                self.attendance.come(name, step)

    def list_idle(self, step: str) -> list[str]:
        return [worker for worker in self.workers[step] if worker not in self._occupied]

    def list_alive(self, step: str) -> list[str]:
        return self.workers[step]

    def begin(self, worker: str, tasks: Sequence[Task]) -> None:
        step, taken = worker.partition(" ")[0], self.times
        number = [_get_number(task.config) for task in tasks]
        if step == COMPILE:
            seconds = sum(taken.compiling[it % len(taken.compiling)] for it in number)
        else:
            seconds = taken.warm_up
            seconds += sum(taken.measuring[it % len(taken.measuring)] for it in number)
        self.busy[step] += seconds
        self.attendance.work(step, seconds)
        self._occupied.add(worker)
        self._begun += 1
        heapq.heappush(self._pending, (self.now + seconds, self._begun, worker, tasks))

    def wait(self) -> list[Event]:
        self.now, _, worker, tasks = heapq.heappop(self._pending)
        self._occupied.discard(worker)
        if worker.startswith(COMPILE):
            return [Event(worker, tasks, [CompiledCandidate(self._refuse(task)) for task in tasks])]
        return [Event(worker, tasks, [Screened(task.config, 1.0) for task in tasks])]

    def _refuse(self, task: Task) -> str:
        compiling = self.times.compiling
        seconds = compiling[_get_number(task.config) % len(compiling)]
        return "refused" if seconds < REFUSED_SECONDS else ""

    def dismiss(self, worker: str, why: str) -> None:
        raise AssertionError(f"{worker} is right: {why}")


class _SimulatedWorkers:
    """The workers of a search, whose scheduler is the true one."""

    def __init__(self, clock: _Clock, gpus: int) -> None:
        self._scheduler, self.width = Scheduler(clock), WIDTH * gpus
        self.attendance = clock.attendance

    def submit(self, configs: Sequence[Sizes]) -> None:
        self.attendance.mark()
        self._scheduler.add(configs)

    def collect(self) -> list[Screened]:
        done = self._scheduler.step()
        self.attendance.mark()
        return [screened for _, screened in done]

    def keep(self, configs: Sequence[Sizes]) -> None:
        """Nothing is kept."""

    def decide(self, configs: Sequence[Sizes]) -> Contest:
        return Contest([None] * len(configs))


def simulate(
    times: TaskTimes, candidates: int, gpus: int, cores: int, ahead: int | None = None
) -> Simulated:
    """A search of so many candidates on so many GPUs, each with so many cores that compile.

    In rounds, as where there is a model of time, of which so many are begun ahead of the one that
    ends, as in a search if that is not said: with 0 all wait for the last candidate of each.
    """
    compilers = min(gpus * cores, candidates)
    workers = {
        COMPILE: [f"{COMPILE} {number}" for number in range(compilers)],
        MEASURE: [f"{MEASURE} {number}" for number in range(gpus)],
    }
    clock = _Clock(times, workers, now=times.start)
    simulated = _SimulatedWorkers(clock, gpus)
    left: list[Sizes] = [{"number": number} for number in range(candidates)]
    size = max(ROUND, simulated.width)

    def take() -> list[Sizes]:
        taken, left[:] = left[:size], left[size:]
        return taken

    for _ in Rounds(simulated, ahead=ahead).run(take):
        pass
    total = clock.now + times.end
    busy = {step: clock.busy[step] / (total * len(workers[step])) for step in workers}
    waited = {it.step: it.part for it in clock.attendance.waited}
    return Simulated(gpus, compilers, total, busy, waited)


def _get_number(config: Sizes) -> int:
    return int(str(config["number"]))
