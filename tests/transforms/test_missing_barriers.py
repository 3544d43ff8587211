"""Barriers that TVM leaves out: races are refused, and right programs stay accepted."""

from collections.abc import Sequence

import pytest
from kernels import parse_kernel
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import Problem, depthwise_conv2d, matmul, transpose, vector_add
from tirstep.transforms import (
    fuse_loops,
    reverse_compute_block_at,
    set_pipeline,
    stage_operand_at,
    tile_block,
    unroll_loop,
)
from tirstep.transforms.legality import lowered_memory
from tirstep.transforms.legality.lowered_memory import find_missing_barriers
from tirstep.transforms.recipes import RECIPES

REFUSAL = "threads would share elements of the shared buffer 'B_shared' with no barrier between: "


def tile(
    problem: Problem, threads: Sequence[int], per_thread: Sequence[int] | None = None
) -> tuple[Schedule, SBlockRV]:
    sch = Schedule(problem.module)
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=threads, per_thread=per_thread, tail="guard")
    return sch, block


def stage_plainly(
    sch: Schedule, block: SBlockRV, depth: int, *, operand: int, threads: Sequence[int]
) -> None:
    """What `stage_operand_at` does at the block's loop of a depth, without its checks."""
    copy = sch.cache_read(block, operand, "shared")
    sch.compute_at(copy, sch.get_loops(block)[depth], preserve_unit_loops=True)
    fused = sch.fuse(*sch.get_loops(copy)[depth + 1 :])
    pieces = sch.split(fused, [None, *threads])[1:]
    for piece, letter in zip(pieces, "yx"[-len(threads) :], strict=True):
        sch.bind(piece, f"threadIdx.{letter}")


@pytest.mark.parametrize(
    ("k", "depth", "threads"),
    [
        pytest.param(1, 3, (3, 4), id="a guard lets one row of threads in"),
        pytest.param(6, 4, (3, 4), id="so it does in a loop"),
        pytest.param(6, 4, (4,), id="all rows write the same in a loop"),
    ],
)
def test_a_tile_that_one_row_of_threads_fetches_for_all(
    k: int, depth: int, threads: tuple[int, ...]
):
    """TVM takes ``S[ty * 4 + tx]`` where that is less than 4 for ``S[tx]``."""
    problem = matmul.problem(20, 4, k, transpose_b=True)
    sch, block = tile(problem, (3, 4), (3, 1))
    plain = sch.copy()
    stage_plainly(plain, block, depth, operand=1, threads=threads)
    assert "race" in find_wrong(problem, plain)[0]
    assert find_missing_barriers(plain.mod) == ["B_shared"]
    loop = sch.get_loops(block)[depth]
    with refuses(sch, "stage_operand_at: " + REFUSAL):
        stage_operand_at(sch, block, loop, operand=1, threads=threads)


def test_a_tile_that_is_fetched_again_before_the_barrier():
    """The barrier that the other tile needs stands between its readers and this one's writers."""
    problem = matmul.problem(20, 4, 6, transpose_b=True)
    plain, block = tile(problem, (3, 4))
    stage_plainly(plain, block, 4, operand=1, threads=(3, 4))
    stage_plainly(plain, block, 4, operand=0, threads=(3, 4))
    assert "race" in find_wrong(problem, plain)[0]
    assert find_missing_barriers(plain.mod) == ["B_shared"]


@pytest.mark.parametrize(
    ("sizes", "threads", "per_thread", "stages"),
    [
        pytest.param((20, 4, 6), (3, 4), (3, 1), [(3, 1, (3, 4))], id="a tile of several rows"),
        pytest.param((20, 4, 1), (3, 4), (3, 1), [(3, 1, 4)], id="all rows write the same once"),
        pytest.param((20, 4, 2), (2, 8), None, [(3, 0, (2, 8))], id="read at other elements"),
        pytest.param(
            (20, 4, 6), (3, 4), None, [(4, 0, (3, 4)), (4, 1, (3, 4))], id="another's barrier"
        ),
    ],
)
def test_tiles_that_have_all_the_barriers_that_they_need(sizes, threads, per_thread, stages):
    problem = matmul.problem(*sizes, transpose_b=True)
    sch, block = tile(problem, threads, per_thread)
    for depth, operand, shape in stages:
        loop = sch.get_loops(block)[depth]
        stage_operand_at(sch, block, loop, operand=operand, threads=shape)
    assert find_wrong(problem, sch) == []


@pytest.mark.parametrize("depth", [0, 1])
def test_a_tile_of_which_each_thread_reads_what_it_wrote(depth: int):
    problem = vector_add.problem(37)
    sch, block = tile(problem, (8,))
    for operand in (0, 1):
        loop = sch.get_loops(block)[depth]
        stage_operand_at(sch, block, loop, operand=operand, threads=8)
    assert find_wrong(problem, sch) == []


def test_a_race_that_was_there_before_is_no_fault_of_a_transform():
    problem = matmul.problem(20, 4, 6, transpose_b=True)
    sch, block = tile(problem, (3, 4), (3, 1))
    stage_plainly(sch, block, 4, operand=1, threads=(3, 4))
    set_pipeline(sch)
    fuse_loops(sch, sch.get_loops(block)[-2:])
    assert find_missing_barriers(sch.mod) == ["B_shared"]


