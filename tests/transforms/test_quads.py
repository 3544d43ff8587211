"""Chains of products whose fragments stay in registers: pairs, numbers, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy then knows bfloat16
import pytest
import tvm
from kernels import at_block, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr

ROUNDED = """
for i, j, k in T.grid(8, 8, 24):
    with T.sblock("C", "SSR", i, j, k):
        C[vi, vj] += T.Cast("float32", T.Cast("float16", P[vi, vk])) * V[vk, vj]
"""
IN_FRONT = """
P_float16 = T.sblock_alloc_buffer((8, 24), "float16")
for ax0, ax1 in T.grid(8, 24):
    with T.sblock("P_global"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        P_float16[v0, v1] = T.Cast("float16", P[v0, v1])
"""
OPERANDS = "P (8, 24), V (24, 8), C (8, 8)"


def test_round_operand_in_a_block_in_front() -> None:
    after = IN_FRONT + ROUNDED.replace('T.Cast("float16", P[vi, vk])', "P_float16[vi, vk]")
    check_pair(
        parse_kernel(OPERANDS + ROUNDED),
        lambda sch: tr.round_operand(sch, sch.get_sblock("C"), operand=0),
        parse_kernel(OPERANDS + after),
        is_replayable=False,
    )


def test_round_operand_refuses_a_block_of_blocks() -> None:
    sch = Schedule(parse_kernel(OPERANDS + ROUNDED))
    outer = sch.blockize(sch.get_loops(sch.get_sblock("C"))[1])
    with refuses(sch, "block 'C_o' holds other blocks; pass the one inside of it"):
        tr.round_operand(sch, outer, operand=0)


PRODUCT = """
for i, j, k in T.grid(32, 48, 64):
    with T.sblock("C", "SSR", i, j, k):
        C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
TILED = """
for k_0, j_0, i_0 in T.grid(4, 3, 2):
    with T.sblock("C_o"):
        vi_o, vj_o, vk_o = T.axis.remap("SSR", [i_0, j_0, k_0])
        T.reads(A[vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16],
                B[vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
        T.writes(C[vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
        with T.init():
            for i_1, j_1 in T.grid(16, 16):
                with T.sblock("C_init"):
                    vi_i_init, vj_i_init = T.axis.remap("SS", [i_1, j_1])
                    C[vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0)
        for i_1, j_1, k_1 in T.grid(16, 16, 16):
            with T.sblock("C"):
                vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_1, j_1, k_1])
                T.reads(C[vi_o * 16 + vi_i, vj_o * 16 + vj_i],
                        A[vi_o * 16 + vi_i, vk_o * 16 + vk_i],
                        B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                T.writes(C[vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                C[vi_o * 16 + vi_i, vj_o * 16 + vj_i] = (
                    C[vi_o * 16 + vi_i, vj_o * 16 + vj_i]
                    + A[vi_o * 16 + vi_i, vk_o * 16 + vk_i]
                    * B[vk_o * 16 + vk_i, vj_o * 16 + vj_i])
"""
FACTORS = "A (32, 64), B (64, 48), C (32, 48)"


def test_tile_product_into_fragments() -> None:
    check_pair(
        parse_kernel(FACTORS + PRODUCT),
        lambda sch: tr.tile_product(sch, sch.get_sblock("C")),
        parse_kernel(FACTORS + TILED),
    )


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (lambda sch, i, j, k: sch.split(k, [8, 8]), "has 2 spatial and 2 reduction loops of its"),
        (lambda sch, i, j, k: sch.vectorize(j), "loop 'j' is already vectorized"),
        (
            lambda sch, i, j, k: tr.split_loop(sch, k, inner=24, tail="guard"),
            "2 reduction loops of its own",
        ),
    ],
)
def test_tile_product_refuses_other_loops(prepare: Callable[..., Any], sentence: str) -> None:
    sch, block, *_ = at_block(parse_kernel(FACTORS + PRODUCT), "C")
    prepare(sch, *sch.get_loops(block))
    with refuses(sch, sentence):
        tr.tile_product(sch, block)


