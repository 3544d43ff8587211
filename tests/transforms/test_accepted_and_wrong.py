"""What TVM accepts and gets wrong: first TVM alone, then the transform that refuses it.

Each test shows that the trap is still there, so that an upgrade of TVM which mends one is noticed.
"""

import re

import numpy as np
import pytest
import tvm
from kernels import (
    MatmulRelu,
    TwoInOneLoop,
    at_block,
    make_matmul,
    make_row_sums,
    parse_kernel,
    start,
)
from pairs import compile_for_cuda, refuses, run_on_cpu
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks.devices.simulator import simulate

Matmul = make_matmul(64, 64, 32)


# E = 2 (A + B), with A + B in a buffer of its own.
Doubled = parse_kernel("""
    A (64,), B (64,), E (64,)
    C = T.sblock_alloc_buffer((64,))
    for i in range(64):
        with T.sblock("C", "S", i):
            C[vi] = A[vi] + B[vi]
    for i in range(64):
        with T.sblock("E", "S", i):
            E[vi] = C[vi] + C[vi]
""")


def count_wrong_in_doubled(module):
    numbers = np.arange(64, dtype="float32")
    result = run_on_cpu(module, numbers, numbers, output=(64,), dtype="float32")
    return int((result != 4 * numbers).sum())


def test_1_compute_at_under_a_vectorized_loop():
    sch, _, i = start(Doubled, "E")
    producer = sch.get_sblock("C")
    inner = tr.split_loop(sch, i, inner=8).inner
    sch.vectorize(inner)
    assert count_wrong_in_doubled(sch.mod) == 0
    raw = sch.copy()
    raw.compute_at(producer, inner)
    assert count_wrong_in_doubled(raw.mod) == 56
    with refuses(
        sch, "'i_1' is at or inside of the vectorized loop 'i_1', where TVM would compute"
    ):
        tr.compute_block_at(sch, producer, inner)


def test_1_vectorize_after_compute_at():
    sch, _, i = start(Doubled, "E")
    inner = tr.split_loop(sch, i, inner=8).inner
    tr.compute_block_at(sch, sch.get_sblock("C"), inner)
    raw = sch.copy()
    raw.vectorize(inner)
    assert count_wrong_in_doubled(raw.mod) == 56
    with refuses(sch, r"'i_1' is not the innermost loop of one block \(inside: 'C', 'E'\)"):
        tr.vectorize_loop(sch, inner, max_vector_bytes=32)


def test_2_two_nested_loops_on_one_axis_compute_the_diagonal():
    sch, _, i, j, _ = start(Matmul)
    sch.bind(i, "blockIdx.x")
    raw = sch.copy()
    raw.bind(j, "blockIdx.x")
    source = compile_for_cuda(raw.mod)
    assert "C_ptr[(((int)blockIdx.x) * 65)]" in source  # i * 64 + j with i = j
    with refuses(sch, "'blockIdx.x' already drives loop 'i' of block 'C', so that only the diag"):
        tr.bind_loop(sch, j, axis="blockIdx.x")


def test_2_nesting_an_axis_for_a_cooperative_fetch_is_legal():
    sch, block, *_ = start(Matmul)
    tile = tr.tile_block(sch, block, threads=(8, 8))
    steps = tr.split_reduction(sch, block, inner=8)
    copy = tr.cache_read_at(sch, block, steps.outer, operand=0)
    row, column = sch.get_loops(copy)[-2:]
    tr.bind_loop(sch, row, axis="threadIdx.y")
    tr.bind_loop(sch, column, axis="threadIdx.x")
    axes = [sch.get(loop).thread_binding for loop in sch.get_loops(copy)]
    assert sum(axis is not None for axis in axes) == 6
    assert sch.get(tile.threads[0])


