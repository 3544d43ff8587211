"""Registers: what one thread may read, and what it may not. No legal schedule is refused."""

import pytest
import tvm
from kernels import OpenMatmul, RowSum, make_matmul, parse_kernel
from pairs import check_trace, compile_for_cuda, refuses
from tvm.s_tir import Schedule

from tirstep.pytest_plugin import Check
from tirstep.transforms import (
    accumulate_in_registers,
    bind_loop,
    cache_read_at,
    cache_write_at,
    compute_block_at,
    decompose_reduction_at,
    split_loop,
    split_reduction,
    stage_operand_at,
    tile_block,
)
from tirstep.transforms.legality.registers import find_register_leak

Matmul = make_matmul(64, 48, 32)


def make_shift(shift):
    """L in registers, and C reads it `shift` elements further on, round and round."""
    return parse_kernel(f"""
        A (8, 32), C (8, 32)
        L = T.sblock_alloc_buffer((8, 32), scope="local")
        for i in range(8):
            for j in range(32):
                with T.sblock("L"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    L[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(32):
                with T.sblock("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = L[vi, (vj + {shift}) % 32]
    """)


def start_shift(shift, width):
    """The two inner loops of `make_shift` with `width` elements for each thread."""
    sch = Schedule(make_shift(shift), debug_mask="all")
    writer, reader = (sch.get_loops(sch.get_sblock(name)) for name in "LC")
    bind_loop(sch, writer[0], axis="blockIdx.x")
    write = split_loop(sch, writer[1], inner=width)
    read = split_loop(sch, reader[1], inner=width)
    return sch, write.outer, read.outer


def test_threads_may_write_and_read_in_loops_of_their_own():
    sch, write, read = start_shift(0, 4)
    with refuses(sch, r"block 'C' would read what other threads wrote.*\(bind the reader first\)"):
        bind_loop(sch, write, axis="threadIdx.x")
    bind_loop(sch, read, axis="threadIdx.x")
    bind_loop(sch, write, axis="threadIdx.x")
    assert "__launch_bounds__(8)" in compile_for_cuda(sch.mod)


@pytest.mark.parametrize("shift", [1, 4, 8])
def test_a_thread_may_not_read_its_neighbour(shift):
    sch, write, read = start_shift(shift, 4)
    bind_loop(sch, read, axis="threadIdx.x")
    with refuses(
        sch,
        r"the threads of 'threadIdx.x' write the register buffer 'L' in block 'L', and block 'C' "
        "would read what other threads wrote: a thread cannot read the registers of another",
    ):
        bind_loop(sch, write, axis="threadIdx.x")


def start_rounds(step_of_reader):
    """Threads take every eighth element, in four rounds; the reader takes them in its own order."""

    Rounds = parse_kernel(f"""
        A (32,), C (32,)
        L = T.sblock_alloc_buffer((32,), scope="local")
        for _ in T.thread_binding(1, thread="blockIdx.x"):
            for r in range(4):
                for t in range(8):
                    with T.sblock("L"):
                        vi = T.axis.spatial(32, r * 8 + t)
                        L[vi] = A[vi] * T.float32(2)
            for r in range(4):
                for t in T.thread_binding(8, thread="threadIdx.x"):
                    with T.sblock("C"):
                        vi = T.axis.spatial(32, r * 8 + t)
                        C[vi] = L[(vi + {step_of_reader}) % 32]
    """)

    sch = Schedule(Rounds, debug_mask="all")
    return sch, sch.get_loops(sch.get_sblock("L"))[2]


def test_threads_may_write_and_read_every_eighth_element_in_rounds():
    sch, threads = start_rounds(0)
    bind_loop(sch, threads, axis="threadIdx.x")
    assert "__launch_bounds__(8)" in compile_for_cuda(sch.mod)


@pytest.mark.parametrize("step", [1, 7, 9])
def test_a_thread_may_not_read_a_neighbour_s_rounds(step):
    sch, threads = start_rounds(step)
    with refuses(sch, "block 'C' would read what other threads wrote"):
        bind_loop(sch, threads, axis="threadIdx.x")


