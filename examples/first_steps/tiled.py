"""The kernel for a GPU, in four steps; each transform takes the block or loop that it changes."""

from collections.abc import Iterator

from kernel import Matmul  # noqa: F401
from tvm.s_tir import Schedule

from tirstep.transforms import (
    accumulate_in_registers,
    split_reduction,
    stage_operand_at,
    tile_block,
)


def tiled(sch: Schedule, *, tile_k: int = 16) -> Iterator[str]:
    """A thread for each element, and tiles of A and B in shared memory."""
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(8, 32))
    yield "bound"
    split = split_reduction(sch, block, inner=tile_k)
    yield "split"
    for operand in (0, 1):
        stage_operand_at(sch, block, split.outer, operand=operand, threads=(8, 32))
    yield "staged"
    accumulate_in_registers(sch, block, tile.threads[-1])
    yield "accumulated"
