"""Chains of products and reductions with a GPU kernel for each block: what fusing them begins with.

The tiles of products are those of matmul's tutorials, and rows are reduced as those of softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..binding import bind_loop, tile_block
from ..caching import cache_write_at
from ..fetching import stage_operand_at
from ..gpu_limits import WARP
from ..loops import Tail, fuse_loops, split_loop
from ..queries import get_extent, get_spatial_loops
from ..reduction import decompose_reduction_at, split_reduction
from ..rows import spread_over_threads
from .ladder import Pair, knob, pairs


@dataclass(frozen=True, kw_only=True)
class ElementsConfig:
    """Knobs of a kernel of one element for each thread."""

    threads: Pair = knob(
        (8, 16), "rows and columns of threads in a block", choices=pairs((4, 8, 16), (8, 16, 32))
    )
    tail: Tail = knob("refuse", "what happens where a tile does not divide")


@dataclass(frozen=True, kw_only=True)
class TilesConfig(ElementsConfig):
    """Knobs of a chain with products."""

    tiled: bool = knob(False, "whether operands of products go through tiles in shared memory")
    thread_tile: Pair = knob(
        (4, 4),
        "rows and columns of a tiled product that a thread computes",
        choices=pairs((2, 4), (2, 4)),
    )
    tile_k: int = knob(16, "the depth of the tiles of operands", choices=(4, 8, 16))


def bind_elements(sch: Schedule, block: SBlockRV, config: ElementsConfig) -> None:
    """One element of a block's output for each thread."""
    element = fuse_loops(sch, get_spatial_loops(sch, block))
    count = config.threads[0] * config.threads[1]
    outer, inner = split_loop(sch, element, inner=count, tail=config.tail)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")


def tile_product(sch: Schedule, block: SBlockRV, config: TilesConfig) -> None:
    """A product of matrices in tiles, one product of a batch on each plane of the grid."""
    *batch, _, _ = get_spatial_loops(sch, block)
    if batch:
        bind_loop(sch, fuse_loops(sch, batch), axis="blockIdx.z")
    tile = tile_block(
        sch, block, threads=config.threads, per_thread=config.thread_tile, tail=config.tail
    )
    cache_write_at(sch, block, tile.threads[1], scope="local")
    steps = split_reduction(sch, block, inner=config.tile_k, tail=config.tail)
    for operand in range(2):
        stage_operand_at(sch, block, steps.outer, operand=operand, threads=config.threads)
    decompose_reduction_at(sch, block, steps.outer)


def share_rows(sch: Schedule, block: SBlockRV, config: ElementsConfig) -> None:
    """A reduction of rows, each by the threads of a warp, and several for each block."""
    row = fuse_loops(sch, get_spatial_loops(sch, block))
    rows, length = get_extent(sch, row), get_extent(sch, sch.get_loops(block)[-1])
    outer, inner = split_loop(sch, row, inner=config.threads[0], tail=config.tail)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.y")
    if (rows or 0) % config.threads[0] and (length or 1) % WARP == 0:
        cache_write_at(sch, block, inner)  # TVM loses the guard of rows where it is the only one
    spread_over_threads(sch, block, threads=WARP, tail="guard")
