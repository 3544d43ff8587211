"""Attention in half precision by wgmma: the same fusion as with mma.sync, on Hopper's tensor cores.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..bulk_copies import prefetch_by_tma, specialize_warps
from ..exponentials import use_powers_of_two
from ..loops import suggest_unrolling
from ..pipelining import prefetch_asynchronously
from ..quads import lay_in_quads, round_operand, spread_over_quads
from ..queries import get_extent, get_own_loops
from ..vectorize import vectorize_loop
from ..warp_rows import order_product, tensorize_warp_rows
from ..warpgroups import stage_swizzled_at
from .attention import BLOCKS
from .attention_mma import (
    EXAMPLE,
    HALF,
    SHAPE,
    VECTOR,
    Fused,
    Powers,
    fuse_blocks,
    require_half,
    take_out_repair,
)
from .ladder import Family, Ladder, knob
from .mma import Copies
from .recipe import Example, get_sblocks


@dataclass(frozen=True, kw_only=True)
class AttentionWgmmaConfig:
    warpgroups: int = knob(2, "warpgroups of a block, each with 64 queries", choices=(1, 2, 3))
    keys: int = knob(128, "keys and values of a tile", choices=(64, 80, 96, 128, 160, 176))
    powers: Powers = knob("e", "of what exponentials are powers")
    stages: int = knob(1, "tiles in flight: 1 no pipeline", choices=(2, 3))
    copies: Copies = knob("threads", "who copies tiles into shared memory, of several stages")
    roles: bool = knob(False, "whether a warpgroup of its own issues TMA copies")


def schedule(sch: Schedule, config: AttentionWgmmaConfig) -> Iterator[str]:
    blocks = get_sblocks(sch)
    power, weighted = blocks[2], blocks[4]
    require_half(sch, weighted)
    if config.powers != "e":
        use_powers_of_two(sch, power)
        yield "powers_of_two"
    round_operand(sch, weighted, operand=0)
    yield "exponentials_rounded"
    fused = fuse_blocks(sch, blocks, warps=4 * config.warpgroups, rows=16, keys=config.keys)
    yield "fused"
    copies = yield from _compute_in_fragments(sch, fused, config)
    stages = min(config.stages, get_extent(sch, fused.steps) or 1)
    if stages > 1 and config.copies == "tma":
        prefetch_by_tma(sch, fused.steps, copies, stages=stages)
        yield "next_tiles_by_tma"
        if config.roles:
            specialize_warps(sch, fused.steps, registers=(24, 240))
            yield "warps_specialized"
    elif stages > 1:
        prefetch_asynchronously(sch, fused.steps, copies, stages=stages)
        yield "next_tiles_asynchronously"


def _compute_in_fragments(
    sch: Schedule, fused: Fused, config: AttentionWgmmaConfig
) -> Generator[str, None, list[SBlockRV]]:
    repair = take_out_repair(sch, fused.weighted)
    for block in (fused.scores, fused.weighted):
        order_product(sch, block)
    yield "ordered"
    copies = _stage(sch, fused, config)
    yield "in_shared_memory"
    for block in (fused.scores, fused.power, fused.rounded, fused.weighted):
        lay_in_quads(sch, block, rows=2, columns=3)
    for block in (fused.tile, fused.part, fused.largest, fused.total):
        lay_in_quads(sch, block, rows=2)
    yield "in_fragments"
    tensorize_warp_rows(sch, fused.scores)
    tensorize_warp_rows(sch, fused.weighted)
    of_rows = (fused.total, fused.largest)
    elements = [fused.result, repair, fused.rounded, fused.total]  # readers first
    elements += [fused.part, fused.power, fused.largest, fused.tile]
    for block in elements:
        spread_over_quads(sch, block, columns=block not in of_rows)
    vectorize_loop(sch, get_own_loops(sch, fused.result)[-1])
    yield "tensorized"
    for block in elements:
        suggest_unrolling(sch, get_own_loops(sch, block)[0])
    yield "unrolled"
    return copies


def _stage(sch: Schedule, fused: Fused, config: AttentionWgmmaConfig) -> list[SBlockRV]:
    def stage(block: SBlockRV, loop, operand: int) -> SBlockRV:
        return stage_swizzled_at(
            sch,
            block,
            loop,
            operand=operand,
            warpgroups=config.warpgroups,
            vector=VECTOR,
            in_quads=True,
            comes_first=True,
            tail="guard",
        )

    copies = [stage(fused.weighted, fused.steps, 2), stage(fused.scores, fused.steps, 1)]
    stage(fused.scores, fused.warp, 0)
    return copies[::-1]
