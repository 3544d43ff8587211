"""Copies of operands and results in shared memory and registers."""

from kernels import Matmul, MatmulRelu, Scale, at_block, start
from pairs import assert_dead, check_pair, refuses

from tirstep import transforms as tr
from tirstep.modules import vector_add


def test_cache_read_at_into_shared_memory():
    after = """
        A_shared = T.sblock_alloc_buffer((16, 6), scope="shared")
        for i, j in T.grid(16, 12):
            for ax0, ax1 in T.grid(1, 6):
                with T.sblock("A_shared"):
                    v0 = T.axis.spatial(16, i + ax0)
                    v1 = T.axis.spatial(6, ax1)
                    A_shared[v0, v1] = A[v0, v1]
            for k in range(6):
                with T.sblock("C", "SSR", i, j, k):
                    C[vi, vj] += A_shared[vi, vk] * B[vk, vj]
    """

    def change(sch):
        block = sch.get_sblock("C")
        i, j, k = sch.get_loops(block)
        copy = tr.cache_read_at(sch, block, j, operand=0)
        assert len(sch.get_loops(copy)) == 4
        return copy, block, i, j, k

    check_pair(Matmul, change, after)


def test_cache_read_at_refuses_what_does_not_fit():
    for scope in ["texture", "", "shared.tmem"]:
        sch, block, _, j, _ = start()
        with refuses(sch, rf"cache_read_at: scope '{scope}' is not supported; use one of shar"):
            tr.cache_read_at(sch, block, j, operand=0, scope=scope)
    sch, block, *_ = start(MatmulRelu)
    i, _ = sch.get_loops(sch.get_sblock("D"))
    with refuses(sch, r"cache_read_at: loop 'i' is not around block 'C'; choose one of"):
        tr.cache_read_at(sch, block, i, operand=0)
    sch, block, _, j = start(Scale, "B")
    inner = tr.split_loop(sch, j, inner=4).inner
    tr.vectorize_loop(sch, inner)
    with refuses(
        sch,
        r"cache_read_at: loop 'j_1' is at or inside of the vectorized loop 'j_1', where TVM would "
        "compute wrong values without an error; place the block at a loop outside of it",
    ):
        tr.cache_read_at(sch, block, inner, operand=0)
    sch, block, _, j, _ = start()
    tr.split_loop(sch, j, inner=4)
    with refuses(sch, r"cache_read_at: the loop handle is dead"):
        tr.cache_read_at(sch, block, loop=j, operand=0)


def test_cache_write_at_from_shared_memory():
    after = """
        C_shared = T.sblock_alloc_buffer((16, 12), scope="shared")
        for i in range(16):
            for j, k in T.grid(12, 6):
                with T.sblock("C", "SSR", i, j, k):
                    C_shared[vi, vj] += A[vi, vk] * B[vk, vj]
            for ax0, ax1 in T.grid(1, 12):
                with T.sblock("C_shared"):
                    v0 = T.axis.spatial(16, i + ax0)
                    v1 = T.axis.spatial(12, ax1)
                    C[v0, v1] = C_shared[v0, v1]
    """

    def change(sch):
        block = sch.get_sblock("C")
        i, *_ = sch.get_loops(block)
        return tr.cache_write_at(sch, block, i, scope="shared")

    check_pair(Matmul, change, after)


