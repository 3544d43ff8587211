"""Buffers that share their place, go by the wrong name, or hold vectors."""

import numpy as np
import pytest
import tvm
from edits import drop_barrier, drop_store, shift_load
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks.devices import DeviceFinding
from tirstep.lowering_checks.devices.simulator import (
    lower,
    merge_shared_memory,
    simulate,
    simulate_lowered,
)
from tirstep.transforms import set_pass_option


@I.ir_module
class TwoPhases:
    """Halves, and behind them a number of their own; then floats where the halves were."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 128), "float16"), B: T.Buffer((2, 64), "float32")):
        for block in T.thread_binding(2, thread="blockIdx.x"):
            for thread in T.thread_binding(64, thread="threadIdx.x"):
                with T.sblock("B"):
                    T.reads(A[block, 0:128])
                    T.writes(B[block, 0:64])
                    H = T.sblock_alloc_buffer((128,), "float16", scope="shared.dyn")
                    N = T.sblock_alloc_buffer((64,), "float32", scope="shared.dyn")
                    F = T.sblock_alloc_buffer((64,), "float32", scope="shared.dyn")
                    L = T.sblock_alloc_buffer((1,), "float32", scope="local")
                    H[thread * 2] = A[block, thread * 2]
                    H[thread * 2 + 1] = A[block, thread * 2 + 1]
                    N[thread] = T.Cast("float32", thread)
                    L[0] = T.Cast("float32", H[127 - thread])
                    F[thread] = L[0] + T.float32(0.5)
                    B[block, thread] = F[(thread + 1) % 64] + N[63 - thread]


@pytest.fixture(params=[False, True], ids=["one buffer rewritten", "buffers merged"])
def two_phases(request) -> tvm.IRModule:
    """Lowered so that StorageRewrite reuses the place, or that the merging pass does."""
    sch = Schedule(TwoPhases)
    set_pass_option(sch, name="tirx.disable_storage_rewrite", value=request.param)
    return lower(sch.mod)


def run_two_phases(lowered: tvm.IRModule) -> tuple[bool, list[DeviceFinding]]:
    values = np.random.default_rng(0).integers(-99, 99, (2, 128)).astype("float16")
    result = simulate_lowered(lowered, [values, np.full((2, 64), np.nan, "float32")])
    floats = values[:, :63:-1].astype("float32") + np.float32(0.5)
    expected = np.roll(floats, -1, axis=1) + np.arange(64)[::-1]
    return np.array_equal(result.arguments[1], expected), result.findings


def test_buffers_of_two_types_in_one_place_are_right(two_phases: tvm.IRModule) -> None:
    merged = merge_shared_memory(two_phases)
    assert 'T.alloc_buffer((512,), "uint8", scope="shared.dyn")' in merged.script()
    assert run_two_phases(merged) == (True, [])
    assert run_two_phases(two_phases) == (True, [])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_barrier_around_a_reuse_is_needed(two_phases: tvm.IRModule, which: int) -> None:
    """The second one orders the halves' last loads and the first stores of floats there."""
    assert two_phases.script().count("tvm_storage_sync") == 3
    _, found = run_two_phases(drop_barrier(merge_shared_memory(two_phases), which))
    assert {finding.kind for finding in found} == {"race"}


def test_each_of_the_merged_buffers_has_bounds_of_its_own(two_phases: tvm.IRModule) -> None:
    """One element too far lies in the other buffer, which TVM put behind or before it."""
    _, (finding,) = run_two_phases(shift_load(two_phases, "N", by=1))
    assert finding.kind == "out of bounds"
    assert (
        "load of N[64] by thread (0, 0, 0) of block (0, 0, 0) (N has 64 elements)"
        in finding.message
    )


@I.ir_module
class MisleadingNames:
    """Registers that are named like a lowered input."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for thread in T.thread_binding(64, thread="threadIdx.x"):
            with T.sblock("B"):
                T.reads(A[thread])
                T.writes(B[thread])
                A_1 = T.sblock_alloc_buffer((1,), "float32", scope="local")
                A_1[0] = A[thread] * T.float32(2)
                B[thread] = A_1[0] + A[thread]


def test_an_input_is_no_output_because_of_a_name() -> None:
    values = np.arange(64, dtype="float32")
    result = simulate(MisleadingNames, [values, np.full(64, np.nan, "float32")])
    assert result.findings == []
    np.testing.assert_array_equal(result.arguments[1], 3 * values)


@I.ir_module
class Vectors:
    """A vector in registers, which TVM makes one element of type float32x4."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for thread in T.thread_binding(16, thread="threadIdx.x"):
            with T.sblock("B"):
                T.reads(A[thread * 4 : thread * 4 + 4])
                T.writes(B[thread * 4 : thread * 4 + 4])
                R = T.sblock_alloc_buffer((8,), "float32", scope="local")
                for i in T.vectorized(4):
                    R[i + 4] = A[thread * 4 + i]
                for i in T.vectorized(4):
                    B[thread * 4 + i] = R[i + 4]


def test_registers_that_hold_vectors_are_right() -> None:
    lowered = lower(Vectors)
    assert '"float32x4"' in lowered.script()
    values = np.arange(64, dtype="float32")
    result = simulate_lowered(lowered, [values, np.full(64, np.nan, "float32")])
    assert result.findings == []
    np.testing.assert_array_equal(result.arguments[1], values)


def test_a_vector_that_nobody_wrote_is_found() -> None:
    values = np.arange(64, dtype="float32")
    lowered = drop_store(lower(Vectors), "R")
    (finding,) = simulate_lowered(lowered, [values, np.full(64, np.nan, "float32")]).findings
    assert (finding.kind, finding.count) == ("uninitialized read", 64)
