"""Schedules that TVM accepts and lowers to another program: what the youngest nets refuse."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import ForKind

from tirstep.transforms import (
    bind_loop,
    cache_read_at,
    compute_block_at,
    fuse_loops,
    split_loop,
    stage_operand_at,
    unroll_loop,
)

from .own_programs import SHORT_SUM, TENSORIZED
from .plant import Misuse, RecipeMutant
from .traces import drop_instruction


def _find_loops(sch: Schedule, block: str) -> list[LoopRV]:
    return list(sch.get_loops(sch.get_sblock(block)))


def _place_sums_behind_their_maximum(sch: Schedule) -> None:
    compute_block_at(sch, sch.get_sblock("weighted"), _find_loops(sch, "Y")[-1])


def _compute_sums_behind_their_maximum(sch: Schedule) -> None:
    sch.compute_at(sch.get_sblock("weighted"), _find_loops(sch, "Y")[-1])


def _sum_in_shared_memory(sch: Schedule) -> LoopRV:
    """A sum without a serial loop, and 8 columns of what reads it, which may go to threads."""
    sch.set_scope(sch.get_sblock("sum"), 0, "shared")
    unroll_loop(sch, fuse_loops(sch, _find_loops(sch, "sum")[2:]))
    return split_loop(sch, _find_loops(sch, "B")[-1], inner=8).inner


def _fetch_one_element(sch: Schedule) -> LoopRV:
    """An element of B fetched by the first of 8 threads, and the loop over its columns."""
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    sch.bind(i, "blockIdx.x")
    sch.bind(sch.split(j, [None, 8])[0], "blockIdx.y")
    stage_operand_at(sch, block, k, operand=1, threads=8)
    return _find_loops(sch, "C")[2]


def _copy_tile_again(sch: Schedule) -> None:
    tile = sch.get_sblock("A_pad_shared.dyn")
    cache_read_at(sch, tile, sch.get_loops(tile)[0], operand=0, scope="shared.dyn")


def _cache_tile_again(sch: Schedule) -> None:
    tile = sch.get_sblock("A_pad_shared.dyn")
    sch.compute_at(sch.cache_read(tile, 0, "shared.dyn"), sch.get_loops(tile)[0], True)


def _split_around_instruction(sch: Schedule) -> LoopRV:
    loops = _find_loops(sch, "C_acc_shared.dyn_local_o")
    serial = next(loop for loop in loops if sch.get(loop).kind == ForKind.SERIAL)
    return sch.split(serial, [None, 32])[1]


IN_NETS = (
    RecipeMutant(
        name="running maximum read behind its loop",
        kind="placed too far out",
        text="what is weighed by a running maximum is computed behind the loop that overwrites it",
        original="decode_in_blocks",
        misuse=Misuse("bound", _place_sums_behind_their_maximum),
        primitives=_compute_sums_behind_their_maximum,
    ),
    RecipeMutant(
        name="a sum by all threads",
        kind="race",
        text="a sum in shared memory is unrolled, and what reads it goes to threads that it lacks",
        original="rms_norm_naive",
        misuse=Misuse(
            "bound", lambda sch: bind_loop(sch, _sum_in_shared_memory(sch), axis="threadIdx.y")
        ),
        primitives=lambda sch: sch.bind(_sum_in_shared_memory(sch), "threadIdx.y"),
    ),
    RecipeMutant(
        name="columns on the threads of a fetch",
        kind="double binding",
        text="columns are bound to the axis on which the first thread alone fetches their element",
        original="matmul_naive, square",
        misuse=Misuse(
            "input", lambda sch: bind_loop(sch, _fetch_one_element(sch), axis="threadIdx.x")
        ),
        trace=(drop_instruction("Bind"),),
        primitives=lambda sch: sch.bind(_fetch_one_element(sch), "threadIdx.x"),
    ),
    RecipeMutant(
        name="tile in the place of another",
        kind="memory merged",
        text="a short tile is fetched through another copy in dynamic shared memory, and TVM puts "
        "the next operand's over it",
        original=SHORT_SUM,
        misuse=Misuse("tensorized", _copy_tile_again),
        primitives=_cache_tile_again,
    ),
    RecipeMutant(
        name="an instruction in a loop of its own threads",
        kind="double binding",
        text="a loop around an instruction of 32 threads is split with a guard, and bound to them",
        original=TENSORIZED,
        misuse=Misuse(
            "tensorized",
            lambda sch: bind_loop(sch, _split_around_instruction(sch), axis="threadIdx.x"),
        ),
        primitives=lambda sch: sch.bind(_split_around_instruction(sch), "threadIdx.x"),
    ),
)