def tile_taps(*, unrolled: bool) -> tuple[Problem, Schedule, SBlockRV]:
    """A stencil of 3 x 3 taps over rows of one pixel row, of which the middle taps alone load X."""
    problem = depthwise_conv2d.problem(b=2, c=1, h=1, w=4, k=3, dtype="float16", acc="float32")
    sch = Schedule(problem.module)
    RECIPES["depthwise_conv2d_threads_2d"](sch, rows=16, columns=16, tail="guard")
    block = sch.get_sblock("Y")
    if unrolled:
        unroll_loop(sch, sch.get_loops(block)[-2])
    return problem, sch, block


def test_stores_of_an_unrolled_loop_whose_loads_tvm_drops():
    """Of the first row of taps nothing is loaded, and TVM sees no use of what is stored for it."""
    problem, sch, block = tile_taps(unrolled=True)
    plain = sch.copy()
    stage_plainly(plain, block, 6, operand=0, threads=(16, 16))
    assert "race: store" in find_wrong(problem, plain)[0]
    assert find_missing_barriers(plain.mod) == ["X_shared"]
    loop = sch.get_loops(block)[-1]
    with refuses(sch, "stage_operand_at: threads would share elements of the shared buffer 'X_sha"):
        stage_operand_at(sch, block, loop, operand=0, threads=(16, 16), vector=1, tail="refuse")

    problem, sch, block = tile_taps(unrolled=False)
    loop = sch.get_loops(block)[-1]
    stage_operand_at(sch, block, loop, operand=0, threads=(16, 16), vector=1, tail="refuse")
    assert find_wrong(problem, sch) == []
    loop = sch.get_loops(block)[-2]
    with refuses(sch, "unroll_loop: threads would share elements of the shared buffer 'X_shared'"):
        unroll_loop(sch, loop)


def test_a_tile_that_an_unrolled_loop_fetches_again():
    problem = matmul.problem(20, 4, 6, transpose_b=True)
    sch, block = tile(problem, (3, 4))
    unroll_loop(sch, sch.get_loops(block)[-1])
    loop = sch.get_loops(block)[-1]
    stage_operand_at(sch, block, loop, operand=0, threads=(3, 4))
    assert find_wrong(problem, sch) == []


def test_copies_of_one_store_that_write_the_same_are_in_order():
    """Every thread of every copy of the loop's body puts the whole tile there again."""
    problem = transpose.problem(2, 5)
    sch = Schedule(problem.module)
    recipe = RECIPES["transpose_vectors"]
    recipe(sch, **{**recipe.golden.config, "tail": "guard"})
    loop = sch.get_loops(sch.get_sblock("B"))[4]
    reverse_compute_block_at(sch, sch.get_sblock("A_shared"), loop)
    assert find_missing_barriers(sch.mod) == []
    assert find_wrong(problem, sch) == []


def test_a_module_that_gets_another_function_is_looked_at_again():
    problem = matmul.problem(20, 4, 6, transpose_b=True)
    wrong, block = tile(problem, (3, 4), (3, 1))
    stage_plainly(wrong, block, 4, operand=1, threads=(3, 4))
    right, _ = tile(problem, (3, 4), (3, 1))
    module = right.mod
    assert find_missing_barriers(module) == []
    module["main"] = wrong.mod["main"]
    assert find_missing_barriers(module) == ["B_shared"]


def copy_by_all(offset) -> Schedule:
    """Each thread copies the elements of A that it and its neighbour read, some of them both."""

    @I.ir_module
    class Copies:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((32,), "float32"), B: T.Buffer((16,), "float32")):
            T.func_attr({"tirx.noalias": True})
            S = T.sblock_alloc_buffer((32,), scope="shared")
            for tx in T.thread_binding(16, thread="threadIdx.x"):
                for k in T.unroll(3):
                    with T.sblock("S"):
                        vt, vk = T.axis.remap("SS", [tx, k])
                        S[vt + vk] = A[offset(vt, vk)]
                with T.sblock("B"):
                    vt = T.axis.spatial(16, tx)
                    B[vt] = S[17 - vt]

    return Schedule(Copies)


def test_threads_that_copy_the_same_to_one_element_need_no_barrier_between_them():
    assert find_missing_barriers(copy_by_all(lambda t, k: t + k).mod) == []
    assert find_missing_barriers(copy_by_all(lambda t, k: t + 2 * k).mod) == ["S"]


@pytest.mark.parametrize(("steps", "is_written_out"), [(64, True), (2**31 - 1, False)])
def test_no_loop_is_written_out_where_tvm_would_do_so_by_mistake(
    monkeypatch: pytest.MonkeyPatch, steps: int, is_written_out: bool
):
    """Two statements of 2**31 - 1 iterations are -2 to TVM, few enough to be unrolled."""

    Sums = parse_kernel(f"""
        A ({steps},), B (16,)
        S = T.sblock_alloc_buffer((1,), scope="shared")
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            for i in T.unroll(1):
                for k in range({steps}):
                    with T.sblock("S"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        S[vi] += A[vk]
            with T.sblock("B"):
                vt = T.axis.spatial(16, tx)
                B[vt] = S[0]
    """)

    asked = []
    monkeypatch.setattr(
        lowered_memory,
        "lower_around",
        lambda module, names, *, unrolls: asked.append(unrolls) or {},
    )
    find_missing_barriers(Sums)
    assert set(asked) == {is_written_out}
