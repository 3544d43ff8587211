"""Wrong programs that transforms made: layout, caches, placement, reductions and loops.

Each is a few calls of transforms on a kernel of ours, the last of which refuses now. What it did
before is in the names: blocks were gone, sums were taken twice, stores went beyond the tensor.
"""

from __future__ import annotations

import numpy as np
import pytest
from kernels import at_block, parse_kernel
from pairs import refuses, run_on_cpu
from tvm.s_tir import Schedule

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel

LARGEST = 2**31 - 1


def start(kernel, *sizes, **options):
    return Schedule(get_kernel(kernel)(*sizes, **options))


def loops(sch, name):
    return sch.get_loops(sch.get_sblock(name))


def assert_right(kernel, sch, *sizes, device="cpu"):
    problem = get_kernel(kernel).problem(*sizes)
    assert check_numbers(problem, sch.mod, get_device(device), where="here") == []


def test_align_vectors_deleted_a_fetch_in_its_loops():
    sch = start("depthwise_conv2d", 1, 1, 6, 8, 1)
    padded = sch.get_sblock("padded")
    tr.cache_read_at(sch, padded, loops(sch, "padded")[2], operand=0)
    with refuses(
        sch, r"align_vectors: block 'padded' shares loop 'b' with block 'X_shared'; align"
    ):
        tr.align_vectors(sch, padded, vector=4, offset=3)


def test_align_vectors_lost_the_binding_of_its_loops():
    sch = start("depthwise_conv2d", 1, 1, 6, 8, 1)
    padded = sch.get_sblock("padded")
    sch.unroll(loops(sch, "padded")[2])
    with refuses(sch, "block 'padded' has the unrolled loop 'y'; align a block before its loops"):
        tr.align_vectors(sch, padded, vector=4, offset=0)


def test_pad_block_padded_what_the_block_beside_it_sums():
    """Of one batch its loop is no iterator's: the block had its own loops, and a neighbour."""
    sch = start("attention", 1, 2, 1, 8, 8, causal=True)
    scores, largest = sch.get_sblock("scores"), sch.get_sblock("max")
    tr.reverse_compute_block_at(sch, largest, loops(sch, "scores")[0])
    tr.decompose_reduction_at(sch, scores, sch.get_loops(scores)[0])
    with refuses(
        sch,
        "pad_block: block 'max' shares loop 'b' with block 'scores_update', which would use the",
    ):
        tr.pad_block(sch, largest, multiples=[2, 2, 1, 2])


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_pad_block_of_what_lies_in_no_global_memory(scope):
    sch = start("matmul_bias_relu", 5, 6, 7)
    block = sch.get_sblock("C")
    sch.set_scope(block, 0, scope)
    with refuses(
        sch, f"block 'C' uses 'C_{scope}' in scope '{scope}', and TVM pads the whole tens"
    ):
        tr.pad_block(sch, block, multiples=[4, 4, 4])


@pytest.mark.parametrize(
    ("kernel", "block", "multiples"),
    [("layer_norm", "variance", [1, 8]), ("softmax", "max", [1, 16]), ("layer_norm", "mean", None)],
)
def test_zeros_that_are_padded_into_a_sum_must_not_count(kernel, block, multiples):
    sch = start(kernel, 3, 7)
    handle = sch.get_sblock(block)
    if multiples is None:  # a plain sum is padded with its own zero
        tr.pad_block(sch, handle, multiples=[2, 4])
        assert_right(kernel, sch, 3, 7)
        return
    with refuses(
        sch, f"block '{block}' reduces over 'vk', and padded zeros would change the result"
    ):
        tr.pad_block(sch, handle, multiples=multiples)
    tr.pad_block(sch, handle, multiples=[2, 1])  # rows that are cropped again
    assert_right(kernel, sch, 3, 7)


def test_pad_block_stored_zeros_over_what_it_had_copied():
    """TVM knows the index of a dimension of one element, and all iterations write there."""
    plain, sch = start("depthwise_conv2d", 2, 2, 4, 4, 1), start("depthwise_conv2d", 2, 2, 4, 4, 1)
    for schedule in (plain, sch):
        tr.align_vectors(schedule, schedule.get_sblock("padded"), vector=4, offset=0)
    plain.pad_einsum(plain.get_sblock("padded"), [1, 1, 1, 8, 1])
    problem = get_kernel("depthwise_conv2d").problem(2, 2, 4, 4, 1)
    assert check_numbers(problem, plain.mod, get_device("cpu"), where="here")
    block = sch.get_sblock("padded")
    with refuses(
        sch,
        "pad_block: iterator 'v3' is not an index of what block 'padded' writes, and its 7 new "
        "iterations would overwrite the old ones; pad its other iterators only",
    ):
        tr.pad_block(sch, block, multiples=[1, 1, 1, 8, 1])
    tr.pad_block(sch, block, multiples=[4, 1, 3, 1, 8])
    assert_right("depthwise_conv2d", sch, 2, 2, 4, 4, 1)


