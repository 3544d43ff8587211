"""What TVM accepts and computes wrongly, found by tests/recipes/test_random_schedules.py.

Each test shows first that plain TVM accepts the schedule and that the simulator finds it wrong, and
then that our transform refuses it.
"""

import pytest
from kernels import at_block
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks.legality.lowered_memory import find_split_allocations
from tirstep.modules import (
    conv1d,
    depthwise_conv2d,
    matmul,
    matmul_bias_relu,
    matvec,
    rms_norm,
    softmax,
    transpose,
)
from tirstep.transforms.recipes import RECIPES


def test_threads_of_outputs_and_of_a_reduction_in_one_loop():
    problem = conv1d.problem(20, 5)
    sch = Schedule(problem.module)
    fused = tr.fuse_loops(sch, sch.get_loops(sch.get_sblock("B")))
    plain = sch.copy()
    plain.bind(fused, "threadIdx.x")
    assert find_wrong(problem, plain)
    with refuses(
        sch,
        r"loop 'i_r_fused' is a reduction of block 'B' and goes over its outputs as well: TVM would"
        " sum over all threads of the loop, whichever output they work on; bind the spatial",
    ):
        tr.bind_loop(sch, fused, axis="threadIdx.x")


def test_a_failed_check_inside_of_tvm_is_one_sentence_too():
    """TVM raises a bare ValueError where it cannot match the region A[vi - vr]."""
    sch, block, *_ = at_block(conv1d(20, 5), "B")
    outer = sch.get_loops(sch.cache_read(block, 0, "local"))[0]
    with refuses(
        sch, r"TVM refuses: (Tensor|Buffer)Region pattern match failed: vi - vr; the indices are"
    ):
        tr.reverse_compute_block_at(sch, block, outer)


def test_a_copy_that_is_moved_behind_its_reader():
    problem = matmul_bias_relu.problem(8, 12, 6)
    sch = Schedule(problem.module)
    copy = sch.cache_read(sch.get_sblock("C"), 0, "local")
    inner = sch.get_loops(sch.get_sblock("D"))[1]
    plain = sch.copy()
    plain.reverse_compute_at(copy, inner)
    assert find_wrong(problem, plain, "cpu")
    with refuses(
        sch,
        r"reverse_compute_block_at: block 'A_local' would be computed after block 'C', which uses "
        "it; place it in front of its consumers, with compute_block_at",
    ):
        tr.reverse_compute_block_at(sch, copy, inner)


def test_a_virtual_thread_for_a_part_of_a_kernel():
    problem = matmul.problem(12, 20, 8)
    sch, block, *_ = at_block(problem.module, "C")
    tile = tr.tile_block(sch, block, threads=(4, 2))
    inner = sch.get_loops(tr.cache_read_at(sch, block, tile.blocks[1], operand=0))[-1]
    plain = sch.copy()
    plain.bind(inner, "vthread.x")
    assert find_wrong(problem, plain)
    with refuses(sch, r"bind_loop: block 'C' stands outside of loop 'ax1' on 'vthread.x', and TVM"):
        tr.bind_loop(sch, inner, axis="vthread.x")


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_result_that_is_written_outside_of_its_gpu_blocks(scope: str):
    problem = matmul.problem(12, 20, 8)
    sch, block, i, j, _ = at_block(problem.module, "C")
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="blockIdx.y")
    plain = sch.copy()
    plain.reverse_compute_at(plain.cache_write(block, 0, scope), i)
    assert find_wrong(problem, plain)
    with refuses(sch, rf"cache_write_at: the .* of 'blockIdx.y' write the .* buffer 'C_{scope}'"):
        tr.cache_write_at(sch, block, i, scope=scope)


