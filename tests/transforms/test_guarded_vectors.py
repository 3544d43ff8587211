"""The pass that gives whole vectors a branch of their own where a guard asks about elements."""

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import parse_kernel
from tvm.ir import assert_structural_equal

from tirstep.lowering_checks.devices.simulator import simulate
from tirstep.modules import get_kernel
from tirstep.transforms.passes.before_flattening import SplitGuardedVectors
from tirstep.transforms.recipes import find_recipe


def make_guarded(condition: str) -> tvm.IRModule:
    """A copy of up to 64 elements in vectors of 4, around a guard of the thread and the element."""
    return parse_kernel(f"""
        A (64,), B (64,)
        t = T.launch_thread("threadIdx.x", 16)
        for v in T.vectorized(4):
            if {condition}:
                B[t * 4 + v] = A[t * 4 + v]
    """)


@pytest.mark.parametrize(
    "condition",
    [
        "t < 9",  # the same for all
        "t * 4 - v < 61",  # the first element is the one that may be out
        "t * 4 < 61 - v",
        "v * v < t",
        "T.Or(t * 4 + v < 7, t * 4 + v < 61)",
        "T.And(t * 4 + v < 61, v != 1)",
    ],
)
def test_another_guard_stays(condition):
    module = make_guarded(condition)
    assert_structural_equal(SplitGuardedVectors(module), module)


def make_rows(length, offset):
    """Rows of a length in vectors of 4 from an offset on, with a guard at the end of each."""
    return parse_kernel(f"""
        A (5, {length}), B (5, {length})
        row = T.launch_thread("blockIdx.x", 5)
        t = T.launch_thread("threadIdx.x", 16)
        for v in T.vectorized(4):
            if t * 4 + v + {offset} < {length}:
                B[row, t * 4 + v + {offset}] = A[row, t * 4 + v + {offset}]
    """)


@pytest.mark.parametrize(
    ("length", "offset", "splits"),
    [(40, 0, True), (40, 4, True), (37, 0, False), (38, 0, False), (40, 1, False), (40, 2, False)],
)
def test_vectors_that_begin_elsewhere_stay_apart(length, offset, splits):
    """TVM asks of loads where they begin, and of stores it does not."""
    module = make_rows(length, offset)
    assert ("else:" in SplitGuardedVectors(module).script()) == splits


@pytest.mark.parametrize("name", ["relu_vectors", "vector_add_vectors"])
@settings(max_examples=2)
@given(length=st.integers(1, 300), dtype=st.sampled_from(["float32", "float16"]))
def test_elements_at_the_end_are_right_and_nothing_is_touched_behind_it(name, length, dtype):
    recipe = find_recipe(name)
    problem = get_kernel(recipe.kernel).problem(length, dtype=dtype)
    sizes = {**recipe.golden.config, "each": 2, "tail": "guard"}
    module = recipe.steps(problem.module, **sizes)[-1].module
    inputs = problem.integer_inputs(0)
    run = simulate(module, [*inputs, np.full(length, np.nan, dtype)])
    assert not run.findings
    np.testing.assert_array_equal(run.arguments[-1], problem.reference(inputs)[0])