def test_pad_block_added_the_same_term_in_each_iteration_of_a_padded_reduction():
    """Padded along j alone, the terms of a second reduction over one element are no zeros."""

    Sums = parse_kernel("""
        A (4, 5, 1), B (4,)
        for i, j, k in T.grid(4, 5, 1):
            with T.sblock("B", "SRR", i, j, k):
                B[vi] += A[vi, vj, 0]
    """)

    ones, plain = np.ones((4, 5, 1), "float32"), Schedule(Sums)
    plain.pad_einsum(plain.get_sblock("B"), [1, 8, 2])
    assert run_on_cpu(plain.mod, ones, output=(4,), dtype="float32")[0] == 10
    sch, block, *_ = at_block(Sums, "B")
    with refuses(sch, "block 'B' reduces over 'vj', 'vk', and padded zeros would change the"):
        tr.pad_block(sch, block, multiples=[1, 8, 2])
    tr.pad_block(sch, block, multiples=[3, 8, 1])
    assert run_on_cpu(sch.mod, ones, output=(4,), dtype="float32")[0] == 5


def test_pad_block_summed_what_lies_behind_the_end_of_its_loop():
    """TVM pads up to the tensor's length, and the first padding has made that tensor longer."""
    sch = start("decode_attention", 2, 1, 13, 1, full=True)
    tr.pad_block(sch, sch.get_sblock("exp"), multiples=[1, 1, 1, 4])
    block = sch.get_sblock("sum")
    with refuses(
        sch,
        "pad_block: iterator 'vj' of block 'sum' goes over 13 of the 16 elements of 'power_pad', "
        "and those after them would be read and summed instead of padding; pad its other iterators",
    ):
        tr.pad_block(sch, block, multiples=[1, 1, 1, 4])
    tr.pad_block(sch, block, multiples=[2, 4, 1, 1])


def test_pad_block_stored_over_what_another_block_had_written():
    Halves = parse_kernel("""
        A (16,), B (16,)
        for i in range(3):
            with T.sblock("last", "S", i):
                B[vi + 13] = A[vi + 13] * T.float32(2)
        for i in range(13):
            with T.sblock("first", "S", i):
                B[vi] = A[vi] + T.float32(1)
    """)

    threes, plain = np.full(16, 3, "float32"), Schedule(Halves)
    plain.pad_einsum(plain.get_sblock("first"), [8])
    assert run_on_cpu(plain.mod, threes, output=(16,), dtype="float32")[15] == 4  # for 6
    sch, block, *_ = at_block(Halves, "first")
    with refuses(sch, "'vi' of block 'first' goes over 13 of the 16 elements of 'B', and those af"):
        tr.pad_block(sch, block, multiples=[8])


def test_fold_tile_misaligned_the_vectors_of_a_fetch():
    sch = start("matmul", 8, 16, 8)
    tile = tr.tile_block(sch, sch.get_sblock("C"), threads=(16,), fuse_threads=True)
    fetch = tr.stage_operand_at(
        sch, sch.get_sblock("C"), tile.blocks[0], operand=1, threads=16, vector=2, tail="refuse"
    )
    with refuses(sch, "fold_tile: block 'B_shared' uses 'B_shared' in vectors of 2, and rows of 3"):
        tr.fold_tile(sch, fetch, row=2, padding=1)
    tr.fold_tile(sch, fetch, row=4, padding=2)
    assert_right("matmul", sch, 8, 16, 8, device="simulator")


def test_a_convolution_that_moved_into_the_fetch_of_its_filter_lost_its_guard():
    sch = start("conv1d", 13, 8)
    product = sch.get_sblock("B")
    outer, _ = tr.split_loop(sch, loops(sch, "B")[0], inner=8, tail="guard")
    fetch = tr.cache_read_at(sch, product, loops(sch, "B")[2], operand=1)
    name, place = sch.get(outer).loop_var.name, sch.get_loops(fetch)[-1]
    with refuses(sch, f"block 'B' would compute the same in all 3 iterations of its loop '{name}'"):
        tr.reverse_compute_block_at(sch, product, place)