ELEMENTS = """
X = T.sblock_alloc_buffer(({m}, {n}), "{dtype}")
for i, j in T.grid({m}, {n}):
    with T.sblock("X", "SS", i, j):
        X[vi, vj] = A[vi, vj] + B[vi, vj]
for i, j in T.grid({m}, {n}):
    with T.sblock("C", "SS", i, j):
        C[vi, vj] = {term}
"""
LAID_OUT = """
with T.sblock("root"):
    T.reads()
    T.writes()
    T.sblock_attr({{"tir_pipeline": "tirstep", "tirstep_own_lanes": 1}})
    X_local = T.sblock_alloc_buffer({shape}, scope="local")
    for i, j in T.grid(32, 32):
        with T.sblock("X", "SS", i, j):
            X_local[{place}] = A[vi, vj] + B[vi, vj]
    for i, j in T.grid(32, 32):
        with T.sblock("C", "SS", i, j):
            C[vi, vj] = X_local[{place}]
"""
FRAGMENT = (
    "vi // 16, vj // 16, vi % 8 * 4 + vj % 8 // 2, vj % 16 // 8 * 4 + vi % 16 // 8 * 2 + vj % 2"
)


def make_elements(
    term: str = "X[vi, vj]", *, m: int = 32, n: int = 32, dtype: str = "float32"
) -> tvm.IRModule:
    tensors = ", ".join(f"{name} ({m}, {n}) {dtype}" for name in "ABC")
    return parse_kernel(tensors + ELEMENTS.format(m=m, n=n, dtype=dtype, term=term))


@pytest.mark.parametrize(
    ("dimensions", "shape", "place"),
    [
        ({"rows": 0, "columns": 1}, (2, 2, 32, 8), FRAGMENT),
        ({"rows": 0}, (4, 8, 32), "vi // 8, vi % 8, vj"),
        ({"rows": 1}, (32, 4, 1, 8), "vi, vj // 8, 0, vj % 8"),
    ],
)
def test_lay_in_quads_as_fragments_or_rows(dimensions: dict, shape: tuple, place: str) -> None:
    tensors = "A (32, 32), B (32, 32), C (32, 32)"
    after = parse_kernel(tensors + LAID_OUT.format(shape=shape, place=place))
    check_pair(
        make_elements(), lambda sch: tr.lay_in_quads(sch, sch.get_sblock("X"), **dimensions), after
    )


def place_in_one_kernel(sch: Schedule, *names: str) -> None:
    """16 rows of block C for each thread block, with what they read."""
    outer = tr.split_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], inner=16).outer
    tr.bind_loop(sch, outer, axis="blockIdx.x")
    for name in names:
        tr.compute_block_at(sch, sch.get_sblock(name), outer)


@pytest.mark.parametrize(
    ("sizes", "dimensions", "sentence"),
    [
        ({}, {"rows": 1, "columns": 0}, "'X' of 2 dimensions has no rows and columns in 1, 0"),
        ({}, {"rows": -2, "columns": -1}, "has no rows and columns in -2, -1"),
        ({}, {"rows": 2}, "'X' of 2 dimensions has no rows and columns in 2; give the dimension"),
        ({"m": 24}, {"rows": 0, "columns": 1}, "dimension 0 of 'X' has 24 elements, which 16 does"),
        ({"n": 40}, {"rows": 0, "columns": 1}, "dimension 1 of 'X' has 40 elements, which 16 does"),
        (
            {"m": 20},
            {"rows": 0},
            "dimension 0 of 'X' has 20 elements, which 8 does not divide; pad",
        ),
    ],
)
def test_lay_in_quads_refuses_dimensions(sizes: dict, dimensions: dict, sentence: str) -> None:
    sch, block, *_ = at_block(make_elements(**sizes), "X")
    with refuses(sch, sentence):
        tr.lay_in_quads(sch, block, **dimensions)


def test_lay_in_quads_refuses_tensors_and_readers_that_count_down() -> None:
    sch, block, *_ = at_block(make_elements(), "C")
    with refuses(sch, "it is a tensor of the function's"):
        tr.lay_in_quads(sch, block, rows=0, columns=1)
    sch, block, *_ = at_block(make_elements("X[vi, 31 - vj]"), "X")
    with refuses(sch, "'X_local' is used at an index that goes down as a loop goes up"):
        tr.lay_in_quads(sch, block, rows=0, columns=1)