def test_3_a_cooperative_fetch_into_registers():
    sch, block, *_ = start(Matmul)
    tr.tile_block(sch, block, threads=(8, 8))
    steps = tr.split_reduction(sch, block, inner=8)
    copy = tr.cache_read_at(sch, block, steps.outer, operand=0, scope="local")
    *_, column = sch.get_loops(copy)
    raw = sch.copy()
    raw.bind(column, "threadIdx.x")
    source = compile_for_cuda(raw.mod)
    assert "float A_local_ptr[8];" in source  # each thread has eight, and loads one of them
    assert "A_local_ptr[((int)threadIdx.x)] = A_ptr" in source
    with refuses(sch, "a thread cannot read the registers of another"):
        tr.bind_loop(sch, column, axis="threadIdx.x")
    with refuses(sch, "writes 'A_local' in scope 'local', which threads do not share"):
        tr.fetch_cooperatively(sch, copy, threads=(8, 8), tail="guard")


@pytest.mark.parametrize("place", range(3))
def test_3_registers_written_by_threads_and_read_outside_of_their_loops(place):
    sch, block, *_ = start(MatmulRelu)
    epilogue = sch.get_sblock("D")
    tile = tr.tile_block(sch, block, threads=(2, 3))
    outer = [*tile.blocks, *tile.threads][place]
    raw = sch.copy()
    raw.set_scope(block, 0, "local")
    raw.reverse_compute_at(epilogue, outer)
    sentence = "'C_local' in block 'C', and block '.*' would read what other threads wrote"
    with refuses(sch, sentence):
        tr.fuse_epilogue_at(sch, block, epilogue, outer)
    with refuses(sch, sentence):
        tr.accumulate_in_registers(sch, block, outer)
    with refuses(sch, sentence):
        tr.cache_write_at(sch, block, outer, scope="local")


def test_4_an_axis_that_does_not_exist():
    sch, _, i, j, _ = start(Matmul)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    raw = sch.copy()
    raw.bind(j, "threadIdx.q")
    assert "(int)threadIdx.q" in compile_for_cuda(raw.mod)
    for axis in ("threadIdx.q", "blockIdx", "vthread", "warp.x", ""):
        sentence = f"loop 'j': thread axis '{axis}' does not exist; use one of blockIdx.x,"
        with refuses(sch, sentence):
            tr.bind_loop(sch, j, axis=axis)


def test_4_a_second_bind_replaces_the_first():
    sch, _, i, *_ = start(Matmul)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    raw = sch.copy()
    raw.bind(i, "blockIdx.y")
    assert raw.get(i).thread_binding.thread_tag == "blockIdx.y"
    with refuses(sch, "bind_loop: loop 'i' is already bound to 'blockIdx.x'"):
        tr.bind_loop(sch, i, axis="blockIdx.y")


def make_scale(columns):
    return parse_kernel(f"""
        A (16, {columns}), B (16, {columns})
        for i, j in T.grid(16, {columns}):
            with T.sblock("B", "SS", i, j):
                B[vi, vj] = A[vi, vj] * T.float32(2)
    """)


def test_5_a_shape_that_does_not_divide_loses_its_vectors():
    sch, _, i, j = start(make_scale(32), "B")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    outer, inner = tr.split_loop(sch, j, inner=4)
    tr.bind_loop(sch, outer, axis="threadIdx.x")
    tr.vectorize_loop(sch, inner)
    other = Schedule(make_scale(30))
    sch.trace.apply_to_schedule(other, remove_postproc=False)
    assert "float4" in compile_for_cuda(sch.mod)
    assert not re.search(r"float[24]\*", compile_for_cuda(other.mod))
    sch, _, i, j = start(make_scale(30), "B")
    with refuses(sch, r"loop 'j' runs 30 times, which inner=4 does not divide; choose a divisor"):
        tr.split_loop(sch, j, inner=4)


def test_5_vectors_over_the_ends_of_rows_are_lost():
    sch, block, *_ = start(Matmul)
    tr.tile_block(sch, block, threads=(8, 1))
    steps = tr.split_reduction(sch, block, inner=2)
    copy = tr.cache_read_at(sch, block, steps.outer, operand=0)
    raw = sch.copy()
    *_, x, vector = raw.split(raw.fuse(*raw.get_loops(copy)[-2:]), [None, 4, 4])
    raw.bind(x, "threadIdx.y")
    raw.vectorize(vector)
    assert not re.search(r"float[24]\*\)\(A_ptr", compile_for_cuda(raw.mod))
    with refuses(sch, "'A_shared' lies in runs of 2 elements, which vector=4 does not divide"):
        tr.fetch_cooperatively(sch, copy, threads=(4, 1), vector=4)


