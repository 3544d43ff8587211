"""Small products whose tiles are fetched ahead of the sums, in two ways."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tirstep.transforms import (
    accumulate_in_registers,
    decompose_reduction_at,
    prefetch_asynchronously,
    prefetch_through_registers,
    split_reduction,
    stage_operand_at,
    tile_block,
)
from tirstep.transforms.recipes import Example, recipe

SMALL = Example({"m": 16, "n": 16, "k": 32})


@recipe(kernel="matmul", blocks=("C",), seed=SMALL, golden=SMALL)
def matmul_prefetched(sch: Schedule) -> Iterator[str]:
    """Tiles in shared memory, twice: the next ones wait in registers while these are summed."""
    outer, copies = _stage(sch)
    prefetch_through_registers(sch, outer, copies)
    yield "prefetched"


@recipe(kernel="matmul", blocks=("C",), seed=SMALL, golden=SMALL)
def matmul_asynchronous(sch: Schedule) -> Iterator[str]:
    """Tiles in shared memory, three times: cp.async brings two while the third is summed."""
    outer, copies = _stage(sch)
    prefetch_asynchronously(sch, outer, copies, stages=3)
    yield "prefetched"


def _stage(sch: Schedule) -> tuple[LoopRV, list[SBlockRV]]:
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 8), fuse_threads=True)
    accumulate_in_registers(sch, block, tile.threads[-1])
    outer = split_reduction(sch, block, inner=8).outer
    copies = [
        stage_operand_at(sch, block, outer, operand=operand, threads=(64,)) for operand in (0, 1)
    ]
    decompose_reduction_at(sch, block, outer)
    return outer, copies
