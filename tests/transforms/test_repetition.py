"""Sums that loops would add up again, and loops of which that is only feared."""

import numpy as np
import pytest
from kernels import at_block, parse_kernel
from pairs import refuses, run_on_cpu

from tirstep import transforms as tr

# B = A + the sums of A's rows + 1, over an intermediate P.
Shifted = parse_kernel("""
    A (4, 8), B (4, 8)
    S = T.sblock_alloc_buffer((4,))
    P = T.sblock_alloc_buffer((4, 8))
    for i, k in T.grid(4, 8):
        with T.sblock("S", "SR", i, k):
            S[vi] += A[vi, vk]
    for i, k in T.grid(4, 8):
        with T.sblock("P", "SS", i, k):
            P[vi, vk] = A[vi, vk] + S[vi]
    for i, k in T.grid(4, 8):
        with T.sblock("B", "SS", i, k):
            B[vi, vk] = P[vi, vk] + T.float32(1)
""")


def start():
    """The sum of a row in a loop over its columns, whose block was inlined elsewhere."""
    sch, block, *_ = at_block(Shifted, "S")
    tr.compute_block_at(sch, block, sch.get_loops(sch.get_sblock("P"))[1])
    tr.inline_producers(sch, sch.get_sblock("B"))
    return sch, block, sch.get_loops(block)


def is_right(sch):
    a = np.arange(32, dtype="float32").reshape(4, 8)
    return np.array_equal(
        run_on_cpu(sch.mod, a, output=(4, 8), dtype="float32"), a + a.sum(1, keepdims=True) + 1
    )


def test_a_loop_that_repeats_a_sum_stays_outside_of_it():
    sch, _, (i, k, _, columns) = start()
    assert is_right(sch)
    raw = sch.copy()
    raw.reorder(columns, k)
    assert not is_right(raw)
    with refuses(
        sch, "loop 'k', which runs 8 times, would add the same terms to the sums of block"
    ):
        tr.reorder_loops(sch, [columns, k])
    tr.reorder_loops(sch, [k, i])
    assert is_right(sch)


@pytest.mark.parametrize(
    ("call", "loop"),
    [
        (
            lambda sch, block: tr.tile_block(
                sch, block, threads=(1, 2, 1), per_thread=(1, 2, 1), tail="guard"
            ),
            "k_2",
        ),
        (
            lambda sch, block: tr.tile_in_warps(
                sch, block, threads=(8, 4), per_thread=(2, 2), tail="guard"
            ),
            "k_4",
        ),
    ],
)
def test_tiles_of_a_repeated_sum(call, loop):
    sch, block, _ = start()
    with refuses(
        sch, f"loop '{loop}', which runs 2 times, would add the same terms to the sums of"
    ):
        call(sch, block)


@pytest.mark.parametrize("fused", [False, True])
def test_a_repeated_sum_is_initialized_inside(fused):
    sch, block, (_, k, rows, columns) = start()
    place = tr.fuse_loops(sch, [k, rows, columns]) if fused else k
    with refuses(
        sch, "times, would add the same terms to the sums of block 'S' again in each iter"
    ):
        tr.decompose_reduction_at(sch, block, place)
    if not fused:
        tr.decompose_reduction_at(sch, block, rows)
        assert is_right(sch)


def test_windows_that_overlap_repeat_terms():
    Overlaps = parse_kernel("""
        A (6, 5), B (6,)
        for i, r, k in T.grid(4, 3, 5):
            with T.sblock("B"):
                vi = T.axis.spatial(6, i + r)
                vk = T.axis.reduce(5, k)
                B[vi] += A[vi, vk]
    """)

    sch, block, i, *_, k = at_block(Overlaps, "B")
    with refuses(
        sch, "loop 'i', which runs 4 times, would add the same terms to the sums of block"
    ):
        tr.decompose_reduction_at(sch, block, i)
    tr.decompose_reduction_at(sch, block, k)
