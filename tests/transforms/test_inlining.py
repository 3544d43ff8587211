"""Blocks that become expressions of others: producers, and what follows a result."""

from kernels import at_block, parse_kernel, start
from pairs import assert_dead, check_pair, refuses
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import vector_add

# Heads of products, scaled, with a mask that is halved, and cast: as attention has them.
Scaled = parse_kernel("""
    A (3, 8, 5), B (3, 5, 12), mask (8, 12), E (3, 8, 12) float16
    C = T.sblock_alloc_buffer((3, 8, 12))
    S = T.sblock_alloc_buffer((3, 8, 12))
    H = T.sblock_alloc_buffer((8, 12))
    D = T.sblock_alloc_buffer((3, 8, 12))
    for b, i, j, k in T.grid(3, 8, 12, 5):
        with T.sblock("C", "SSSR", b, i, j, k):
            C[vb, vi, vj] += A[vb, vi, vk] * B[vb, vk, vj]
    for b, i, j in T.grid(3, 8, 12):
        with T.sblock("S", "SSS", b, i, j):
            S[vb, vi, vj] = C[vb, vi, vj] * T.float32(0.5)
    for i, j in T.grid(8, 12):
        with T.sblock("H", "SS", i, j):
            H[vi, vj] = mask[vi, vj] * T.float32(0.25)
    for b, i, j in T.grid(3, 8, 12):
        with T.sblock("D", "SSS", b, i, j):
            D[vb, vi, vj] = S[vb, vi, vj] + H[vi, vj]
    for b, i, j in T.grid(3, 8, 12):
        with T.sblock("E", "SSS", b, i, j):
            E[vb, vi, vj] = T.Cast("float16", D[vb, vi, vj])
""")


ScaledInOne = parse_kernel("""
    A (3, 8, 5), B (3, 5, 12), mask (8, 12), E (3, 8, 12) float16
    C = T.sblock_alloc_buffer((3, 8, 12))
    for b, i, j, k in T.grid(3, 8, 12, 5):
        with T.sblock("C", "SSSR", b, i, j, k):
            C[vb, vi, vj] += A[vb, vi, vk] * B[vb, vk, vj]
    for b, i, j in T.grid(3, 8, 12):
        with T.sblock("E", "SSS", b, i, j):
            E[vb, vi, vj] = T.Cast(
                "float16",
                C[vb, vi, vj] * T.float32(0.5) + mask[vi, vj] * T.float32(0.25),
            )
""")


Batch = parse_kernel("""
    A (3, 5, 8, 6), B (3, 5, 8, 6)
    for b, h, i, j in T.grid(3, 5, 8, 6):
        with T.sblock("B", "SSSS", b, h, i, j):
            B[vb, vh, vi, vj] = A[vb, vh, vi, vj] + T.float32(1)
""")


BatchOnBlocks = parse_kernel("""
    A (3, 5, 8, 6), B (3, 5, 8, 6)
    for b_h_fused in T.thread_binding(15, thread="blockIdx.z"):
        for i, j in T.grid(8, 6):
            with T.sblock("B"):
                vb = T.axis.spatial(3, b_h_fused // 5)
                vh = T.axis.spatial(5, b_h_fused % 5)
                vi, vj = T.axis.remap("SS", [i, j])
                B[vb, vh, vi, vj] = A[vb, vh, vi, vj] + T.float32(1)
""")


@I.ir_module
class OpenMatmul:
    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle, c: T.handle):
        m, n = T.int64(), T.int64()
        A = T.match_buffer(a, (m, T.int64(16)))
        B = T.match_buffer(b, (T.int64(16), n))
        C = T.match_buffer(c, (m, n))
        for i, j, k in T.grid(m, n, T.int64(16)):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_inline_epilogue_of_a_chain_and_what_it_reads():
    def change(sch):
        block, gone = sch.get_sblock("C"), [sch.get_sblock(name) for name in "SHD"]
        epilogue = tr.inline_epilogue(sch, block)
        assert epilogue is not None
        assert_dead(sch, *gone)
        return block, epilogue

    check_pair(Scaled, change, ScaledInOne)


def test_inline_epilogue_refuses_a_decomposed_reduction():
    sch, block, *_ = start(ScaledInOne, "C")
    tr.decompose_reduction_at(sch, block, sch.get_loops(block)[3])
    with refuses(sch, "inline_epilogue: blocks 'C_update' and 'C_init' both write 'C'; inline the"):
        tr.inline_epilogue(sch, block)


def test_inline_epilogue_leaves_what_tvm_would_lose_a_block_by():
    """Where TVM inlines one copy of two in a nest, it forgets the other one."""
    problem = vector_add.problem(1, dtype="int8")
    sch, block, loop = at_block(problem.module, "C")
    copy = tr.cache_read_at(sch, block, loop, operand=1, scope="shared.dyn")
    tile = {"threads": (2, 2), "vector": 4, "scope": "shared.dyn", "tail": "guard"}
    tr.stage_operand_at(sch, block, loop, operand=0, **tile)
    assert tr.inline_epilogue(sch, copy) is not None
    assert sch.get(copy).name_hint == "B_shared.dyn"
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="here") == []


def test_bind_batch_of_two_loops():
    check_pair(Batch, lambda sch: tr.bind_batch(sch, sch.get_sblock("B")), BatchOnBlocks)


def test_bind_batch_refuses_threads_too_few_loops_and_other_orders():
    sch, block, *_ = start(Batch, "B")
    with refuses(sch, "bind_batch: axis 'threadIdx.x' is not one of blocks"):
        tr.bind_batch(sch, block, axis="threadIdx.x")
    with refuses(sch, "bind_batch: kept=4 leaves none of the 4 spatial loops of block 'B'"):
        tr.bind_batch(sch, block, kept=4)
    sch, block, *_ = start(ScaledInOne, "C")
    b, i, _, k = sch.get_loops(block)
    sch.reorder(k, b, i)
    with refuses(sch, "bind_batch: loop 'b' of the batch stands inside of loop 'k' of block 'C'"):
        tr.bind_batch(sch, block)


def test_tile_in_warps_refuses_open_extents_that_it_may_not_divide():
    sch, block, *_ = start(OpenMatmul, "C")
    with refuses(sch, "tile_in_warps: loop 'i' has the symbolic extent m, which swizzle=1"):
        tr.tile_in_warps(sch, block, threads=(4, 8), per_thread=(2, 1))


# A block of two results, and one that reads both of them and a half of x.
Moments = parse_kernel("""
    A (8,), x (8,), D (8,)
    S = T.sblock_alloc_buffer((8,))
    Q = T.sblock_alloc_buffer((8,))
    H = T.sblock_alloc_buffer((8,))
    for i in range(8):
        with T.sblock("S", "S", i):
            S[vi] = A[vi] + T.float32(1)
            Q[vi] = A[vi] * A[vi]
    for i in range(8):
        with T.sblock("H", "S", i):
            H[vi] = x[vi] * T.float32(0.5)
    for i in range(8):
        with T.sblock("D", "S", i):
            D[vi] = S[vi] + Q[vi] + H[vi] * H[vi]
""")


def test_inline_epilogue_of_a_block_of_two_results():
    sch, block, *_ = start(Moments, "S")
    half, epilogue = sch.get_sblock("H"), tr.inline_epilogue(sch, block)
    assert epilogue is not None
    assert_dead(sch, half)
    assert sch.get(epilogue).name_hint == "D"
