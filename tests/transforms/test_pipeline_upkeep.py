"""Pipelines stay what their notes say: each test shows the wrong one first, then who refuses it."""

import pytest
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.modules import Problem, matmul, window_sum
from tirstep.transforms import (
    bind_loop,
    cache_read_at,
    fold_tile,
    inline_producers,
    prefetch_asynchronously,
    prefetch_through_registers,
    reorder_loops,
    set_pass_option,
    split_loop,
    stage_operand_at,
    tile_block,
    transpose_tile,
    unroll_loop,
)

THREADS = 4


DEVICES = pytest.mark.parametrize(
    "device", ["simulator", pytest.param("cuda", marks=pytest.mark.gpu)]
)


def note_pipeline(sch: Schedule, loop: LoopRV, *, stages: int) -> None:
    """The notes of `prefetch_asynchronously`, with nothing asked."""
    sch.annotate(loop, "software_pipeline_stage", [0, stages - 1])
    sch.annotate(loop, "software_pipeline_order", [0, 1])
    sch.annotate(loop, "software_pipeline_async_stages", [0])
    for name in ("tirx.use_async_copy", "tirx.disable_storage_rewrite"):
        set_pass_option(sch, name=name, value=True)


def step_over(sch: Schedule, *, inner: int, copy_first: bool) -> tuple[SBlockRV, LoopRV, LoopRV]:
    """Sums of products, with a step of A in shared memory, in guarded steps of the reduction."""
    block = sch.get_sblock("C")
    row, column, k = sch.get_loops(block)
    bind_loop(sch, row, axis="blockIdx.x")
    bind_loop(sch, column, axis="threadIdx.x")

    def copy_at(loop: LoopRV) -> None:
        stage_operand_at(sch, block, loop, operand=0, threads=THREADS, scope="shared", tail="guard")

    if copy_first:
        copy_at(k)
    outer, step = split_loop(sch, k, inner=inner, tail="guard")
    if not copy_first:
        copy_at(step)
    return sch.get_sblock("A_shared"), outer, step


# Of the steps only `terms` copy: TVM makes the first `stages - 1` apart, and a loop of the others.
@pytest.mark.parametrize("copy_first", [False, True])
@pytest.mark.parametrize(
    ("terms", "inner", "stages", "which"),
    [
        (2, 5, 3, "iterations 2 to 4"),
        (1, 5, 3, "iteration 1"),
        (2, 5, 4, "iteration 2"),
        (4, 5, 5, "iteration 4"),
    ],
)
def test_steps_without_a_copy_that_tvm_leaves_out(terms, inner, stages, which, copy_first):
    problem = matmul.problem(2, THREADS, terms)
    sch = Schedule(problem.module)
    copy, outer, step = step_over(sch, inner=inner, copy_first=copy_first)
    sch.decompose_reduction(sch.get_sblock("C"), outer)
    plain = sch.copy()
    note_pipeline(plain, step, stages=stages)
    assert "race: load of A_shared" in find_wrong(problem, plain.mod)[0]
    with refuses(
        sch,
        f"prefetch_asynchronously: block 'A_shared' would copy nothing in {which} of loop 'k_1'; "
        "TVM leaves out groups without a copy, but counts them",
    ):
        prefetch_asynchronously(sch, step, [copy], stages=stages)


@DEVICES
@pytest.mark.parametrize("copy_first", [False, True])
@pytest.mark.parametrize(
    ("terms", "inner", "stages"),
    [(3, 5, 3), (3, 5, 2), (5, 5, 5), (7, 5, 3), (6, 5, 5), (4, 4, 4)],
)
def test_steps_some_of_which_copy_nothing_in_one_loop_are_right(
    terms, inner, stages, copy_first, device
):
    """TVM keeps the group of a loop in which some iterations copy, and those commit none's copies.

    Of two outer iterations the last has fewer steps.
    """
    problem = matmul.problem(2, THREADS, terms)
    sch = Schedule(problem.module)
    copy, outer, step = step_over(sch, inner=inner, copy_first=copy_first)
    sch.decompose_reduction(sch.get_sblock("C"), outer)
    prefetch_asynchronously(sch, step, [copy], stages=stages)
    assert find_wrong(problem, sch.mod, device) == []


