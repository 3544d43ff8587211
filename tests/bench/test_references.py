"""References, which are not worked out for what the device cannot hold."""

from typing import Any

import numpy as np
import pytest
from fake_machine import FakeMachine

from tirstep.bench.cases import PlannedCase
from tirstep.bench.session import Reference, Settings, run_bench
from tirstep.modules import Problem, matmul, row_sum
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.recipes import RECIPES


def test_a_reference_is_what_the_kernel_says():
    problem = row_sum.problem(3, 5)
    inputs = problem.float_inputs(0)
    assert np.array_equal(Reference(problem, inputs).right[0], problem.reference(inputs)[0])
    assert np.array_equal(Reference(problem, inputs).bound[0], problem.error_bound(inputs)[0])
    assert not Reference(problem, inputs, is_exact=True).bound[0].any()


def test_an_exact_sum_is_rounded_as_a_narrow_output_stores_it():
    """Else a search among configs that write bfloat16 calls all of them wrong."""
    problem = matmul.problem(2, 2, 300, dtype="bfloat16", out="bfloat16")
    inputs = problem.integer_inputs(0)
    exact = problem.reference(inputs)[0]
    stored = exact.astype(dtype_facts("bfloat16").numpy).astype(np.float64)
    assert (stored != exact).any()
    assert np.array_equal(Reference(problem, inputs, is_exact=True).right[0], stored)


@pytest.mark.usefixtures("no_farm")
def test_what_is_too_large_is_not_worked_out(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch):
    drawn: list[int] = []
    draw = Problem.float_inputs

    def watch(problem: Problem, *rest: Any) -> Any:
        drawn.append(problem.shape["m"])
        return draw(problem, *rest)

    monkeypatch.setattr(Problem, "float_inputs", watch)
    machine.free = 1 << 20
    cases = [
        PlannedCase("rows", row_sum.problem(m, 64), (RECIPES["row_sum_naive"],), ())
        for m in (32, 1 << 20, 64)
    ]
    *_, run = run_bench(
        cases,
        machine,
        Settings(rounds=1),
        lambda line: None,
    )
    assert sorted(drawn) == [32, 64]
    assert [bool(case.skipped) for case in run.cases] == [False, True, False]
    assert [outcome.status for case in run.cases for outcome in case.outcomes] == ["ok", "ok"]
