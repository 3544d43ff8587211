"""Who compiles while a search measures, and what ends with it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from fake_machine import FakeMachine
from fake_pool import FakePool, compile_here, search_here

from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.search import SearchPlan
from tirstep.bench.session import Settings
from tirstep.bench.workers import BATCH
from tirstep.modules import matmul
from tirstep.transforms.recipes import RECIPES

PREFETCHED = RECIPES["matmul_prefetched"]
FIXED = {"thread_tile": (4, 4), "warp": (4, 8), "interleave": 1, "stages": 2}
PLAN = SearchPlan(PREFETCHED, matmul.problem(256, 256, 64), FIXED, limit=80)


class SlowPool(FakePool):
    """Compiles one job after the other, each for a hundredth of a second."""

    def __init__(self, target: Any, *, limit: float, processes: int) -> None:
        super().__init__(lambda job: "", processes)
        self.futures: list[Future[str]] = []
        threading.Thread(target=self._run, daemon=True).start()

    def compile(self, job: CompileJob) -> Future[str]:
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
    found = search_here(PLAN, QuickMachine(), Settings(rounds=1))
    assert (found.tried, len(pools), pools[0].is_stopped) == (80, 1, True)
    assert left[0] >= BATCH // 2


def prepare_nothing(recipe: Any, config: Any, library: Any) -> Any:
    return lambda machine, problem, arguments: machine.compile(None, arguments)


def test_the_pool_ends_with_the_search_whatever_happens(monkeypatch: pytest.MonkeyPatch):
    def fail(job: CompileJob) -> str:
        raise KeyboardInterrupt

    pools = compile_here(monkeypatch, fail)
    with pytest.raises(KeyboardInterrupt):
        search_here(PLAN, FakeMachine(), Settings())
    assert [pool.is_stopped for pool in pools] == [True]
