"""The machine that needs no GPU, and benchmarks without other processes."""

from typing import Any

import pytest
from fake_machine import FakeMachine
from fake_pool import compile_here


@pytest.fixture
def machine() -> FakeMachine:
    return FakeMachine()


@pytest.fixture
def no_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled ahead: the fake machine compiles when it is asked."""

    def compile_all(jobs: Any, target: Any, *, limit: float, report: Any) -> list[str]:
        return [""] * len(jobs)

    monkeypatch.setattr("tirstep.bench.session.compile_all", compile_all)
    compile_here(monkeypatch)
