"""What compiles candidates of a search where no other process is needed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from tirstep.bench.compile_pool import CompileJob


class FakePool:
    """Each job is done at once; `compile` says why it did not compile, nothing where it did."""

    def __init__(self, compile: Callable[[CompileJob], str], processes: int) -> None:
        self.compile, self.processes = compile, processes
        self.jobs: list[CompileJob] = []
        self.is_stopped = False

    def submit(self, job: CompileJob) -> Future[str]:
        self.jobs.append(job)
        future: Future[str] = Future()
        future.set_result(self.compile(job))
        return future

    def read(self, future: Future[str]) -> str:
        return future.result()

    def stop(self) -> None:
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
