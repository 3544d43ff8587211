"""PrimFuncs as other projects write them: what TVM's own tests and Relax hand over."""

import numpy as np
import pytest
import tvm
from kernels import at_block
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep import transforms as tr
from tirstep.lowering_checks import get_device


@T.prim_func(s_tir=True)
def lower_triangle(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            if vi >= vj:
                B[vi, vj] = A[vi, vj]


@T.prim_func(s_tir=True)
def two_triangles(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            if vi >= vj:
                B[vi, vj] = A[vi, vj]
            else:
                B[vi, vj] = T.float32(7)


@T.prim_func(s_tir=True)
def beginning(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(8, 12):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(i * 12 + j < 20)
            B[vi, vj] = A[vi, vj]


@T.prim_func(s_tir=True)
def mixed_loops(A: T.Buffer((T.int64(8), 32), "float32"), B: T.Buffer((T.int64(8), 4), "float32")):
    for i, j, k in T.grid(T.int64(8), 4, 32):
        with T.sblock("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk]


@T.prim_func(private=True, s_tir=True)
def private(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] + T.float32(1)


@T.prim_func(s_tir=True)
def scaled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), s: T.float32):
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * s


@T.prim_func(s_tir=True)
def total(A: T.Buffer((64,), "float32"), B: T.Buffer((), "float32")):
    for k in range(64):
        with T.sblock("B"):
            vk = T.axis.reduce(64, k)
            with T.init():
                B[()] = T.float32(0)
            B[()] = B[()] + A[vk]


@T.macro
def add_one(target, source, at):
    """As TVM's attention kernels are written."""
    target[at] = source[at] + T.float32(1)


@T.macro
def add_one_everywhere(target, source):
    for i in T.serial(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            add_one(target, source, vi)


@T.prim_func(s_tir=True)
def of_macros(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    add_one_everywhere(B, A)


@T.prim_func
def cleared(A: T.Buffer((64,), "float32")):
    for i in range(64):
        A[i] = T.float32(0)


def bind_rows(function: tvm.tirx.PrimFunc) -> Schedule:
    sch = Schedule(function)
    tr.bind_loop(sch, sch.get_loops(sch.get_sblock("B"))[0], axis="blockIdx.x")
    return sch


def bind_elements(function: tvm.tirx.PrimFunc) -> tvm.IRModule:
    """Bound, with a function beside it that has statements and no blocks."""
    sch = Schedule(tvm.IRModule({"main": function, "cleared": cleared}))
    outer, inner = tr.split_loop(sch, sch.get_loops(sch.get_sblock("B"))[0], inner=16)
    tr.bind_loop(sch, outer, axis="blockIdx.x")
    tr.bind_loop(sch, inner, axis="threadIdx.x")
    return tvm.IRModule({"main": sch.mod["main"]})


def test_a_conditional_store_is_not_cached():
    sch = bind_rows(lower_triangle)
    block = sch.get_sblock("B")
    row = sch.get_loops(block)[0]
    with refuses(sch, "stores to 'B' only where vi >= vj, and the copy would write all of it"):
        tr.cache_write_at(sch, block, row)
    sch = bind_rows(beginning)
    block = sch.get_sblock("B")
    row = sch.get_loops(block)[0]
    with refuses(sch, r"computes only elements of 'B_local' where i \* 12 \+ j < 20"):
        tr.cache_write_at(sch, block, row)


def test_a_store_in_both_branches_is_cached():
    sch = bind_rows(two_triangles)
    block = sch.get_sblock("B")
    tr.cache_write_at(sch, block, sch.get_loops(block)[0])
    matrix = np.arange(96, dtype="float32").reshape(8, 12)
    program = get_device("simulator").compile(sch.mod)
    result = program([matrix, np.zeros((8, 12), "float32")])[1]
    assert not program.findings
    assert np.array_equal(result, np.where(np.tri(8, 12) > 0, matrix, 7))


def test_fused_loops_of_two_integer_types_hide_a_sum_over_threads():
    sch, block, *_ = at_block(mixed_loops, "B")
    tr.bind_loop(sch, tr.fuse_loops(sch, sch.get_loops(block)[:2]), axis="blockIdx.x")
    with refuses(sch, "reduces over threads of 'threadIdx.x', which TVM does not see where its"):
        tr.spread_over_threads(sch, block, threads=32)


@pytest.mark.parametrize("device", ["cpu", "simulator"])
def test_private_functions_macros_scalars_and_totals_run(device: str):
    numbers, zeros = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    for function in (private, of_macros):
        program = get_device(device).compile(bind_elements(function))
        assert np.array_equal(program([numbers, zeros])[1], numbers + 1)
    program = get_device(device).compile(bind_elements(scaled))
    three = np.asarray(3, "float32")
    assert np.array_equal(program([numbers, zeros, three])[1], 3 * numbers)
    sch, block, *_ = at_block(total, "B")
    tr.bind_loop(sch, sch.add_unit_loop(sch.get_loops(block)[0]), axis="blockIdx.x")
    tr.spread_over_threads(sch, block, threads=32)
    program = get_device(device).compile(sch.mod)
    assert program([numbers, np.zeros((), "float32")])[1] == numbers.sum()
