"""Rows that threads share: spread over them, kept in their registers, read once."""

from kernels import parse_kernel
from pairs import check_pair, compile_for_cuda, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr

# B = A over the sums of its rows.
Shares = parse_kernel("""
    A (6, 64), B (6, 64)
    S = T.sblock_alloc_buffer((6,), scope="local")
    for i in T.thread_binding(6, thread="blockIdx.x"):
        for k in range(64):
            with T.sblock("S", "SR", i, k):
                S[vi] += A[vi, vk]
        for k in range(64):
            with T.sblock("B", "SS", i, k):
                B[vi, vk] = A[vi, vk] / S[vi]
""")


SpreadShares = parse_kernel("""
    A (6, 64), B (6, 64)
    S = T.sblock_alloc_buffer((6,), scope="local")
    for i in T.thread_binding(6, thread="blockIdx.x"):
        for k_0_0 in range(2):
            for k_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                for k_1 in range(4):
                    with T.sblock("S", "S", i):
                        vk = T.axis.reduce(64, k_0_0 * 32 + k_0_1 * 4 + k_1)
                        S[vi] += A[vi, vk]
        for k_0_0 in range(2):
            for k_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                for k_1 in range(4):
                    with T.sblock("B", "S", i):
                        vk = T.axis.spatial(64, k_0_0 * 32 + k_0_1 * 4 + k_1)
                        B[vi, vk] = A[vi, vk] / S[vi]
""")


CachedShares = parse_kernel("""
    A (6, 64), B (6, 64)
    with T.sblock("root"):
        T.sblock_attr({"tir_pipeline": "tirstep"})
        S = T.sblock_alloc_buffer((6,), scope="local")
        L = T.sblock_alloc_buffer((6, 2, 8, 4), scope="local")
        for i in T.thread_binding(6, thread="blockIdx.x"):
            for ax0, ax1_0_0 in T.grid(1, 2):
                for ax1_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for ax1_1 in T.vectorized(4):
                        with T.sblock("A_local"):
                            v0 = T.axis.spatial(6, i + ax0)
                            v1 = T.axis.spatial(64, ax1_0_0 * 32 + ax1_0_1 * 4 + ax1_1)
                            L[v0, v1 // 32, v1 % 32 // 4, v1 % 4] = A[v0, v1]
            for k_0_0 in range(2):
                for k_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for k_1 in range(4):
                        with T.sblock("S", "S", i):
                            vk = T.axis.reduce(64, k_0_0 * 32 + k_0_1 * 4 + k_1)
                            S[vi] += L[vi, vk // 32, vk % 32 // 4, vk % 4]
            for k_0_0 in range(2):
                for k_0_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for k_1 in range(4):
                        with T.sblock("B", "S", i):
                            vk = T.axis.spatial(64, k_0_0 * 32 + k_0_1 * 4 + k_1)
                            B[vi, vk] = L[vi, vk // 32, vk % 32 // 4, vk % 4] / S[vi]
""")


def spread_shares(sch: Schedule, *, vector: int = 4) -> list[tr.Spread]:
    """Readers first: what they read is in registers."""
    return [
        tr.spread_over_threads(sch, sch.get_sblock(name), threads=8, vector=vector) for name in "BS"
    ]


def test_spread_over_threads_deals_out_vectors_and_reduces_by_shuffles():
    check_pair(Shares, spread_shares, SpreadShares)
    assert "__shfl_down_sync" in compile_for_cuda(SpreadShares)


def test_spread_over_threads_refuses_a_loop_that_is_not_serial_or_not_the_block_s_own():
    sch = Schedule(Shares, debug_mask="all")
    block = sch.get_sblock("B")
    spread = tr.spread_over_threads(sch, block, threads=8, vector=4)
    tr.vectorize_loop(sch, spread.elements)
    with refuses(sch, "is already vectorized"):
        tr.spread_over_threads(sch, block, threads=2)

    Shared = parse_kernel("""
        A (8,), B (8,)
        D = T.sblock_alloc_buffer((8,))
        for i in range(8):
            with T.sblock("D", "S", i):
                D[vi] = A[vi]
            with T.sblock("B", "S", i):
                B[vi] = D[vi]
    """)

    sch = Schedule(Shared, debug_mask="all")
    block = sch.get_sblock("B")
    with refuses(sch, "block 'B' has no loop of its own"):
        tr.spread_over_threads(sch, block, threads=2)


