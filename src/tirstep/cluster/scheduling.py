"""Who takes which candidate, and what a worker that dies, hangs or answers wrong costs.

The same code schedules for real (an engine of Ray's actors) and in a simulation. Some workers
compile and others, one on each GPU, check and time. A failure costs a candidate one retry.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tirstep.bench import BenchError
from tirstep.bench.workers import COMPILE, MEASURE, Screened, Sizes

GROUP = 8
"""Candidates that a GPU takes at once, where so many wait: warming it up takes its time."""
WIDTH = 8 * GROUP
"""Candidates of a round for each GPU."""
STRIKES = 3
"""Answers that other workers refute, before a worker gets no more candidates."""


@dataclass(frozen=True)
class CompiledCandidate:
    """What a candidate was compiled to.

    Attributes
    ----------
    reason : why it did not compile; empty where it did
    library : the file's bytes; None where there is no linker, so that who measures compiles
    workspaces : of the library, as JSON
    """

    reason: str = ""
    library: bytes | None = field(default=None, repr=False)
    workspaces: str = ""


@dataclass
class Task:
    """A candidate on its way.

    Attributes
    ----------
    failures : how often it failed at the step where it is
    first : the worker that found it wrong, and what it found
    """

    config: Sizes
    failures: int = 0
    first: tuple[str, Screened] | None = None
    compiled: CompiledCandidate | None = None


@dataclass(frozen=True)
class Event:
    """A worker's answer.

    Attributes
    ----------
    answers : by task; None where the worker failed
    failure : how: ``crashed: ...`` or ``took longer than ...``
    """

    worker: str
    tasks: Sequence[Task]
    answers: Sequence[CompiledCandidate | Screened] | None
    failure: str = ""


class Engine(Protocol):
    """Workers by name; those that failed come back by themselves, or never."""

    def list_idle(self, step: str) -> list[str]:
        """Which workers of a step could take something."""

    def list_alive(self, step: str) -> list[str]:
        """Which workers of a step are there, or are on their way."""

    def begin(self, worker: str, tasks: Sequence[Task]) -> None:
        """Give an idle worker something to do."""

    def wait(self) -> list[Event]:
        """What happened; returns after a while even if nothing did."""

    def dismiss(self, worker: str, why: str) -> None:
        """A worker gets nothing any more."""


class Scheduler:
    """Candidates over the workers of an engine, in the order in which they came.

    What failed goes first when it is tried again: whoever waits for its round waits for it.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._raw: deque[Task] = deque()
        self._ready: deque[Task] = deque()
        self._strikes: Counter[str] = Counter()
        self._left = 0

    def add(self, configs: Sequence[Sizes]) -> None:
        """Some more candidates; whoever is idle begins with them at once."""
        self._raw.extend(Task(config) for config in configs)
        self._left += len(configs)
        self._give()

    def step(self) -> list[tuple[Task, Screened]]:
        """Wait for what happens next; returns what became of candidates, which may be nothing.

        Raises `BenchError` when no worker is left that could do what is left to do.
        """
        done = [it for event in self._engine.wait() for it in self._take(event)]
        self._left -= len(done)
        self._give()
        if self._left:
            self._require_workers()
        return done

    def _give(self) -> None:
        for worker in self._engine.list_idle(COMPILE):
            if self._raw:
                self._engine.begin(worker, [self._raw.popleft()])
        idle = self._engine.list_idle(MEASURE)
        for place, worker in enumerate(idle):
            share = -(-len(self._ready) // (len(idle) - place))
            if group := self._pick(worker, min(GROUP, share)):
                self._engine.begin(worker, group)

    def _pick(self, worker: str, count: int) -> list[Task]:
        """So many that a worker may take; one that failed before goes alone."""
        others = [it for it in self._engine.list_alive(MEASURE) if it != worker]
        group: list[Task] = []
        for task in [*self._ready]:
            if task.first is not None and task.first[0] == worker and others:
                continue  # somebody else has to say
            is_suspect = bool(task.failures or task.first)
            if len(group) == count or (is_suspect and group):
                break
            self._ready.remove(task)
            group.append(task)
            if is_suspect:
                break
        return group

    def _take(self, event: Event) -> Iterator[tuple[Task, Screened]]:
        if event.answers is None:
            for task in event.tasks:
                task.failures += 1
                if task.failures > 1:
                    yield task, Screened(task.config, None, event.failure)
                else:
                    (self._raw if task.compiled is None else self._ready).appendleft(task)
            return
        for task, answer in zip(event.tasks, event.answers, strict=True):
            if isinstance(answer, CompiledCandidate):
                if answer.reason:
                    yield task, Screened(task.config, None, answer.reason)
                    continue
                task.compiled, task.failures = answer, 0
                self._ready.append(task)
            elif self._is_final(event.worker, task, answer):
                yield task, answer

    def _is_final(self, worker: str, task: Task, answer: Screened) -> bool:
        """Whether an answer stands; what is out is asked once more, of another worker if any."""
        if task.first is None:
            if answer.us is not None:
                return True
            task.first = (worker, answer)
            self._ready.appendleft(task)
            return False
        accused = task.first[0]
        if answer.us is not None and accused != worker:
            self._strikes[accused] += 1
            if self._strikes[accused] == STRIKES:
                self._engine.dismiss(
                    accused, f"{STRIKES} candidates that it found wrong are right elsewhere"
                )
        return True

    def _require_workers(self) -> None:
        needed = {COMPILE: self._raw, MEASURE: True}
        for step, waiting in needed.items():
            if waiting and not self._engine.list_alive(step):
                raise BenchError(
                    f"no worker is left to {step} candidates; see above why, mend the cluster, "
                    "and give the same command again"
                )