COPY = """
for i, j in T.grid(32, 32):
    with T.sblock("C", "SS", i, j):
        C[vi, vj] = A[vi, vj]
"""
SPREAD = """
for i_0, i_1 in T.grid(2, 2):
    for i_2 in T.thread_binding(8, thread="threadIdx.y"):
        for j_0, j_1 in T.grid(2, 2):
            for j_2 in T.thread_binding(4, thread="threadIdx.x"):
                for j_3 in range(2):
                    with T.sblock("C"):
                        vi = T.axis.spatial(32, i_0 * 16 + i_1 * 8 + i_2)
                        vj = T.axis.spatial(32, j_0 * 16 + j_1 * 8 + j_2 * 2 + j_3)
                        C[vi, vj] = A[vi, vj]
"""
SPREAD_ROWS = """
for i in range(32):
    for j_0, j_1 in T.grid(2, 2):
        for j_2 in T.thread_binding(8, thread="threadIdx.y"):
            with T.sblock("C"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.spatial(32, j_0 * 16 + j_1 * 8 + j_2)
                C[vi, vj] = A[vi, vj]
"""
COPIED = "A (32, 32), C (32, 32)"


@pytest.mark.parametrize(("columns", "after"), [(True, SPREAD), (False, SPREAD_ROWS)])
def test_spread_over_quads_of_lanes(columns: bool, after: str) -> None:
    check_pair(
        parse_kernel(COPIED + COPY),
        lambda sch: tr.spread_over_quads(sch, sch.get_sblock("C"), columns=columns),
        parse_kernel(COPIED + after),
    )


SOFTMAX = """
m = T.sblock_alloc_buffer((32,))
e = T.sblock_alloc_buffer((32, 32))
s = T.sblock_alloc_buffer((32,))
for i, j in T.grid(32, 32):
    with T.sblock("m", "SR", i, j):
        with T.init():
            m[vi] = T.min_value("float32")
        m[vi] = T.max(m[vi], A[vi, vj])
for i, j in T.grid(32, 32):
    with T.sblock("e", "SS", i, j):
        e[vi, vj] = T.exp(A[vi, vj] - m[vi])
for i, j in T.grid(32, 32):
    with T.sblock("s", "SR", i, j):
        s[vi] += e[vi, vj]
for i, j in T.grid(32, 32):
    with T.sblock("C", "SS", i, j):
        C[vi, vj] = e[vi, vj] / s[vi]
"""


def lay_softmax() -> tuple[tvm.IRModule, Schedule]:
    """A softmax by hand, one warp for 16 rows, all between in registers."""
    before = parse_kernel(COPIED + SOFTMAX)
    sch = Schedule(before)
    place_in_one_kernel(sch, "s", "e", "m")
    tr.lay_in_quads(sch, sch.get_sblock("e"), rows=0, columns=1)
    for name in "ms":
        tr.lay_in_quads(sch, sch.get_sblock(name), rows=0)
    return before, sch


def test_spread_over_quads_refuses_what_others_would_read() -> None:
    _, sch = lay_softmax()
    block = sch.get_sblock("m")
    with refuses(sch, "the threads of 'threadIdx.y' write the register buffer 'm_local' in block"):
        tr.spread_over_quads(sch, block)


@pytest.mark.parametrize(
    ("prepare", "columns", "sentence"),
    [
        (lambda sch, i, j: sch.fuse(i, j), True, "block 'C' has 1 loops of its own; place the"),
        (lambda sch, i, j: sch.bind(j, "threadIdx.x"), False, "is already bound to 'threadIdx.x'"),
        (lambda sch, i, j: sch.split(j, [4, 8]), True, "loop 'j_0' runs 4 times, which the 16 of"),
        (
            lambda sch, i, j: sch.bind(sch.split(i, [2, 16])[0], "threadIdx.y"),
            True,
            "'threadIdx.y' already drives loop 'i_0' of block 'C'",
        ),
    ],
)
def test_spread_over_quads_refuses(
    prepare: Callable[..., Any], columns: bool, sentence: str
) -> None:
    sch, block, *_ = at_block(parse_kernel(COPIED + COPY), "C")
    prepare(sch, *sch.get_loops(block))
    with refuses(sch, sentence):
        tr.spread_over_quads(sch, block, columns=columns)