def copy_windows(n: int, per_thread: int, inner: int, rounds: int = 1) -> tuple[Problem, Schedule]:
    """Window sums in guarded steps, of which each copies its windows, also where none is summed."""
    problem = window_sum.problem(n, width=3)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=[3], per_thread=[per_thread], tail="guard")
    loop = sch.get_loops(block)[-1]
    if rounds > 1:
        loop = split_loop(sch, loop, inner=per_thread // rounds).inner
    step = split_loop(sch, loop, inner=inner, tail="guard").inner
    stage_operand_at(sch, block, step, operand=0, threads=3, scope="shared", tail="guard")
    return problem, sch


# Copies of steps that sum nothing: their places are used again by the steps behind, or in the next
# round. With 3 stages the place of step k is that of step k + 3.
@pytest.mark.parametrize(
    ("n", "per_thread", "inner", "rounds", "stages", "at"),
    [(12, 2, 8, 1, 3, 2), (12, 2, 8, 1, 4, 2), (24, 4, 5, 2, 3, 2), (12, 2, 5, 2, 2, 1)],
)
def test_copies_that_nothing_waits_for(n, per_thread, inner, rounds, stages, at):
    problem, sch = copy_windows(n, per_thread, inner, rounds)
    copy, step = sch.get_sblock("A_shared"), sch.get_loops(sch.get_sblock("C"))[-1]
    unroll_loop(sch, step)
    plain = sch.copy()
    note_pipeline(plain, step, stages=stages)
    if stages == 2:
        plain.annotate(copy, "double_buffer_scope", 0)
    wrong = find_wrong(problem, plain.mod)
    assert "race: store to A_shared" in wrong[0]
    assert "while an asynchronous copy to it" in wrong[0]
    with refuses(
        sch,
        f"prefetch_asynchronously: block 'A_shared' would copy in iteration {at} of loop '.*' what "
        "nothing uses; TVM leaves out the wait for it, and the next copy to the same place could",
    ):
        prefetch_asynchronously(sch, step, [copy], stages=stages)


@pytest.mark.parametrize(("per_thread", "inner", "stages"), [(2, 5, 3), (3, 5, 4), (4, 5, 2)])
def test_copies_that_nothing_waits_for_and_nothing_follows(per_thread, inner, stages):
    problem, sch = copy_windows(12, per_thread, inner)
    block, copy = sch.get_sblock("C"), sch.get_sblock("A_shared")
    prefetch_asynchronously(sch, sch.get_loops(block)[-1], [copy], stages=stages)
    assert find_wrong(problem, sch.mod) == []


@pytest.mark.parametrize("terms", [6, 7, 10])
def test_unrolling_the_loop_around_a_pipeline_tells_its_last_steps_apart(terms: int):
    problem = matmul.problem(2, THREADS, terms)
    sch = Schedule(problem.module)
    copy, outer, step = step_over(sch, inner=5, copy_first=False)
    sch.decompose_reduction(sch.get_sblock("C"), outer)
    prefetch_asynchronously(sch, step, [copy], stages=3)
    assert find_wrong(problem, sch.mod) == []
    if terms == 10:
        unroll_loop(sch, outer)
        assert find_wrong(problem, sch.mod) == []
        return
    plain = sch.copy()
    plain.unroll(outer)
    assert "race: load of A_shared" in find_wrong(problem, plain.mod)[0]
    with refuses(
        sch,
        r"unroll_loop: block 'A_shared' would copy nothing in iterations? \d.* of loop 'k_1' where "
        "'k_0' is 1;",
    ):
        unroll_loop(sch, outer)


def test_an_unrolled_pipeline_waits_for_each_of_its_steps():
    problem = matmul.problem(2, THREADS, 4)
    sch = Schedule(problem.module)
    copy, outer, step = step_over(sch, inner=5, copy_first=False)
    sch.decompose_reduction(sch.get_sblock("C"), outer)
    other = sch.copy()
    prefetch_asynchronously(sch, step, [copy], stages=3)  # one loop of the steps 2, 3 and 4
    assert find_wrong(problem, sch.mod) == []
    with refuses(sch, "unroll_loop: block 'A_shared' would copy nothing in iteration 4 of loop"):
        unroll_loop(sch, step)
    unroll_loop(other, step)
    with refuses(
        other, "prefetch_asynchronously: block 'A_shared' would copy nothing in iteration"
    ):
        prefetch_asynchronously(other, step, [copy], stages=3)


def test_what_was_wrong_before_a_transform_is_not_its_fault():
    sch = Schedule(matmul.problem(2, THREADS, 2).module)
    copy, outer, step = step_over(sch, inner=5, copy_first=False)
    sch.decompose_reduction(sch.get_sblock("C"), outer)
    note_pipeline(sch, step, stages=3)
    before = str(sch.mod)
    unroll_loop(sch, sch.get_loops(copy)[-2])
    assert str(sch.mod) != before


def make_pipeline(prefetch, **options) -> tuple[Problem, Schedule, SBlockRV, LoopRV]:
    """Tiles of A of 8 x 4 elements, of which each thread fetches a vector."""
    problem = matmul.problem(8, 8, 16)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(8, 8), fuse_threads=True)
    outer, _ = split_loop(sch, sch.get_loops(block)[-1], inner=4)
    copy = stage_operand_at(
        sch, block, outer, operand=0, threads=64, vector=4, scope="shared", tail="guard"
    )
    sch.decompose_reduction(block, outer)
    prefetch(sch, outer, [copy], **options)
    assert find_wrong(problem, sch.mod) == []
    return problem, sch, copy, outer


