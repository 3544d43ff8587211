"""docs/simulator-cost.md says what was measured, and what was measured keeps what is promised."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from golden_runs import run_golden

from tirstep.lowering_checks.devices.simulator import lower
from tirstep.transforms.recipes import find_recipe

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "simulator_cost", ROOT / "benchmarks" / "simulator_cost.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_rendered_from_the_results(script: ModuleType) -> None:
    results = json.loads(script.RESULTS.read_text())
    assert script.PAGE.read_text() == script.render(results)


def test_the_results_are_of_the_cases_and_keep_the_bounds(script: ModuleType) -> None:
    results = json.loads(script.RESULTS.read_text())
    measured = [(row["recipe"], tuple(row["shape"])) for row in results["rows"]]
    assert measured == list(script.CASES)
    for (name, shape), bound in script.BOUNDS.items():
        assert 0 < script.find_row(results, name, shape)["simulator_s"] < bound
    assert results["machine"]["threads_used"] == 1


def test_a_bound_that_is_not_kept_is_said(script: ModuleType) -> None:
    results = json.loads(script.RESULTS.read_text())
    script.find_row(results, "matmul_shared", (64, 48, 32))["simulator_s"] = 0.75
    assert "takes 0.750 s, and is to take less than 0.5 s: NOT kept." in script.render(results)


def test_thread_statements_are_counted(script: ModuleType) -> None:
    """Two stores, one of them the initialization, for each of 64×48×32 steps of a thread."""
    step = run_golden(find_recipe("matmul_naive")).steps[-1]
    assert script.count_thread_statements(lower(step.module)) == 2 * 64 * 48 * 32
