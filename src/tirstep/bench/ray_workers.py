"""The workers of a search on a cluster: on each GPU an actor of Ray's, which is a local search's
machinery with processes that compile beside it.

An actor that dies or hangs is started again, and costs each candidate that it had one retry, alone.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import ray
from ray.exceptions import RayActorError, RayError

from tirstep.modules import get_kernel

from . import BenchError, find_last_line
from .compile_pool import find_recipe_of
from .peers import PEERS
from .search import SearchPlan
from .session import Settings, Tell
from .workers import Contest, LocalWorkers, Sizes, Trial

if TYPE_CHECKING:
    from .torch_machine import TorchMachine as Machine

GROUP = 8
"""Candidates that a GPU measures at once: warming it up takes its time."""
START_SECONDS = 180.0
"""Until a worker has to be there."""
MEASURE_SECONDS = 20.0
"""For each candidate that a GPU checks and times, and for each finalist."""
SAME = ("tirstep", "apache-tvm", "cuda", "driver")
"""Versions that workers must have in common: times of others are not theirs."""
NONE_LEFT = (
    "no worker is left to measure candidates; see the reasons above, mend the cluster, and "
    "repeat the command, which resumes from --trials"
)


Make: TypeAlias = "Callable[[], Machine] | None"
"""Makes a machine that needs no GPU, in tests."""


class GpuWorker(LocalWorkers):
    """What runs in an actor: one GPU, and so many processes that compile for it.

    It is told the plan in names and values; its machine has the same recipes.
    """

    def __init__(
        self, recipe: str, sizes: Sizes, settings: Settings, limit: float, count: int, make: Make
    ) -> None:
        from tirstep.programs.benching import find_peer

        if make is None:
            from .torch_machine import TorchMachine

            make = TorchMachine
        found = find_recipe_of(recipe)
        problem = get_kernel(found.kernel).problem(**sizes)
        plan = SearchPlan(found, problem, compile_limit=limit, peer=find_peer(found))
        super().__init__(plan, make(), settings, lambda line: None, count, GROUP)

    def describe(self) -> dict[str, Any]:
        """Its device, its versions, and what of these has to be as on other workers."""
        device, versions = dict(self.device), dict(self.versions)
        same = ", ".join(f"{name} {versions.get(name, 'none')}" for name in SAME)
        same = f"{device['name']} ({device['architecture']}), {same}"
        return {"device": device, "versions": versions, "same": same}

    def work(self, configs: Sequence[Sizes], keep: Sequence[Sizes]) -> list[Trial]:
        """What became of some candidates."""
        self.submit(configs)
        done: list[Trial] = []
        while len(done) < len(configs):
            done += self.collect()
        self.keep([*keep, *configs])
        return done


@dataclass
class _Worker:
    """An actor, what it answers next and until when, and the candidates that it has."""

    name: str
    actor: Any = None
    ref: Any = None
    has: list[Sizes] = field(default_factory=list)
    seconds: float = 0.0
    deadline: float = 0.0
    is_up: bool = False

    def expect(self, ref: Any, seconds: float) -> None:
        """An answer within so many seconds."""
        self.ref, self.seconds, self.deadline = ref, seconds, time.monotonic() + seconds


class RayWorkers:
    """The workers of a search on the cluster that this process is connected to.

    The first GPU that is there says which model all have to be, and is its `device` and
    `versions`. Raises `BenchError` where no worker starts.
    """

    def __init__(
        self, plan: SearchPlan, settings: Settings, tell: Tell, warn: Tell, make: Make = None
    ) -> None:
        if not plan.recipe.spelling and plan.peer is not PEERS["torch"]:
            name = plan.peer.name
            raise BenchError(f"{name} runs only in this process; leave --cluster out")
        count, self._compilers = count_workers()
        tell(f"starting {count} workers that measure, with {self._compilers} each that compile")
        self._actor = ray.remote(GpuWorker).options(num_gpus=1, num_cpus=1 + self._compilers)
        name, problem = plan.recipe.spelling or plan.recipe.name, plan.problem
        sizes, limit = {**problem.shape, **problem.options}, plan.compile_limit
        self._given = (name, sizes, settings, limit, self._compilers, make)
        self._warn, self._compile_limit = warn, limit
        self._todo, self._retries = deque[Sizes](), deque[Sizes]()
        self._retried: list[Sizes] = []
        self._keep: Sequence[Sizes] = ()
        self._first: dict[str, Any] = {}
        self._workers = [_Worker(str(number)) for number in range(1, count + 1)]
        for worker in self._workers:
            self._start(worker)
        while not self._first:
            self._step()
        self.device, self.versions = self._first["device"], self._first["versions"]

    def describe(self) -> str:
        """What measures: ``2 x NVIDIA H200``, those that are on their way included."""
        return f"{len(self._workers)} x {self.device['name']}"

    def submit(self, configs: Sequence[Sizes]) -> None:
        """Put them behind those that are there."""
        self._todo.extend(configs)

    def collect(self) -> Sequence[Trial]:
        """What became of candidates, as it comes; raises `BenchError` when no worker is left."""
        while True:
            for worker in self._workers:
                if worker.is_up and worker.ref is None:
                    self._give(worker)
            if done := self._step():
                return done

    def keep(self, configs: Sequence[Sizes]) -> None:
        """Drop all others from the devices."""
        self._keep = [*configs]

    def decide(self, configs: Sequence[Sizes]) -> Contest:
        """Time the finalists on one worker; on another one, if it fails or finds none right.

        Raises `BenchError` where none can.
        """
        contest: Contest | None = None
        seconds = START_SECONDS + MEASURE_SECONDS * len(configs)
        for worker in [*self._workers]:
            try:
                contest = ray.get(worker.actor.decide.remote(configs), timeout=seconds)
            except (RayError, TimeoutError) as error:
                why = type(error).__name__
                self._dismiss(worker, f"it did not time the finalists ({why})")
            if contest is not None and any(contest.times):
                return contest
        if contest is None:
            raise BenchError(NONE_LEFT)
        return contest

    def stop(self) -> None:
        """End all workers."""
        while self._workers:
            ray.kill(self._workers.pop().actor)

    def _start(self, worker: _Worker) -> None:
        """A process in a worker's place."""
        worker.actor, worker.is_up = self._actor.remote(*self._given), False
        worker.expect(worker.actor.describe.remote(), START_SECONDS)

    def _give(self, worker: _Worker) -> None:
        """Candidates for a worker that has none; a retry goes before others, and alone."""
        if self._retries:
            worker.has = [self._retries.popleft()]
        else:
            share = -(-len(self._todo) // len(self._workers))
            room = min(self._compilers + 2 * GROUP, share)
            worker.has = [self._todo.popleft() for _ in range(room)]
        if worker.has:
            turns = -(-len(worker.has) // self._compilers)
            seconds = turns * self._compile_limit + len(worker.has) * MEASURE_SECONDS
            worker.expect(worker.actor.work.remote(worker.has, self._keep), seconds)

    def _step(self) -> list[Trial]:
        """Wait for what happens next; what became of candidates, which may be nothing."""
        if not self._workers:
            raise BenchError(NONE_LEFT)
        busy = [it for it in self._workers if it.ref is not None]
        left = max(0.0, min(it.deadline for it in busy) - time.monotonic())
        ready, _ = ray.wait([it.ref for it in busy], timeout=left, fetch_local=False)
        out: list[Trial] = []
        for worker in busy:
            if worker.ref in ready:
                try:
                    answer = ray.get(worker.ref)
                except RayError as error:
                    died = worker.is_up and isinstance(error, RayActorError)
                    why = "the process died" if died else find_last_line(error)
                    out += self._fail(worker, f"crashed: {why}")
                    continue
                worker.ref = None
                if worker.is_up:
                    out += answer
                    continue
                worker.is_up, self._first = True, self._first or answer
                if answer["same"] != self._first["same"]:
                    why = f"it is {answer['same']}, and the first worker is {self._first['same']}"
                    self._dismiss(worker, f"{why}: models and versions are not mixed")
            elif worker.deadline <= time.monotonic():
                out += self._fail(worker, f"took longer than {worker.seconds:g} s")
        return out

    def _fail(self, worker: _Worker, failure: str) -> list[Trial]:
        """Another process takes a worker's place; its candidates get one retry, and are out after
        that.
        """
        again = [config for config in worker.has if config not in self._retried]
        out = [Trial(it, (), failure) for it in worker.has if it in self._retried]
        self._retries += again
        self._retried += again
        worker.has = []
        if worker.is_up:
            ray.kill(worker.actor)
            self._start(worker)
        else:
            self._dismiss(worker, f"it does not start ({failure})")
        return out

    def _dismiss(self, worker: _Worker, why: str) -> None:
        """Leave a worker out from now on, and say so."""
        self._workers.remove(worker)
        self._warn(f"left out worker {worker.name}: {why}")
        ray.kill(worker.actor)


def count_workers() -> tuple[int, int]:
    """How many GPUs the cluster has, and how many processes compile for each, on its own machine.

    A GPU takes a core, and at least one more to compile. Raises `BenchError` without such a GPU.
    """
    nodes = [it["Resources"] for it in ray.nodes() if it["Alive"]]
    nodes = [it for it in nodes if it.get("CPU", 0) >= 2 * it.get("GPU", math.inf)]
    if not nodes:
        raise BenchError("the cluster has no GPU; join machines that have, with two cores for each")
    return int(sum(it["GPU"] for it in nodes)), int(min(it["CPU"] // it["GPU"] for it in nodes)) - 1
