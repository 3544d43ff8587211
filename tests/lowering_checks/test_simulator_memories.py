"""Buffers that share their place, go by the wrong name, or hold vectors."""

import numpy as np
import pytest
import tvm
from edits import drop_barrier
from kernels import parse_kernel
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks.devices.simulator import (
    lower,
    merge_shared_memory,
    simulate,
    simulate_lowered,
)
from tirstep.lowering_checks.devices.simulator.simulated_gpu import SimulatedGpu
from tirstep.transforms import set_pass_option

# Halves, and behind them a number of their own; then floats where the halves were.
TwoPhases = parse_kernel("""
    A (2, 128) float16, B (2, 64)
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
""")


@pytest.fixture(params=[False, True], ids=["one buffer rewritten", "buffers merged"])
def two_phases(request) -> tvm.IRModule:
    """Lowered so that StorageRewrite reuses the place, or that the merging pass does."""
    sch = Schedule(TwoPhases)
    set_pass_option(sch, name="tirx.disable_storage_rewrite", value=request.param)
    return lower(sch.mod)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_barrier_around_a_reuse_is_needed(two_phases: tvm.IRModule, which: int) -> None:
    """The second one orders the halves' last loads and the first stores of floats there."""
    assert two_phases.script().count("tvm_storage_sync") == 3
    values = np.random.default_rng(0).integers(-99, 99, (2, 128)).astype("float16")
    planted = drop_barrier(merge_shared_memory(two_phases), which)
    result = simulate_lowered(planted, [values, np.full((2, 64), np.nan, "float32")])
    assert {finding.kind for finding in result.findings} == {"race"}


def test_a_parameter_says_where_an_operand_of_ptx_lies():
    kernel = from_source("""
# from tvm.script import tirx as T
@T.prim_func
def main(A: T.Buffer(4), n: T.int32, B: T.Buffer(32)):
    T.device_entry()
    T.cta_id([1])
    t = T.thread_id([32])
    r = T.alloc_local((1,), "float32")
    T.ptx["ld.global.f32"](r[0], T.address_of(A[n]))
    B[t] = r[0]
""")
    given = [np.array([1, 2, 4, 8], "float32"), np.array(3, "int32"), np.zeros(32, "float32")]
    result = simulate(tvm.IRModule({"main": kernel}), given)
    assert not result.findings
    assert (result.arguments[-1] == 8).all()


def test_a_grid_of_open_size_asks_for_no_value_of_threads():
    kernel = from_source("""
# from tvm.script import tirx as T
@T.prim_func
def main(n: T.int32, B: T.Buffer((4, 32), "uint32")):
    T.device_entry()
    b = T.cta_id([n])
    t = T.thread_id([32])
    is_one: T.let = T.cuda.elect_sync()
    B[b, t] = is_one + T.uint32(1)
""")
    result = simulate(tvm.IRModule({"main": kernel}), [np.array(4), np.zeros((4, 32), "uint32")])
    assert not result.findings
    assert (result.arguments[-1].sum(axis=1) == 33).all()


def test_no_memory_lies_where_an_argument_does():
    """A tensor map's, where arguments have addresses."""
    gpu = SimulatedGpu()
    given = gpu.add_global("A", np.zeros(4), 2 << 40, is_input=True)
    made = gpu.add_global("map", np.zeros(128, "uint8"), is_input=True)
    assert [gpu.find_memory(it.shadow.begin) for it in (given, made)] == [given, made]