def fetch_b(sch, block):
    """The tile of B, rows of 64 elements, as a copy in shared memory for 64 threads."""
    i, j, _ = sch.get_loops(block)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="threadIdx.x")
    steps = tr.split_reduction(sch, block, inner=8)
    return tr.cache_read_at(sch, block, steps.outer, operand=1)


def find_row_strides(source):
    """The strides at which the CUDA source reads rows of B_shared."""
    return set(map(int, re.findall(r"B_shared_ptr\[\(\(k_1 \* (\d+)\)", source)))


@pytest.mark.parametrize(("factor", "offset", "stride"), [(32, 1, 65), (48, 4, 100), (64, 65, 65)])
def test_7_storage_align_pads_to_something_else(factor, offset, stride):
    sch, block, *_ = start(Matmul)
    copy = fetch_b(sch, block)
    raw = sch.copy()
    raw.storage_align(copy, 0, axis=-2, factor=factor, offset=offset)
    assert find_row_strides(compile_for_cuda(raw.mod)) == {stride}
    tr.pad_shared_rows(sch, copy, elements=4)
    assert find_row_strides(compile_for_cuda(sch.mod)) == {68}


def test_7_storage_align_pads_nothing_by_the_length_of_a_row():
    sch, block, *_ = start(Matmul)
    copy = fetch_b(sch, block)
    raw = sch.copy()
    raw.storage_align(copy, 0, axis=-2, factor=64, offset=64)
    assert find_row_strides(compile_for_cuda(raw.mod)) == {64}
    with refuses(sch, "elements=64 is not less than the 64 elements of a row"):
        tr.pad_shared_rows(sch, copy, elements=64)


def test_7_padded_rows_misalign_vectors():
    sch, block, *_ = start(Matmul)
    copy = fetch_b(sch, block)
    tr.pad_shared_rows(sch, copy, elements=1)
    raw = sch.copy()
    *_, vector = raw.split(raw.fuse(*raw.get_loops(copy)[-2:]), [None, 64, 4])
    raw.vectorize(vector)
    assert re.search(r"\*\(float4\*\)\(B_shared_ptr .*\* 65\)", compile_for_cuda(raw.mod))
    with refuses(sch, "rows of 'B_shared' are padded to 65 elements, so that vectors of 4 would"):
        tr.fetch_cooperatively(sch, copy, threads=64, vector=4)


def test_8_unequal_extents_on_one_axis():
    sch, block, *_ = start(Matmul)
    copy = fetch_b(sch, block)
    raw = sch.copy()
    raw.bind(raw.split(raw.get_loops(copy)[-1], [None, 32])[-1], "threadIdx.x")
    assert "__launch_bounds__(32)" in compile_for_cuda(raw.mod)  # and the other 32 columns of C?
    with refuses(sch, "runs 32 times, and 'threadIdx.x' has the extent 64 at loop 'j' of the same"):
        tr.fetch_cooperatively(sch, copy, threads=32)


def test_9_warp_scope():
    sch, block, *_ = start(Matmul)
    tr.tile_block(sch, block, threads=(8, 2))
    steps = tr.split_reduction(sch, block, inner=8)
    raw = sch.copy()
    copy = raw.cache_read(block, 0, "warp")
    raw.compute_at(copy, steps.outer)
    across, vector = raw.split(raw.get_loops(copy)[-1], [2, 4])
    raw.bind(across, "threadIdx.x")
    raw.vectorize(vector)
    with pytest.raises(tvm.error.InternalError, match="LowerWarpMemory failed"):
        compile_for_cuda(raw.mod)
    with refuses(sch, r"scope 'warp' is not supported \(TVM lowers warp buffers wrongly\)"):
        tr.cache_read_at(sch, block, steps.outer, operand=0, scope="warp")


