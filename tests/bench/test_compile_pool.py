"""Intermediate tensors become arguments, and nothing else of a program changes; what a process that
dies costs.
"""

import errno
import os
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from golden_runs import run_golden

from tirstep.bench.compile_pool import (
    WorkerProcesses,
    lift_workspaces,
    read_workspaces,
    take_result,
    write_workspaces,
)
from tirstep.lowering_checks.devices import get_device
from tirstep.transforms.recipes import RECIPES


def test_the_parts_of_split_k_are_an_argument(tmp_path: Path):
    run = run_golden(RECIPES["matmul_split_k"])
    module, workspaces = lift_workspaces(run.steps[-1].module)
    assert workspaces == [((2, 64, 48), "float32")]
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