def test_what_lies_behind_the_end_of_a_buffer_is_read_by_nobody(tir_check: Check):
    """A reader whose rounds are guarded; the writer has written all there is in every thread."""

    Guarded = parse_kernel("""
        A (8, 30), C (8, 30)
        L = T.sblock_alloc_buffer((8, 30), scope="local")
        for t in T.thread_binding(8, thread="threadIdx.y"):
            for i in range(30):
                with T.sblock("L"):
                    vt, vi = T.axis.remap("SS", [t, i])
                    L[vt, vi] = A[vt, vi] * T.float32(2)
            for i in range(30):
                with T.sblock("C"):
                    vt, vi = T.axis.remap("SS", [t, i])
                    C[vt, vi] = L[vt, vi]
    """)

    sch = Schedule(Guarded, debug_mask="all")
    rounds = split_loop(sch, sch.get_loops(sch.get_sblock("C"))[1], inner=8, tail="guard")
    bind_loop(sch, rounds.inner, axis="threadIdx.x")
    assert tir_check(sch.mod, Guarded, devices=["simulator"]) == ["simulator"]


def test_a_thread_may_not_read_another_mapping_of_the_same_elements():
    sch = Schedule(make_shift(0), debug_mask="all")
    (_, write), (_, read) = (sch.get_loops(sch.get_sblock(name)) for name in "LC")
    bind_loop(sch, split_loop(sch, read, inner=8).outer, axis="threadIdx.x")  # 4 threads, in rows
    inner = split_loop(sch, write, inner=4).inner  # 4 threads, in turns
    with refuses(sch, "block 'C' would read what other threads wrote"):
        bind_loop(sch, inner, axis="threadIdx.x")


def test_a_thread_may_not_read_a_bit_more_than_its_own():
    Pairs = parse_kernel("""
        A (32,), C (31,)
        L = T.sblock_alloc_buffer((32,), scope="local")
        for i in range(32):
            with T.sblock("L"):
                vi = T.axis.spatial(32, i)
                L[vi] = A[vi] * T.float32(2)
        for i in range(31):
            with T.sblock("C"):
                vi = T.axis.spatial(31, i)
                C[vi] = L[vi] + L[vi + 1]
    """)

    sch = Schedule(Pairs, debug_mask="all")
    (write,), (read,) = (sch.get_loops(sch.get_sblock(name)) for name in "LC")
    bind_loop(sch, split_loop(sch, read, inner=8, tail="guard").outer, axis="threadIdx.x")
    outer = split_loop(sch, write, inner=8).outer
    with refuses(sch, "block 'C' would read what other threads wrote"):
        bind_loop(sch, outer, axis="threadIdx.x")


def test_what_is_not_a_range_may_be_read_in_the_loop_that_wrote_it(tir_check: Check):
    Strided = parse_kernel("""
        A (32,), C (32,)
        L = T.sblock_alloc_buffer((64,), scope="local")
        for i in range(4):
            for j in range(8):
                with T.sblock("L"):
                    vi = T.axis.spatial(32, i * 8 + j)
                    L[vi * 2] = A[vi] * T.float32(2)
            for j in range(8):
                with T.sblock("C"):
                    vi = T.axis.spatial(32, i * 8 + j)
                    C[vi] = L[vi * 2]
    """)

    sch = Schedule(Strided, debug_mask="all")
    bind_loop(sch, sch.get_loops(sch.get_sblock("C"))[0], axis="threadIdx.x")
    assert tir_check(sch.mod, Strided, devices=["simulator"]) == ["simulator"]


def test_a_loop_of_one_thread_shares_with_all(tir_check: Check):
    sch = Schedule(make_shift(1), debug_mask="all")
    rows, write = sch.get_loops(sch.get_sblock("L"))
    bind_loop(sch, rows, axis="blockIdx.x")
    bind_loop(sch, split_loop(sch, write, inner=32).outer, axis="threadIdx.x")
    assert tir_check(sch.mod, make_shift(1), devices=["simulator"]) == ["simulator"]