def test_a_maximum_may_be_taken_again():
    sch = start("softmax", 4, 8)
    i, k = loops(sch, "exp")
    tr.compute_block_at(sch, sch.get_sblock("max"), k)
    tr.decompose_reduction_at(sch, sch.get_sblock("max"), i)
    assert_right("softmax", sch, 4, 8)


def test_a_guarded_tile_larger_than_the_tensor_was_copied_out_whole():
    sch = start("matmul_bias_relu", 16, 16, 8)
    tile = tr.tile_block(
        sch,
        sch.get_sblock("C"),
        threads=(8, 16),
        per_thread=(4, 2),
        fuse_threads=True,
        tail="guard",
    )
    results = tr.accumulate_in_registers(sch, sch.get_sblock("C"), tile.threads[0])
    with refuses(
        sch, "the guarded tile of 'D' has 32 elements along dimension 1, and TVM would copy"
    ):
        tr.cache_write_at(sch, results, tile.blocks[0], scope="shared")


@pytest.mark.parametrize(
    ("shape", "fuse_threads"), [((12, 17), False), ((13, 17), False), ((13, 17), True)]
)
def test_guarded_tiles_that_are_copied_out_as_far_as_they_are_computed(shape, fuse_threads):
    sch = start("matmul_bias_relu", *shape, 8)
    tile = tr.tile_block(
        sch,
        sch.get_sblock("C"),
        threads=(4, 8),
        per_thread=(2, 1),
        fuse_threads=fuse_threads,
        tail="guard",
    )
    results = tr.accumulate_in_registers(sch, sch.get_sblock("C"), tile.threads[-1])
    tr.cache_write_at(sch, results, tile.blocks[-1], scope="shared")
    assert_right("matmul_bias_relu", sch, *shape, 8)


def test_elements_that_a_guard_left_out_were_copied_over_those_of_other_rows():
    sch = start("softmax", 8, 40)
    largest = sch.get_sblock("max")
    tr.compute_block_at(sch, largest, loops(sch, "exp")[0])
    outer, _ = tr.split_loop(sch, sch.get_loops(largest)[1], inner=4, tail="guard")
    with refuses(
        sch,
        r"block 'max' computes only elements of 'largest_shared' where ax0_0 \* 4 \+ ax0_1 < 1, "
        r"and block 'largest_shared' would use more of them, along dimension 0; do this before the",
    ):
        tr.cache_write_at(sch, largest, outer, scope="shared")


def test_threads_that_a_guard_leaves_out_copied_what_they_had_not_computed():
    sch = start("vector_add", 37, dtype="float16")
    block = sch.get_sblock("C")
    tr.split_loop(sch, loops(sch, "C")[0], inner=16, tail="guard")
    spread = tr.spread_over_threads(sch, block, threads=8, vector=4, tail="guard")
    with refuses(sch, "would use more of them, in iterations in which it computes none; do this"):
        tr.cache_write_at(sch, block, spread.threads, scope="shared")


def test_guards_of_guards_are_asked_with_numbers_that_wrap_around():
    """Rounded up again and again, three iterations end at a number beyond 32 bits."""
    sch = start("vector_add", 3)
    (loop,) = loops(sch, "C")
    for size in (2**14, 2**13, 4, 2):
        loop = tr.split_loop(sch, loop, inner=size, tail="guard").outer
    with refuses(
        sch,
        "split_loop: iterator 'vi' of block 'C' would reach 2147483647 where its guard is "
        "evaluated, and indices of 32 bits end before 2147483647; choose smaller sizes, or give",
    ):
        tr.split_loop(sch, loop, inner=2, tail="guard")
    assert_right("vector_add", sch, 3)


@pytest.mark.parametrize("call", [tr.rfactor_reduction, tr.split_reduction])
def test_reductions_whose_rounded_extent_wraps_around(call):
    sch = start("row_sum", 1, LARGEST - 1)
    block = sch.get_child_blocks(sch.get_sblock("root"))[0]
    option = "parts" if call is tr.rfactor_reduction else "inner"
    with refuses(
        sch, f"loop 'k' runs 2147483646 times, and rounded up to a multiple of {option}=3"
    ):
        call(sch, block, **{option: 3})


def test_padded_extents_beyond_the_integer_type():
    sch = start("vector_add", LARGEST - 1)
    block = sch.get_sblock("C")
    with refuses(sch, "iterator 'vi' has the extent 2147483646, and rounded up to a multiple of 4"):
        tr.pad_block(sch, block, multiples=[4])


