"""Wrong programs about threads: each public transform may go on its own, and all of them may not.

What can never become right is refused, with plain TVM's schedule of the same to show the wrong
numbers. What is only unfinished goes through, and `check_ownership` names it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.lowering_checks import check_numbers, check_ownership, get_device
from tirstep.modules import Problem, matmul, row_sum
from tirstep.transforms.tir import get_places


def start(problem: Problem, name: str = "C") -> tuple[Schedule, SBlockRV, list[LoopRV]]:
    sch = Schedule(problem.module)
    block = sch.get_sblock(name)
    return sch, block, list(sch.get_loops(block))


def is_right(problem: Problem, sch: Schedule) -> bool:
    return check_numbers(problem, sch.mod, get_device("simulator"), where="here") == []


def is_wrong(problem: Problem, sch: Schedule) -> bool:
    """On the simulator, while the loops in a row compute the right numbers: only threads do not."""
    assert check_numbers(problem, sch.mod, get_device("cpu"), where="here") == []
    return not is_right(problem, sch) and check_ownership(sch.mod) != []


@pytest.mark.parametrize("columns", [16, 18])
def test_the_same_axis_of_gpu_blocks_may_fetch_what_it_reads(columns: int) -> None:
    """Tiles of B along the columns, in loops of their own on the axis of the columns."""
    problem = matmul.problem(4, columns, 8)
    sch, block, (i, j, _) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_read_at(sch, block, i, operand=1)
    fetch, _ = tr.split_loop(sch, sch.get_loops(copy)[-1], inner=4, tail="guard")
    tiles, _ = tr.split_loop(sch, j, inner=4, tail="guard")
    tr.bind_loop(sch, tiles, axis="blockIdx.y")
    tr.bind_loop(sch, fetch, axis="blockIdx.y")
    assert is_right(problem, sch)
    assert check_ownership(sch.mod) == []


GUARDED = (
    r"bind_loop: loop '{}': 'threadIdx.x' already drives loop '{}' of block '{}', and '{}' "
    r"occurs only in the guard .*, which decides which threads run: each would do only its own "
    r"share, and those excluded none; bind it to another axis, or bind the outer loop first, and "
    r"fetch or spread what is inside of it afterwards"
)


@pytest.mark.parametrize("threads", [8, (8, 1), (1, 8)])
def test_a_fetch_of_one_element_whose_column_is_bound_afterwards(threads: object) -> None:
    problem = matmul.problem(8, 8, 4)
    sch, block, (i, j, k) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    late = sch.copy()
    tr.stage_operand_at(sch, block, k, operand=1, threads=threads)
    axis = "threadIdx.y" if threads == (8, 1) else "threadIdx.x"
    raw = sch.copy()
    raw.bind(j, axis)
    assert is_wrong(problem, raw)
    inner = "ax0_ax1_fused_1" if threads != (1, 8) else "ax0_ax1_fused_2"
    with refuses(sch, GUARDED.replace("threadIdx.x", axis).format("j", inner, "B_shared", inner)):
        tr.bind_loop(sch, j, axis=axis)
    # What the sentence says to do: then the tile has a column for each thread.
    tr.bind_loop(late, j, axis=axis)
    tr.stage_operand_at(late, block, k, operand=1, threads=threads)
    assert is_right(problem, late)
    assert check_ownership(late.mod) == []


def test_a_guard_that_always_holds_is_no_use() -> None:
    """A fetch by the threads of a tile whose own guard nothing falls out of."""
    problem = matmul.problem(8, 16, 8)
    sch, block, (i, j, k) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    outer, inner = tr.split_loop(sch, j, inner=8, tail="guard")
    tr.bind_loop(sch, outer, axis="blockIdx.y")
    tr.bind_loop(sch, inner, axis="threadIdx.x")
    tr.stage_operand_at(sch, block, k, operand=1, threads=8, tail="guard")
    assert is_right(problem, sch)
    assert all(not place.find_real_guards() for place in get_places(sch.mod["main"].body))


def test_shared_memory_of_other_gpu_blocks_copied_into_registers() -> None:
    problem = matmul.problem(8, 8, 8)
    sch, block, (i, j, k) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_read_at(sch, block, i, operand=1)
    tr.bind_loop(sch, j, axis="blockIdx.y")
    rows = sch.get_loops(copy)[1]
    with refuses(
        sch,
        r"bind_loop: the thread blocks of 'blockIdx.y' write the shared buffer 'B_shared' in block "
        r"'B_shared', and block 'C' would read what other thread blocks wrote: a thread block "
        r"cannot read the shared memory of another; let the same thread blocks write and read "
        r"\(bind the reader first\), or spread the writer over threads",
    ):
        tr.bind_loop(sch, rows, axis="blockIdx.y")
    tr.cache_read_at(sch, block, k, operand=1, scope="local")
    assert is_right(problem, sch)


def test_registers_that_a_guard_lets_one_thread_fill() -> None:
    """A copy of one element, split and bound: the other threads multiply by what they never had."""
    problem = matmul.problem(8, 8, 4)
    sch, block, (i, j, k) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="threadIdx.y")
    copy = tr.cache_read_at(sch, block, k, operand=0, scope="local")
    fused = tr.fuse_loops(sch, sch.get_loops(copy)[-2:])
    inner = tr.split_loop(sch, fused, inner=4, tail="guard").inner
    raw = sch.copy()
    raw.bind(inner, "threadIdx.x")
    assert is_wrong(problem, raw)
    with refuses(
        sch,
        "bind_loop: the guard .* lets only a part of 'threadIdx.x' write the register buffer "
        "'A_local' in block 'A_local', and all of 'threadIdx.x' would read it in block 'C'",
    ):
        tr.bind_loop(sch, inner, axis="threadIdx.x")


def sum_all(sch: Schedule, block: SBlockRV) -> LoopRV:
    return tr.fuse_loops(sch, sch.get_loops(block))


def sum_outermost(sch: Schedule, block: SBlockRV) -> LoopRV:
    i, k = sch.get_loops(block)
    tr.reorder_loops(sch, [k, i])
    return k


@pytest.mark.parametrize("make", [sum_all, sum_outermost])
def test_a_sum_over_the_outermost_threads(make: Callable[[Schedule, SBlockRV], LoopRV]) -> None:
    problem = row_sum.problem(1 if make is sum_all else 3, 8)
    sch, block, _ = start(problem, "B")
    loop = make(sch, block)
    if make is sum_all:
        raw = sch.copy()
        raw.bind(loop, "threadIdx.x")
        assert is_wrong(problem, raw)
    with refuses(
        sch,
        r"bind_loop: loop '\w+' is a reduction of block 'B' with no loop around it: its threads "
        "would add to one element; bind a spatial loop around it first",
    ):
        tr.bind_loop(sch, loop, axis="threadIdx.x")


def start_pipeline() -> tuple[Schedule, SBlockRV, SBlockRV, LoopRV]:
    """A matmul whose tiles of A are copied asynchronously, with the copy and its loop."""
    sch, block, _ = start(matmul.problem(16, 16, 32))
    tile = tr.tile_block(sch, block, threads=(4, 4), per_thread=(2, 2))
    tr.accumulate_in_registers(sch, block, tile.threads[1])
    steps = tr.split_reduction(sch, block, inner=8).outer
    copy = tr.stage_operand_at(sch, block, steps, operand=0, threads=(4, 4))
    tr.prefetch_asynchronously(sch, steps, [copy], stages=2)
    return sch, block, copy, steps


def test_a_pipeline_is_no_loop_of_threads() -> None:
    sch, *_, steps = start_pipeline()
    with refuses(
        sch,
        "bind_loop: loop 'k_0' prefetches for its next iteration, which has to come after it in "
        "the same thread; bind another loop, or bind before prefetching",
    ):
        tr.bind_loop(sch, steps, axis="vthread.x")