def test_registers_that_others_read_at_quotients_of_differences():
    """TVM estimates of reads at (i - r) // 2 and (i - r) % 2 a region without elements."""
    problem = conv1d.problem(1, 3, dtype="float16")
    sch, block, *_ = at_block(problem.module, "B")
    tile = tr.tile_block(sch, block, threads=(3,))
    copy = tr.cache_read_at(sch, block, tile.blocks[0], operand=0, scope="local")
    tr.align_vectors(sch, copy, vector=2, offset=0)
    inner = tr.split_loop(sch, sch.get_loops(copy)[-1], inner=3, tail="guard").inner
    plain = sch.copy()
    plain.bind(inner, "threadIdx.x")
    assert find_wrong(problem, plain)
    with refuses(
        sch, "bind_loop: the threads of 'threadIdx.x' write the register buffer 'A_local'"
    ):
        tr.bind_loop(sch, inner, axis="threadIdx.x")


def test_a_padding_of_sums_that_is_fused_to_them():
    """The same where the padding is the epilogue of the sums: its last elements read none."""
    problem = rms_norm.problem(3, 16)
    sch = Schedule(problem.module)
    tr.pad_block(sch, sch.get_sblock("B"), multiples=(4, 8))
    sums = sch.get_sblock("sum")
    loop = sch.get_loops(sums)[0]
    plain = sch.copy()
    (padding,) = plain.get_consumers(sums)
    plain.reverse_compute_at(padding, loop, preserve_unit_loops=True)
    for block in plain.get_child_blocks(plain.get_sblock("root")):
        if plain.get(plain.get_loops(block)[0]).thread_binding is None:
            plain.bind(plain.get_loops(block)[0], "blockIdx.x")
    assert find_wrong(problem, plain)
    with refuses(sch, "accumulate_in_registers: fuse_epilogue_at: block 'squares_pad' would comp"):
        tr.accumulate_in_registers(sch, sums, loop)


def test_a_padding_that_is_moved_under_its_fetch():
    """The rim of zeros reads nothing, so that TVM computes the inside alone."""
    problem = depthwise_conv2d.problem(2, 2, 6, 1, 3)
    sch, block, *_ = at_block(problem.module, "padded")
    copy = tr.cache_read_at(sch, block, sch.get_loops(block)[0], operand=0, scope="local")
    inner = sch.get_loops(copy)[1]
    plain = sch.copy()
    plain.reverse_compute_at(block, inner, preserve_unit_loops=True)
    assert find_wrong(problem, plain, "cpu")
    with refuses(sch, "reverse_compute_block_at: block 'padded' would compute 24 of its 96 elem"):
        tr.reverse_compute_block_at(sch, block, inner)


@pytest.mark.parametrize("columns", [3, 1201])
def test_a_padding_whose_rim_a_guard_leaves_out(columns: int):
    """Its loops run often enough, and TVM lets only those iterations in that read the fetch."""
    problem = transpose.problem(2, columns)
    sch, block, *_ = at_block(problem.module, "B")
    tr.pad_block(sch, block, multiples=(4, 2))
    tr.bind_loop(
        sch, tr.split_loop(sch, sch.get_loops(block)[0], inner=4).inner, axis="threadIdx.x"
    )
    padding = sch.get_sblock("A_pad")
    row = sch.get_loops(padding)[0]
    copy = tr.stage_operand_at(sch, padding, row, operand=0, threads=4, scope="shared")
    thread = sch.get_loops(copy)[-1]
    plain = sch.copy()
    plain.set_scope(copy, 0, "local")
    plain.reverse_compute_at(padding, thread, preserve_unit_loops=True)
    plain.bind(plain.get_loops(plain.get_sblock("B_pad"))[0], "blockIdx.x")
    if columns == 3:
        assert find_wrong(problem, plain)
    with refuses(sch, "fuse_epilogue_at: block 'A_pad' would compute [0-9]* of its [0-9]* elem"):
        tr.fuse_epilogue_at(sch, copy, padding, thread)


