"""Rows of shared memory that begin in other banks; problems padded to multiples of a tile."""

import re

import pytest
from kernels import Copy, Matmul, at_block, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr

MatmulBias = parse_kernel("""
    A (16, 6), B (6, 12), bias (12,), D (16, 12), E (16, 12)
    C = T.sblock_alloc_buffer((16, 12))
    for i, j, k in T.grid(16, 12, 6):
        with T.sblock("C", "SSR", i, j, k):
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 12):
        with T.sblock("D", "SS", i, j):
            D[vi, vj] = C[vi, vj] + bias[vj]
    for i, j in T.grid(16, 12):
        with T.sblock("E", "SS", i, j):
            E[vi, vj] = D[vi, vj] * T.float32(2)
""")


def start(scope="shared", place=0):
    """A schedule, a copy of B at one of the loops of C, and C."""
    sch = Schedule(Matmul, debug_mask="all")
    block = sch.get_sblock("C")
    loop = sch.get_loops(block)[place]
    return sch, tr.cache_read_at(sch, block, loop, operand=1, scope=scope), block


def test_pad_shared_rows_of_a_tile():
    after = """
        B_shared = T.sblock_alloc_buffer((6, 12), scope="shared")
        for i in range(16):
            for ax0, ax1 in T.grid(6, 12):
                with T.sblock("B_shared"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    T.sblock_attr({"buffer_dim_align": [[0, 0, 12, 5]]})
                    B_shared[v0, v1] = B[v0, v1]
            for j, k in T.grid(12, 6):
                with T.sblock("C", "SSR", i, j, k):
                    C[vi, vj] += A[vi, vk] * B_shared[vk, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        copy = tr.cache_read_at(sch, block, sch.get_loops(block)[0], operand=1)
        tr.pad_shared_rows(sch, copy, elements=5)
        return copy

    check_pair(Matmul, change, after)


def test_pad_shared_rows_refuses_what_does_not_fit():
    sch, copy, _ = start(place=1)
    with refuses(sch, r"elements=1 is not less than the 1 elements .*; rows of one element need"):
        tr.pad_shared_rows(sch, copy, elements=1)
    sch, copy, _ = start("local")
    with refuses(sch, r"writes 'B_local' in scope 'local'; pad the rows of a shared buffer"):
        tr.pad_shared_rows(sch, copy, elements=1)
    for elements in [0, -1]:
        sch, copy, _ = start()
        with refuses(sch, rf"pad_shared_rows: elements={elements} is not a padding; use at least"):
            tr.pad_shared_rows(sch, copy, elements=elements)
    sch, copy, _ = start()
    tr.fuse_loops(sch, sch.get_loops(copy)[-2:])
    with refuses(sch, r"'B_shared' has no loop of its own along the rows of 'B_shared', so that"):
        tr.pad_shared_rows(sch, copy, elements=1)
    sch, block, *_ = at_block(Copy, "B")
    outer, _ = tr.split_loop(sch, sch.get_loops(block)[0], inner=4)
    copy = tr.cache_read_at(sch, block, outer, operand=0)
    with refuses(sch, r"block 'A_shared' writes 'A_shared' of one dimension, which has no rows"):
        tr.pad_shared_rows(sch, copy, elements=1)
    sch, *_ = start()
    root = sch.get_sblock("root")
    with refuses(sch, r"pad_shared_rows: block 'root' writes 0 buffers; pass the copy block that"):
        tr.pad_shared_rows(sch, root, elements=1)
    sch, copy, block = start()
    _, j, _ = sch.get_loops(block)
    outer, inner = tr.split_loop(sch, j, inner=4)
    sch.reorder(sch.get_loops(block)[-1], inner)
    tr.vectorize_loop(sch, inner)
    with refuses(
        sch,
        r"pad_shared_rows: block 'C' uses 'B_shared' in vectors of 4, and rows of 13 elements would"
        " misalign them; pad so that a row becomes a multiple of 4, or do not vectorize",
    ):
        tr.pad_shared_rows(sch, copy, elements=1)
    tr.pad_shared_rows(sch, copy, elements=4)
    assert sch.get(outer)


@pytest.mark.parametrize("threads", [8, (2, 4)])
def test_pad_shared_rows_refuses_a_tile_whose_rows_are_not_known_any_more(threads):
    sch, copy, _ = start()
    tr.fetch_cooperatively(sch, copy, threads=threads)
    with refuses(
        sch,
        r"pad_shared_rows: block 'B_shared' has no loop of its own along the rows of 'B_shared', so"
        " that their length is not known; call this between cache_read_at and fetch_coop",
    ):
        tr.pad_shared_rows(sch, copy, elements=1)


def test_transpose_tile_for_its_readers_too():
    after = """
        B_shared = T.sblock_alloc_buffer((12, 6), scope="shared")
        for i in range(16):
            for ax0, ax1 in T.grid(6, 12):
                with T.sblock("B_shared"):
                    v0, v1 = T.axis.remap("SS", [ax0, ax1])
                    B_shared[v1, v0] = B[v0, v1]
            for j, k in T.grid(12, 6):
                with T.sblock("C", "SSR", i, j, k):
                    C[vi, vj] += A[vi, vk] * B_shared[vj, vk]
    """

    def change(sch):
        block = sch.get_sblock("C")
        copy = tr.cache_read_at(sch, block, sch.get_loops(block)[0], operand=1)
        tr.transpose_tile(sch, copy)
        return copy, block

    check_pair(Matmul, change, after)


def test_transpose_tile_refuses_what_does_not_fit():
    sch, copy, block = start("local")
    with refuses(
        sch,
        r"transpose_tile: block 'B_local' writes 'B_local' in scope 'local' with 2 dimensions; "
        "transpose a shared tile of two dimensions or more",
    ):
        tr.transpose_tile(sch, copy)
    with refuses(sch, r"block 'C' writes 'C' in scope 'global' with 2 dimensions"):
        tr.transpose_tile(sch, block)
    sch, block, *_ = at_block(Copy, "B")
    outer, _ = tr.split_loop(sch, sch.get_loops(block)[0], inner=4)
    copy = tr.cache_read_at(sch, block, outer, operand=0)
    with refuses(sch, r"block 'A_shared' writes 'A_shared' in scope 'shared' with 1 dimensions"):
        tr.transpose_tile(sch, copy)
    sch, copy, _ = start()
    tr.pad_shared_rows(sch, copy, elements=4)
    with refuses(sch, r"the rows of 'B_shared' are padded already; transpose before padding"):
        tr.transpose_tile(sch, copy)
    sch, *_ = start()
    root = sch.get_sblock("root")
    with refuses(sch, r"transpose_tile: block 'root' writes 0 buffers; pass the copy block that"):
        tr.transpose_tile(sch, root)


def test_pad_block_with_an_epilogue():
    after = """
        A_pad = T.sblock_alloc_buffer((20, 6))
        C_pad = T.sblock_alloc_buffer((20, 12))
        for i0, i1 in T.grid(20, 6):
            with T.sblock("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                A_pad[v0, v1] = T.if_then_else(v0 < 16, A[v0, v1], T.float32(0))
        for i, j, k in T.grid(20, 12, 6):
            with T.sblock("C", "SSR", i, j, k):
                C_pad[vi, vj] += A_pad[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 12):
            with T.sblock("D", "SS", i, j):
                D[vi, vj] = C_pad[vi, vj] + bias[vj]
        for i, j in T.grid(16, 12):
            with T.sblock("E", "SS", i, j):
                E[vi, vj] = D[vi, vj] * T.float32(2)
    """

    def change(sch):
        epilogue = sch.get_sblock("D")
        padding = tr.pad_block(sch, sch.get_sblock("C"), multiples=(5, 12, 6))
        assert padding.crop is None
        assert len(padding.operands) == 1
        return padding.operands, epilogue

    check_pair(MatmulBias, change, after)


def test_pad_block_refuses_what_does_not_fit():
    for multiples in [(), (4, 4), (4, 4, 0), (4, 4, 4, 4)]:
        sch, block, *_ = at_block(Matmul, "C")
        with refuses(
            sch,
            rf"pad_block: multiples={re.escape(str(multiples))} does not fit block 'C' with its 3 "
            "iterators; give one multiple of at least 1 for each iterator",
        ):
            tr.pad_block(sch, block, multiples=multiples)
    for fuse in [False, True]:
        sch, block, i, j, _ = at_block(Matmul, "C")
        outer, inner = tr.split_loop(sch, i, inner=4)
        if fuse:
            sch.fuse(inner, j)  # three loops again
        with refuses(
            sch,
            r"pad_block: block 'C' does not have one loop for each of its 3 iterators; pad a block "
            "before its loops are split or fused",
        ):
            tr.pad_block(sch, block, multiples=(5, 12, 4))
        assert sch.get(outer)
    sch = Schedule(Matmul)
    foreign = Schedule(Matmul).get_sblock("C")
    with refuses(sch, r"pad_block: the block handle belongs to another schedule; pass handles tha"):
        tr.pad_block(sch, foreign, multiples=(5, 12, 4))


def test_pad_block_refuses_what_pad_einsum_refuses_and_changes_nothing():
    Window = parse_kernel("""
        A (18,), B (16,)
        for i, k in T.grid(16, 3):
            with T.sblock("B", "SR", i, k):
                B[vi] += A[vi + vk]
    """)

    sch, block, *_ = at_block(Window, "B")
    with refuses(sch, r"^pad_block: TVM refuses: The block 'B' not a computation of Einsum"):
        tr.pad_block(sch, block, multiples=(5, 3))


RunSums = parse_kernel("""
    A (64,), B (64,)
    twice = T.sblock_alloc_buffer((72,))
    for x in range(72):
        with T.sblock("twice", "S", x):
            twice[vx] = T.if_then_else(vx < 64, A[vx] * T.float32(2), T.float32(0))
    for i, r in T.grid(64, 3):
        with T.sblock("B", "SR", i, r):
            B[vi] += twice[vi + vr]
""")


def fold(sch, row=8, padding=4, scope="shared"):
    """The block that writes "twice", folded in another memory."""
    block = sch.get_sblock("twice")
    sch.set_scope(block, 0, scope)
    tr.fold_tile(sch, block, row=row, padding=padding)
    return block


def test_fold_tile_into_padded_rows():
    after = """
        twice = T.sblock_alloc_buffer((9, 8), scope="shared")
        for x in range(72):
            with T.sblock("twice", "S", x):
                T.sblock_attr({"buffer_dim_align": [[0, 0, 8, 4]]})
                twice[vx // 8, vx % 8] = T.if_then_else(
                    vx < 64, A[vx] * T.float32(2), T.float32(0)
                )
        for i, r in T.grid(64, 3):
            with T.sblock("B", "SR", i, r):
                B[vi] += twice[(vi + vr) // 8, (vi + vr) % 8]
    """

    check_pair(RunSums, fold, after)


def test_fold_tile_refuses_what_does_not_fit():
    sch = Schedule(RunSums, debug_mask="all")
    block = sch.get_sblock("twice")
    sch.set_scope(block, 0, "local")
    with refuses(sch, r"block 'twice' writes 'twice_local' in scope 'local'; fold a tile in"):
        tr.fold_tile(sch, block, row=8)
    for row, padding in [(0, 0), (8, 8), (8, -1), (-8, 0)]:
        sch = Schedule(RunSums, debug_mask="all")
        block = sch.get_sblock("twice")
        sch.set_scope(block, 0, "shared")
        with refuses(sch, rf"fold_tile: row={row} and padding={padding} are not rows; give a row"):
            tr.fold_tile(sch, block, row=row, padding=padding)
    sch = Schedule(RunSums, debug_mask="all")
    block = fold(sch)
    with refuses(sch, r"fold_tile: the rows of 'twice_shared' are padded already; fold"):
        tr.fold_tile(sch, block, row=4)
