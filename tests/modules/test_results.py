"""Each kernel, unscheduled, computes what its reference says."""

import numpy as np
import pytest
import tvm

from tirstep.modules import Problem, conv1d, matmul
from tirstep.modules.dtypes import dtype_facts


def assert_exact(run, module: tvm.IRModule, problem: Problem, seed: int) -> None:
    inputs = problem.integer_inputs(seed)
    got = run(module, problem, inputs)
    for values, exact, tensor in zip(got, problem.reference(inputs), problem.outputs, strict=True):
        stored = exact.astype(dtype_facts(tensor.dtype).numpy).astype(np.float64)
        np.testing.assert_array_equal(values, stored)


def assert_within_bound(run, problem: Problem, inputs: list[np.ndarray]) -> None:
    got = run(problem.module, problem, inputs)
    bounds = problem.error_bound(inputs)
    for values, exact, bound in zip(got, problem.reference(inputs), bounds, strict=True):
        # Written so that a NaN fails.
        assert (np.abs(values - exact) <= bound).all()


@pytest.mark.share(6)
def test_whole_numbers_are_computed_exactly(run, problem: Problem) -> None:
    if problem.is_exact:
        assert_exact(run, problem.module, problem, seed=1)
    else:
        assert_within_bound(run, problem, problem.integer_inputs(1))


@pytest.mark.share(9)
def test_random_numbers_are_within_the_bound(run, problem: Problem) -> None:
    assert_within_bound(run, problem, problem.float_inputs(2))


def test_inputs_are_only_read(run) -> None:
    problem = matmul.problem(5, 7, 3)
    inputs = problem.float_inputs(0)
    before = [array.copy() for array in inputs]
    run(problem.module, problem, inputs)
    assert all(np.array_equal(a, b) for a, b in zip(before, inputs, strict=True))


def test_all_forms_of_conv1d_give_the_same_bits_on_whole_numbers(run) -> None:
    over_filter = conv1d.problem(61, 17, over="filter")
    inputs = over_filter.integer_inputs(3)
    (one,) = run(over_filter.module, over_filter, inputs)
    for form in ("output", "padded"):
        problem = conv1d.problem(61, 17, over=form)
        (other,) = run(problem.module, problem, inputs)
        np.testing.assert_array_equal(one, other)


def test_a_split_reduction_gives_the_same_bits_on_whole_numbers(run) -> None:
    """rfactor accepts the inits, and another order of summation changes nothing."""
    for types in ({}, {"dtype": "float16", "acc": "float16"}, {"dtype": "int8"}):
        problem = matmul.problem(6, 5, 64, **types)
        sch = tvm.s_tir.Schedule(problem.module)
        outer, _ = sch.split(sch.get_loops(sch.get_sblock("C"))[2], [None, 8])
        sch.rfactor(outer, 0)
        assert_exact(run, sch.mod, problem, seed=4)
