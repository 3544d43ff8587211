"""Attention in half precision on tensor cores by mma.sync: FlashAttention-2 as a schedule.

What T. Dao wrote by hand (FlashAttention-2, 2023) comes out of the plain program: warps own rows of
queries, the scores of a tile of keys never leave the registers of their warp, and as they are
rounded they are the left operand of the second product. Tiles of keys and values come as those of a
matmul (`mma`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..binding import bind_loop
from ..caching import cache_read_at
from ..exponentials import fuse_exponents, use_powers_of_two
from ..fusion.fuse import fuse_reductions
from ..loops import Tail, reorder_loops, split_loop, suggest_unrolling
from ..masked_loops import end_loop_at_mask, split_loop_at_mask
from ..pipelining import prefetch_asynchronously
from ..placement import compute_block_at, reverse_compute_block_at
from ..queries import get_extent, get_own_loops, is_reduction_loop
from ..reduction import decompose_reduction_at
from ..schedule import TransformError
from ..tensor_cores.fragments import SIDE
from ..tensor_cores.mma_tiles import TileLayout, stage_fragments_at
from ..tensor_cores.quads import (
    lay_in_quads,
    round_operand,
    spread_over_quads,
    tensorize_in_quads,
    tile_product,
)
from ..tir import constant
from ..vectorize import vectorize_loop
from .attention import FEWER, FORMS, pad_tiles
from .recipe import Example, get_sblocks
from .rungs import Family, knob, order

Tiled = TypeVar("Tiled")
Powers = Literal["e", "two", "fused"]
"""exp((x - m) * c), exp2((x - m) * d) or exp2(x * d - m * d) of scores x and their maximum m."""
VECTOR = 8
"""Elements of 16 bytes."""
WHOLE_DIM = 2 * SIDE
"""Elements of a head are padded to a multiple of it, 64 bytes: what shared memory swizzles."""


@dataclass(frozen=True, kw_only=True)
class AttentionMmaConfig:
    """Knobs of attention on tensor cores; 8 divides dim, and what tiles do not divide is padded."""

    warps: int = knob(4, "warps of a block, each with rows of its own", choices=(4, 8))
    rows: int = knob(16, "queries of a warp, in fragments of 16", choices=(16, 32))
    keys: int = knob(64, "keys and values of a tile, in fragments of 16", choices=(32, 64, 128))
    layout: TileLayout = knob("rows", "how the rows of a tile lie in shared memory")
    powers: Powers = knob("e", "the base of the exponentials")
    stages: int = knob(1, "tiles in flight: 1 no pipeline, 2 by cp.async")
    ends_at_mask: bool = knob(
        False, "whether fully masked tiles of keys are skipped; causal attention only"
    )
    splits_at_mask: bool = knob(
        False, "whether tiles without masked scores skip the mask; causal attention only"
    )


class Fused(NamedTuple):
    """The result of the fusion: the loops of warps and of tiles of keys, and the blocks.

    Attributes
    ----------
    masks : what loads a mask that is data, and what applies it to scores; or nothing
    tile, largest : the maximum of a tile, and the one so far
    power, rounded : exponentials, and as the second product takes them
    part, total : the sum of a tile, and the one so far
    weighted, result : the sums of values so far, and those divided by the total
    """

    warp: LoopRV
    steps: LoopRV
    scores: SBlockRV
    masks: list[SBlockRV]
    tile: SBlockRV
    largest: SBlockRV
    power: SBlockRV
    rounded: SBlockRV
    part: SBlockRV
    total: SBlockRV
    weighted: SBlockRV
    result: SBlockRV


def schedule(sch: Schedule, config: AttentionMmaConfig) -> Iterator[str]:
    """One kernel, whose warps keep scores, exponentials and results in fragments."""
    fused = yield from fuse_attention(
        sch, warps=config.warps, rows=config.rows, keys=config.keys, powers=config.powers
    )
    # In the step that leaves a kernel no buffers in global memory.
    repair, products = lay_in_fragments(sch, fused, tile_product)
    scores, weighted = products
    yield "in_fragments"

    def stage(block: SBlockRV, loop: LoopRV, operand: int) -> SBlockRV:
        return stage_fragments_at(
            sch,
            block,
            loop,
            operand=operand,
            warps=config.warps,
            vector=VECTOR,
            layout=config.layout,
            in_quads=True,
            comes_first=True,
            tail="guard",
        )

    # Queries, keys and values come through shared memory into fragments.
    copies = [stage(weighted.block, fused.steps, 2), stage(scores.block, fused.steps, 1)]
    values = cache_read_at(sch, weighted.block, weighted.column, operand=2, scope="local")
    keys = cache_read_at(sch, scores.block, scores.column, operand=1, scope="local")
    queries = cache_read_at(sch, scores.block, fused.warp, operand=0, scope="local")
    stage(queries, fused.warp, 0)
    yield "in_shared_memory"
    zeros = decompose_reduction_at(sch, scores.block, scores.step)
    tensorize_in_quads(sch, scores.block, [queries, keys], zeros)
    tensorize_in_quads(sch, weighted.block, [values], None)
    # In the same step: elements of fragments are where a lane finds its own, or nowhere.
    elements = spread_elements(sch, fused, repair)
    yield "tensorized"
    for block in elements:
        suggest_unrolling(sch, get_own_loops(sch, block)[0])
    for product in products:
        suggest_unrolling(sch, product.step)
    yield "unrolled"
    if config.ends_at_mask:
        end_loop_at_mask(sch, fused.steps)
        yield "ends_at_mask"
    if config.splits_at_mask:
        split_loop_at_mask(sch, fused.steps)
        yield "splits_at_mask"
    stages = min(config.stages, get_extent(sch, fused.steps) or 1)
    if stages > 1:
        prefetch_asynchronously(sch, fused.steps, copies[::-1], stages=stages)
        yield "next_tiles_asynchronously"


def fuse_attention(
    sch: Schedule, *, warps: int, rows: int, keys: int, powers: Powers
) -> Generator[str, None, Fused]:
    """All blocks in one nest, under the loop over tiles of keys, whose exponentials are as they are
    or powers of two, and are rounded for the second product.

    A thread block is to have so many `warps`, each of so many `rows` of queries; a tile has so many
    `keys`.
    """
    blocks = get_sblocks(sch)
    scores, *masks, largest, power, total, weighted, result = blocks
    values = sch.get(weighted).reads[-1].source
    if values.dtype.bits != SIDE:
        raise TransformError(
            "attention_mma",
            f"values of {values.dtype} are not of 16 bits",
            "choose dtype=float16 or dtype=bfloat16",
        )
    if (constant(values.shape[-1]) or 0) % VECTOR:
        raise TransformError(
            "attention_mma",
            f"rows of dim={values.shape[-1]} must be a multiple of {VECTOR}",
            f"choose a multiple of {VECTOR}",
        )
    yield from pad_tiles(sch, blocks, queries=warps * rows, keys=keys, dim=WHOLE_DIM)
    if powers != "e":
        use_powers_of_two(sch, power)
        yield "powers_of_two"
    if powers == "fused":
        fuse_exponents(sch, power)
        yield "exponents_fused"
    round_operand(sch, weighted, operand=0)
    yield "exponentials_rounded"
    _, _, query, key = sch.get_loops(largest)
    _, rest = split_loop(sch, query, inner=warps * rows)
    warp, row = split_loop(sch, rest, inner=rows)
    steps, _ = split_loop(sch, key, inner=keys)
    reorder_loops(sch, [warp, steps, row])
    (tile, part), _ = fuse_reductions(sch, largest, total, steps, accumulate="apart")
    _, (power, rounded) = fuse_reductions(sch, largest, weighted, steps)
    for block in (*masks[-1:], scores, *masks[:-1]):  # a mask is loaded under the product
        compute_block_at(sch, block, steps)
    reverse_compute_block_at(sch, result, warp)
    yield "fused"
    sums = (tile, largest, power, rounded, part, total, weighted, result)
    return Fused(warp, steps, scores, masks, *sums)


def lay_in_fragments(
    sch: Schedule,
    fused: Fused,
    arrange: Callable[[Schedule, SBlockRV], Tiled],
    *,
    heads_first: bool = False,
) -> tuple[SBlockRV, tuple[Tiled, Tiled]]:
    """Bind tiles of queries to thread blocks and warps to threadIdx.z, and lay all between products
    in the fragments of lanes; `arrange` brings the loops of a product in order.

    Thread blocks that are launched one after the other go through the tiles of a head, or
    `heads_first` through the heads. Returns the block that repairs the sums where the maximum
    moves, in front of a tile's products, and what `arrange` returned of both products.
    """
    axes = "yxz" if heads_first else "zyx"
    names = (*(f"blockIdx.{axis}" for axis in axes), "threadIdx.z")
    for name, loop in zip(names, sch.get_loops(fused.scores)[: len(names)], strict=True):
        bind_loop(sch, loop, axis=name)
    own = get_own_loops(sch, fused.weighted)
    steps = [loop for loop in own if is_reduction_loop(sch, fused.weighted, loop)]
    reorder_loops(sch, [*steps, *(loop for loop in own if loop not in steps)])
    repair = decompose_reduction_at(sch, fused.weighted, steps[0])
    products = arrange(sch, fused.scores), arrange(sch, fused.weighted)
    for block in (fused.scores, *fused.masks, fused.power, fused.rounded, fused.weighted):
        lay_in_quads(sch, block, rows=2, columns=3)
    for block in (fused.tile, fused.part, fused.largest, fused.total):
        lay_in_quads(sch, block, rows=2)
    return repair, products


def spread_elements(sch: Schedule, fused: Fused, repair: SBlockRV) -> list[SBlockRV]:
    """Let lanes compute what is between products, and the result; returns these blocks."""
    elements = [fused.result, repair, fused.rounded, fused.total]  # readers first
    elements += [fused.part, fused.power, fused.largest, fused.tile, *fused.masks[::-1]]
    for block in elements:
        has_columns = block not in (fused.total, fused.largest)
        tail: Tail = "guard" if block is fused.result else "refuse"
        spread_over_quads(sch, block, columns=has_columns, tail=tail)
    vectorize_loop(sch, get_own_loops(sch, fused.result)[-1])
    for load in fused.masks[:1]:
        if (constant(sch.get(load).reads[0].source.shape[-1]) or 1) % 2 == 0:
            vectorize_loop(sch, get_own_loops(sch, load)[-1])
    return elements


SMALL = {"batch": 1, "heads": 2, "queries": 64, "keys": 64, "dim": 32}
SHAPE = {"batch": 4, "heads": 16, "queries": 2048, "keys": 2048, "dim": 128}
EXAMPLE = {**SHAPE, **FEWER}
HALF = {"dtype": "bfloat16", "out": "bfloat16"}
FRAGMENTS = Family(
    kernel="attention",
    config=AttentionMmaConfig,
    schedule=schedule,
    blocks=FORMS,
    default_example=Example(EXAMPLE, options=HALF),
    small=Example(SMALL, options=HALF, config={"warps": 2, "keys": 32}),
    tiles=("warps", "rows", "keys"),
    dtypes=("float16", "bfloat16"),
    arch="sm_80",
)
ON_TENSOR_CORES = (
    "kernels == 1",
    "HMMA > 0 on sm_80",
    "LDSM > 0 on sm_80",
    "spills == 0 on sm_80",
    "spills == 0 on sm_90a",
)
ASYNCHRONOUSLY = {"next_tiles_asynchronously": ("cp_async_bytes == 16", *ON_TENSOR_CORES)}
plain = FRAGMENTS.root(
    "mma",
    why="Tensor cores multiply; scores, exponentials and results are fragments in registers",
    expects={"unrolled": ON_TENSOR_CORES},
)
swizzled = plain.plus(
    "mma_swizzled",
    layout="swizzled",
    why="The eight rows that ldmatrix reads at once lie in different banks",
)
piped = swizzled.plus(
    "mma_async",
    stages=2,
    why="The next tiles of keys and values are copied asynchronously",
    expects=ASYNCHRONOUSLY,
)
piped.plus(
    "mma_exp2",
    powers="two",
    why="exp(x) as 2^(x * log2 e), with one factor: the GPU computes powers of two",
)
CAUSAL_FRAGMENTS = FRAGMENTS.of_kernel(causal=True)
causal = CAUSAL_FRAGMENTS.root(
    "mma_causal",
    layout="swizzled",
    stages=2,
    powers="two",
    why="All scores are computed; those of keys after the query are masked",
    expects=ASYNCHRONOUSLY,
)
ended = causal.plus(
    "mma_causal_ended",
    ends_at_mask=True,
    why="A block ends at the last key that one of its queries attends to: half of the tiles are "
    "never computed",
)
ended.plus(
    "mma_causal_parted",
    splits_at_mask=True,
    why="Only the tiles on the diagonal are masked",
)
LADDERS = (
    order(
        "half precision on tensor cores, by mma.sync",
        *FRAGMENTS.rungs,
        name="attention_mma",
        shape=SHAPE,
    ),
    order(
        "causal attention on tensor cores, by mma.sync",
        *CAUSAL_FRAGMENTS.rungs,
        name="attention_mma_causal",
        shape=SHAPE,
    ),
)
