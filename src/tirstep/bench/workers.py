"""Who compiles, checks and times the candidates of a search: this process, or others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from tirstep.processes import count_cores

from . import BenchError
from .compile_pool import CompileJob, CompilePool, name_library
from .peers import PEERS
from .results import Time, summarize
from .session import (
    Reference,
    Replay,
    Runner,
    Settings,
    Tell,
    Tried,
    describe_shortage,
    prepare_peer,
    prepare_recipe,
)

if TYPE_CHECKING:
    from .search import SearchPlan
    from .torch_machine import TorchMachine as Machine

Sizes = dict[str, object]

SCREENING_ROUNDS = 5
BATCH = 32
"""Candidates that take turns at the clock together."""
HOPELESS = 3.0
"""Times slower than the fastest of a batch: not worth a second look."""


@dataclass(frozen=True)
class Trial:
    """What became of a candidate of a search or a tuning.

    Attributes
    ----------
    seconds : of each run; empty where it is out
    reason : why it is out
    program : the hash of the scheduled module, where a tuning knows it
    """

    config: Mapping[str, object]
    seconds: tuple[float, ...] = ()
    reason: str = ""
    program: str = ""


@dataclass(frozen=True)
class Contest:
    """The finalists' times, in their order, None for one that is not right; and the peer's.

    `peer_error` is why a peer of the user's has none.
    """

    times: list[Time | None]
    peer: Time | None = None
    peer_error: str = ""


@dataclass
class LocalWorkers:
    """This process measures on its machine, and so many processes beside it compile ahead of it:
    one for each other core where no number is given.

    Raises `BenchError` where the device has too little memory, or a candidate leaves it unusable.
    """

    plan: SearchPlan
    machine: Machine
    settings: Settings
    tell: Tell
    processes: int = 0
    batch: int = BATCH
    _checked: list[tuple[Sizes, Replay]] = field(default_factory=list)
    _compiling: dict[Future[str], CompileJob] = field(default_factory=dict)
    _done: SimpleQueue[Future[str]] = field(default_factory=SimpleQueue)
    _compiled: list[CompileJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        problem, machine = self.plan.problem, self.machine
        if shortage := describe_shortage(problem, machine):
            raise BenchError(f"{problem} {shortage}; search at a smaller shape")
        self._inputs = problem.integer_inputs(self.settings.seed)
        self._runner = Runner(machine, Reference(problem, self._inputs, problem.is_exact))
        limit, cores = self.plan.compile_limit, count_cores() - 1
        count = self.processes or max(1, min(cores, self.plan.limit or cores))
        self._pool = CompilePool(machine.target, limit=limit, processes=count)
        self.device, self.versions = machine.device, machine.versions

    def submit(self, configs: Sequence[Sizes]) -> None:
        """Have each compiled, checked and timed once, after those that were submitted before, by
        processes that live until `stop`.
        """
        recipe, problem = self.plan.recipe, self.plan.problem
        name, shape, options = recipe.spelling or recipe.name, problem.shape, problem.options
        for config in configs:
            job = CompileJob(name, dict(shape), dict(options), config, str(name_library()))
            future = self._pool.compile(job)
            self._compiling[future] = job
            future.add_done_callback(self._done.put)

    def collect(self) -> Sequence[Trial]:
        """What became of some that were submitted: check and time a batch of what compiled, while
        others still compile.
        """
        while True:
            is_batch = len(self._compiled) >= self.batch
            if out := self._gather(wait=not is_batch):
                return out
            if self._compiled and (is_batch or not self._compiling):
                batch, self._compiled = self._compiled[: self.batch], self._compiled[self.batch :]
                return self.measure(batch)

    def _gather(self, *, wait: bool) -> list[Trial]:
        """Take what compiled; returns what did not. Waits for one if that is asked for."""
        out: list[Trial] = []
        while self._compiling:
            try:
                future = self._done.get(block=wait)
            except Empty:
                break
            job, wait = self._compiling.pop(future), False
            if reason := self._pool.read(future):
                out.append(Trial(job.config, (), reason))
            else:
                self._compiled.append(job)
        self.tell(f"{len(self._compiling)} candidates are left to compile")
        return out

    def stop(self) -> None:
        """End the processes that compile."""
        self._pool.close()

    def measure(self, jobs: Sequence[CompileJob]) -> list[Trial]:
        """Check what compiled, and time together what is right: roughly, and what is far slower
        than the fastest once.
        """
        out, right = list[Trial](), list[tuple[Sizes, Replay]]()
        for job in jobs:
            config, tried = dict(job.config), self._try(dict(job.config), Path(job.library))
            if tried.replay is not None:
                right.append((config, tried.replay))
            else:
                reason = "wrong" if tried.status == "wrong" else f"does not run: {tried.note}"
                out.append(Trial(config, (), reason))
        if not right:
            return out
        self._checked += right
        replays = [replay for _, replay in right]
        first = [seconds[0] for seconds in self.machine.time(replays, [1] * len(replays))]
        repeats = [SCREENING_ROUNDS if seconds < HOPELESS * min(first) else 1 for seconds in first]
        timed = zip(right, self.machine.time(replays, repeats), strict=True)
        return [*out, *(Trial(config, tuple(it)) for (config, _), it in timed)]

    def keep(self, configs: Sequence[Sizes]) -> None:
        """Only these may come to `decide`: of others nothing stays on the device."""
        self._checked = [pair for pair in self._checked if pair[0] in configs]

    def decide(self, configs: Sequence[Sizes]) -> Contest:
        """The fastest wins, on random floats: small whole numbers make a GPU a little faster.

        What another run or process has measured is checked first. Peers of the table are not held
        against exact results, since they may sum in another type; one of the user's is.
        """
        peer, runner = self.plan.peer, self._runner
        finalists = []
        for config in configs:
            known = (replay for checked, replay in self._checked if checked == config)
            finalists.append(next(known, None) or self._try(config).replay)
        is_own = PEERS.get(peer.name) is not peer
        tried, error = runner.try_once(peer.name, prepare_peer(peer), is_checked=is_own), ""
        if tried.status == "failed":
            error = f"does not run: {tried.note}"
        elif tried.status == "wrong":
            error = f"computes something else: {tried.note}"
        runner.fill(self.plan.problem.float_inputs(self.settings.seed))
        replays = [each for each in (*finalists, tried.replay) if each is not None]
        seconds = self.machine.time(replays, [self.settings.rounds] * len(replays))
        runner.fill(self._inputs)  # what is checked after this is held against these
        times = iter([summarize(each) for each in seconds])
        found = [None if each is None else next(times) for each in finalists]
        return Contest(found, None if tried.replay is None else next(times), error)

    def _try(self, config: Sizes, library: Path | None = None) -> Tried:
        recipe = self.plan.recipe
        spelt = " ".join(f"--set {name}={value}" for name, value in config.items())
        prepare = prepare_recipe(recipe, config, library)
        return self._runner.try_once(f"{recipe.name} with {spelt}", prepare)