def test_more_threads_than_a_block_holds():
    sch, _, i, j, _ = start(Matmul)
    tr.bind_loop(sch, i, axis="threadIdx.y")
    raw = sch.copy()
    raw.bind(j, "threadIdx.x")
    assert "__launch_bounds__(4096)" in compile_for_cuda(raw.mod)
    with refuses(sch, r"4096 threads \(threadIdx.x=64 \* threadIdx.y=64\), more than max_threads"):
        tr.bind_loop(sch, j, axis="threadIdx.x")


def test_more_copies_than_the_code_generator_bears():
    sch, _, i, j, _ = start(Matmul)
    tr.unroll_loop(sch, i)
    raw = sch.copy()
    raw.unroll(j)  # 4096 copies: not compiled here, it takes minutes
    with refuses(sch, "loop 'j' would make 4096 copies of its body, more than limit=256"):
        tr.unroll_loop(sch, j)


def test_nested_virtual_threads_each_do_their_own_share():
    sch, block, i, j, _ = start(Matmul)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    virtual, threads = tr.split_loop(sch, j, inner=16)
    tr.bind_loop(sch, virtual, axis="vthread.x")
    tr.bind_loop(sch, threads, axis="threadIdx.x")
    copy = tr.cache_read_at(sch, block, threads, operand=0)
    share = tr.split_loop(sch, sch.get_loops(copy)[-1], inner=8).outer
    raw = sch.copy()
    raw.bind(share, "vthread.x")
    source = compile_for_cuda(raw.mod)
    assert "A_shared_ptr[128]" in source  # four copies of the row of 32, each filled by a quarter
    with refuses(sch, "'vthread.x' already drives loop 'j_0' around or inside, and each virtual"):
        tr.bind_loop(sch, share, axis="vthread.x")


def test_virtual_threads_side_by_side_do_the_share_of_the_first():
    sch, _, i, j = start(TwoInOneLoop, "B")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    raw = sch.copy()
    for block, count in (("B", 2), ("C", 4)):
        last = raw.get_loops(raw.get_sblock(block))[-1]
        virtual, _, threads = raw.split(last, [count, None, 8])
        raw.bind(virtual, "vthread.x")
        raw.bind(threads, "threadIdx.x")
    source = compile_for_cuda(raw.mod)
    stores = [line for line in source.splitlines() if line.lstrip().startswith("C_ptr[")]
    assert len(stores) == 2  # where four virtual threads should have one each
    outer = tr.split_loop(sch, j, inner=32).outer
    with refuses(
        sch,
        "bind_loop: block 'C' stands outside of loop 'j_0' on 'vthread.x', and TVM would repeat "
        "it for each virtual thread; keep all blocks of the kernel inside of that loop",
    ):
        tr.bind_loop(sch, outer, axis="vthread.x")


def test_a_fetch_on_an_axis_that_the_kernel_lacks_runs_all_else_once_more():
    sch, block, *_ = start(Matmul)
    copy = fetch_b(sch, block)
    raw = sch.copy()
    *_, y, x = raw.split(raw.fuse(*raw.get_loops(copy)[-2:]), [None, 2, 64])
    raw.bind(y, "threadIdx.y")
    raw.bind(x, "threadIdx.x")
    source = compile_for_cuda(raw.mod)
    assert "__launch_bounds__(128)" in source
    sums = [line for line in source.splitlines() if "C_ptr[" in line and "+ (A_ptr" in line]
    assert sums
    assert "threadIdx.y" not in sums[0]  # two threads add to each element of C
    with refuses(sch, r"threads=\(2, 64\) needs threadIdx.y above loop 'ax0'"):
        tr.fetch_cooperatively(sch, copy, threads=(2, 64))


def test_a_fetch_that_is_not_placed_runs_in_a_kernel_of_its_own():
    sch, block, i, *_ = start(Matmul)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = sch.cache_read(block, 0, "shared")
    raw = sch.copy()
    raw.bind(raw.split(raw.fuse(*raw.get_loops(copy)), [None, 64])[-1], "threadIdx.x")
    source = compile_for_cuda(raw.mod)
    assert len(set(re.findall(r"void .*(main_kernel\w*)\(", source))) == 2
    with refuses(sch, "block 'A_shared' must be under a loop of its consumer"):
        tr.fetch_cooperatively(sch, copy, threads=64)


