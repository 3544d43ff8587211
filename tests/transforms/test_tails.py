"""Composites at sizes that do not divide, 1 and primes among them: exact numbers on the CPU."""

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import run_on_cpu
from tvm.s_tir import Schedule

from tirstep.transforms import (
    accumulate_in_registers,
    cache_read_at,
    decompose_reduction_at,
    fetch_cooperatively,
    pad_block,
    pad_shared_rows,
    split_reduction,
    stage_operand_at,
    tile_block,
    unroll_loop,
)

SHAPES = [(1, 1, 1), (1, 13, 5), (17, 1, 3), (7, 11, 1), (13, 10, 6), (16, 12, 8), (31, 29, 23)]


def make_matmul(m, n, k):
    return parse_kernel(f"""
        A ({m}, {k}), B ({k}, {n}), bias ({n},), D ({m}, {n})
        C = T.sblock_alloc_buffer(({m}, {n}))
        for i, j, x in T.grid({m}, {n}, {k}):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, x])
                C[vi, vj] += A[vi, vk] * B[vk, vj]
        for i, j in T.grid({m}, {n}):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj] + bias[vj], T.float32(0))
    """)


def check_numbers(sch, shape):
    """The schedule's D is relu(A B + bias), bit for bit."""
    m, n, k = shape
    draw = np.random.default_rng(m * 10000 + n * 100 + k).integers
    a, b, bias = (draw(-4, 5, size).astype("float32") for size in ((m, k), (k, n), (n,)))
    result = run_on_cpu(sch.mod, a, b, bias, output=(m, n), dtype="float32")
    np.testing.assert_array_equal(result, np.maximum(a @ b + bias, 0))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_guarded_tiles_in_two_dimensions(shape):
    sch = Schedule(make_matmul(*shape))
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(4, 3), per_thread=(2, 1), tail="guard")
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=4, tail="guard")
    for operand in (0, 1):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=(4, 3), vector=2)
    decompose_reduction_at(sch, block, steps.outer)
    check_numbers(sch, shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_guarded_tiles_with_fused_threads_and_padded_rows(shape):
    sch = Schedule(make_matmul(*shape))
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(3, 4), fuse_threads=True, tail="guard")
    steps = split_reduction(sch, block, inner=4, tail="guard")
    copy = cache_read_at(sch, block, steps.outer, operand=1)
    if min(4, shape[1]) > 1:
        pad_shared_rows(sch, copy, elements=1)
    fetch_cooperatively(sch, copy, threads=12, tail="guard")
    accumulate_in_registers(sch, block, tile.threads[0])
    unroll_loop(sch, steps.inner)
    check_numbers(sch, shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_padded_problems(shape):
    sch = Schedule(make_matmul(*shape))
    block = sch.get_sblock("C")
    pad_block(sch, block, multiples=(8, 6, 4))
    tile = tile_block(sch, block, threads=(4, 3), per_thread=(2, 2))
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=4)
    for operand in (0, 1):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=(4, 3), vector=2)
    decompose_reduction_at(sch, block, steps.outer)
    check_numbers(sch, shape)


@pytest.mark.parametrize("shape", SHAPES[3:5], ids=str)
def test_guarded_rows_on_one_axis(shape):
    sch = Schedule(make_matmul(*shape))
    tile_block(sch, sch.get_sblock("C"), threads=(8,), tail="guard")
    tile_block(sch, sch.get_sblock("D"), threads=(2, 16), tail="guard")
    check_numbers(sch, shape)