def test_a_tile_that_is_laid_out_anew_under_its_copies():
    """TVM copies 16 bytes from the place of the first element to the place of the first."""
    problem, sch, copy, _ = make_pipeline(prefetch_asynchronously, stages=2)
    plain = sch.copy()
    plain.transform_layout(copy, ("write", 0), lambda i, k: (k, i))
    assert "misaligned access" in find_wrong(problem, plain.mod)[0]
    apart = "block 'A_shared' takes vectors of 4 elements that are no neighbours in 'A_shared'"
    with refuses(sch, f"transpose_tile: {apart}, and TVM would copy others"):
        transpose_tile(sch, copy)
    with refuses(sch, f"fold_tile: {apart}"):
        fold_tile(sch, copy, row=2)
    fold_tile(sch, copy, row=4)
    assert find_wrong(problem, sch.mod) == []


def test_a_tile_behind_registers_may_be_laid_out_anew():
    problem, sch, copy, _ = make_pipeline(prefetch_through_registers)
    transpose_tile(sch, copy)
    assert find_wrong(problem, sch.mod) == []


def test_a_copy_that_is_put_into_what_the_pipeline_computes():
    """TVM takes the initialization for the copy: the block becomes two statements of a pipeline."""
    problem = matmul.problem(7, 8, 12)
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(4, 4), per_thread=(1, 2), tail="guard")
    step = sch.get_loops(block)[-1]
    copy = cache_read_at(sch, block, step, operand=0, scope="shared")
    prefetch_asynchronously(sch, step, [copy], stages=2)
    plain = sch.copy()
    plain.compute_inline(copy)
    assert "out of bounds" in find_wrong(problem, plain.mod)[0]
    with refuses(
        sch,
        "inline_producers: loop 'j_2' is a pipeline of 2 statements, and its body would have 1; do "
        "this before the loop becomes a pipeline",
    ):
        inline_producers(sch, block)


def test_a_loop_that_comes_between_a_pipeline_and_its_statements():
    sch = Schedule(matmul.problem(2, THREADS, 10).module)
    copy, outer, step = step_over(sch, inner=5, copy_first=False)
    sch.decompose_reduction(sch.get_sblock("C"), outer)
    prefetch_through_registers(sch, step, [copy])
    with refuses(
        sch, "reorder_loops: loop 'k_1' is a pipeline of 3 statements, and its body would have 1"
    ):
        reorder_loops(sch, [step, outer])
