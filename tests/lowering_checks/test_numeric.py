"""The numeric check finds what is planted: wrong values, missing writes, small errors."""

import math

import numpy as np
import pytest
import tvm
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device, run_recipe
from tirstep.lowering_checks.numeric import check_program, compare_outputs
from tirstep.modules import Problem, matmul, softmax, vector_add
from tirstep.transforms.recipes import RECIPES

CPU = get_device("cpu")
DEVICES = ["cpu", "simulator", pytest.param("cuda", marks=pytest.mark.gpu)]


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


@pytest.mark.parametrize("device", DEVICES)
def test_an_input_that_the_kernel_changes_is_found(device: str) -> None:
    """The outputs are right: each element of B is read before it is overwritten."""
    problem = vector_add.problem(8)
    old = "C[vi] = A[vi] + B[vi]"
    body = f"{old}\n                if vi == 5:\n                    B[vi] = T.float32(99)"
    text = problem.module.script().replace(old, body).replace("T.writes(C[vi])", "T.writes()")
    text = text.replace("range(8)", 'T.thread_binding(8, thread="threadIdx.x")')
    found = check_numbers(problem, from_source(text), get_device(device), where="here", seed=1)
    (message,) = [finding.message for finding in found if finding.check == "numbers"]
    was = problem.integer_inputs(1)[1][5]
    assert message == (
        f"the input B[5] was {was:g} before the run and is 99 after it; 1 of 8 elements of an "
        "input that a kernel may only read are changed (integers, seed 1)"
    )


def test_an_error_beyond_the_bound_is_found_on_floats_alone() -> None:
    """Through int32 whole numbers come out as they went in; floats do not."""
    problem = matmul.problem(4, 4, 8)
    cut = 'T.Cast("float32", T.Cast("int32", A[vi, vk]))'
    (message,) = messages(problem, edit(problem, "A[vi, vk] *", f"{cut} *"))
    assert "with an error of at most" in message
    assert "(random floats, seed 1)" in message


def test_the_sum_in_another_order_is_within_the_bound() -> None:
    problem = matmul.problem(16, 16, 256)
    module = edit(problem, "A[vi, vk] * B[vk, vj]", "A[vi, 255 - vk] * B[255 - vk, vj]")
    assert messages(problem, module) == []


def test_an_init_of_a_tiny_number_is_found() -> None:
    """It is lost in every sum but those of zeros."""
    problem = matmul.problem(6, 4, 4)
    (message,) = messages(problem, edit(problem, "T.float32(0.0)", "T.float32(1e-30)"))
    assert message.startswith("C[3, 0] is 1e-30, and NumPy has 0 with an error")


@pytest.mark.parametrize("device", DEVICES)
def test_a_module_that_leaves_a_size_open_is_checked_at_each(device: str) -> None:
    """Without its guard it is right where the size divides, and nowhere else."""
    sizes = {"threads": 32, "tail": "guard"}
    run = run_recipe(RECIPES["vector_add_bound"], {"n": 64}, config=sizes, symbolic=("n",))
    text = run.steps[-1].module.script()
    (guard,) = (line for line in text.splitlines() if "T.where" in line)
    program = get_device(device).compile(from_source(text.replace(guard, "")))
    right, wrong = (
        check_program(vector_add.problem(n), program, device, where="here") for n in (96, 80)
    )
    assert right == []
    assert any("C[80]" in finding.message for finding in wrong)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_kernel_that_is_no_sum_of_products_is_held_to_its_own_bound(dtype: str) -> None:
    problem = softmax.problem(3, 40, dtype=dtype)
    assert messages(problem, problem.module) == []
    (message,) = messages(
        problem, edit(problem, "total[vi] = T.float32(0.0)", "total[vi] = T.float32(1)")
    )
    assert "with an error of at most" in message
    assert "120 of 120 elements are wrong (integers, seed 1)" in message


@pytest.mark.parametrize(
    ("got", "expected", "worst"),
    [
        ([1.0, 3, 9], [1.0, 2, 6], 2),
        ([1.0, math.nan, 9], [1.0, 2, 6], 1),
        ([5.0, 3, 9], [-math.inf, 2, 6], 2),
        ([5.0, 2, 6], [math.nan, 2, 6], 0),
        ([math.inf, 3, 9], [-math.inf, 2, 6], 0),
    ],
)
def test_the_worst_element_is_told(got: list[float], expected: list[float], worst: int) -> None:
    """The one farthest off, or not finite; one that should not be finite only if alone."""
    output, right = np.array(got), np.array(expected)
    (finding,) = compare_outputs([output], [right], [0.0], names=["C"], where="")
    assert finding.message.startswith(f"C[{worst}] is {got[worst]:.9g}, and ")
