"""Rounds of a search: who is fast does not say what is next, and nobody waits within a round."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from fake_machine import FakeMachine
from fake_pool import FakePool, compile_here

from tirstep.bench import search as search_module
from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.search import SearchPlan, SearchResult, list_configs, search, search_with
from tirstep.bench.session import Settings
from tirstep.bench.workers import BATCH, Contest, Screened, Sizes
from tirstep.modules import matmul
from tirstep.transforms.recipes import RECIPES
from tirstep.transforms.recipes.forecast import make_forecast
from tirstep.transforms.recipes.gpus import H200

Pick = Callable[[list[Sizes]], int]
"""The place of the candidate that is done next."""


class ListedWorkers:
    """One candidate after the other is done, in the order that `pick` says."""

    width = 1

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.submitted: list[list[Sizes]] = []
        self.left: list[Sizes] = []

    def submit(self, configs: Sequence[Sizes]) -> None:
        self.submitted.append([*configs])
        self.left += configs

    def collect(self) -> Sequence[Screened]:
        config = self.left.pop(self.pick(self.left))
        return [Screened(dict(config), measure(config))]

    def keep(self, configs: Sequence[Sizes]) -> None:
        pass

    def decide(self, configs: Sequence[Sizes]) -> Contest:
        return Contest([None] * len(configs))


class Memory:
    """What was kept of another search."""

    def __init__(self, known: Sequence[Screened] = ()) -> None:
        self.known = [*known]
        self.asked: list[Sizes] = []

    def find(self, config: Sizes) -> Screened | None:
        self.asked.append(config)
        return next((it for it in self.known if it.config == config), None)

    def add(self, screened: Screened) -> None:
        self.known.append(screened)


PREFETCHED = RECIPES["matmul_prefetched"]
PROBLEM = matmul.problem(256, 256, 64)
FORECAST = make_forecast(PREFETCHED, PROBLEM, H200)
FIXED = {"thread_tile": (4, 4), "warp": (4, 8), "interleave": 1, "stages": 2}
PLAN = SearchPlan(PREFETCHED, PROBLEM, FIXED, forecast=FORECAST)
assert FORECAST is not None
PROMISING = FORECAST.get_tile(
    min(list_configs(PREFETCHED, FIXED, limit=None, seed=0), key=FORECAST.predict)
)


def first(left: list[Sizes]) -> int:
    return 0


def last(left: list[Sizes]) -> int:
    return -1


def measure(config: Sizes) -> float:
    """What promises most takes three times as long."""
    assert FORECAST is not None
    is_worse = FORECAST.get_tile(config) == PROMISING
    return FORECAST.predict(config) * (3.0 if is_worse else 1.1)


def propose(
    monkeypatch: pytest.MonkeyPatch, pick: Pick, known: Sequence[Screened] = (), **changes: Any
) -> tuple[list[Sizes], SearchResult, ListedWorkers]:
    """Which candidates a search asks for, in their order, and of whom."""
    monkeypatch.setattr(search_module, "ROUND", 6)
    memory, workers = Memory(known), ListedWorkers(pick)
    plan = SearchPlan(PREFETCHED, PROBLEM, FIXED, forecast=FORECAST, **changes)
    found = search_with(workers, plan, 0, lambda line: None, memory)
    return memory.asked, found, workers


def test_what_is_known_is_asked_of_no_worker(monkeypatch: pytest.MonkeyPatch):
    asked, found, workers = propose(monkeypatch, first)
    assert [len(each) for each in workers.submitted[:-1]] == [6] * (len(workers.submitted) - 1)
    assert [it for each in workers.submitted for it in each] == asked
    known = [Screened(config, measure(config)) for config in asked]
    again, same, workers = propose(monkeypatch, first, known)
    assert (again, same, workers.submitted) == (asked, found, [])


def test_who_is_fast_does_not_say_what_comes_next(monkeypatch: pytest.MonkeyPatch):
    """Nor what was known before: a search that goes on is where it was."""
    asked, found, _ = propose(monkeypatch, first)
    assert found.tried == len(asked) > 40
    drawing = random.Random(7)
    for pick in (last, lambda left: drawing.randrange(len(left))):
        assert propose(monkeypatch, pick)[0] == asked
    known = [Screened(config, measure(config)) for config in asked[:27]]
    assert propose(monkeypatch, last, known)[:2] == (asked, found)
    drawing.shuffle(known)
    assert propose(monkeypatch, first, known[9:])[:2] == (asked, found)


def test_what_is_learnt_changes_the_next_round(monkeypatch: pytest.MonkeyPatch):
    asked, _, _ = propose(monkeypatch, first)
    assert FORECAST is not None
    monkeypatch.setitem(globals(), "measure", FORECAST.predict)
    uncorrected, _, _ = propose(monkeypatch, first)
    assert asked[:6] == uncorrected[:6]
    assert asked[6:12] != uncorrected[6:12]


def test_a_search_that_promises_little_ends_the_same_whoever_is_fast(
    monkeypatch: pytest.MonkeyPatch,
):
    asked, found, _ = propose(monkeypatch, first, least_gain=0.05)
    assert 6 <= found.tried == len(asked) < found.tried + found.left
    assert found.gain is not None
    assert found.gain < 0.05
    for known in ((), [Screened(it, measure(it)) for it in asked[:4]]):
        again, same, _ = propose(monkeypatch, last, known, least_gain=0.05)
        assert (again, same.left, same.gain) == (asked, found.left, found.gain)


class SlowPool(FakePool):
    """Compiles one job after the other, each for a hundredth of a second."""

    def __init__(self, target: Any, *, limit: float, processes: int) -> None:
        super().__init__(lambda job: "", processes)
        self.futures: list[Future[str]] = []
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, job: CompileJob) -> Future[str]:
        self.futures.append(Future())
        return self.futures[-1]

    def _run(self) -> None:
        done = 0
        while not self.is_stopped:
            time.sleep(0.01)
            if done < len(self.futures):
                self.futures[done].set_result("")
                done += 1


def test_one_process_measures_while_others_compile(monkeypatch: pytest.MonkeyPatch):
    """The pool stays through all rounds."""
    pools: list[SlowPool] = []

    def make(*arguments: Any, **named: Any) -> SlowPool:
        pools.append(SlowPool(*arguments, **named))
        return pools[-1]

    class QuickMachine(FakeMachine):
        def compile(self, module: Any, arguments: Any) -> Any:
            a, b, c = arguments
            left.append(sum(not it.done() for it in pools[0].futures))
            return lambda: np.matmul(a, b, out=c)

    left: list[int] = []
    monkeypatch.setattr("tirstep.bench.workers.CompilePool", make)
    monkeypatch.setattr("tirstep.bench.workers.prepare_recipe", prepare_nothing)
    plan = SearchPlan(PREFETCHED, PROBLEM, FIXED, forecast=FORECAST, limit=80)
    found = search(plan, QuickMachine(), Settings(rounds=1), tell=lambda line: None)
    assert (found.tried, len(pools), pools[0].is_stopped) == (80, 1, True)
    assert left[0] >= BATCH // 2


def prepare_nothing(recipe: Any, config: Any, library: Any) -> Any:
    return lambda machine, problem, arguments: machine.compile(None, arguments)


def test_the_pool_ends_with_the_search_whatever_happens(monkeypatch: pytest.MonkeyPatch):
    def fail(job: CompileJob) -> str:
        raise KeyboardInterrupt

    pools = compile_here(monkeypatch, fail)
    with pytest.raises(KeyboardInterrupt):
        search(PLAN, FakeMachine(), Settings(), tell=lambda line: None)
    assert [pool.is_stopped for pool in pools] == [True]
