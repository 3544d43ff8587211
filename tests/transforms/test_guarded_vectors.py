"""The pass that gives whole vectors a branch of their own where a guard asks about elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import parse_kernel
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.lowering_checks.devices.simulator import simulate
from tirstep.modules import get_kernel
from tirstep.transforms import (
    bind_loop,
    get_pipeline,
    set_pipeline,
    split_loop,
    vectorize_loop,
)
from tirstep.transforms.passes.before_flattening import SplitGuardedVectors
from tirstep.transforms.recipes import find_recipe


def make_guarded(condition, kind=T.vectorized):
    """A copy of up to 64 elements in vectors of 4, around a guard of the thread and the element."""

    @I.ir_module
    class Guarded:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            t = T.launch_thread("threadIdx.x", 16)
            for v in kind(4):
                if condition(t, v):
                    B[t * 4 + v] = A[t * 4 + v]

    return Guarded


def test_a_guard_of_the_end_leaves_whole_vectors():
    Split = parse_kernel("""
        A (64,), B (64,)
        t = T.launch_thread("threadIdx.x", 16)
        if t * 4 + 3 < 61:
            for v in T.vectorized(4):
                B[t * 4 + v] = A[t * 4 + v]
        else:
            for v in range(4):
                if t * 4 + v < 61:
                    B[t * 4 + v] = A[t * 4 + v]
    """)

    module = make_guarded(lambda t, v: t * 4 + v < 61)
    assert_structural_equal(SplitGuardedVectors(module), Split)


def test_what_is_the_same_for_all_elements_is_asked_in_both_branches():
    Split = parse_kernel("""
        A (64,), B (64,)
        t = T.launch_thread("threadIdx.x", 16)
        if t * 4 + 3 < 61 and t < 9:
            for v in T.vectorized(4):
                B[t * 4 + v] = A[t * 4 + v]
        else:
            for v in range(4):
                if t * 4 + v < 61 and t < 9:
                    B[t * 4 + v] = A[t * 4 + v]
    """)

    module = make_guarded(lambda t, v: T.And(t * 4 + v < 61, t < 9))
    assert_structural_equal(SplitGuardedVectors(module), Split)


@pytest.mark.parametrize(
    "condition",
    [
        lambda t, v: t < 9,  # the same for all
        lambda t, v: t * 4 - v < 61,  # the first element is the one that may be out
        lambda t, v: t * 4 < 61 - v,
        lambda t, v: v * v < t,
        lambda t, v: T.Or(t * 4 + v < 7, t * 4 + v < 61),
        lambda t, v: T.And(t * 4 + v < 61, v != 1),
    ],
)
def test_another_guard_stays(condition):
    module = make_guarded(condition)
    assert_structural_equal(SplitGuardedVectors(module), module)


def test_a_serial_loop_stays():
    module = make_guarded(lambda t, v: t * 4 + v < 61, kind=T.serial)
    assert_structural_equal(SplitGuardedVectors(module), module)


def test_a_guard_with_another_case_stays():
    Module = parse_kernel("""
        A (64,), B (64,)
        t = T.launch_thread("threadIdx.x", 16)
        for v in T.vectorized(4):
            if t * 4 + v < 61:
                B[t * 4 + v] = A[t * 4 + v]
            else:
                B[t * 4 + v] = T.float32(0)
    """)

    assert_structural_equal(SplitGuardedVectors(Module), Module)


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


@pytest.mark.parametrize("length", [36, 37])
def test_a_schedule_of_rows_that_no_vector_divides_is_right(length):
    Copy = parse_kernel(f"""
        A (5, {length}), B (5, {length})
        for i, j in T.grid(5, {length}):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
    """)

    sch = Schedule(Copy)
    i, j = sch.get_loops(sch.get_sblock("B"))
    threads, lanes = split_loop(sch, j, inner=4, tail="guard")
    vectorize_loop(sch, lanes)
    bind_loop(sch, i, axis="blockIdx.x")
    bind_loop(sch, threads, axis="threadIdx.x")
    set_pipeline(sch)
    source = np.arange(5 * length, dtype="float32").reshape(5, length)
    run = simulate(sch.mod, [source, np.full((5, length), np.nan, "float32")])
    assert not run.findings
    np.testing.assert_array_equal(run.arguments[-1], source)


@pytest.mark.parametrize(("dtype", "vector"), [("float32", "float4"), ("float16", "uint4")])
def test_a_length_that_no_vector_divides_is_read_in_vectors(dtype, vector):
    """What the pass is for: TVM's own pipeline loads one element at a time, everywhere."""
    module = get_kernel("relu").problem(1021 * 7, dtype=dtype).module
    step = find_recipe("relu_vectors").steps(module, tail="guard")[-1]
    assert get_pipeline(step.module) == "tirstep"
    loads = {
        name: compile_module(step.module, "nvidia/nvidia-h100", pipeline=name)
        .mod.imports[0]
        .inspect_source()
        .count(f"*({vector}*)(A_ptr")
        for name in ("tirstep", "default")
    }
    assert loads == {"tirstep": 1, "default": 0}


@pytest.mark.parametrize("name", ["relu_vectors", "vector_add_batches", "vector_add_persistent"])
@settings(max_examples=2)
@given(length=st.integers(1, 300), dtype=st.sampled_from(["float32", "float16"]))
def test_elements_at_the_end_are_right_and_nothing_is_touched_behind_it(name, length, dtype):
    recipe = find_recipe(name)
    problem = get_kernel(recipe.kernel).problem(length, dtype=dtype)
    sizes = {**recipe.golden.config, "tail": "guard"}
    module = recipe.steps(problem.module, **sizes)[-1].module
    inputs = problem.integer_inputs(0)
    run = simulate(module, [*inputs, np.full(length, np.nan, dtype)])
    assert not run.findings
    np.testing.assert_array_equal(run.arguments[-1], problem.reference(inputs)[0])
