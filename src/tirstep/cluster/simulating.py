"""What more GPUs would do: the scheduler over workers of a clock that is only counted.

Nothing here was measured on many GPUs: task times are measured, or given, and the rest is
the scheduler's own decisions. What a network and Ray's own messages take is left out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from tirstep.bench.search import ROUND
from tirstep.bench.workers import Screened, Sizes

from .scheduling import COMPILE, MEASURE, WIDTH, Compiled, Event, Scheduler, Task


@dataclass(frozen=True)
class TaskTimes:
    """Seconds.

    Attributes
    ----------
    compiling, measuring : of each candidate, which take turns where there are more candidates
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
    """

    gpus: int
    compilers: int
    seconds: float
    busy: dict[str, float]

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

    def list_idle(self, step: str) -> list[str]:
        return [worker for worker in self.workers[step] if worker not in self._occupied]

    def list_alive(self, step: str) -> list[str]:
        return self.workers[step]

    def begin(self, worker: str, tasks: Sequence[Task]) -> None:
        step, taken = worker.partition(" ")[0], self.times
        number = [int(str(task.config["number"])) for task in tasks]
        if step == COMPILE:
            seconds = sum(taken.compiling[it % len(taken.compiling)] for it in number)
        else:
            seconds = taken.warm_up
            seconds += sum(taken.measuring[it % len(taken.measuring)] for it in number)
        self.busy[step] += seconds
        self._occupied.add(worker)
        self._begun += 1
        heapq.heappush(self._pending, (self.now + seconds, self._begun, worker, tasks))

    def wait(self) -> list[Event]:
        self.now, _, worker, tasks = heapq.heappop(self._pending)
        self._occupied.discard(worker)
        if worker.startswith(COMPILE):
            return [Event(worker, tasks, [Compiled() for _ in tasks])]
        return [Event(worker, tasks, [Screened(task.config, 1.0) for task in tasks])]

    def dismiss(self, worker: str, why: str) -> None:
        raise AssertionError(f"{worker} is right: {why}")


def simulate(times: TaskTimes, candidates: int, gpus: int, cores: int) -> Simulated:
    """A search of so many candidates on so many GPUs, each with so many cores that compile.

    In rounds, as where there is a model of time: the next one waits for the last of a round.
    """
    compilers = min(gpus * cores, candidates)
    workers = {
        COMPILE: [f"{COMPILE} {number}" for number in range(compilers)],
        MEASURE: [f"{MEASURE} {number}" for number in range(gpus)],
    }
    clock = _Clock(times, workers, now=times.start)
    size = max(ROUND, WIDTH * gpus)
    for begin in range(0, candidates, size):
        round_: list[Sizes] = [
            {"number": number} for number in range(begin, min(begin + size, candidates))
        ]
        for _ in Scheduler(clock).run(round_):
            pass
    total = clock.now + times.end
    busy = {step: clock.busy[step] / (total * len(workers[step])) for step in workers}
    return Simulated(gpus, compilers, total, busy)
