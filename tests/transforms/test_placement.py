"""Where blocks are computed: producers, consumers, epilogues."""

from kernels import parse_kernel
from pairs import assert_dead, check_pair, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr

# One producer, one consumer with a window of three.
Blur = parse_kernel("""
    A (18,), C (16,)
    B (18,)
    i:18  B[i] = A[i] * T.float32(2)
    i:16  C[i] = B[i] + B[i + 2]
""")


MatmulBias = parse_kernel("""
    A (16, 6), B (6, 12), bias (12,), D (16, 12)
    C (16, 12)
    i:16 j:12 k:6  C[i, j] += A[i, k] * B[k, j]
    i:16 j:12  D[i, j] = C[i, j] + bias[j]
""")


# B is read by C and by D; C by D.
TwoReaders = parse_kernel("""
    A (16,), D (16,)
    B = T.sblock_alloc_buffer((16,))
    C = T.sblock_alloc_buffer((16,))
    for i in range(16):
        with T.sblock("B", "S", i):
            B[vi] = A[vi] * T.float32(2)
    for i in range(16):
        with T.sblock("C", "S", i):
            C[vi] = B[vi] + T.float32(1)
    for i in range(16):
        with T.sblock("D", "S", i):
            D[vi] = B[vi] + C[vi]
""")


def start(module, *names):
    """A schedule and some of its blocks."""
    sch = Schedule(module, debug_mask="all")
    return sch, *(sch.get_sblock(name) for name in names)


def vectorized_c():
    """Blur with four elements of C in a vector: schedule, blocks and the vectorized loop."""
    sch, producer, consumer = start(Blur, "B", "C")
    inner = tr.split_loop(sch, sch.get_loops(consumer)[0], inner=4).inner
    tr.vectorize_loop(sch, inner)
    return sch, producer, consumer, inner


def test_compute_block_at_with_the_window_of_a_tile():
    after = """
        B = T.sblock_alloc_buffer((18,))
        for i_0 in range(4):
            for ax0 in range(6):
                with T.sblock("B"):
                    vi = T.axis.spatial(18, i_0 * 4 + ax0)
                    B[vi] = A[vi] * T.float32(2)
            for i_1 in range(4):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    C[vi] = B[vi] + B[vi + 2]
    """

    def change(sch):
        producer, consumer = sch.get_sblock("B"), sch.get_sblock("C")
        (old,) = sch.get_loops(producer)
        tile = tr.split_loop(sch, sch.get_loops(consumer)[0], inner=4)
        tr.compute_block_at(sch, producer, tile.outer)
        assert_dead(sch, old)
        return producer, consumer, tile

    check_pair(Blur, change, after)


def test_compute_block_at_refuses_what_does_not_fit():
    sch, producer, _, inner = vectorized_c()
    with refuses(
        sch,
        r"compute_block_at: loop 'i_1' is at or inside of the vectorized loop 'i_1', where TVM "
        "would compute wrong values without an error",
    ):
        tr.compute_block_at(sch, producer, inner)
    sch, producer, consumer = start(Blur, "B", "C")
    with refuses(sch, r"compute_block_at: loop is a block handle, not a loop handle; get it with"):
        tr.compute_block_at(sch, producer, consumer)
    sch, producer, consumer = start(Blur, "B", "C")
    (loop,) = sch.get_loops(producer)
    with refuses(sch, r"^compute_block_at: TVM refuses: The block 'C' is an output block; it wri"):
        tr.compute_block_at(sch, consumer, loop)


def test_reverse_compute_block_at_of_an_elementwise_consumer():
    after = """
        C = T.sblock_alloc_buffer((16, 12))
        for i in range(16):
            for j, k in T.grid(12, 6):
                with T.sblock("C", "SSR", i, j, k):
                    C[vi, vj] += A[vi, vk] * B[vk, vj]
            for ax0, ax1 in T.grid(1, 12):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i + ax0)
                    vj = T.axis.spatial(12, ax1)
                    D[vi, vj] = C[vi, vj] + bias[vj]
    """

    def change(sch):
        producer, consumer = sch.get_sblock("C"), sch.get_sblock("D")
        i, j, k = sch.get_loops(producer)
        old = sch.get_loops(consumer)
        tr.reverse_compute_block_at(sch, consumer, i)
        assert_dead(sch, *old)
        return producer, consumer, i, j, k

    check_pair(MatmulBias, change, after)


def test_reverse_compute_block_at_refuses_what_does_not_fit():
    sch, producer, consumer = start(Blur, "B", "C")
    inner = tr.split_loop(sch, sch.get_loops(producer)[0], inner=2).inner
    tr.vectorize_loop(sch, inner)
    with refuses(sch, r"reverse_compute_block_at: loop 'i_1' is at or inside of the vectorized"):
        tr.reverse_compute_block_at(sch, consumer, inner)
    sch, producer, consumer = start(MatmulBias, "C", "D")
    *_, k = sch.get_loops(producer)
    with refuses(
        sch,
        r"reverse_compute_block_at: loop 'k' is at or inside of the reduction loop 'k', where the "
        "sum is not complete",
    ):
        tr.reverse_compute_block_at(sch, consumer, k)
    sch, block, consumer = start(MatmulBias, "C", "D")
    tile = tr.tile_block(sch, block, threads=(2, 3))
    sch.set_scope(block, 0, "local")
    with refuses(
        sch,
        r"reverse_compute_block_at: the threads of 'threadIdx.x' write the register buffer "
        "'C_local' in block 'C', and block 'D' would read what other threads wrote",
    ):
        tr.reverse_compute_block_at(sch, consumer, tile.threads[0])
    tr.reverse_compute_block_at(sch, consumer, tile.threads[1])
    sch, first, last = start(TwoReaders, "B", "D")
    (loop,) = sch.get_loops(first)
    with refuses(
        sch,
        r"^reverse_compute_block_at: TVM refuses: .* List of the producer\(s\):block 'B', block"
        " 'C'; place all",
    ):
        tr.reverse_compute_block_at(sch, last, loop)


