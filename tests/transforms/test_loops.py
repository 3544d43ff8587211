"""Split, fuse, reorder, unroll: each pair starts from `Scale`."""

import pytest
from kernels import Scale, ScaleAnyLength, at_block, parse_kernel
from pairs import assert_dead, check_pair, refuses
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tirstep import transforms as tr

# Two nests, the second of three loops.
CHAIN = """
    B = T.sblock_alloc_buffer((6, 20))
    for i, j in T.grid(6, 20):
        with T.sblock("B", "SS", i, j):
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for x, y, z in T.grid(6, 5, 4):
        with T.sblock("C", "S", x):
            vy = T.axis.spatial(20, y * 4 + z)
            C[vx, vy] = B[vx, vy] + T.float32(1)
"""
Chain = parse_kernel("    A (6, 20), C (6, 20)" + CHAIN)


def start(module=Scale, block="B"):
    """A schedule and the loops of one of its blocks."""
    sch = Schedule(module, debug_mask="all")
    return sch, *sch.get_loops(sch.get_sblock(block))


def test_split_loop_by_a_divisor():
    after = """
        for i, j_0, j_1 in T.grid(6, 5, 4):
            with T.sblock("B", "S", i):
                vj = T.axis.spatial(20, j_0 * 4 + j_1)
                B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        loops = tr.split_loop(sch, j, inner=4)
        assert isinstance(loops, tr.Split)
        assert [int(sch.get(loop).extent) for loop in loops] == [5, 4]
        assert_dead(sch, j)
        return loops, i

    check_pair(Scale, change, after)


def test_split_loop_refuses_a_guard_behind_a_condition_that_loads():
    """The condition was asked beyond the end: the simulator found a load out of bounds."""

    @T.prim_func(s_tir=True)
    def chosen(M: T.Buffer((6,), "int32"), A: T.Buffer((6,)), B: T.Buffer((6,))):
        for i in range(6):
            if M[i] != 0:
                with T.sblock("B"):
                    vi = T.axis.spatial(6, i)
                    if M[vi] > 1:
                        B[vi] = A[vi]

    sch, _, loop = at_block(chosen, "B")
    with refuses(
        sch, "loop 'i' runs 6 times, and .*, outside of its blocks, would load 'M' beyond"
    ):
        tr.split_loop(sch, loop, inner=4, tail="guard")
    tr.split_loop(sch, loop, inner=3, tail="guard")  # divides
    assert "T.where" not in sch.mod.script()


def test_split_loop_refuses_what_does_not_fit():
    sch, _, j = start()
    with refuses(
        sch, r"split_loop: loop 'j' runs 20 times, which inner=8 does not divide; .*guard"
    ):
        tr.split_loop(sch, j, inner=8)
    with refuses(sch, r"split_loop: tail='pad' is unknown; use tail=\"refuse\" or tail=\"guard\"$"):
        tr.split_loop(sch, j, inner=4, tail="pad")
    sch, i = start(ScaleAnyLength)
    with refuses(sch, r"loop 'i' has the symbolic extent n, which inner=8 may not divide"):
        tr.split_loop(sch, i, inner=8)
    for inner in [0, -4]:
        sch, _, j = start()
        with refuses(sch, rf"split_loop: inner={inner} must be >= 1; use an integer >= 1"):
            tr.split_loop(sch, j, inner=inner, tail="guard")
    sch, i, _ = start()
    tr.bind_loop(sch, i, axis="blockIdx.y")
    with refuses(sch, r"split_loop: loop 'i' is already bound to 'blockIdx.y'; .*still serial"):
        tr.split_loop(sch, i, inner=2)
    sch, _, j = start()
    tr.split_loop(sch, j, inner=4)
    with refuses(sch, r"split_loop: the loop handle is dead: an earlier transform consumed its"):
        tr.split_loop(sch, loop=j, inner=2)


def test_fuse_loops_keeps_the_loop_around_them():
    after = """
        B = T.sblock_alloc_buffer((6, 20))
        for i, j in T.grid(6, 20):
            with T.sblock("B", "SS", i, j):
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for x, y_z_fused in T.grid(6, 20):
            with T.sblock("C"):
                vx, vy = T.axis.remap("SS", [x, y_z_fused])
                C[vx, vy] = B[vx, vy] + T.float32(1)
    """

    def change(sch):
        x, y, z = sch.get_loops(sch.get_sblock("C"))
        return x, tr.fuse_loops(sch, (y, z))

    check_pair(Chain, change, after)


def test_fuse_loops_refuses_what_does_not_fit():
    sch, *_ = start()
    with refuses(sch, r"fuse_loops: no loop is given; pass at least one loop"):
        tr.fuse_loops(sch, [])
    sch, i, _ = start()
    with refuses(sch, r"fuse_loops: loops is not a list of loop handles; pass a list"):
        tr.fuse_loops(sch, i)
    sch, i, j = start()
    tr.bind_loop(sch, j, axis="threadIdx.x")
    with refuses(sch, r"fuse_loops: loop 'j' is already bound to 'threadIdx.x'"):
        tr.fuse_loops(sch, [i, j])
    for outer, inner in [("z", "x"), ("x", "z"), ("y", "y")]:
        sch, *loops = start(Chain, "C")
        named = dict(zip("xyz", loops, strict=True))
        sentence = rf"loop '{inner}' does not stand directly inside loop '{outer}'; .*reorder_loops"
        with refuses(sch, sentence):
            tr.fuse_loops(sch, [named[outer], named[inner]])


def test_reorder_loops_leaves_the_others_in_their_places():
    after = CHAIN.replace("x, y, z in T.grid(6, 5, 4)", "z, y, x in T.grid(4, 5, 6)")

    def change(sch):
        x, _, z = sch.get_loops(sch.get_sblock("C"))
        tr.reorder_loops(sch, [z, x])

    check_pair(Chain, change, after)


def test_reorder_loops_refuses_what_does_not_fit():
    sch, i, j = start()
    with refuses(sch, r"reorder_loops: loop 'i' is given twice; name each loop once"):
        tr.reorder_loops(sch, [i, j, i])
    sch, i, _ = start(Chain)
    x, *_ = sch.get_loops(sch.get_sblock("C"))
    with refuses(sch, r"loop 'x' is not in one chain with loop 'i'; reorder loops of one block"):
        tr.reorder_loops(sch, [i, x])
    sch, *_ = start(Chain)
    block = sch.get_sblock("B")
    i, j = sch.get_loops(block)
    sch.reverse_compute_at(sch.get_sblock("C"), i)
    with refuses(
        sch, r"^reorder_loops: TVM refuses: The loops .* in between.* loop 'i'; a block between"
    ):
        tr.reorder_loops(sch, [j, i])


def test_unroll_loop_of_constant_extent():
    after = """
        for i in T.unroll(6):
            for j in range(20):
                with T.sblock("B", "SS", i, j):
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        tr.unroll_loop(sch, i)
        return i, j

    check_pair(Scale, change, after)