def test_cache_write_at_refuses_what_does_not_fit():
    sch, block, _, j, _ = start()
    with refuses(sch, r"cache_write_at: scope 'regs' is not supported; use one of shared"):
        tr.cache_write_at(sch, block, j, scope="regs")
    sch, block, *_ = start(MatmulRelu)
    _, j = sch.get_loops(sch.get_sblock("D"))
    with refuses(sch, r"cache_write_at: loop 'j' is not around block 'C'"):
        tr.cache_write_at(sch, block, j)
    for place in ["k_0", "j", "k_1"]:
        sch, block, i, j, _ = start()
        steps = tr.split_reduction(sch, block, inner=2)
        tr.reorder_loops(sch, [i, steps.outer, j, steps.inner])
        loop = {"k_0": steps.outer, "j": j, "k_1": steps.inner}[place]
        with refuses(
            sch,
            rf"loop '{place}' is at or inside of the reduction loop 'k_0', where the sum is not "
            "complete; choose a loop outside",
        ):
            tr.cache_write_at(sch, block, loop, scope="shared")
    sch, block, _, j = start(Scale, "B")
    inner = tr.split_loop(sch, j, inner=4).inner
    tr.vectorize_loop(sch, inner)
    with refuses(sch, r"cache_write_at: loop 'j_1' is at or inside of the vectorized loop 'j_1'"):
        tr.cache_write_at(sch, block, inner)
    sch, block, *_ = start()
    tile = tr.tile_block(sch, block, threads=(2, 3))
    with refuses(
        sch,
        r"cache_write_at: the threads of 'threadIdx.y' write the register buffer 'C_local' in block"
        r" 'C', and block 'C_local' would read what other threads wrote.*; use scope \"shared\"",
    ):
        tr.cache_write_at(sch, block, tile.blocks[1])
    tr.cache_write_at(sch, block, tile.blocks[1], scope="shared")
    sch, block, _, j, k = start()
    tr.decompose_reduction_at(sch, block, k)
    with refuses(sch, r"^cache_write_at: TVM refuses: .*buffer C.*writ"):
        tr.cache_write_at(sch, block, j)


def test_accumulate_in_registers_with_an_epilogue():
    after = """
        C_local = T.sblock_alloc_buffer((16, 12), scope="local")
        for i in range(16):
            for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                for j_1 in T.thread_binding(3, thread="threadIdx.x"):
                    for k, j_2 in T.grid(6, 2):
                        with T.sblock("C", "S", i):
                            vj = T.axis.spatial(12, j_0 * 6 + j_1 * 2 + j_2)
                            vk = T.axis.reduce(6, k)
                            C_local[vi, vj] += A[vi, vk] * B[vk, vj]
                    for ax0, ax1 in T.grid(1, 2):
                        with T.sblock("D"):
                            vi = T.axis.spatial(16, i + ax0)
                            vj = T.axis.spatial(12, j_0 * 6 + j_1 * 2 + ax1)
                            D[vi, vj] = T.max(C_local[vi, vj], T.float32(0))
    """

    def change(sch):
        block, epilogue = sch.get_sblock("C"), sch.get_sblock("D")
        loops = sch.get_loops(epilogue)
        tile = tr.tile_block(sch, block, threads=(3,), per_thread=(2,))
        writer = tr.accumulate_in_registers(sch, block, tile.threads[0])
        assert sch.get(writer).same_as(sch.get(epilogue))
        assert_dead(sch, *loops)
        return writer, block, tile

    check_pair(MatmulRelu, change, after)


def test_accumulate_in_registers_refuses_what_does_not_fit():
    sch, block, _, j = start(Scale, "B")
    with refuses(sch, r"accumulate_in_registers: block 'B' is not a reduction; use cache_write_at"):
        tr.accumulate_in_registers(sch, block, j)
    sch, block, *_ = start(MatmulRelu)
    _, j = sch.get_loops(sch.get_sblock("D"))
    with refuses(sch, r"accumulate_in_registers: loop 'j' is not around block 'C'"):
        tr.accumulate_in_registers(sch, block, j)


def test_cache_write_at_refuses_a_copy_that_runs_more_often_than_its_block():
    """Of loops whose guards overlap TVM estimates a tile of 204,900 elements, and there are 5."""
    sch, block, *_ = at_block(vector_add.problem(5).module, "C")
    for inner in (100, 64, 32):
        tr.split_loop(sch, sch.get_loops(block)[0], inner=inner, tail="guard")
    parts = sch.get_loops(block)
    tr.reorder_loops(sch, [parts[0], parts[2], parts[3], parts[1]])
    tr.split_loop(sch, sch.get_loops(block)[3], inner=3, tail="guard")
    loops = sch.get_loops(block)
    with refuses(
        sch,
        "the copy of 'C', which has 5 elements, would run 204900 times in each iteration of loop "
        "'i_0_1', and block 'C' 3300 times: TVM overestimates tiles of loops that were split with "
        "guards and reordered; cache the result before its loops are split, or at a loop further "
        "in",
    ):
        tr.cache_write_at(sch, block, loops[1], scope="shared")
    steps = len(sch.trace.insts)
    tr.cache_write_at(sch, block, loops[-1], scope="shared")
    made = [str(step.kind.name) for step in sch.trace.insts[steps:]]
    assert made[-2:] == ["CacheWrite", "ReverseComputeAt"], "what is asked leaves nothing behind"
