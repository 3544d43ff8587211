"""Barriers that TVM leaves out: races are refused, and right programs stay accepted."""

from collections.abc import Sequence

import pytest
from kernels import at_block, parse_kernel
from pairs import find_wrong, refuses
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tirstep import transforms as tr
from tirstep.lowering_checks.legality import lowered_memory
from tirstep.lowering_checks.legality.lowered_memory import find_missing_barriers
from tirstep.modules import Problem, depthwise_conv2d, matmul, transpose
from tirstep.transforms.recipes import RECIPES


def tile(
    problem: Problem, threads: Sequence[int], per_thread: Sequence[int] | None = None
) -> tuple[Schedule, SBlockRV]:
    sch, block, *_ = at_block(problem.module, "C")
    tr.tile_block(sch, block, threads=threads, per_thread=per_thread, tail="guard")
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


def test_a_tile_that_is_fetched_again_before_the_barrier():
    """The barrier that the other tile needs stands between its readers and this one's writers."""
    problem = matmul.problem(20, 4, 6, transpose_b=True)
    plain, block = tile(problem, (3, 4))
    stage_plainly(plain, block, 4, operand=1, threads=(3, 4))
    stage_plainly(plain, block, 4, operand=0, threads=(3, 4))
    assert "race" in find_wrong(problem, plain)[0]
    assert find_missing_barriers(plain.mod) == ["B_shared"]


def test_a_race_that_was_there_before_is_no_fault_of_a_transform():
    problem = matmul.problem(20, 4, 6, transpose_b=True)
    sch, block = tile(problem, (3, 4), (3, 1))
    stage_plainly(sch, block, 4, operand=1, threads=(3, 4))
    tr.set_pipeline(sch)
    tr.fuse_loops(sch, sch.get_loops(block)[-2:])
    assert find_missing_barriers(sch.mod) == ["B_shared"]


def tile_taps(*, unrolled: bool) -> tuple[Problem, Schedule, SBlockRV]:
    """A stencil of 3 x 3 taps over rows of one pixel row, of which the middle taps alone load X."""
    problem = depthwise_conv2d.problem(b=2, c=1, h=1, w=4, k=3, dtype="float16", acc="float32")
    sch = Schedule(problem.module)
    RECIPES["depthwise_conv2d_threads_2d"](sch, rows=16, columns=16, tail="guard")
    block = sch.get_sblock("Y")
    if unrolled:
        tr.unroll_loop(sch, sch.get_loops(block)[-2])
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
        tr.stage_operand_at(sch, block, loop, operand=0, threads=(16, 16), vector=1, tail="refuse")

    problem, sch, block = tile_taps(unrolled=False)
    loop = sch.get_loops(block)[-1]
    tr.stage_operand_at(sch, block, loop, operand=0, threads=(16, 16), vector=1, tail="refuse")
    assert find_wrong(problem, sch) == []
    loop = sch.get_loops(block)[-2]
    with refuses(sch, "unroll_loop: threads would share elements of the shared buffer 'X_shared'"):
        tr.unroll_loop(sch, loop)


def test_copies_of_one_store_that_write_the_same_are_in_order():
    """Every thread of every copy of the loop's body puts the whole tile there again."""
    problem = transpose.problem(2, 5)
    sch = Schedule(problem.module)
    recipe = RECIPES["transpose_vectors"]
    recipe(sch, **{**recipe.golden.config, "tail": "guard"})
    loop = sch.get_loops(sch.get_sblock("B"))[4]
    tr.reverse_compute_block_at(sch, sch.get_sblock("A_shared"), loop)
    assert find_missing_barriers(sch.mod) == []
    assert find_wrong(problem, sch) == []


def copy_by_all(offset: str) -> Schedule:
    """Each thread copies the elements of A that it and its neighbour read, some of them both."""
    module = parse_kernel(f"""
        A (32,), B (16,)
        T.func_attr({{"tirx.noalias": True}})
        S = T.sblock_alloc_buffer((32,), scope="shared")
        for t in T.thread_binding(16, thread="threadIdx.x"):
            for k in T.unroll(3):
                with T.sblock("S", "SS", t, k):
                    S[vt + vk] = A[{offset}]
            with T.sblock("B", "S", t):
                B[vt] = S[17 - vt]
    """)
    return Schedule(module)


def test_threads_that_copy_the_same_to_one_element_need_no_barrier_between_them():
    assert find_missing_barriers(copy_by_all("vt + vk").mod) == []
    assert find_missing_barriers(copy_by_all("vt + 2 * vk").mod) == ["S"]


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
                    with T.sblock("S", "SR", i, k):
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