@pytest.mark.parametrize(
    ("scope", "columns"), [("shared.dyn", 8), ("local", 8), ("shared.dyn", 500)]
)
def test_a_copy_of_more_than_a_loop_of_one_iteration_writes(scope: str, columns: int):
    """TVM estimates nothing of a tile whose loop is guarded twice, and copies all of the loop."""
    problem = transpose.problem(2, columns, dtype="int8")
    sch, block, *_ = at_block(problem.module, "B")
    tr.tile_block(sch, block, threads=(8, 8), per_thread=(3, 1), tail="guard")
    tr.split_loop(sch, sch.get_loops(block)[4], inner=1, tail="guard")
    tr.split_loop(sch, sch.get_loops(block)[5], inner=8, tail="guard")
    loop, plain = sch.get_loops(block)[4], sch.copy()
    copy = plain.cache_write(block, 0, scope)
    plain.reverse_compute_at(copy, loop, preserve_unit_loops=True)
    assert find_wrong(problem, plain)
    with refuses(
        sch, "cache_write_at: block 'B' computes only elements of 'B_.*' where .*, and bl"
    ):
        tr.cache_write_at(sch, block, loop, scope=scope)


def test_a_folded_tile_that_one_thread_fetches():
    """TVM takes the remainders of one thread for all, and begins the tile there for each thread."""
    problem = matvec.problem(4, 32, dtype="float16")
    sch, block, *_ = at_block(problem.module, "y")
    tr.tile_block(sch, block, threads=[4], per_thread=[1], tail="guard")
    tr.split_loop(sch, sch.get_loops(block)[2], inner=2)
    copy = tr.cache_read_at(sch, block, sch.get_loops(block)[4], operand=0, scope="shared")
    tr.spread_over_threads(sch, copy, threads=4, vector=1, tail="guard")
    plain = sch.copy()
    plain.transform_layout(copy, ("write", 0), lambda i, k: (i, k // 4, k % 4))
    assert find_split_allocations(plain.mod) == ["A_shared"]
    assert find_wrong(problem, plain)
    with refuses(sch, "fold_tile: TVM would make 'A_shared' smaller, as if each thread had a"):
        tr.fold_tile(sch, copy, row=4, padding=3)


def test_a_folded_tile_that_is_copied_by_each_thread():
    problem = depthwise_conv2d.problem(b=2, c=1, h=3, w=5, k=1)
    sch = Schedule(problem.module)
    RECIPES["depthwise_conv2d_tiled"](sch, threads=(2, 16), thread_tile=(8, 1), tail="guard")
    copy = sch.get_sblock("padded")
    tr.fold_tile(sch, copy, row=4, padding=2)
    loop, plain = sch.get_loops(copy)[-1], sch.copy()
    plain.reverse_compute_at(plain.cache_write(copy, 0, "shared"), loop, preserve_unit_loops=True)
    assert find_split_allocations(plain.mod) == ["padded_shared_shared"]
    assert find_wrong(problem, plain)
    with refuses(sch, "cache_write_at: TVM would make 'padded_shared_shared' smaller"):
        tr.cache_write_at(sch, copy, loop, scope="shared")


def test_what_a_named_value_reads_is_read():
    """The rules looked at stores and branches, and not at what a T.let loads."""
    problem = softmax.problem(4, 16, online=True)
    sch, block, *_ = at_block(problem.module, "statistics")
    wide = sch.get_sblock("wide")
    tr.spread_over_threads(sch, wide, threads=8, vector=1)
    for each in (wide, sch.get_sblock("B")):
        tr.bind_loop(sch, sch.get_loops(each)[0], axis="blockIdx.x")
    plain = sch.copy()
    plain.reverse_compute_at(block, plain.get_loops(wide)[0], preserve_unit_loops=True)
    plain.bind(plain.get_loops(block)[1], "threadIdx.x")
    assert find_wrong(problem, plain)
    loop = sch.get_loops(wide)[0]
    with refuses(sch, "reverse_compute_block_at: block 'statistics' would read elements of 'W' th"):
        tr.reverse_compute_block_at(sch, block, loop)
