"""Tiles that all threads of a block fetch together."""

import pytest
from kernels import Matmul, at_block, parse_kernel
from pairs import assert_dead, check_pair, compile_for_cuda, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr


def fetch_b(sch, **options):
    """Rows of C on blocks, and B fetched whole for each."""
    block = sch.get_sblock("C")
    i, *_ = sch.get_loops(block)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_read_at(sch, block, i, operand=1)
    own = sch.get_loops(copy)[-2:]
    tr.fetch_cooperatively(sch, copy, **options)
    assert_dead(sch, *own)
    return block, i, copy


def start(scope="shared", place=0):
    """A schedule with a copy of B at one of the loops of C."""
    sch = Schedule(Matmul, debug_mask="all")
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[place]
    return sch, tr.cache_read_at(sch, block, loop, operand=1, scope=scope)


def test_fetch_cooperatively_with_vectors():
    after = """
        B_shared = T.sblock_alloc_buffer((6, 12), scope="shared")
        for i in T.thread_binding(16, thread="blockIdx.x"):
            for f in range(3):
                for tx in T.thread_binding(6, thread="threadIdx.x"):
                    for v in T.vectorized(4):
                        with T.sblock("B_shared"):
                            v0 = T.axis.spatial(6, (f * 24 + tx * 4 + v) // 12)
                            v1 = T.axis.spatial(12, (f * 24 + tx * 4 + v) % 12)
                            B_shared[v0, v1] = B[v0, v1]
            for j, k in T.grid(12, 6):
                with T.sblock("C", "SSR", i, j, k):
                    C[vi, vj] += A[vi, vk] * B_shared[vk, vj]
    """

    check_pair(Matmul, lambda sch: fetch_b(sch, threads=6, vector=4), after)


def test_fetch_cooperatively_refuses_what_does_not_fit():
    sch, copy = start("local")
    with refuses(
        sch,
        r"block 'B_local' writes 'B_local' in scope 'local', which threads do not "
        'share; cache the operand with scope="shared" or "shared.dyn"',
    ):
        tr.fetch_cooperatively(sch, copy, threads=8)
    sch, copy = start()
    with refuses(sch, r"vectorize_loop: .* vectors of 8 elements of 'B' \(float32\), 32 bytes"):
        tr.fetch_cooperatively(sch, copy, threads=3, vector=8, tail="guard")
    with refuses(sch, r"fetch_cooperatively: tail='pad' is unknown; use tail=\"refuse\" or tail"):
        tr.fetch_cooperatively(sch, copy, threads=8, tail="pad")
    for threads in [(), (0,), (2, 2, 2, 2), (32, 33), 2048]:
        sch, copy = start()
        with refuses(sch, r"threads=\(.*\) is not a shape of a thread block; .* together at most"):
            tr.fetch_cooperatively(sch, copy, threads=threads, tail="guard")
    sch = Schedule(Matmul)
    copy = sch.cache_read(sch.get_sblock("C"), 1, "shared")
    with refuses(
        sch,
        r"block 'B_shared' must be under a loop of its consumer, with loops of its own; "
        "place it with cache_read_at",
    ):
        tr.fetch_cooperatively(sch, copy, threads=8)
    sch, block, *_ = at_block(Matmul, "C")
    copy = sch.cache_read(block, 1, "shared")
    sch.compute_at(copy, sch.get_loops(block)[-1])  # drops the loops of one iteration
    with refuses(sch, r"block 'B_shared' must be under a loop of its consumer, with loops"):
        tr.fetch_cooperatively(sch, copy, threads=1)
    sch, root, *_ = at_block(Matmul, "root")
    with refuses(sch, r"block 'root' writes 0 buffers; pass the copy block that cache_read_at"):
        tr.fetch_cooperatively(sch, root, threads=8)
    sch, copy = start()
    tr.fetch_cooperatively(sch, copy, threads=8)
    with refuses(sch, r"fetch_cooperatively: loop 'ax0_ax1_fused_1' is already bound to 'thread"):
        tr.fetch_cooperatively(sch, copy, threads=8)
    sch, block, *_ = at_block(Matmul, "C")
    tile = tr.tile_block(sch, block, threads=(8, 1))
    steps = tr.split_reduction(sch, block, inner=3)
    copy = tr.cache_read_at(sch, block, steps.outer, operand=0)
    with refuses(
        sch,
        r"tile of block 'A_shared' lies in runs of 3 elements, which vector=2 does not divide, so "
        "that TVM would load the elements one by one; use a shorter vector or longer rows",
    ):
        tr.fetch_cooperatively(sch, copy, threads=(4, 1), vector=2)
    assert sch.get(tile.blocks[0])
    sch, block, *_ = at_block(Matmul, "C")
    outer = tr.split_loop(sch, sch.get_loops(block)[0], inner=8).outer
    copy = tr.cache_read_at(sch, block, outer, operand=0)
    whole = sch.copy()
    tr.fetch_cooperatively(whole, copy, threads=4, vector=4)
    tr.pad_shared_rows(sch, copy, elements=2)
    with refuses(sch, r"lies in runs of 6 elements, which vector=4 does not divide"):
        tr.fetch_cooperatively(sch, copy, threads=4, vector=4)
    sch, block, *_ = at_block(Matmul, "C")
    tile = tr.tile_block(sch, block, threads=(4, 6))
    copy = tr.cache_read_at(sch, block, tile.threads[1], operand=1)
    with refuses(
        sch,
        r"fetch_cooperatively: bind_loop: loop 'ax0_ax1_fused_2' runs 3 times, and 'threadIdx.x' "
        "has the extent 6 at loop 'j_1' of the same kernel",
    ):
        tr.fetch_cooperatively(sch, copy, threads=(4, 3))
    tr.fetch_cooperatively(sch, copy, threads=(4, 6), tail="guard")
    sch, block, *_ = at_block(Matmul, "C")
    tile = tr.tile_block(sch, block, threads=(6,))
    copy = tr.cache_read_at(sch, block, tile.threads[0], operand=1)
    with refuses(
        sch,
        r"threads=\(2, 6\) needs threadIdx.y above loop 'ax0', and the kernel's threads are on "
        "threadIdx.x only; give the extents that the compute loops bind",
    ):
        tr.fetch_cooperatively(sch, copy, threads=(2, 6), tail="guard")
    tr.fetch_cooperatively(sch, copy, threads=(1, 6), tail="guard")


