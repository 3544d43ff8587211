"""Intermediate tensors become arguments, and nothing else of a program changes; what a process that
dies costs.
"""

import dataclasses
import errno
import os
import shutil
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from bad_jobs import misbehave, refuse_to_start
from golden_runs import run_golden

from tirstep.bench import BenchError
from tirstep.bench.compile_pool import (
    CompileJob,
    compile_all,
    compile_job,
    lift_workspaces,
    read_workspaces,
    spell_target,
    take_result,
    write_workspaces,
)
from tirstep.lowering_checks.devices import get_device
from tirstep.processes import WorkerProcesses
from tirstep.transforms.recipes import RECIPES


def test_the_parts_of_split_k_are_an_argument(tmp_path: Path):
    run = run_golden(RECIPES["matmul_split_k"])
    module, workspaces = lift_workspaces(run.steps[-1].module)
    assert workspaces == [([2, 64, 48], "float32")]
    assert [param.name for param in module["main"].params] == ["A", "B", "C", "C.rf"]
    write_workspaces(workspaces, tmp_path / "0.so")
    assert read_workspaces(tmp_path / "0.so") == workspaces
    inputs = run.problem.integer_inputs(0)
    blanks = [np.full(shape, np.nan, "float32") for shape in ((64, 48), (2, 64, 48))]
    product, parts = get_device("simulator").compile(module)([*inputs, *blanks])[2:]
    assert np.array_equal(product, run.problem.reference(inputs)[0])
    assert np.array_equal(parts.sum(0), product)


@pytest.mark.parametrize("recipe", ["matmul_shared", "window_sum_shared"])
def test_a_program_of_one_launch_stays_as_it_is(recipe: str):
    module = run_golden(RECIPES[recipe]).steps[-1].module
    lifted, workspaces = lift_workspaces(module)
    assert workspaces == []
    assert lifted.same_as(module)


def test_a_process_that_crashes_or_hangs_costs_its_candidate_alone() -> None:
    workers = WorkerProcesses(1, 1.0, int)
    try:
        results = [
            take_result(workers.submit(*call), workers.limit, "run")
            for call in [(int, "x"), (os.abort,), (time.sleep, 60), (max, 1, 2)]
        ]
    finally:
        workers.close()
    assert results == [
        (None, "failed: ValueError: invalid literal for int() with base 10: 'x'"),
        (None, "crashed: the process that was to run it ended with -6"),
        (None, "took longer than 1 s to run"),
        (2, ""),
    ]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "kernel.so"),
        RuntimeError("Compilation error:\nld: final link failed: No space left on device"),
    ],
)
def test_a_full_disk_is_no_fault_of_a_candidate(error: Exception) -> None:
    future: Future[str] = Future()
    future.set_exception(error)
    with pytest.raises(OSError, match="No space left on device"):
        take_result(future, 60.0, "compile")


TARGET = tvm.target.Target("nvidia/nvidia-h100")
SHAPE = {"m": 64, "n": 48, "k": 32}
GOOD = CompileJob("matmul_naive", SHAPE, {"dtype": "float32"}, {})
REFUSED = CompileJob("matmul_tiled", {"m": 7, "n": 5, "k": 3}, {"dtype": "float32"}, {})

SPELLED = spell_target(TARGET)


def test_a_job_says_why_it_does_not_compile(monkeypatch: pytest.MonkeyPatch):
    assert compile_job(GOOD, SPELLED) == ""
    assert compile_job(REFUSED, SPELLED).startswith("refused: ")

    def fail(*arguments: Any, **options: Any) -> None:
        raise tvm.error.InternalError("a story\nCheck failed: lanes\n")

    monkeypatch.setattr("tvm.compile", fail)
    assert compile_job(GOOD, SPELLED) == "failed: InternalError: Check failed: lanes"


@pytest.fixture
def one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """One core, and so one process: each takes seconds to start."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda of: {0})


HOLD = [CompileJob("matmul_naive", SHAPE, {}, config) for config in ({}, {"hold": True})]
"""Jobs of `misbehave`, of which the second one does not end."""


@pytest.mark.share(2)
@pytest.mark.usefixtures("one_process")
def test_a_process_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.bench.compile_pool.compile_job", misbehave)
    told: list[int] = []
    reasons = compile_all(HOLD, TARGET, limit=2, report=told.append)
    assert reasons == ["", "took longer than 2 s to compile"]
    assert told == [1, 2]


@pytest.mark.usefixtures("one_process")
def test_processes_compile(tmp_path: Path):
    library = tmp_path / "good.so"
    jobs = [dataclasses.replace(GOOD, library=str(library)), REFUSED]
    reasons = compile_all(jobs, TARGET, limit=100, report=lambda done: None)
    assert reasons[0] == ""
    assert library.exists() == (shutil.which("g++") is not None)
    assert reasons[1].startswith("refused: tile_block")


@pytest.mark.usefixtures("one_process")
def test_a_process_that_does_not_start_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.bench.compile_pool._begin", refuse_to_start)
    with pytest.raises(BenchError, match="processes that try candidates do not start"):
        compile_all([GOOD] * 3, TARGET, limit=9, report=lambda done: None)


@pytest.mark.usefixtures("one_process")
def test_whoever_gives_up_waits_for_no_job(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.bench.compile_pool.compile_job", misbehave)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compile_all(HOLD, TARGET, limit=300, report=interrupt)
    assert time.monotonic() - began < 60