@pytest.mark.parametrize(
    ("call", "product"),
    [
        (lambda sch, _, chain: tr.fuse_loops(sch, chain), r"'i' \(2048\) \* 'j' \(2048\) "),
        (
            lambda sch, block, _: tr.tile_block(
                sch, block, threads=(2**16, 2**16), fuse_threads=True, tail="guard"
            ),
            r"'i_1' \(65536\) \* 'j_1' \(65536\)",
        ),
        (
            lambda sch, block, _: tr.tile_in_warps(
                sch, block, threads=(1, 32), per_thread=(1, 1), swizzle=2**29, tail="guard"
            ),
            r"'i_0' \(1\) \* 'j_0' \(64\) \* 'i_1' \(536870912\)",
        ),
    ],
)
def test_fused_loops_that_ran_zero_times(call, product):
    sch = start("matmul", 2048, 2048, 1024)
    block, chain = sch.get_sblock("C"), loops(sch, "C")
    with refuses(
        sch, f"the loops {product}.* run [0-9]+ times together, beyond int32, which ends at"
    ):
        call(sch, block, chain)


def test_a_guard_that_is_lost_where_threads_reduce():
    """The simulator sees the store to B[5] that plain TVM makes of it."""
    sch = start("row_sum", 5, 32)
    block = sch.get_child_blocks(sch.get_sblock("root"))[0]
    i, k = sch.get_loops(block)
    outer, rows = tr.split_loop(sch, i, inner=5)
    sch.bind(outer, "blockIdx.x")
    sch.bind(k, "threadIdx.x")
    with refuses(
        sch, "block 'B' reduces over threads, and TVM would leave out the guard of loop 'i_1'"
    ):
        tr.split_loop(sch, rows, inner=2, tail="guard")
    sch.split(rows, [None, 2])
    problem = get_kernel("row_sum").problem(5, 32)
    findings = check_numbers(problem, sch.mod, get_device("simulator"), where="here")
    assert any("B[5] by thread" in str(finding) for finding in findings)


def test_a_block_in_a_copy_of_a_pipeline_was_another_statement_of_it():
    sch = start("matmul", 16, 16, 32)
    product = sch.get_sblock("C")
    tile = tr.tile_block(sch, product, threads=(8, 8))
    steps = tr.split_reduction(sch, product, inner=8)
    tr.accumulate_in_registers(sch, product, tile.threads[-1])
    fetches = [
        tr.stage_operand_at(sch, product, steps.outer, operand=operand, threads=(8, 8))
        for operand in (0, 1)
    ]
    tr.decompose_reduction_at(sch, product, steps.outer)
    tr.prefetch_asynchronously(sch, steps.outer, fetches, stages=2)
    inside = sch.get_loops(fetches[0])[-2]
    with refuses(sch, "block 'A_shared' is copied asynchronously for the next iterations"):
        tr.cache_read_at(sch, fetches[0], inside, operand=0)
    with refuses(
        sch,
        "loop 'k_0' is or stands in a copy of the pipeline 'k_0', which has a stage for each stat",
    ):
        tr.cache_read_at(sch, product, steps.outer, operand=1, scope="local")
    tr.cache_read_at(sch, product, steps.inner, operand=1, scope="local")
    assert_right("matmul", sch, 16, 16, 32, device="simulator")


Scale = parse_kernel("""
    A (32,), S (), C (32,)
    for i in range(32):
        with T.sblock("C", "S", i):
            C[vi] = A[vi] * S[()]
""")


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda sch, copy: tr.fold_tile(sch, copy, row=2), "in scope 'shared' without a dimension"),
        (
            lambda sch, copy: tr.align_vectors(sch, copy, vector=2, offset=0),
            "element by element in 0 ",
        ),
        (
            lambda sch, copy: tr.pad_block(sch, copy, multiples=[]),
            r"multiples=\(\) does not fit block",
        ),
        (
            lambda sch, copy: tr.cache_row_at(sch, *find_reader(sch), operand=1),
            "is not spread over threads along the last dimension of 'S_shared'",
        ),
    ],
)
def test_a_scalar_has_no_last_dimension(call, problem):
    sch, block, *_ = at_block(Scale, "C")
    outer, inner = tr.split_loop(sch, sch.get_loops(block)[0], inner=8)
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    copy = tr.cache_read_at(sch, block, outer, operand=1)
    with refuses(sch, problem):
        call(sch.copy(), copy)
    tr.keep_in_registers(sch, copy)
    assert "S_shared_local" in sch.mod.script()


def find_reader(sch):
    block = sch.get_sblock("C")
    return block, sch.get_loops(block)[0]
