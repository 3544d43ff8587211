"""Calls that somebody would make wrongly, each refused by the transform that is called.

Most of what would come of them is planted as a diff under the same name (`planted`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from planted import read_original
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import ForKind

from tirstep import transforms as tr
from tirstep.modules import conv1d, depthwise_conv2d, matmul, vector_add

Misuse = Callable[[Schedule], object]
SQUARE, VECTOR = matmul.problem(16, 16, 8).module, vector_add.problem(4096).module


def find_loops(sch: Schedule, block: str = "C") -> list[LoopRV]:
    return list(sch.get_loops(sch.get_sblock(block)))


def stage_tile_of_a(**options: object) -> Misuse:
    """Fetch the tile of A for a step of the sum, which is the innermost serial loop so far."""

    def call(sch: Schedule) -> None:
        block = sch.get_sblock("C")
        steps = tr.split_reduction(sch, block, inner=4)
        tr.stage_operand_at(sch, block, steps.outer, operand=0, **options)

    return call


def stage(threads: tuple[int, ...], *, operand: int) -> Misuse:
    return lambda sch: tr.stage_operand_at(
        sch, sch.get_sblock("C"), find_loops(sch)[4], operand=operand, threads=threads
    )


def accumulate_in_every_step(sch: Schedule) -> None:
    block = sch.get_sblock("C")
    tr.accumulate_in_registers(sch, block, tr.split_reduction(sch, block, inner=4).outer)


def bind_both_to_x(sch: Schedule) -> None:
    i, j, _ = find_loops(sch)
    tr.bind_loop(sch, i, axis="blockIdx.x")
    tr.bind_loop(sch, j, axis="blockIdx.x")


def bind_rows_twice(sch: Schedule) -> None:
    i = find_loops(sch)[0]
    tr.bind_loop(sch, i, axis="blockIdx.y")
    tr.bind_loop(sch, i, axis="blockIdx.x")


def bind_inner(axis: str) -> Misuse:
    return lambda sch: tr.bind_loop(sch, find_loops(sch)[1], axis=axis)


def split_and_bind(inner: int, place: int, axis: str) -> Misuse:
    def call(sch: Schedule) -> None:
        tr.bind_loop(sch, tr.split_loop(sch, find_loops(sch)[0], inner=inner)[place], axis=axis)

    return call


def compute_padding_in_vector(sch: Schedule) -> None:
    block = sch.get_sblock("Y")
    _, lane = sch.split(sch.get_loops(block)[3], [None, 4])
    sch.reorder(*sch.get_loops(block)[5:], lane)
    tr.vectorize_loop(sch, lane)
    tr.compute_block_at(sch, sch.get_producers(block)[0], lane)


def bind_columns_of_a_shared_sum(sch: Schedule) -> None:
    """A sum without a serial loop, and 8 columns of what reads it."""
    sch.set_scope(sch.get_sblock("sum"), 0, "shared")
    tr.unroll_loop(sch, tr.fuse_loops(sch, find_loops(sch, "sum")[2:]))
    columns = tr.split_loop(sch, find_loops(sch, "B")[-1], inner=8).inner
    tr.bind_loop(sch, columns, axis="threadIdx.y")


def bind_columns_of_a_fetch(sch: Schedule) -> None:
    """An element of B is fetched by the first of 8 threads."""
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(j, [None, 8])[0], "blockIdx.y")
    tr.stage_operand_at(sch, block, k, operand=1, threads=8)
    tr.bind_loop(sch, find_loops(sch)[2], axis="threadIdx.x")


def copy_tile_again(sch: Schedule) -> None:
    tile = sch.get_sblock("A_pad_shared.dyn")
    tr.cache_read_at(sch, tile, sch.get_loops(tile)[0], operand=0, scope="shared.dyn")


def bind_around_an_instruction(sch: Schedule) -> None:
    loops = find_loops(sch, "C_pad_shared.dyn_local_o")
    serial = next(loop for loop in loops if sch.get(loop).kind == ForKind.SERIAL)
    tr.bind_loop(sch, sch.split(serial, [None, 32])[1], axis="threadIdx.x")


MISUSES: dict[str, tuple[str | tvm.IRModule, Misuse, str]] = {
    "fetch into registers": (
        "matmul_threads_2d",
        stage_tile_of_a(threads=(8, 16), scope="local"),
        "in scope 'local', which threads do not share",
    ),
    "fetch with half of the threads": (
        "matmul_threads_2d",
        stage_tile_of_a(threads=8, vector=4),
        "runs 8 times, and 'threadIdx.x' has the extent 16",
    ),
    "fetch with a third axis": (
        "matmul_shared_A_in_shared_memory",
        stage((2, 16, 16), operand=1),
        "needs threadIdx.z above loop 'ax0'",
    ),
    "fetch without its predicate": (
        "window_sum_shared_window_in_every_thread",
        lambda sch: tr.fetch_cooperatively(sch, sch.get_sblock("A_shared"), threads=128),
        "130 elements, which threads . vector = 128 does not divide",
    ),
    "outputs without their predicate": (
        conv1d.problem(100, 32).module,
        lambda sch: tr.split_loop(sch, find_loops(sch, "B")[0], inner=16),
        "runs 131 times, which inner=16 does not divide",
    ),
    "steps of the sum without their predicate": (
        "matmul_threads_2d",
        lambda sch: tr.split_reduction(sch, sch.get_sblock("C"), inner=5),
        "runs 32 times, which inner=5 does not divide",
    ),
    "registers written out by other threads": (
        "matmul_threads_2d",
        lambda sch: tr.accumulate_in_registers(sch, sch.get_sblock("C"), find_loops(sch)[2]),
        "a thread cannot read the registers of another",
    ),
    "sums set to zero in every step": (
        "matmul_shared_A_in_shared_memory",
        lambda sch: tr.decompose_reduction_at(sch, sch.get_sblock("C"), find_loops(sch)[5]),
        "so that the sum would start again",
    ),
    "terms of a sum on threads": (
        "matmul_sum_over_threads",
        lambda sch: tr.decompose_reduction_at(sch, sch.get_sblock("C"), find_loops(sch)[2]),
        "its threads would race for the sum",
    ),
    "first operand staged twice": (
        "matmul_shared_A_in_shared_memory",
        stage((16, 16), operand=0),
        "that loop is the block's own",
    ),
    "results written after every step": (
        "matmul_threads_2d",
        accumulate_in_every_step,
        "where the sum is not complete",
    ),
    "two loops on one axis": (SQUARE, bind_both_to_x, "only the diagonal would run"),
    "rows and columns on one thread axis": (
        matmul.problem(64, 48, 32).module,
        lambda sch: tr.tile_block(sch, sch.get_sblock("C"), threads=(16, 8), axes=("x", "x")),
        "only the diagonal would run",
    ),
    "a loop bound twice": (SQUARE, bind_rows_twice, "already bound to 'blockIdx.y'"),
    "an axis that does not exist": (
        "vector_add_bound_split",
        bind_inner("threadIdx.q"),
        "'threadIdx.q' does not exist",
    ),
    "2048 threads in a block": (
        VECTOR,
        split_and_bind(2048, 1, "threadIdx.x"),
        "a block of 2048 threads",
    ),
    "128 threads on z": (
        "vector_add_bound_split",
        bind_inner("threadIdx.z"),
        "a GPU takes 64 on 'threadIdx.z' at most",
    ),
    "70000 blocks on y": (
        vector_add.problem(70000).module,
        split_and_bind(1, 0, "blockIdx.y"),
        "a GPU takes 65535 on 'blockIdx.y' at most",
    ),
    "padding computed inside of a vector": (
        depthwise_conv2d.problem(2, 2, 4, 8, 3).module,
        compute_padding_in_vector,
        "inside of the vectorized loop 'w_1'",
    ),
    "a vector of 3": (
        "vector_add_bound_split",
        lambda sch: tr.vectorize_loop(sch, sch.split(find_loops(sch)[1], [None, 3])[1]),
        "vectors of 2, 4, 8, 16 elements only",
    ),
    "running maximum read behind its loop": (
        "decode_in_blocks",
        lambda sch: tr.compute_block_at(sch, sch.get_sblock("weighted"), find_loops(sch, "Y")[-1]),
        "where block 'max' overwrites it",
    ),
    "a sum by all threads": (
        "rms_norm_naive",
        bind_columns_of_a_shared_sum,
        "would store the same elements of 'squares_local_shared'",
    ),
    "columns on the threads of a fetch": (
        SQUARE,
        bind_columns_of_a_fetch,
        "decides through the guard .* which threads run",
    ),
    "tile in the place of another": (
        "matmul_mma_short_sum",
        copy_tile_again,
        "with no barrier between",
    ),
    "an instruction in a loop of its own threads": (
        "matmul_mma_short_sum",
        bind_around_an_instruction,
        "is an instruction of all threads on 'threadIdx.x'",
    ),
}
"""By the name of the bug: a module or an original's name, the call, and words of its refusal."""


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_refused(name: str) -> None:
    place, call, words = MISUSES[name]
    sch = Schedule(read_original(place).module if isinstance(place, str) else place)
    with pytest.raises(tr.TransformError, match=words):
        call(sch)
