"""Rows in vectors: a rim that is no whole vector, and vectors of a tensor that stay whole."""

from kernels import at_block, parse_kernel
from pairs import check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks.compile.compiling import compile_module
from tirstep.modules import softmax


def make_sums(rim, dtype="float32"):
    """Sums of a window with a rim of zeros on both sides."""
    row, window = 16 + 2 * rim, 2 * rim + 1
    return parse_kernel(f"""
        A (4, 16) {dtype}, B (4, 16) {dtype}
        padded = T.sblock_alloc_buffer((4, {row}), "{dtype}")
        for y, x in T.grid(4, {row}):
            with T.sblock("padded", "SS", y, x):
                padded[vy, vx] = T.if_then_else(
                    vx >= {rim} and vx < {rim + 16}, A[vy, vx - {rim}], T.{dtype}(0)
                )
        for i, j, r in T.grid(4, 16, {window}):
            with T.sblock("B", "SSR", i, j, r):
                B[vi, vj] += padded[vi, vj + vr]
    """)


def align(sch, vector=4, offset=1):
    tr.align_vectors(sch, sch.get_sblock("padded"), vector=vector, offset=offset)


def test_align_vectors_of_a_rim_of_three():
    after = """
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            padded = T.sblock_alloc_buffer((4, 6, 4))
            for y, v, p in T.grid(4, 6, 4):
                with T.sblock("padded"):
                    vy, vv, vl = T.axis.remap("SSS", [y, v, p])
                    padded[vy, vv, vl] = T.if_then_else(
                        (vv == 0 and vl < 1) or (vv == 5 and vl == 3),
                        T.float32(0),
                        T.if_then_else(
                            vv * 4 + vl - 1 >= 3 and vv * 4 + vl - 1 < 19,
                            A[vy, vv * 4 + vl - 1 - 3],
                            T.float32(0),
                        ),
                    )
            for i, j, r in T.grid(4, 16, 7):
                with T.sblock("B", "SSR", i, j, r):
                    B[vi, vj] += padded[vi, (vj + vr + 1) // 4, (vj + vr + 1) % 4]
    """

    check_pair(make_sums(3), align, after)


def make_window():
    """The CUDA source of windows of a rim of three in registers, one thread for four sums."""
    sch = Schedule(make_sums(3))
    align(sch)
    tr.set_pipeline(sch)
    padded, block = sch.get_sblock("padded"), sch.get_sblock("B")
    row, column, _ = sch.get_loops(block)
    columns, _ = tr.split_loop(sch, column, inner=4)
    threads = tr.fuse_loops(sch, [row, columns])
    tr.bind_loop(sch, threads, axis="threadIdx.x")
    sch.set_scope(padded, 0, "local")
    tr.compute_block_at(sch, padded, threads)
    *_, first, last = sch.get_loops(padded)
    tr.suggest_unrolling(sch, first)
    tr.vectorize_loop(sch, last)
    return compile_module(sch.mod, "nvidia/nvidia-h100").mod.imports[0].inspect_source()


def test_a_window_is_loaded_in_vectors_of_the_tensor():
    assert "*(float4*)(A_ptr" in make_window()


def test_align_vectors_refuses_what_does_not_fit():
    for vector, offset in [(3, 0), (1, 0), (4, 4), (4, -1)]:
        sch = Schedule(make_sums(3), debug_mask="all")
        block = sch.get_sblock("padded")
        with refuses(sch, rf"align_vectors: vector={vector} and offset={offset} are not a vector"):
            tr.align_vectors(sch, block, vector=vector, offset=offset)
    sch = Schedule(make_sums(3), debug_mask="all")
    tr.split_loop(sch, sch.get_loops(sch.get_sblock("padded"))[1], inner=2)
    block = sch.get_sblock("padded")
    with refuses(sch, r"block 'padded' does not have one loop for each of its 2 iterators; align"):
        tr.align_vectors(sch, block, vector=4, offset=1)
    # The loops of both would share their variables, and TVM then took one for the other.
    sch, block, *_ = at_block(softmax(4, 16), "max")
    init = tr.decompose_reduction_at(sch, block, sch.get_loops(block)[0])
    with refuses(
        sch,
        "align_vectors: 'largest' is written by the blocks 'max_init' and 'max_update'; align a "
        "buffer that one block writes: a reduction before decompose_reduction_at",
    ):
        tr.align_vectors(sch, init, vector=2, offset=1)


def test_align_vectors_refuses_a_tensor_of_the_kernel():
    Copy = parse_kernel("""
        A (4, 16), padded (4, 16)
        for y, x in T.grid(4, 16):
            with T.sblock("padded", "SS", y, x):
                padded[vy, vx] = A[vy, vx]
    """)

    sch = Schedule(Copy, debug_mask="all")
    block = sch.get_sblock("padded")
    with refuses(sch, r"'padded' writes 'padded', a tensor of the kernel's; align an intermediate"):
        tr.align_vectors(sch, block, vector=4, offset=1)


def test_align_vectors_refuses_rows_of_a_symbolic_length():
    rows = parse_kernel("""
        A (4, n), B (4, n)
        padded = T.sblock_alloc_buffer((4, n))
        for y, x in T.grid(4, n):
            with T.sblock("padded", "SS", y, x):
                padded[vy, vx] = A[vy, vx]
        for y, x in T.grid(4, n):
            with T.sblock("B", "SS", y, x):
                B[vy, vx] = padded[vy, vx]
    """)
    sch = Schedule(rows, debug_mask="all")
    block = sch.get_sblock("padded")
    with refuses(sch, r"the rows of 'padded' have the symbolic length n; give the kernel its siz"):
        tr.align_vectors(sch, block, vector=4, offset=1)
