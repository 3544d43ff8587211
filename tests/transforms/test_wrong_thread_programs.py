"""Wrong programs about threads: each public transform may go on its own, and all of them may not.

What can never become right is refused, with plain TVM's schedule of the same to show the wrong
numbers. What is only unfinished goes through, and `check_ownership` names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from pairs import refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep import transforms as tr
from tirstep.lowering_checks import DeviceError, check_numbers, check_ownership, get_device
from tirstep.lowering_checks.legality.reads import blame_leak, find_leaks
from tirstep.modules import Problem, conv1d, matmul, matvec, row_sum
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


@pytest.mark.parametrize("level", ["blockIdx", "threadIdx"])
def test_a_fetch_that_is_shared_out_over_gpu_blocks(level: str) -> None:
    """GPU blocks of a row each bring a share of A; threads of one may."""
    problem = matmul.problem(4, 4, 16)
    sch, block, (i, j, _) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_read_at(sch, block, i, operand=0)
    outer, _ = tr.split_loop(sch, sch.get_loops(copy)[-1], inner=4)
    tr.bind_loop(sch, j, axis=f"{level}.y")
    if level == "threadIdx":
        tr.bind_loop(sch, outer, axis="threadIdx.y")
        assert is_right(problem, sch)
        assert check_ownership(sch.mod) == []
        return
    raw = sch.copy()
    raw.bind(outer, "blockIdx.y")
    assert is_wrong(problem, raw)
    with refuses(
        sch,
        r"bind_loop: the GPU blocks of 'blockIdx.y' write the shared buffer 'A_shared' in block "
        r"'A_shared', and block 'C' would read what other GPU blocks wrote: a GPU block cannot "
        r"read the shared memory of another; let the same GPU blocks write and read \(bind the "
        r"reader first\), or spread the writer over threads",
    ):
        tr.bind_loop(sch, outer, axis="blockIdx.y")


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
    r"bind_loop: loop '{}': 'threadIdx.x' already drives loop '{}' of block '{}', where '{}' "
    r"decides through the guard .* alone which threads run: each would do its own share, and those "
    r"that the guard keeps out none; bind it to another axis, or bind the outer loop first, and "
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


def test_a_copy_of_one_result_that_is_spread() -> None:
    problem = matmul.problem(8, 16, 4)
    sch, block, _ = start(problem)
    tile = tr.tile_block(sch, block, threads=(4, 8))
    copy = tr.accumulate_in_registers(sch, block, tile.threads[1])
    fused = tr.fuse_loops(sch, sch.get_loops(copy)[-1:])
    raw = sch.copy()
    raw.bind(raw.split(fused, [None, 8])[1], "threadIdx.x")
    assert is_wrong(problem, raw)
    with refuses(
        sch,
        "spread_over_threads: "
        + GUARDED.format("ax1_fused_0_1", "j_1", "C_local", "ax1_fused_0_1"),
    ):
        tr.spread_over_threads(sch, copy, threads=8, tail="guard")


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


def test_registers_of_all_threads_copied_by_each() -> None:
    problem = matmul.problem(8, 8, 8)
    sch, block, (i, j, k) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="threadIdx.x")
    tr.cache_read_at(sch, block, j, operand=1, scope="local")
    raw = sch.copy()
    raw.compute_at(raw.cache_read(block, 1, "shared"), k)
    assert is_wrong(problem, raw)
    with refuses(
        sch,
        "cache_read_at: the threads of 'threadIdx.x' write the register buffer 'B_local' in block "
        "'B_local', and block 'B_local_shared' would read what other threads wrote: a thread cannot"
        " read the registers of another",
    ):
        tr.cache_read_at(sch, block, k, operand=1, scope="shared")
    # Each thread may bring what lies in its own.
    tr.stage_operand_at(sch, block, k, operand=1, threads=8)
    assert is_right(problem, sch)
    assert check_ownership(sch.mod) == []


def test_shared_memory_of_other_gpu_blocks_copied_into_registers() -> None:
    problem = matmul.problem(8, 8, 8)
    sch, block, (i, j, k) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    copy = tr.cache_read_at(sch, block, i, operand=1)
    tr.bind_loop(sch, j, axis="blockIdx.y")
    rows = sch.get_loops(copy)[1]
    with refuses(sch, "bind_loop: the GPU blocks of 'blockIdx.y' write the shared buffer"):
        tr.bind_loop(sch, rows, axis="blockIdx.y")
    tr.cache_read_at(sch, block, k, operand=1, scope="local")
    assert is_right(problem, sch)


def spread_one_result(sch: Schedule, copy: SBlockRV) -> LoopRV:
    """The copy-out of one register by the first of 32 threads."""
    threads = tr.split_loop(sch, sch.add_unit_loop(copy), inner=32, tail="guard").inner
    tr.bind_loop(sch, threads, axis="threadIdx.x")
    return threads


@pytest.mark.parametrize("scope", ["local", "shared"])
def test_a_result_that_one_thread_writes_and_all_read(scope: str) -> None:
    problem = matvec.problem(4, 16)
    sch, block, (i, _) = start(problem, "y")
    tr.bind_loop(sch, i, axis="threadIdx.y")
    copy = tr.cache_write_at(sch, block, i)
    threads = spread_one_result(sch, copy)
    raw = sch.copy()
    raw.reverse_compute_at(raw.cache_write(copy, 0, scope), threads)
    findings = check_ownership(raw.mod)
    assert ["(local memory)" in it.message for it in findings] == [True] * (scope == "local")
    if scope == "local":
        (leak,) = find_leaks(raw.mod).values()
        assert re.fullmatch(
            "the guard .* lets a part of 'threadIdx.x' alone write the register buffer 'y_.*' in "
            "block 'y_local', and block 'y_.*' would read it in all of them",
            blame_leak(leak).problem,
        )
    with refuses(sch, "cache_write_at: block 'y_local' computes only elements of .* where .* < 1"):
        tr.cache_write_at(sch, copy, threads, scope=scope)
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
        "bind_loop: the guard .* lets a part of 'threadIdx.x' alone write the register buffer "
        "'A_local' in block 'A_local', and block 'C' would read it in all of them",
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
        "would share one cell for their sums; bind a spatial loop around it first",
    ):
        tr.bind_loop(sch, loop, axis="threadIdx.x")


@pytest.mark.parametrize("first", ["fetch", "consumer"])
def test_only_the_fetch_on_threads_is_unfinished_and_may_be_finished(first: str) -> None:
    """Legal in both orders; wrong only where it is left so."""
    problem = matmul.problem(8, 32, 8)
    sch, block, (i, j, _) = start(problem)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    if first == "consumer":
        tr.bind_loop(sch, j, axis="threadIdx.x")
        tr.stage_operand_at(sch, block, i, operand=0, threads=32)
    else:
        tr.stage_operand_at(sch, block, i, operand=0, threads=32)
        assert is_wrong(problem, sch)
        tr.bind_loop(sch, j, axis="threadIdx.x")
    assert is_right(problem, sch)
    assert check_ownership(sch.mod) == []


def test_a_window_of_a_guarded_convolution_is_fetched_as_before() -> None:
    """Guards of tails, of the window and of the fetch, in one kernel: all are right."""
    problem = conv1d.problem(53, 7)
    sch, block, _ = start(problem, "B")
    tile = tr.tile_block(sch, block, threads=(8,), per_thread=(2,), tail="guard")
    tr.accumulate_in_registers(sch, block, tile.threads[0])
    copy = tr.cache_read_at(sch, block, tile.blocks[0], operand=0)
    tr.fetch_cooperatively(sch, copy, threads=8, tail="guard")
    tr.stage_operand_at(sch, block, tile.blocks[0], operand=1, threads=8)
    assert is_right(problem, sch)
    assert check_ownership(sch.mod) == []


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


def test_an_asynchronous_copy_from_a_cache() -> None:
    problem = matmul.problem(16, 16, 32)
    sch, block, copy, steps = start_pipeline()
    inner = sch.get_loops(copy)[-2]
    assert is_right(problem, sch)
    raw = sch.copy()
    raw.compute_at(raw.cache_read(copy, 0, "shared"), inner)
    with pytest.raises(DeviceError, match=r"TVM does not lower the module: .*dma_start_group"):
        is_right(problem, raw)
    with refuses(
        sch,
        "cache_read_at: block 'A_shared' is copied asynchronously for the next iterations of loop "
        "'k_0', straight from global memory; cache its operand before prefetching",
    ):
        tr.cache_read_at(sch, copy, inner, operand=0)
    with refuses(sch, "stage_operand_at: block 'A_shared' is copied asynchronously"):
        tr.stage_operand_at(sch, copy, inner, operand=0, threads=(4, 4))
    assert sch.get(steps)
    tr.cache_read_at(sch, block, sch.get_loops(block)[-3], operand=0, scope="local")
    assert is_right(problem, sch)


def start_guarded_rows() -> tuple[Problem, Schedule, SBlockRV, LoopRV]:
    """The first of four rows in a GPU block, with the sum to be made there in registers."""
    problem = row_sum.problem(1, 64)
    sch, block, (i, _) = start(problem, "B")
    outer, inner = tr.split_loop(sch, i, inner=4, tail="guard")
    tr.bind_loop(sch, outer, axis="blockIdx.x")
    tr.bind_loop(sch, inner, axis="threadIdx.y")
    return problem, sch, block, outer


def test_a_guarded_sum_over_threads_in_shared_memory() -> None:
    """TVM drops the guard of the sum: three threads store behind the end of a buffer of one."""
    problem, sch, block, outer = start_guarded_rows()
    tr.cache_write_at(sch, block, outer, scope="shared")
    raw = sch.copy()
    raw.bind(raw.split(raw.get_loops(block)[-1], [None, 8])[1], "threadIdx.x")
    assert not is_right(problem, raw)
    with refuses(
        sch,
        "spread_over_threads: block 'B' reduces over threads, and .* is its only guard: TVM would "
        "store the sums of outputs that do not exist into 'B_shared'; keep the sums in registers",
    ):
        tr.spread_over_threads(sch, block, threads=8)