def test_unroll_loop_refuses_what_does_not_fit():
    sch, i = start(ScaleAnyLength)
    with refuses(sch, r"loop 'i' has the symbolic extent n; split it with tail=\"guard\" first"):
        tr.unroll_loop(sch, i)
    sch, _, j = start()
    with refuses(sch, r"loop 'j' would make 20 copies of its body, more than limit=19; split"):
        tr.unroll_loop(sch, j, limit=19)
    tr.unroll_loop(sch, j, limit=20)
    for order in [(0, 1), (1, 0)]:
        sch, *loops = start()
        tr.unroll_loop(sch, loops[order[0]])
        with refuses(sch, rf"loop '{'ij'[order[1]]}' would make 120 copies .* limit=119"):
            tr.unroll_loop(sch, loops[order[1]], limit=119)
        tr.unroll_loop(sch, loops[order[1]], limit=120)
    sch, _, j = start()
    inner = tr.split_loop(sch, j, inner=4).inner
    tr.vectorize_loop(sch, inner)
    with refuses(sch, r"unroll_loop: loop 'j_1' is already vectorized; do this while"):
        tr.unroll_loop(sch, inner)


def test_suggest_unrolling_to_the_cuda_compiler():
    after = """
        for i in T.serial(
            6, annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 0}
        ):
            for j in range(20):
                with T.sblock("B", "SS", i, j):
                    B[vi, vj] = A[vi, vj] * T.float32(2)
    """

    def change(sch):
        i, j = sch.get_loops(sch.get_sblock("B"))
        tr.suggest_unrolling(sch, i, limit=64)
        return i, j

    check_pair(Scale, change, after)


def test_suggest_unrolling_refuses_what_does_not_fit():
    for limit in [0, -1]:
        sch, i, _ = start()
        with refuses(sch, rf"suggest_unrolling: limit={limit} is not a size; use 1 or more"):
            tr.suggest_unrolling(sch, i, limit=limit)
    sch, i, _ = start()
    tr.suggest_unrolling(sch, i)
    with refuses(sch, r"suggest_unrolling: loop 'i' is already marked for that; call this once"):
        tr.suggest_unrolling(sch, i, limit=4)
    sch, i, _ = start()
    tr.bind_loop(sch, i, axis="blockIdx.x")
    with refuses(sch, r"suggest_unrolling: loop 'i' is already bound to 'blockIdx.x'"):
        tr.suggest_unrolling(sch, i)


@pytest.mark.parametrize("place", ["i", "j_0"])
def test_suggest_unrolling_refuses_a_pipeline_of_asynchronous_copies(place):
    sch, i, j = start()
    block = sch.get_sblock("B")
    outer, inner = tr.split_loop(sch, j, inner=5)
    copy = tr.cache_read_at(sch, block, outer, operand=0)
    tr.bind_loop(sch, sch.get_loops(copy)[-1], axis="threadIdx.x")
    tr.prefetch_asynchronously(sch, outer, [copy])
    with refuses(
        sch,
        r"suggest_unrolling: loop 'j_0' is a pipeline of asynchronous copies, and TVM could not say"
        " how many to wait for; suggest to unroll loops inside of the pipeline only",
    ):
        tr.suggest_unrolling(sch, {"i": i, "j_0": outer}[place])
    tr.suggest_unrolling(sch, inner)
