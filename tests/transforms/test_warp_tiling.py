"""Tiles in warps: the loops, the indices, and the numbers of tiles that do not divide."""

import itertools

import numpy as np
import pytest
from kernels import make_matmul, parse_kernel
from pairs import assert_dead, check_pair, compile_for_cuda, refuses, run_on_cpu
from tvm.s_tir import Schedule

from tirstep.lowering_checks import get_device
from tirstep.modules import matmul, vector_add
from tirstep.transforms import (
    WarpTile,
    bind_loop,
    cache_read_at,
    fuse_loops,
    tile_in_warps,
)
from tirstep.transforms.warp_tiling import largest_divisor

Matmul = make_matmul(64, 48, 6)


def start(module=Matmul):
    """A schedule and the block C."""
    sch = Schedule(module, debug_mask="all")
    return sch, sch.get_sblock("C")


def test_tile_in_warps_of_threads_side_by_side():
    after = """
        for b in T.thread_binding(16, thread="blockIdx.x"):
            for i_2, j_1 in T.grid(1, 1):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    for k, i_4, j_3 in T.grid(6, 2, 3):
                        with T.sblock("C"):
                            vi = T.axis.spatial(64, b // 2 * 8 + i_2 * 8 + t // 8 * 2 + i_4)
                            vj = T.axis.spatial(48, b % 2 * 24 + j_1 * 24 + t % 8 * 3 + j_3)
                            vk = T.axis.reduce(6, k)
                            C[vi, vj] += A[vi, vk] * B[vk, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        i, j, k = sch.get_loops(block)
        tile = tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
        assert isinstance(tile, WarpTile)
        assert [int(sch.get(loop).extent) for loop in tile.elements] == [2, 3]
        assert_dead(sch, i, j)
        return tile, k, block

    check_pair(Matmul, change, after)


def test_tile_in_warps_with_strips_warps_and_groups():
    after = """
        for b in T.thread_binding(12, thread="blockIdx.x"):
            for s in T.thread_binding(2, thread="vthread.x"):
                for t in T.thread_binding(64, thread="threadIdx.x"):
                    for k, i_4, j_3 in T.grid(6, 2, 1):
                        with T.sblock("C"):
                            vi = T.axis.spatial(
                                64, b // 6 * 32 + b % 2 * 16 + s * 8 + t % 32 // 8 * 2 + i_4
                            )
                            vj = T.axis.spatial(48, b % 6 // 2 * 16 + t // 32 * 8 + t % 8 + j_3)
                            vk = T.axis.reduce(6, k)
                            C[vi, vj] += A[vi, vk] * B[vk, vj]
    """

    def change(sch):
        sizes = {"threads": (4, 16), "per_thread": (4, 1), "strips": (2, 1), "warp": (4, 8)}
        return tile_in_warps(sch, sch.get_sblock("C"), **sizes, swizzle=2)

    check_pair(Matmul, change, after)


def test_tile_in_warps_with_interleaved_rows_and_rows_innermost():
    after = """
        for b in T.thread_binding(12, thread="blockIdx.x"):
            for s in T.thread_binding(4, thread="vthread.x"):
                for t in T.thread_binding(32, thread="threadIdx.x"):
                    for k, j_3, i_4 in T.grid(6, 1, 2):
                        with T.sblock("C"):
                            vi = T.axis.spatial(
                                64, b // 3 * 16 + s % 2 * 8 + t // 16 * 4 + t % 2 * 2 + i_4
                            )
                            vj = T.axis.spatial(48, b % 3 * 16 + s // 2 * 8 + t % 16 // 2 + j_3)
                            vk = T.axis.reduce(6, k)
                            C[vi, vj] += A[vi, vk] * B[vk, vj]
    """

    def change(sch):
        sizes = {"threads": (4, 8), "per_thread": (4, 2), "strips": (2, 2), "warp": (4, 8)}
        orders = {"inner": "rows", "inner_strips": "rows"}
        tile = tile_in_warps(sch, sch.get_sblock("C"), **sizes, interleave=2, **orders)
        assert [int(sch.get(loop).extent) for loop in tile.elements] == [2, 1]
        return tile

    check_pair(Matmul, change, after)


@pytest.mark.parametrize(
    "sizes",
    [
        {"threads": (4, 8), "per_thread": (3, 2)},
        {"threads": (5, 16), "per_thread": (2, 3), "strips": (2, 1), "swizzle": 2},
        {"threads": (8, 8), "per_thread": (4, 2), "strips": (2, 2), "warp": (4, 8), "swizzle": 3},
        {"threads": (32, 32), "per_thread": (4, 2), "strips": (1, 2), "warp": (1, 32)},
        {"threads": (8, 8), "per_thread": (2, 4), "warp": (8, 4), "interleave": 4, "inner": "rows"},
    ],
)
def test_a_guarded_tile_in_warps_computes_each_element_once(sizes):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((23, 6), (6, 37)))
    sch, block = start(matmul(23, 37, 6))
    tile_in_warps(sch, block, tail="guard", **sizes)
    result = run_on_cpu(sch.mod, a, b, output=(23, 37), dtype="float32")
    np.testing.assert_array_equal(result, a @ b)
    assert "__launch_bounds__" in compile_for_cuda(sch.mod)


def test_tile_in_warps_refuses_what_does_not_fit():
    sch, block = start()
    with refuses(
        sch, r"runs 64 times, which swizzle=3 \* threads=4 \* per_thread=2 does not divide"
    ):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), swizzle=3)
    with refuses(
        sch,
        r"strips=\(1, 2\) does not divide per_thread=\(2, 3\); choose divisors, rows and columns",
    ):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), strips=(1, 2))
    with refuses(sch, r"warp=\(4, 4\) has 16 threads; a warp has 32, as \(4, 8\)"):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), warp=(4, 4))
    with refuses(sch, r"tile_in_warps: tail='pad' is unknown; use tail="):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), tail="pad")
    with refuses(sch, r"would make a block of 1536 threads .*, more than max_threads=1024"):
        tile_in_warps(sch, block, threads=(32, 48), per_thread=(1, 1))
    sch, block = start()
    sentence = (
        r"loop 'i' runs 64 times, which swizzle=1 \* threads=5 \* per_thread=2 does not .*pad"
    )
    with refuses(sch, sentence):
        tile_in_warps(sch, block, threads=(5, 8), per_thread=(2, 2))
    with refuses(sch, r"loop 'j' runs 48 times, which threads=10 \* per_thread=2 does not divide"):
        tile_in_warps(sch, block, threads=(4, 10), per_thread=(2, 2))
    for swizzle in [0, -2]:
        sch, block = start()
        with refuses(sch, rf"tile_in_warps: swizzle={swizzle} must be >= 1; use an integer >= 1"):
            tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), swizzle=swizzle)
    for name in ["threads", "per_thread", "strips"]:
        sch, block = start()
        with refuses(sch, rf"{name}=None is no tuple of integers; pass a tuple"):
            tile_in_warps(sch, block, **{"threads": (4, 8), "per_thread": (2, 3), name: None})
    for warp in [(8, 4), (2, 16)]:
        sch, block = start()
        with refuses(sch, r"warp=\(., .*\) does not divide threads=\(4, 8\); choose divisors"):
            tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), warp=warp)
    for interleave in [0, -2]:
        sch, block = start()
        with refuses(sch, rf"tile_in_warps: interleave={interleave} must be >= 1; use an int"):
            tile_in_warps(
                sch, block, threads=(4, 8), per_thread=(2, 3), warp=(4, 8), interleave=interleave
            )
    for warp, rows in [((4, 8), 4), (None, 1)]:
        sch, block = start()
        with refuses(sch, rf"interleave=3 does not divide a warp's rows, {rows}; choose a divisor"):
            tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), warp=warp, interleave=3)
    sch, block = start(vector_add(64))
    with refuses(sch, r"block 'C' has one spatial loop or none; use tile_block for a block of one"):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
    sch, block = start()
    fuse_loops(sch, sch.get_loops(block)[:2])
    with refuses(sch, r"block 'C' has one spatial loop or none"):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))


PAIRS = [(0, 8), (-4, 8), (4,), (4, 8, 2), ()]


@pytest.mark.parametrize(
    ("name", "pair"), list(itertools.product(("threads", "per_thread", "strips", "warp"), PAIRS))
)
def test_tile_in_warps_refuses_what_is_no_pair_of_sizes(name, pair):
    sch, block = start()
    sizes = {"threads": (4, 8), "per_thread": (2, 3), name: pair}
    with refuses(sch, rf"tile_in_warps: {name}=.* is no pair of sizes; pass two integers"):
        tile_in_warps(sch, block, **sizes)


@pytest.mark.parametrize("name", ["inner", "inner_strips"])
def test_tile_in_warps_refuses_an_unknown_innermost_loop(name):
    sch, block = start()
    with refuses(sch, rf"tile_in_warps: {name}='k' is unknown; use {name}=\"columns\" or {name}="):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3), **{name: "k"})


def test_tile_in_warps_refuses_more_that_does_not_fit():
    for place in [0, 1]:
        sch, block = start()
        bind_loop(sch, sch.get_loops(block)[place], axis="blockIdx.y")
        with refuses(sch, rf"loop '{'ij'[place]}' is already bound to 'blockIdx.y'"):
            tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
    sch, block = start()
    tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))
    with refuses(sch, r"tile_in_warps: bind_loop: .* 'blockIdx.x' already drives loop"):
        tile_in_warps(sch, block, threads=(1, 1), per_thread=(1, 1))
    sch, block = start()
    cache_read_at(sch, block, sch.get_loops(block)[0], operand=1)
    with refuses(sch, r"^tile_in_warps: TVM refuses: .*not in a chain"):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 3))


def test_tile_in_warps_of_an_open_extent_with_a_guard():
    symbolic = parse_kernel("""
        A (n, 16), B (n, 16)
        for i, j in T.grid(n, 16):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
    """)
    sch, block = start(symbolic)
    with refuses(sch, r"loop 'i' has the symbolic extent n, of which"):
        tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 2))
    tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 2), tail="guard")
    program = get_device("simulator").compile(sch.mod)
    for rows in (1, 8, 13):
        matrix = np.arange(rows * 16, dtype="float32").reshape(rows, 16)
        assert np.array_equal(program([matrix, np.zeros_like(matrix)])[1], matrix)
        assert not program.findings


def test_a_swizzle_is_the_largest_divisor_of_the_rows_of_tiles():
    for extent, most, divisor in [(8, 8, 8), (12, 8, 6), (7, 8, 7), (13, 8, 1), (1, 4, 1)]:
        assert largest_divisor(extent, most=most) == divisor
