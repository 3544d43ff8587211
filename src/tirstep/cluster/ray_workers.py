"""Ray's actors as the workers of a search: their starts, their ends, and what goes to them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

from tirstep.bench import BenchError, find_last_line, shorten
from tirstep.bench.attendance import Attendance
from tirstep.bench.search import SearchPlan
from tirstep.bench.session import Settings, Tell
from tirstep.bench.workers import COMPILE, MEASURE, Contest, Screened, Sizes, make_job

from .actors import Compiler, Measurer, PlanSpec, Tools, require_known
from .scheduling import WIDTH, CompiledCandidate, Event, Scheduler, Task

COMPILERS = 32
"""Processes that compile, for each GPU at most: it cannot measure what more of them compile."""
SAME = ("tirstep", "apache-tvm", "cuda", "driver")
"""Versions that workers must have in common: times of others are not theirs."""


@dataclass(frozen=True)
class Limits:
    """Seconds.

    Attributes
    ----------
    start : until a worker has to be there
    measure : for each candidate that a GPU checks and times, and for each finalist
    step : of waiting, before the clock is looked at
    starts : in a row that may fail, before a worker is given up; a number
    """

    start: float = 180.0
    measure: float = 60.0
    step: float = 1.0
    starts: int = 2


@dataclass
class _Worker:
    """An actor, what it does now, and until when."""

    name: str
    step: str
    actor: Any = None
    ref: Any = None
    tasks: Sequence[Task] = ()
    deadline: float = 0.0
    seconds: float = 0.0
    is_up: bool = False
    failed_starts: int = 0

    @property
    def elapsed(self) -> float:
        """Since it got what it does now."""
        return time.monotonic() - (self.deadline - self.seconds)


@dataclass
class RayEngine:
    """The workers of a cluster; the first GPU that is there says which model all have to be.

    Attributes
    ----------
    first : what the first GPU is
    seconds : by step, what each candidate took, which had others beside it on a GPU
    """

    plan: SearchPlan
    settings: Settings
    tools: Tools
    limits: Limits
    warn: Tell
    gpus: int
    compilers: int
    first: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {COMPILE: [], MEASURE: []})
    attendance: Attendance = field(default_factory=Attendance)
    _workers: dict[str, _Worker] = field(default_factory=dict)

    def start(self) -> None:
        """Start all; returns when the first GPU is there.

        Raises `BenchError` where none comes.
        """
        for step, count in ((MEASURE, self.gpus), (COMPILE, self.compilers)):
            for number in range(1, count + 1):
                worker = _Worker(f"{step} {number}", step)
                self._workers[worker.name] = worker
                self._start(worker)
        while not self.first:
            self.wait()
            if not self.list_alive(MEASURE):
                raise BenchError("no worker of the cluster starts; see above why")

    def list_idle(self, step: str) -> list[str]:
        """Which could take something."""
        return [
            it.name
            for it in self._workers.values()
            if it.step == step and it.is_up and it.ref is None
        ]

    def list_alive(self, step: str) -> list[str]:
        """Which are there or on their way."""
        return [it.name for it in self._workers.values() if it.step == step]

    def begin(self, name: str, tasks: Sequence[Task]) -> None:
        """Give a worker candidates."""
        if self._workers[name].step == COMPILE:
            job = make_job(self.plan, tasks[0].config, Path())
            ref = self._workers[name].actor.compile.remote(job, self.first["target"])
            self._occupy(name, ref, tasks, self.plan.compile_limit)
            return
        group = [(task.config, task.compiled) for task in tasks]
        ref = self._workers[name].actor.screen.remote(group)
        self._occupy(name, ref, tasks, self.limits.measure * len(tasks))

    def decide(
        self, name: str, finalists: Sequence[tuple[Sizes, CompiledCandidate | None]]
    ) -> Contest:
        """Let an idle worker time the finalists; raises `TimeoutError` and Ray's errors."""
        limit = self.limits.start + self.limits.measure * len(finalists)
        ref = self._workers[name].actor.decide.remote(finalists)
        contest: Contest = ray.get(ref, timeout=limit)
        return contest

    def wait(self) -> list[Event]:
        """What workers answered, and which died or took too long."""
        busy = [it for it in self._workers.values() if it.ref is not None]
        if not busy:
            return []
        soonest = min(it.deadline for it in busy) - time.monotonic()
        seconds = max(0.0, min(self.limits.step, soonest))
        refs = {it.ref: it for it in busy}
        ready, _ = ray.wait([*refs], num_returns=1, timeout=seconds, fetch_local=False)
        done = [refs[ref] for ref in ready]
        late = [it for it in busy if it not in done and it.deadline <= time.monotonic()]
        events = [self._read(worker) for worker in done]
        events += [self._end(worker, self._describe_hang(worker)) for worker in late]
        return [event for event in events if event is not None]

    def dismiss(self, name: str, why: str) -> None:
        """Leave a worker out from now on, and say so."""
        worker = self._workers.pop(name, None)
        if worker is not None:
            self.attendance.leave(name)
            self.warn(f"left out worker {name}: {why}")
            ray.kill(worker.actor)

    def stop(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            ray.kill(worker.actor)
        self._workers.clear()

    def restart(self, name: str) -> None:
        """Another process in a worker's place."""
        worker = self._workers[name]
        self.attendance.leave(name)
        ray.kill(worker.actor)
        self._start(worker)

    def _start(self, worker: _Worker) -> None:
        if worker.step == MEASURE:
            made = ray.remote(Measurer).options(num_cpus=1, num_gpus=self.tools.gpus)
            worker.actor = made.remote(self.tools, PlanSpec.of(self.plan, self.settings))
        else:
            made = ray.remote(Compiler).options(num_cpus=1, scheduling_strategy="SPREAD")
            worker.actor = made.remote(self.tools)
        worker.is_up = False
        self._occupy(worker.name, worker.actor.describe.remote(), (), self.limits.start)

    def _occupy(self, name: str, ref: Any, tasks: Sequence[Task], seconds: float) -> None:
        worker = self._workers[name]
        worker.ref, worker.tasks, worker.seconds = ref, tasks, seconds
        worker.deadline = time.monotonic() + seconds

    def _read(self, worker: _Worker) -> Event | None:
        try:
            answer = ray.get(worker.ref)
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            if isinstance(cause, BenchError) and not self.first:
                raise cause from error
            return self._end(worker, f"crashed: {shorten(cause)}")
        except RayError as error:
            return self._end(worker, _describe_death(worker, error))
        tasks, worker.ref, worker.tasks = worker.tasks, None, ()
        if not worker.is_up:
            self._welcome(worker, answer)
            return None
        taken = worker.elapsed / len(tasks)
        self.seconds[worker.step] += [taken] * len(tasks)
        answers, worked = answer
        self.attendance.work(worker.step, worked)
        return Event(worker.name, tasks, [answers] if worker.step == COMPILE else answers)

    def _welcome(self, worker: _Worker, facts: dict[str, Any]) -> None:
        """A worker is up, and stays if it is as the first one."""
        worker.is_up, worker.failed_starts = True, 0
        self.attendance.come(worker.name, worker.step)
        if worker.step != MEASURE:
            return
        self.first = self.first or facts
        if reason := find_difference(self.first, facts):
            self.dismiss(worker.name, reason)

    def _end(self, worker: _Worker, failure: str) -> Event | None:
        """A worker failed: another process takes its place, and its tasks are told."""
        tasks, was_up = worker.tasks, worker.is_up
        if was_up:
            self.attendance.work(worker.step, worker.elapsed)
            self.restart(worker.name)
            return Event(worker.name, tasks, None, failure)
        worker.failed_starts += 1
        if worker.failed_starts >= self.limits.starts:
            self.dismiss(worker.name, f"it does not start ({failure})")
        else:
            self.restart(worker.name)
        return None

    def _describe_hang(self, worker: _Worker) -> str:
        did = {COMPILE: "compile", MEASURE: "run"}[worker.step] if worker.is_up else "start"
        return f"took longer than {worker.seconds:g} s to {did}"


def _describe_death(worker: _Worker, error: RayError) -> str:
    """What is told of a process that ended; one that never began has a reason of its own."""
    if not worker.is_up:
        return f"crashed: {find_last_line(error)}"
    how = "the process died" if isinstance(error, RayActorError) else type(error).__name__
    return f"crashed: {how}"


def find_difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Why times of another worker say nothing beside the first one's; empty where they do."""
    names = [f"{it['device']['name']} ({it['device']['architecture']})" for it in (first, other)]
    if names[0] != names[1]:
        return f"its GPU is {names[1]}, the first worker's is {names[0]}, and models are not mixed"
    for name in SAME:
        versions = [it["versions"].get(name, "none") for it in (first, other)]
        if versions[0] != versions[1]:
            return f"it has {name} {versions[1]}, and the first worker has {versions[0]}"
    return ""


def count_workers(plan_gpus: float, gpus: int | None) -> tuple[int, int]:
    """How many workers measure, and how many compile: all GPUs, and the cores that are left.

    Raises `BenchError` for a cluster without GPUs.
    """
    there = ray.cluster_resources()
    measuring = gpus if gpus is not None else int(there.get("GPU", 0) / (plan_gpus or 1))
    if measuring < 1:
        raise BenchError("the cluster has no GPU; join machines that have, with ray start")
    left = int(there.get("CPU", 0)) - measuring
    if left < 1:
        raise BenchError(
            f"the cluster has {int(there.get('CPU', 0))} cores for {measuring} GPUs, and each GPU "
            "takes one; at least one more has to compile"
        )
    return measuring, min(left, COMPILERS * measuring)


class RayWorkers:
    """The workers of a search on the cluster that this process is connected to.

    Attributes
    ----------
    device, versions : of the first worker, and so of all
    """

    def __init__(
        self,
        plan: SearchPlan,
        settings: Settings,
        tell: Tell,
        warn: Tell,
        *,
        tools: Tools | None = None,
        limits: Limits | None = None,
        gpus: int | None = None,
    ) -> None:
        require_known(plan)
        tools = tools or Tools()
        measuring, compiling = count_workers(tools.gpus, gpus)
        self._engine = RayEngine(
            plan, settings, tools, limits or Limits(), warn, measuring, compiling
        )
        self._warn = warn
        self._scheduler = Scheduler(self._engine)
        self._compiled: list[tuple[Sizes, CompiledCandidate | None]] = []
        tell(f"starting {measuring} workers that measure, and {compiling} that compile")
        try:
            self._engine.start()
        except BaseException:
            self._engine.stop()
            raise
        self.device: dict[str, Any] = self._engine.first["device"]
        self.versions: dict[str, str] = self._engine.first["versions"]

    def submit(self, configs: Sequence[Sizes]) -> None:
        """Put them behind those that are there."""
        self.attendance.mark()
        self._scheduler.add(configs)

    def collect(self) -> Sequence[Screened]:
        """What became of candidates, as it comes."""
        while not (done := self._scheduler.step()):
            pass
        self.attendance.mark()
        self._compiled += [(task.config, task.compiled) for task, it in done if it.us is not None]
        return [screened for _, screened in done]

    def keep(self, configs: Sequence[Sizes]) -> None:
        """Of others what they were compiled to goes."""
        self._compiled = [pair for pair in self._compiled if pair[0] in configs]

    def decide(self, configs: Sequence[Sizes]) -> Contest:
        """Time the finalists on one worker; on another one, if it fails or finds none right.

        Raises `BenchError` where none can.
        """
        known = [
            next((it for it in self._compiled if it[0] == one), (one, None)) for one in configs
        ]
        tried: list[str] = []
        contest: Contest | None = None
        while name := self._await_idle(tried):
            tried.append(name)
            try:
                contest = self._engine.decide(name, known)
            except (RayError, TimeoutError) as error:
                self._warn(f"worker {name} did not time the finalists ({type(error).__name__})")
                self._engine.restart(name)
                continue
            if any(contest.times):
                return contest
        if contest is None:
            raise BenchError(
                "no worker could time the finalists; give the same command again with --trials, "
                "which goes on from what was kept"
            )
        return contest

    @property
    def width(self) -> int:
        """Some for each GPU that is there."""
        return WIDTH * len(self._engine.list_alive(MEASURE))

    @property
    def attendance(self) -> Attendance:
        """Who was there, and how long they had something to do by their own clocks."""
        return self._engine.attendance

    @property
    def seconds(self) -> Mapping[str, Sequence[float]]:
        """By step, what each candidate took: what `simulate` goes by."""
        return self._engine.seconds

    def describe(self) -> str:
        """What measures: ``2 x NVIDIA H200``, those that are on their way included."""
        return f"{len(self._engine.list_alive(MEASURE))} x {self.device['name']}"

    def stop(self) -> None:
        """End the workers."""
        self._engine.stop()

    def _await_idle(self, tried: Sequence[str]) -> str | None:
        """A worker that has nothing to do and was not tried yet; None if there is none."""
        engine = self._engine
        while True:
            idle = [it for it in engine.list_idle(MEASURE) if it not in tried]
            if idle:
                return idle[0]
            if not [it for it in engine.list_alive(MEASURE) if it not in tried]:
                return None
            engine.wait()