def fetch_whole_rows(padding):
    """A schedule with 8 whole rows of A in shared memory, each of 6 elements."""
    sch, block, *_ = at_block(Matmul, "C")
    tile = tr.tile_block(sch, block, threads=(8, 12), fuse_threads=True)
    copy = tr.cache_read_at(sch, block, tile.threads[0], operand=0)
    if padding:
        tr.pad_shared_rows(sch, copy, elements=padding)
    return sch, copy


def test_vectors_over_the_ends_of_whole_rows_stay_vectors():
    sch, copy = fetch_whole_rows(0)
    tr.fetch_cooperatively(sch, copy, threads=96, vector=4, tail="guard")
    assert "*(float4*)(A_shared" in compile_for_cuda(sch.mod)
    sch, copy = fetch_whole_rows(0)
    with refuses(sch, r"has 48 elements, which threads \* vector = 384 does not divide"):
        tr.fetch_cooperatively(sch, copy, threads=96, vector=4)


def test_stage_operand_at_of_an_argument():
    after = """
        A_shared_dyn = T.sblock_alloc_buffer((16, 6), scope="shared.dyn")
        for i in T.thread_binding(16, thread="blockIdx.x"):
            for j in T.thread_binding(12, thread="threadIdx.x"):
                for k_0 in range(3):
                    for f in range(1):
                        for tx in T.thread_binding(12, thread="threadIdx.x"):
                            with T.sblock("A_shared.dyn"):
                                v0 = T.axis.spatial(16, i)
                                v1 = T.axis.spatial(6, k_0 * 2 + (f * 12 + tx))
                                T.where(f * 12 + tx < 2)
                                A_shared_dyn[v0, v1] = A[v0, v1]
                    for k_1 in range(2):
                        with T.sblock("C", "SS", i, j):
                            vk = T.axis.reduce(6, k_0 * 2 + k_1)
                            C[vi, vj] += A_shared_dyn[vi, vk] * B[vk, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        i, j, _ = sch.get_loops(block)
        tr.bind_loop(sch, i, axis="blockIdx.x")
        tr.bind_loop(sch, j, axis="threadIdx.x")
        steps = tr.split_reduction(sch, block, inner=2)
        copy = tr.stage_operand_at(
            sch, block, steps.outer, operand=0, threads=12, scope="shared.dyn"
        )
        return copy, block, i, j, steps

    check_pair(Matmul, change, after)


# E = (A B) D: the second product stages what the first one made.
TwoMatmuls = parse_kernel("""
    A (16, 6), B (6, 12), D (12, 8), E (16, 8)
    C = T.sblock_alloc_buffer((16, 12))
    for i, j, k in T.grid(16, 12, 6):
        with T.sblock("C", "SSR", i, j, k):
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j, k in T.grid(16, 8, 12):
        with T.sblock("E", "SSR", i, j, k):
            E[vi, vj] += C[vi, vk] * D[vk, vj]
""")


def test_stage_operand_at_of_another_reduction_leaves_it_a_stage_of_its_own():
    sch = Schedule(TwoMatmuls, debug_mask="all")
    first, second = sch.get_sblock("C"), sch.get_sblock("E")
    tr.tile_block(sch, first, threads=(4, 6))
    tile = tr.tile_block(sch, second, threads=(4, 8))
    tr.stage_operand_at(sch, second, tile.threads[1], operand=0, threads=(4, 8))
    assert sch.get(first).name_hint == "C"
    source = compile_for_cuda(sch.mod)
    assert "__launch_bounds__(24)" in source
    assert "__launch_bounds__(32)" in source
    assert "C_shared" in source


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"operand": 2}, "block 'C' has no operand 2"),
        ({"scope": "warp"}, r"scope 'warp' is not supported \(TVM lowers warp buffers wrongly\)"),
        ({"scope": "local"}, "fetch_cooperatively: block 'A_local' writes 'A_local' in scope 'loc"),
        ({"vector": 3}, "fetch_cooperatively: vector=3 is not a vector width"),
        ({"threads": 5}, "runs 5 times, and 'threadIdx.x' has the extent 12 at loop 'j'"),
        ({"tail": "refuse"}, "the tile of block 'A_shared' has 6 elements, which .* = 12 does not"),
    ],
)
def test_stage_operand_at_refuses_what_its_parts_refuse_and_changes_nothing(options, sentence):
    sch, block, i, j, _ = at_block(Matmul, "C")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="threadIdx.x")
    with refuses(sch, rf"^stage_operand_at: .*{sentence}"):
        tr.stage_operand_at(sch, block, j, **{"operand": 0, "threads": 12, **options})
    tr.stage_operand_at(sch, block, j, operand=0, threads=12)
