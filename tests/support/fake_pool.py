"""What compiles candidates of a search where no other process is needed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tirstep.bench.compile_pool import CompileJob
from tirstep.bench.search import SearchPlan, SearchResult, Trials, search
from tirstep.bench.session import Settings, Tell
from tirstep.bench.workers import LocalWorkers


class FakePool:
    """Each job is idempotent; `say` says why it did not compile, nothing where it did."""

    def __init__(self, say: Callable[[CompileJob], str], processes: int) -> None:
        self.say, self.processes = say, processes
        self.jobs: list[CompileJob] = []
        self.is_stopped = False

    def compile(self, job: CompileJob) -> Future[str]:
        self.jobs.append(job)
        future: Future[str] = Future()
        future.set_result(self.say(job))
        return future

    def read(self, future: Future[str]) -> str:
        return future.result()

    def close(self) -> None:
        self.is_stopped = True


def compile_here(
    monkeypatch: pytest.MonkeyPatch, compile: Callable[[CompileJob], str] = lambda job: ""
) -> list[FakePool]:
    """Let searches compile so; the pools that they made."""
    pools: list[FakePool] = []

    def make(target: Any, *, limit: float, processes: int) -> FakePool:
        pools.append(FakePool(compile, processes))
        return pools[-1]

    monkeypatch.setattr("tirstep.bench.workers.CompilePool", make)
    return pools


def search_here(
    plan: SearchPlan,
    machine: Any,
    settings: Settings,
    tell: Tell = lambda line: None,
    kept: Trials | None = None,
) -> SearchResult:
    """A search on this process's machine."""
    workers = LocalWorkers(plan, machine, settings, tell)
    try:
        return search(workers, plan, settings.seed, tell, kept)
    finally:
        workers.stop()