def test_a_fetch_into_registers_by_all_threads_is_refused():
    sch = Schedule(Matmul, debug_mask="all")
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(8, 4), per_thread=(2, 3))
    steps = split_reduction(sch, block, inner=4)
    copy = cache_read_at(sch, block, steps.outer, operand=0, scope="local")
    *_, along_k = sch.get_loops(copy)
    with refuses(sch, r"the threads of 'threadIdx.x' write the register buffer 'A_local' in block"):
        bind_loop(sch, along_k, axis="threadIdx.x")


def test_each_thread_may_keep_its_own_part_of_an_operand():
    sch = Schedule(Matmul, debug_mask="all")
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 8), per_thread=(2, 3), fuse_threads=True)
    accumulate_in_registers(sch, block, tile.threads[0])
    steps = split_reduction(sch, block, inner=8)
    for operand in (0, 1):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=64)
        cache_read_at(sch, block, steps.inner, operand=operand, scope="local")
    init = decompose_reduction_at(sch, block, steps.outer)
    assert find_register_leak(sch, init) is None
    check_trace(sch, Matmul)
    compile_for_cuda(sch.mod)


def test_fetches_may_be_bound_after_an_initialization_in_thread_loops_of_its_own(tir_check: Check):
    sch = Schedule(Matmul, debug_mask="all")
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 8))
    accumulate_in_registers(sch, block, tile.threads[1])
    decompose_reduction_at(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=8)
    stage_operand_at(sch, block, steps.outer, operand=1, threads=(8, 8))
    assert "__launch_bounds__(64)" in compile_for_cuda(sch.mod)
    assert tir_check(sch.mod, Matmul, devices=["simulator"]) == ["simulator"]


def test_a_sum_over_threads_may_lie_in_registers():
    sch = Schedule(RowSum, debug_mask="all")
    block = sch.get_sblock("B")
    i, k = sch.get_loops(block)
    bind_loop(sch, i, axis="blockIdx.x")
    cache_write_at(sch, block, i)
    bind_loop(sch, k, axis="threadIdx.x")
    assert "__shfl_down_sync" in compile_for_cuda(sch.mod)


def test_partial_sums_of_threads_may_lie_in_registers():
    sch = Schedule(RowSum, debug_mask="all")
    block = sch.get_sblock("B")
    _, k = sch.get_loops(block)
    parts = sch.rfactor(split_loop(sch, k, inner=32).inner, 0)
    sch.set_scope(parts, 0, "local")
    i, k = sch.get_loops(block)
    bind_loop(sch, i, axis="blockIdx.x")
    compute_block_at(sch, parts, i)
    bind_loop(sch, k, axis="threadIdx.x")
    bind_loop(sch, sch.get_loops(parts)[1], axis="threadIdx.x")
    assert "__shfl_down_sync" in compile_for_cuda(sch.mod)


def test_registers_of_symbolic_problems_are_no_leak():
    sch = Schedule(OpenMatmul)
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 4), per_thread=(2, 3), tail="guard")
    with refuses(sch, "the threads of 'threadIdx.x' write the register buffer 'C_local'"):
        accumulate_in_registers(sch, block, tile.threads[0])
    accumulate_in_registers(sch, block, tile.threads[1])
    steps = split_reduction(sch, block, inner=8, tail="guard")
    for operand in (0, 1):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=(8, 4))
    assert find_register_leak(sch, block) is None


def test_registers_of_another_function_are_left_alone():
    leaky = make_shift(1)["main"]
    sch = Schedule(tvm_module(leaky=leaky, main=Matmul["main"]), debug_mask="all")
    block = sch.get_sblock("L", func_name="leaky")
    sch.bind(sch.get_loops(block)[-1], "threadIdx.x")  # without a check
    assert find_register_leak(sch, block) is not None
    tile = tile_block(sch, sch.get_sblock("C", func_name="main"), threads=(8, 8))
    assert find_register_leak(sch, tile.threads[0]) is None


def tvm_module(**functions):
    return tvm.IRModule({name: f.with_attr("global_symbol", name) for name, f in functions.items()})
