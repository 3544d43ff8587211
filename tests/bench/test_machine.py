"""The bound of the benchmark is the kernel's own, whatever computes it."""

import numpy as np
import pytest
from fake_machine import FakeMachine

from tirstep.bench.session import Expectation, Reference
from tirstep.modules import Problem, conv1d, depthwise_conv2d, matmul, vector_add
from tirstep.modules.error_bounds import bound_exact, bound_storing


@pytest.mark.parametrize(
    "problem",
    [
        matmul.problem(16, 12, 40),
        matmul.problem(16, 12, 40, dtype="float16", out="float16"),
        matmul.problem(2, 3, 4096, dtype="float16", acc="float16"),
        matmul.problem(16, 12, 40, dtype="int8"),
        conv1d.problem(40, 5),
        depthwise_conv2d.problem(1, 2, 5, 6, 3),
        vector_add.problem(9, dtype="bfloat16"),
    ],
    ids=str,
)
def test_bound_is_the_kernel_s(problem: Problem):
    inputs = problem.float_inputs(3)
    right = problem.reference(inputs)[0]
    magnitudes = problem.reference([np.abs(array.astype(np.float64)) for array in inputs])[0]
    terms = problem.reference([array.astype(np.float64) != 0 for array in inputs])[0]
    bound = bound_storing(right, bound_exact(problem, magnitudes, terms), problem.outputs[0].dtype)
    np.testing.assert_array_equal(bound, problem.error_bound(inputs)[0])


def test_an_error_is_told_with_its_place():
    right = np.arange(12.0).reshape(3, 4)
    expectation = Expectation("C", "float32", right, np.full((3, 4), 0.25), np)
    assert expectation.find_error(right + 0.25) is None
    wrong = right.copy()
    wrong[1, 2] += 0.5
    wrong[2, 3] = np.nan
    assert expectation.find_error(wrong) == (
        "C[2, 3] is nan, and float64 has 11 with an error of at most 0.25; "
        "2 of 12 elements are wrong"
    )
    assert "is inf" in (expectation.find_error(right + np.inf) or "")


def test_the_exact_expectation_tolerates_nothing(machine: FakeMachine):
    problem = matmul.problem(4, 5, 6)
    inputs = problem.integer_inputs(0)
    (exact,) = machine.expect(Reference(problem, inputs, is_exact=True))
    right = problem.reference(inputs)[0]
    assert machine.find_error(exact, right) is None
    assert machine.find_error(exact, np.nextafter(right, np.inf)) is not None


def test_a_result_in_a_narrower_type_may_be_rounded_to_it():
    right = np.linspace(1.0, 2.0, 100)
    exact = Expectation("C", "float32", right, 0 * right, np)
    rounded = right.astype(np.float16).astype(np.float64)
    assert exact.stored_in("float32").find_error(rounded) is not None
    assert exact.stored_in("float16").find_error(rounded) is None
    assert exact.stored_in("float16").find_error(rounded + 2**-9) is not None