def test_fuse_epilogue_at_keeps_the_sum_in_registers():
    after = """
        C_local = T.sblock_alloc_buffer((16, 12), scope="local")
        for i, j in T.grid(16, 12):
            for k in range(6):
                with T.sblock("C", "SSR", i, j, k):
                    C_local[vi, vj] += A[vi, vk] * B[vk, vj]
            for ax0, ax1 in T.grid(1, 1):
                with T.sblock("D"):
                    vi = T.axis.spatial(16, i + ax0)
                    vj = T.axis.spatial(12, j + ax1)
                    D[vi, vj] = C_local[vi, vj] + bias[vj]
    """

    def change(sch):
        block, epilogue = sch.get_sblock("C"), sch.get_sblock("D")
        _, j, _ = sch.get_loops(block)
        old = sch.get_loops(epilogue)
        writer = tr.fuse_epilogue_at(sch, block, epilogue, j)
        assert_dead(sch, *old)
        return writer, epilogue, block, j

    check_pair(MatmulBias, change, after)


def test_fuse_epilogue_at_refuses_what_does_not_fit():
    sch, block = start(MatmulBias, "C")
    partial = tr.rfactor_reduction(sch, block, parts=2)
    assert tr.find_epilogue(sch, partial.block) is None
    tr.bind_loop(sch, partial.parts, axis="blockIdx.y")
    loop = sch.get_loops(partial.block)[2]
    with refuses(
        sch,
        r"fuse_epilogue_at: block 'C' reduces, and would need results of other threads; leave it a "
        "kernel of its own, and keep results in registers with cache_write_at",
    ):
        tr.fuse_epilogue_at(sch, partial.block, block, loop)
    writer = tr.accumulate_in_registers(sch, partial.block, loop)
    assert not sch.get(writer).same_as(sch.get(block))
    sch, block, epilogue = start(MatmulBias, "C", "D")
    _, j = sch.get_loops(epilogue)
    with refuses(sch, r"fuse_epilogue_at: loop 'j' is not around block 'C'"):
        tr.fuse_epilogue_at(sch, block, epilogue, j)
    sch, block, epilogue = start(MatmulBias, "C", "D")
    *_, k = sch.get_loops(block)
    with refuses(
        sch, r"fuse_epilogue_at: loop 'k' is at or inside of the reduction loop 'k', wher"
    ):
        tr.fuse_epilogue_at(sch, block, epilogue, k)
    sch, producer, consumer = start(Blur, "B", "C")
    inner = tr.split_loop(sch, sch.get_loops(producer)[0], inner=2).inner
    tr.vectorize_loop(sch, inner)
    with refuses(sch, r"fuse_epilogue_at: loop 'i_1' is at or inside of the vectorized loop 'i_1'"):
        tr.fuse_epilogue_at(sch, producer, consumer, inner)
    sch, block, epilogue = start(MatmulBias, "C", "D")
    tile = tr.tile_block(sch, block, threads=(2, 3))
    with refuses(sch, r"fuse_epilogue_at: the threads of 'threadIdx.y' write the register buffer"):
        tr.fuse_epilogue_at(sch, block, epilogue, tile.blocks[1])
    tr.fuse_epilogue_at(sch, block, epilogue, tile.threads[1])


def test_fuse_epilogue_at_refuses_an_output_with_tvm_s_reason():
    TwoOutputs = parse_kernel("""
        A (16,), B (16,), C (16,)
        for i in range(16):
            with T.sblock("B", "S", i):
                B[vi] = A[vi] * T.float32(2)
        for i in range(16):
            with T.sblock("C", "S", i):
                C[vi] = B[vi] + T.float32(1)
    """)

    sch, block, epilogue = start(TwoOutputs, "B", "C")
    (loop,) = sch.get_loops(block)
    with refuses(sch, r"^fuse_epilogue_at: TVM refuses: .*buffer B is not allocated by a block"):
        tr.fuse_epilogue_at(sch, block, epilogue, loop)


def test_inline_producers_into_their_only_consumer():
    after = """
        for i in range(16):
            with T.sblock("C", "S", i):
                C[vi] = A[vi] * T.float32(2) + A[vi + 2] * T.float32(2)
    """

    def change(sch):
        producer, consumer = sch.get_sblock("B"), sch.get_sblock("C")
        tr.inline_producers(sch, consumer)
        assert_dead(sch, producer)
        return consumer

    check_pair(Blur, change, after)


def test_inline_producers_refuses_what_does_not_fit():
    sch, consumer = start(MatmulBias, "D")
    with refuses(sch, r"inline_producers: block 'C' reduces, and a reduction cannot stand inside"):
        tr.inline_producers(sch, consumer)
    sch, consumer = start(TwoReaders, "C")
    with refuses(sch, r"inline_producers: block 'B' has 2 consumers, 'C', 'D'; leave it a stage"):
        tr.inline_producers(sch, consumer)
    sch, producer, consumer = start(TwoReaders, "C", "D")
    inline_producers_of = consumer
    sch.compute_inline(producer)
    with refuses(sch, r"inline_producers: the block handle is dead"):
        tr.inline_producers(sch, producer)
    tr.inline_producers(sch, inline_producers_of)
