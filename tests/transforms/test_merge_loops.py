"""Merging loops that stand one after the other, and what may not share a loop."""

import pytest
from kernels import parse_kernel
from pairs import assert_dead, check_pair, refuses
from tvm.s_tir import Schedule

from tirstep.transforms import merge_loops, unroll_loop

# Sums over one range, a square of one of them, and a copy of another length.
TwoSums = parse_kernel("""
    X (6, 20), G (6,), U (6,), S (6, 20), Y (5,)
    for i, k in T.grid(6, 20):
        with T.sblock("G", "SR", i, k):
            G[vi] += X[vi, vk]
    for j, k in T.grid(6, 20):
        with T.sblock("U", "SR", j, k):
            U[vj] += X[vj, vk] * X[vj, vk]
    for x, y in T.grid(6, 20):
        with T.sblock("S", "SS", x, y):
            S[vx, vy] = G[vx] * G[vx]
    for z in range(5):
        with T.sblock("Y", "S", z):
            Y[vz] = X[vz, 0]
""")


def start() -> tuple[Schedule, dict[str, list]]:
    sch = Schedule(TwoSums, debug_mask="all")
    return sch, {name: sch.get_loops(sch.get_sblock(name)) for name in "GUSY"}


def test_merge_loops_brings_two_sums_under_the_same_two_loops():
    after = """
        for i_m, k_m in T.grid(6, 20):
            with T.sblock("G"):
                vi, vk = T.axis.remap("SR", [i_m, k_m])
                G[vi] += X[vi, vk]
            with T.sblock("U"):
                vj, vk = T.axis.remap("SR", [i_m, k_m])
                U[vj] += X[vj, vk] * X[vj, vk]
        for x, y in T.grid(6, 20):
            with T.sblock("S", "SS", x, y):
                S[vx, vy] = G[vx] * G[vx]
        for z in range(5):
            with T.sblock("Y", "S", z):
                Y[vz] = X[vz, 0]
    """

    def change(sch: Schedule):
        (i, k), (j, other) = (sch.get_loops(sch.get_sblock(name)) for name in "GU")
        rows = merge_loops(sch, [i, j])
        depth = merge_loops(sch, [k, other])
        assert_dead(sch, i, j, k, other)
        return rows, depth

    check_pair(TwoSums, change, after)


def test_merge_loops_refuses_a_sum_and_what_uses_it():
    """TVM merges both loops of both: the squares would be of sums that are not complete."""
    sch, loops = start()
    rows = merge_loops(sch, [loops["G"][0], loops["U"][0]])
    with refuses(sch, "merge_loops: block 'S' uses 'G', which block 'G' writes, and after me"):
        merge_loops(sch, [rows, loops["S"][0]])


@pytest.mark.parametrize(
    ("first", "second", "depth", "told"),
    [
        ("G", "S", 0, "'x' does not follow loop 'i' directly, in the same body; merge the"),
        ("U", "G", 0, "'i' does not follow loop 'j' directly, in the same body"),
        ("G", "U", 1, "'k' does not follow loop 'k' directly, in the same body"),
        ("G", "G", 0, "'i' does not follow loop 'i' directly, in the same body"),
        ("S", "Y", 0, "'x' runs 6 times, and loop 'z' 5 times; split both so that"),
    ],
)
def test_loops_to_merge_follow_each_other_and_run_alike(first, second, depth, told):
    sch, loops = start()
    with refuses(sch, f"loop {told}"):
        merge_loops(sch, [loops[first][depth], loops[second][depth]])


def test_loops_to_merge_are_plain():
    sch, loops = start()
    unroll_loop(sch, loops["U"][0])
    with refuses(sch, "loop 'j' is already unrolled"):
        merge_loops(sch, [loops["G"][0], loops["U"][0]])
    sch.annotate(loops["S"][0], "pragma_unroll_explicit", 0)
    with refuses(sch, "loop 'x' is annotated; merge loops that begin at 0, before they are"):
        merge_loops(sch, [loops["G"][0], loops["S"][0]])
