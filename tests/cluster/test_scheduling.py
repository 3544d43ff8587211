"""What a worker that dies, hangs or answers wrong costs, and the simulation, without Ray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tirstep.bench import BenchError
from tirstep.bench.workers import COMPILE, MEASURE, Screened
from tirstep.cluster.scheduling import CompiledCandidate, Event, Scheduler, Task
from tirstep.cluster.simulating import TaskTimes, simulate

Behave = Callable[[str, Task], str]
"""By worker and task: "die", "wrong", "" for all is well."""


@dataclass
class ScriptedEngine:
    """Answers at once; every worker comes back after its death."""

    behave: Behave
    workers: dict[str, list[str]]
    begun: list[tuple[str, list[int]]] = field(default_factory=list)
    dismissed: list[str] = field(default_factory=list)
    _busy: dict[str, Sequence[Task]] = field(default_factory=dict)

    def list_idle(self, step: str) -> list[str]:
        return [it for it in self.workers[step] if it not in self._busy]

    def list_alive(self, step: str) -> list[str]:
        return self.workers[step]

    def begin(self, worker: str, tasks: Sequence[Task]) -> None:
        self._busy[worker] = tasks
        self.begun.append((worker, [int(str(task.config["number"])) for task in tasks]))

    def wait(self) -> list[Event]:
        events = [self._answer(worker, tasks) for worker, tasks in self._busy.items()]
        self._busy = {}
        return events

    def dismiss(self, worker: str, why: str) -> None:
        self.dismissed.append(f"{worker}: {why}")
        self.workers[MEASURE].remove(worker)

    def _answer(self, worker: str, tasks: Sequence[Task]) -> Event:
        did = [self.behave(worker, task) for task in tasks]
        if "die" in did:
            return Event(worker, tasks, None, "crashed: the process died")
        if worker.startswith("c"):
            return Event(worker, tasks, [CompiledCandidate(it) for it in did])
        return Event(
            worker,
            tasks,
            [
                Screened(task.config, None, it) if it else Screened(task.config, 1.0)
                for task, it in zip(tasks, did, strict=True)
            ],
        )


def run(behave: Behave, count: int, measuring: int = 2) -> tuple[ScriptedEngine, dict[int, str]]:
    """The engine afterwards, and by candidate why it is out, empty where it is right."""
    workers = {COMPILE: ["c1", "c2"], MEASURE: [f"m{it}" for it in range(1, measuring + 1)]}
    engine = ScriptedEngine(behave, workers)
    done = run_all(engine, count)
    assert len({number for number, _ in done}) == len(done) == count
    return engine, dict(done)


def run_all(engine: ScriptedEngine, count: int) -> list[tuple[int, str]]:
    """Half of the candidates, and the others while they are under way."""
    scheduler, done = Scheduler(engine), []
    configs = [{"number": number} for number in range(count)]
    for part in (configs[: -(-count // 2)], configs[-(-count // 2) :]):
        scheduler.add(part)
        done += scheduler.step()
    while len(done) < count:
        done += scheduler.step()
    return [(int(str(task.config["number"])), it.reason) for task, it in done]


def test_every_candidate_is_compiled_and_measured_once():
    engine, out = run(lambda worker, task: "", 40)
    assert set(out.values()) == {""}
    for first in "cm":
        taken = sorted(it for worker, its in engine.begun if worker[0] == first for it in its)
        assert taken == list(range(40))
    assert {worker for worker, _ in engine.begun} == {"c1", "c2", "m1", "m2"}


@pytest.mark.parametrize("where", ["c", "m"])
def test_a_candidate_that_kills_its_worker_is_out_after_one_retry_and_alone(where: str):
    def die(worker: str, task: Task) -> str:
        return "die" if worker[0] == where and task.config["number"] == 5 else ""

    engine, out = run(die, 20)
    assert {number: it for number, it in out.items() if it} == {5: "crashed: the process died"}
    taken = [its for worker, its in engine.begun if worker[0] == where and 5 in its]
    assert len(taken) == 2
    assert taken[1] == [5]


def test_what_compiles_to_nothing_is_out_at_once():
    engine, out = run(
        lambda worker, task: "refused: no" if worker[0] == "c" and task.config["number"] else "", 3
    )
    assert out == {0: "", 1: "refused: no", 2: "refused: no"}
    assert len([it for worker, it in engine.begun if worker[0] == "c"]) == 3


def test_a_wrong_candidate_is_asked_of_two_workers():
    engine, out = run(
        lambda worker, task: "wrong" if worker[0] == "m" and task.config["number"] == 3 else "", 9
    )
    assert {number: it for number, it in out.items() if it} == {3: "wrong"}
    assert {worker for worker, its in engine.begun if worker[0] == "m" and 3 in its} == {"m1", "m2"}
    assert not engine.dismissed


def test_a_wrong_worker_costs_no_candidate_and_gets_none_any_more():
    engine, out = run(lambda worker, task: "wrong" if worker == "m1" else "", 60)
    assert set(out.values()) == {""}
    assert engine.dismissed == ["m1: 3 candidates that it found wrong are right elsewhere"]
    last = max(place for place, (worker, _) in enumerate(engine.begun) if worker == "m1")
    assert last < len(engine.begun) - 10


def test_a_single_worker_is_asked_twice():
    engine, out = run(lambda worker, task: "wrong" if worker == "m1" else "", 3, measuring=1)
    assert out == dict.fromkeys(range(3), "wrong")
    assert not engine.dismissed


def test_without_a_worker_the_search_ends_with_a_sentence():
    engine = ScriptedEngine(lambda worker, task: "", {COMPILE: ["c1"], MEASURE: []})
    with pytest.raises(BenchError, match="no worker is left to measure candidates"):
        run_all(engine, 1)


# ---- The simulation


def test_a_simulation_is_right_where_it_can_be_worked_out():
    times = TaskTimes([4.0], [1.0], warm_up=0.0, start=10.0, end=5.0)
    # One core: 20 compilations of 4 s, then the last one is measured.
    alone = simulate(times, 20, gpus=1, cores=1)
    assert alone.seconds == 10 + 20 * 4 + 1 + 5
    assert (alone.limit, alone.compilers) == ("cores that compile", 1)
    # Twenty cores: all compiled at once, and measured one after the other.
    many = simulate(times, 20, gpus=1, cores=20)
    assert many.seconds == 10 + 4 + 20 * 1 + 5
    assert many.limit == "GPUs"
    assert simulate(times, 20, gpus=20, cores=20).seconds == 10 + 4 + 1 + 5
    assert simulate(times, 20, gpus=20, cores=20).limit == "starting, and the finalists on one GPU"
    several = TaskTimes([1.0, 3.0], [1.0], warm_up=0.0, start=0.0, end=0.0)
    assert simulate(several, 2, gpus=2, cores=1).seconds == 3.0 + 1.0


def test_more_gpus_are_never_faster_than_their_number():
    times = TaskTimes([2.0, 5.0, 3.0], [0.2, 0.6], warm_up=0.4, start=15.0, end=4.0)
    one = simulate(times, 500, gpus=1, cores=8).seconds
    for gpus in (2, 8, 100):
        assert 1 < one / simulate(times, 500, gpus=gpus, cores=8).seconds <= gpus


def test_what_failed_is_tried_again_before_what_came_later():
    """A round waits for it."""

    def fail(worker: str, task: Task) -> str:
        if task.failures or task.first or task.config["number"] not in (1, 3):
            return ""
        return "die" if (worker == "c1") == (task.config["number"] == 1) else ""

    engine = ScriptedEngine(fail, {COMPILE: ["c1"], MEASURE: ["m1"]})
    run_all(engine, 12)
    compiled = [it for worker, its in engine.begun if worker == "c1" for it in its]
    assert compiled[:4] == [0, 1, 1, 2]
    measured = [its for worker, its in engine.begun if worker == "m1"]
    dead = next(place for place, its in enumerate(measured) if 3 in its)
    assert measured[dead + 1] == [3]


# ---- Simulated time: who waits

COMPILING = [1.5, 2.0, 0.01, 1.2, 4.5, 1.7, 0.01, 2.2, 1.4, 1.6, 3.5]


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_nobody_waits_where_a_round_ends(gpus: int):
    """The step that takes longest has always something to do, but for the last candidates."""
    few_cores = TaskTimes(COMPILING, [0.01], warm_up=0.4, start=0.0, end=0.0)
    slow_gpus = TaskTimes(COMPILING, [0.4], warm_up=0.4, start=0.0, end=0.0)
    for times, step in ((few_cores, COMPILE), (slow_gpus, MEASURE)):
        done = simulate(times, 1000 * gpus, gpus, cores=15)
        assert done.waited[step] < 0.03
    one_by_one = simulate(few_cores, 1000 * gpus, gpus, cores=15, ahead=0)
    assert one_by_one.waited[COMPILE] > 0.08


def test_what_is_refused_is_not_measured_in_a_simulation():
    times = TaskTimes([4.0, 0.0], [1.0], warm_up=0.0, start=0.0, end=0.0)
    assert simulate(times, 20, gpus=1, cores=20).seconds == 4 + 10
