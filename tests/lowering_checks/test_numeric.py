"""The numeric check finds what is planted: wrong values, missing writes, small errors."""

import numpy as np
import pytest
import tvm
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, find_device
from tirstep.modules import Problem, matmul, vector_add

CPU = find_device("cpu")


def edit(problem: Problem, old: str, new: str) -> tvm.IRModule:
    text = problem.module.script()
    assert old in text
    return from_source(text.replace(old, new))


def messages(problem: Problem, module: tvm.IRModule) -> list[str]:
    return [f.message for f in check_numbers(problem, module, CPU, where="here", seed=1)]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_a_right_module_has_no_findings(dtype: str) -> None:
    problem = matmul.problem(7, 5, 3, dtype=dtype)
    assert messages(problem, problem.module) == []


def test_a_wrong_index_is_found_with_its_place_and_count() -> None:
    problem = vector_add.problem(8)
    (message,) = messages(problem, edit(problem, "A[vi] + B[vi]", "A[vi] + B[vi] + T.float32(1)"))
    assert message.startswith("C[0] is ")
    assert "8 of 8 elements are wrong (integers, seed 1)" in message


def test_an_element_that_nobody_writes_is_nan() -> None:
    problem = vector_add.problem(8)
    module = edit(problem, "range(8)", "range(7)")
    (message,) = messages(problem, module)
    assert "C[7] is nan" in message
    assert "1 of 8" in message


def test_an_integer_that_nobody_writes_is_found_too() -> None:
    problem = vector_add.problem(8, dtype="int8")
    (message,) = messages(problem, edit(problem, "range(8)", "range(7)"))
    assert "C[7] is -128" in message


def test_a_lost_init_is_found() -> None:
    problem = matmul.problem(4, 4, 4)
    (message,) = messages(problem, edit(problem, "C[vi, vj] = T.float32(0.0)", "T.evaluate(0)"))
    assert "16 of 16" in message


def test_an_error_beyond_the_bound_is_found_on_floats_alone() -> None:
    """Through float16 small integers come out as they went in; floats do not."""
    problem = vector_add.problem(64)
    halved = 'T.Cast("float32", T.Cast("float16", A[vi]))'
    (message,) = messages(problem, edit(problem, "A[vi] + B[vi]", f"{halved} + B[vi]"))
    assert "with an error of at most" in message
    assert "(random floats, seed 1)" in message


def test_the_sum_in_another_order_is_within_the_bound() -> None:
    problem = matmul.problem(16, 16, 256)
    module = edit(problem, "A[vi, vk] * B[vk, vj]", "A[vi, 255 - vk] * B[255 - vk, vj]")
    assert messages(problem, module) == []


def test_seeds_make_other_inputs() -> None:
    problem = matmul.problem(8, 8, 8)
    first, second = (problem.integer_inputs(seed)[0] for seed in (1, 2))
    assert not np.array_equal(first, second)