Chain = parse_kernel("""
    A (5, 48), B (5, 48)
    D = T.sblock_alloc_buffer((5, 48))
    for i in T.thread_binding(5, thread="blockIdx.x"):
        for k_0 in range(3):
            for k_1 in T.thread_binding(8, thread="threadIdx.x"):
                for k_2 in range(2):
                    with T.sblock("D", "S", i):
                        vk = T.axis.spatial(48, k_0 * 16 + k_1 * 2 + k_2)
                        D[vi, vk] = A[vi, vk] * T.float32(2)
        for k_0 in range(3):
            for k_1 in T.thread_binding(8, thread="threadIdx.x"):
                for k_2 in range(2):
                    with T.sblock("B", "S", i):
                        vk = T.axis.spatial(48, k_0 * 16 + k_1 * 2 + k_2)
                        B[vi, vk] = D[vi, vk] + T.float32(1)
""")


ChainInRegisters = parse_kernel("""
    A (5, 48), B (5, 48)
    with T.sblock("root"):
        T.sblock_attr(
            {"pass_config.tirx.disable_storage_rewrite": True, "tir_pipeline": "tirstep"}
        )
        D = T.sblock_alloc_buffer((5, 3, 8, 2), scope="local")
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for k_0 in range(3):
                for k_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for k_2 in range(2):
                        with T.sblock("D", "S", i):
                            vk = T.axis.spatial(48, k_0 * 16 + k_1 * 2 + k_2)
                            D[vi, vk // 16, vk % 16 // 2, vk % 2] = A[vi, vk] * T.float32(2)
            for k_0 in range(3):
                for k_1 in T.thread_binding(8, thread="threadIdx.x"):
                    for k_2 in range(2):
                        with T.sblock("B", "S", i):
                            vk = T.axis.spatial(48, k_0 * 16 + k_1 * 2 + k_2)
                            B[vi, vk] = D[vi, vk // 16, vk % 16 // 2, vk % 2] + T.float32(1)
""")


def keep_chain(sch: Schedule) -> None:
    tr.keep_in_registers(sch, sch.get_sblock("D"))


def test_keep_in_registers_gives_each_thread_its_own_elements():
    check_pair(Chain, keep_chain, ChainInRegisters)


def test_keep_in_registers_refuses_what_other_threads_or_kernels_read():
    sch = Schedule(Chain, debug_mask="all")
    output = sch.get_sblock("B")
    with refuses(sch, "block 'B' writes 'B', a tensor of the kernel's"):
        tr.keep_in_registers(sch, output)

    Shift = parse_kernel("""
        A (5, 8), B (5, 8)
        D = T.sblock_alloc_buffer((5, 8), scope="shared")
        for i in T.thread_binding(5, thread="blockIdx.x"):
            for k in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("D", "SS", i, k):
                    D[vi, vk] = A[vi, vk]
            for k in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("B", "SS", i, k):
                    B[vi, vk] = D[vi, (vk + 1) % 8]
    """)

    sch = Schedule(Shift, debug_mask="all")
    block = sch.get_sblock("D")
    with refuses(sch, "block 'B' would read what other threads wrote"):
        tr.keep_in_registers(sch, block)

    Apart = parse_kernel("""
        A (8,), B (8,)
        D = T.sblock_alloc_buffer((8,))
        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("D", "S", i):
                D[vi] = A[vi]
        for i in T.thread_binding(8, thread="threadIdx.x"):
            with T.sblock("B", "S", i):
                B[vi] = D[vi]
    """)

    sch = Schedule(Apart, debug_mask="all")
    block = sch.get_sblock("D")
    with refuses(sch, "blocks 'D' and 'B' have no loop in common, and would be two kernels"):
        tr.keep_in_registers(sch, block)


def cache_shares(sch: Schedule):
    block = sch.get_sblock("S")
    return tr.cache_row_at(sch, block, sch.get_loops(block)[0], operand=0)


def test_cache_row_at_reads_once_for_all_readers():
    check_pair(SpreadShares, cache_shares, CachedShares)


def test_cache_row_at_refuses_readers_with_other_shares():
    sch = Schedule(Shares, debug_mask="all")
    block = sch.get_sblock("S")
    row = sch.get_loops(block)[0]
    with refuses(sch, "block 'S' is not spread over threads along the last dimension of 'A'"):
        tr.cache_row_at(sch, block, row, operand=0)
    tr.spread_over_threads(sch, sch.get_sblock("B"), threads=8, vector=2)
    tr.spread_over_threads(sch, block, threads=8, vector=4)
    with refuses(sch, "block 'B' would read what other threads wrote"):
        tr.cache_row_at(sch, block, row, operand=0)
    with refuses(sch, "block 'S' has no operand 1, it reads 0: A"):
        tr.cache_row_at(sch, block, row, operand=1)