def test_a_sum_used_inside_of_its_reduction_is_not_complete():
    SumOfProduct = parse_kernel("""
        A (16, 6), B (6, 12), E (16,)
        C = T.sblock_alloc_buffer((16, 12))
        for i, j, k in T.grid(16, 12, 6):
            with T.sblock("C", "SSR", i, j, k):
                C[vi, vj] += A[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 12):
            with T.sblock("E", "SR", i, j):
                E[vi] += C[vi, vj]
    """)

    a, b = np.ones((16, 6), "float32"), np.ones((6, 12), "float32")
    sch, _, _, _, k = start(SumOfProduct)
    consumer = sch.get_sblock("E")
    assert np.all(run_on_cpu(sch.mod, a, b, output=(16,), dtype="float32") == 6 * 12)
    raw = sch.copy()
    raw.reverse_compute_at(consumer, k)
    partial = run_on_cpu(raw.mod, a, b, output=(16,), dtype="float32")
    assert np.all(partial == 6 + 11 * (1 + 2 + 3 + 4 + 5 + 6))  # E begins anew at j = 0
    with refuses(sch, "'k' is at or inside of the reduction loop 'k', where the sum is not compl"):
        tr.reverse_compute_block_at(sch, consumer, k)


def test_a_reduction_over_threads_without_its_initialization_is_a_race():
    sch, block, i, _, k = start(Matmul)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, k, axis="threadIdx.x")
    assert "__shfl_down_sync" in compile_for_cuda(sch.mod)
    raw = sch.copy()
    raw.decompose_reduction(block, k)
    assert "__shfl_down_sync" not in compile_for_cuda(raw.mod)
    with refuses(sch, "the reduction loop 'k' is bound to 'threadIdx.x', and without its init"):
        tr.decompose_reduction_at(sch, block, k)


def test_a_reduction_over_threads_in_a_host_loop_has_one_cell_for_all():
    sch, _, i, _, k = start(Matmul)
    raw = sch.copy()
    raw.bind(k, "threadIdx.x")
    assert "float* __restrict__ red_buf0_ptr" in compile_for_cuda(raw.mod)  # global memory
    with refuses(
        sch,
        "loop 'k' is a reduction of block 'C' inside of loop 'i', which is not bound: its "
        "threads would add to one element; bind the outer loop first",
    ):
        tr.bind_loop(sch, k, axis="threadIdx.x")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, k, axis="threadIdx.x")
    source = compile_for_cuda(sch.mod)
    assert "float* __restrict__ red_buf0_ptr" not in source
    assert "float red_buf0_ptr[1]" in source


def test_sums_over_threads_of_rows_that_are_guarded():
    """TVM drops the guard of the store where it is the only one: row 5 of 5 is written, too."""
    sch, _, i, k = at_block(make_row_sums(5, 32), "B")
    blocks, row = tr.split_loop(sch, i, inner=2, tail="guard")
    tr.bind_loop(sch, blocks, axis="blockIdx.x")
    tr.bind_loop(sch, row, axis="threadIdx.y")
    with refuses(
        sch,
        "bind_loop: block 'B' reduces over threads, and .* < 5 is its only guard: TVM would "
        "store sums of outputs that do not exist to 'B'; keep the sums in registers",
    ):
        tr.bind_loop(sch, k, axis="threadIdx.x")
    sch.bind(k, "threadIdx.x")
    arguments = [np.ones((5, 32), "float32"), np.full(5, np.nan, "float32")]
    faults = simulate(sch.mod, arguments).findings
    assert any("store to B[5] by thread" in str(fault) for fault in faults)


def test_sums_over_threads_that_are_no_warps():
    """TVM's last steps are those of a warp, whose threads do not wait for one another unasked."""
    sch, _, i, k = at_block(make_row_sums(5, 48), "B")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    with refuses(sch, "a reduction of block 'B' over 48 threads: in its last steps, TVM assumes"):
        tr.bind_loop(sch, k, axis="threadIdx.x")
    sch.bind(k, "threadIdx.x")
    arguments = [np.ones((5, 48), "float32"), np.full(5, np.nan, "float32")]
    assert any("race" in str(fault) for fault in simulate(sch.mod, arguments).findings)
