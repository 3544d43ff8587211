"""Attention in half precision by wgmma: the fusion of `attention_mma` on Hopper's tensor cores.

What FlashAttention-3 does by hand (J. Shah and others, 2024), as far as a schedule has it here: a
warpgroup has 64 queries, the scores of a tile of keys are one group of instructions, and the
exponentials are the left operand of the next group out of registers. Keys and values come by the
TMA, which a warpgroup of its own feeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..exponentials import allows_fused_exponents
from ..gpu_limits import MAX_SHARED_BYTES
from ..hopper.product_overlap import overlap_products
from ..hopper.tma_loads import copy_once_by_tma, prefetch_by_tma, specialize_warps
from ..hopper.tma_tiles import ATOM
from ..hopper.warp_roles import make_persistent
from ..hopper.warpgroup_tiles import stage_swizzled_at
from ..hopper.wgmma_intrinsics import ROWS, THREADS
from ..hopper.wgmma_rows import WARPS, order_product, tensorize_warp_rows
from ..loops import suggest_unrolling
from ..masked_loops import end_loop_at_mask, launch_longest_first, split_loop_at_mask
from ..pipelining import prefetch_asynchronously
from ..queries import get_extent, get_own_loops
from ..schedule import TransformError
from ..tensor_cores.fragments import SIDE
from ..tir import constant, find_choices
from .attention import BLOCKS, FORMS
from .attention_mma import (
    EXAMPLE,
    HALF,
    SHAPE,
    VECTOR,
    Powers,
    fuse_attention,
    lay_in_fragments,
    spread_elements,
)
from .recipe import Example, get_sblocks, recipe
from .rungs import Family, knob, order
from .wgmma import Copies

_REGISTERS = {
    (2, False): (24, 240),
    (2, True): (40, 232),
    (3, False): (32, 160),
    (3, True): (32, 160),
}
"""Registers of a producer's and a consumer's thread, by the number of consumer warpgroups and by
whether CTAs are persistent."""


@dataclass(frozen=True, kw_only=True)
class AttentionWgmmaConfig:
    """Knobs of attention by wgmma; 8 divides dim, and what tiles do not divide is padded."""

    warpgroups: int = knob(2, "warpgroups of a block, each with 64 queries", choices=(1, 2, 3))
    keys: int = knob(128, "keys and values of a tile, in fragments of 16", choices=(64, 128))
    powers: Powers = knob("e", "the base of the exponentials")
    stages: int = knob(1, "tiles in flight: 1 no pipeline", choices=(2, 3))
    copies: Copies = knob(
        "threads", "who copies keys and values into shared memory, of several stages"
    )
    roles: bool = knob(
        False, "whether a warpgroup of its own issues TMA copies, while the others compute"
    )
    ends_at_mask: bool = knob(
        False, "whether fully masked tiles of keys are skipped; causal attention only"
    )
    longest_first: bool = knob(
        False, "whether blocks with the most tiles are launched first, where tiles are left out"
    )
    heads_first: bool = knob(
        False,
        "whether blocks of neighbouring heads are launched one after the other, or of queries",
    )
    persistent: int = knob(
        0, "persistent thread blocks, over the tiles of queries; 0 for one block per tile"
    )
    splits_at_mask: bool = knob(
        False, "whether tiles without masked scores skip the mask; causal attention only"
    )
    overlaps: bool = knob(
        False, "whether the scores of the next tile are computed ahead, with warp specialization"
    )


def schedule(sch: Schedule, config: AttentionWgmmaConfig) -> Iterator[str]:
    """One kernel, whose warpgroups keep scores, exponentials and results in fragments."""
    *_, power, _, _, _ = get_sblocks(sch)
    warps, is_masked = WARPS * config.warpgroups, bool(find_choices(sch.get(power)))
    ends_in_tile = (
        not is_masked and (get_extent(sch, sch.get_loops(power)[-1]) or 0) % config.keys > 0
    )
    fused = yield from fuse_attention(
        sch, warps=warps, rows=SIDE, keys=config.keys, powers=config.powers
    )
    repair, _ = lay_in_fragments(sch, fused, order_product, heads_first=config.heads_first)
    yield "in_fragments"
    vector, dim = VECTOR, SIDE * (constant(sch.get(fused.weighted).writes[0].source.shape[3]) or 1)
    stages = min(config.stages, get_extent(sch, fused.steps) or 1)
    used = (config.warpgroups * ROWS + 2 * stages * config.keys) * dim * 2  # bytes of an element
    if used > (most := MAX_SHARED_BYTES["shared.dyn"] - ATOM):  # which mbarriers take
        raise TransformError(
            "attention_wgmma",
            f"queries, and {stages} tiles of keys and values, take {used >> 10} KiB of shared "
            f"memory, and a block has {most >> 10} KiB",
            "use fewer keys, warpgroups or stages",
        )
    if config.copies == "tma":  # which takes the place of threads that share a tile evenly
        share = config.keys * dim // (config.warpgroups * THREADS)
        vector = math.gcd(VECTOR, share) or VECTOR

    def stage(block: SBlockRV, loop: LoopRV, operand: int) -> SBlockRV:
        return stage_swizzled_at(
            sch,
            block,
            loop,
            operand=operand,
            warpgroups=config.warpgroups,
            vector=vector,
            in_quads=True,
            comes_first=True,
            tail="guard",
        )

    copies = [stage(fused.weighted, fused.steps, 2), stage(fused.scores, fused.steps, 1)][::-1]
    queries = stage(fused.scores, fused.warp, 0)
    yield "in_shared_memory"
    for product in (fused.scores, fused.weighted):
        tensorize_warp_rows(sch, product)
    # In the same step: elements of fragments are where a lane finds its own, or nowhere.
    elements = spread_elements(sch, fused, repair)
    yield "tensorized"
    for block in elements:
        suggest_unrolling(sch, get_own_loops(sch, block)[0])
    yield "unrolled"
    if config.ends_at_mask:
        end_loop_at_mask(sch, fused.steps)
        yield "ends_at_mask"
        if config.longest_first:
            launch_longest_first(sch, fused.steps)
            yield "longest_first"
    if config.splits_at_mask or ends_in_tile:
        split_loop_at_mask(sch, fused.steps)
        yield "splits_at_mask"
    if stages == 1:
        return
    if config.copies == "threads":
        prefetch_asynchronously(sch, fused.steps, copies, stages=stages)
        yield "next_tiles_asynchronously"
        return
    prefetch_by_tma(sch, fused.steps, copies, stages=stages)
    yield "next_tiles_by_tma"
    if config.roles:
        registers = _REGISTERS.get((config.warpgroups, bool(config.persistent)))
        specialize_warps(sch, fused.steps, registers=registers)
        copy_once_by_tma(sch, fused.steps, queries)
        yield "warps_specialized"
    if config.overlaps:
        overlap_products(sch, fused.steps)
        yield "products_overlapped"
    if config.persistent:
        make_persistent(sch, fused.steps, blocks=config.persistent)
        yield "blocks_stay"


SMALL = {"batch": 1, "heads": 1, "queries": 128, "keys": 128, "dim": 32}
WGMMA = Family(
    kernel="attention",
    config=AttentionWgmmaConfig,
    schedule=schedule,
    blocks=FORMS,
    default_example=Example(EXAMPLE, options=HALF),
    small=Example(SMALL, options=HALF, config={"warpgroups": 1, "keys": 32}),
    tiles=("warpgroups", "keys"),
    dtypes=("float16", "bfloat16"),
    arch="sm_90a",
)
ON_TENSOR_CORES = (
    "kernels == 1",
    "wgmma > 0",
    "HGMMA > 0 on sm_90a",
    "spills <= 64 on sm_90a",  # nvcc 13.0 spills nothing, NVRTC 13.0 in some rungs 64 bytes
)
BY_TMA = (*ON_TENSOR_CORES, "UTMALDG > 0 on sm_90a")
plain = WGMMA.root(
    "wgmma",
    why="Four warps multiply 64 rows together; exponentials are the next left operand as they lie "
    "in registers",
    expects={"unrolled": ON_TENSOR_CORES},
)
two = plain.plus(
    "wgmma_exp2",
    powers="two",
    why="exp(x) as 2^(x * log2 e), with one factor: the GPU computes powers of two",
)
piped = two.plus(
    "wgmma_async",
    stages=2,
    why="The next tiles of keys and values are copied asynchronously",
    expects={"next_tiles_asynchronously": ("cp_async_bytes == 16", *ON_TENSOR_CORES)},
)
tma = piped.plus(
    "wgmma_tma",
    copies="tma",
    why="The TMA copies whole tiles into the swizzle that wgmma reads; sets up the next rung",
    expects={"next_tiles_by_tma": BY_TMA},
)
roles = tma.plus(
    "wgmma_roles",
    roles=True,
    why="Warp specialization: a producer warpgroup copies, and two consumers wait only for tiles, "
    "not for each other",
    expects={"warps_specialized": BY_TMA},
)
roles.plus(
    "wgmma_overlap",
    overlaps=True,
    why="Scores of the next tile are computed ahead; softmax overlaps with the matmul by values",
    expects={"products_overlapped": BY_TMA},
)
CAUSAL_WGMMA = WGMMA.of_kernel(causal=True)
causal = CAUSAL_WGMMA.root(
    "wgmma_causal",
    powers="two",
    copies="tma",
    stages=2,
    roles=True,
    overlaps=True,
    why="All scores are computed; those of keys after the query are masked",
    expects={"products_overlapped": BY_TMA},
)
ended = causal.plus(
    "wgmma_causal_ended",
    ends_at_mask=True,
    why="A block ends at the last key that one of its queries attends to: half of the tiles are "
    "never computed",
)
ended.plus(
    "wgmma_causal_parted",
    splits_at_mask=True,
    why="Only the tiles on the diagonal are masked",
)
MASKED_WGMMA = WGMMA.of_kernel(mask="qk")
masked = MASKED_WGMMA.root(
    "wgmma_masked",
    powers="two",
    why="A mask that is data is loaded into registers, as the scores lie there, and added",
    expects={"unrolled": ON_TENSOR_CORES},
)
masked.plus(
    "wgmma_masked_overlap",
    copies="tma",
    stages=2,
    roles=True,
    overlaps=True,
    why="The mask of the next tile is loaded under the products",
    expects={"products_overlapped": BY_TMA},
)
FUSED_WGMMA = WGMMA.of_kernel(fused_exponents=True)
SMS = 132
"""Multiprocessors of an H200, each of which has a thread block that stays."""
fused = FUSED_WGMMA.root(
    "wgmma_fused",
    powers="fused",
    copies="tma",
    stages=2,
    roles=True,
    overlaps=True,
    why="An exponent is one multiply-add instead of a subtraction and a multiplication; the "
    "kernel must allow this rounding",
    expects={"products_overlapped": BY_TMA},
)
fused.plus(
    "wgmma_persistent",
    persistent=SMS,
    why="Persistent CTAs, one for each multiprocessor: keys and values of the next tile of "
    "queries are copied while this one is stored",
    golden={"persistent": 2},
    expects={"blocks_stay": BY_TMA},
)
ALONE = {32: 0.99, 64: 0.99, 96: 1.1, 224: 1.3, 256: 1.3}
"""By elements of a head, padded: how much longer 64 queries take in a block of one warpgroup than
half of 128 in a block of two; 1.5 for others. From runs on one H200, as what follows."""
OF_THREE = {False: 0.91, True: 0.97}
"""The same of a third of 192 in a block of three, which heads of 65 to 96 elements allow, without
and with a mask."""
TILE_KEYS = {96: (128,), 128: (128,), 160: (96, 112), 192: (96, 112)}
"""Keys of a tile that registers hold, by elements of a head; (64, 80) beyond."""
MANY_TILES = 16
"""Tiles of keys from which overlapped products pay for short heads under a mask."""
TURN = 10
"""Fixed cost of an iteration, in keys."""


def choose_config(
    heads: int, queries: int, keys: int, dim: int, *, is_masked: bool, powers: Powers
) -> AttentionWgmmaConfig:
    """The knobs for so many heads of all sequences, from how evenly tiles fill the GPU.

    A block has two warpgroups with 64 queries each, or one or three where that leaves fewer
    multiprocessors idle. Under a mask the longest tile takes as long as all others on average take
    twice.
    """
    wide = -(-dim // 32) * 32
    slower = {2: 1.0, 1: ALONE.get(wide, 1.5), **({3: OF_THREE[is_masked]} if wide == 96 else {})}

    def count(groups: int) -> int:
        return heads * -(-queries // (groups * ROWS))

    def estimate(groups: int) -> float:
        rounds = count(groups) / SMS
        rounds = max(1, rounds / 2) if is_masked else math.ceil(rounds)
        return rounds * groups * slower[groups]

    groups = 1 if queries <= ROWS else min(slower, key=estimate)
    sizes = TILE_KEYS.get(wide, (64, 80))
    if keys <= 128:  # two tiles at least, where there can be two
        sizes = (64,) if keys > 64 else (32,)
    elif wide <= 64:
        sizes = (64,) if is_masked else (128,)
    elif groups == 1 and wide < 224:
        sizes = (64,)
    elif groups == 3:  # whose threads have fewer registers
        sizes = (96 if is_masked else 112,)
    elif is_masked:
        sizes = sizes[:1]
    size = min(sizes, key=lambda each: -(-keys // each) * (each + TURN))
    seen = keys - queries + groups * ROWS  # by the first tile of queries, if a mask is causal
    ends = is_masked and -(-seen // size) < -(-keys // size)
    return AttentionWgmmaConfig(
        warpgroups=groups,
        keys=size,
        powers=powers,
        stages=2,
        copies="tma",
        roles=True,
        persistent=SMS if groups > 1 and count(groups) > SMS else 0,
        heads_first=ends and 2 * heads <= SMS,
        ends_at_mask=ends,
        splits_at_mask=is_masked and keys > size,
        longest_first=ends,
        overlaps=not (is_masked and wide <= 64 and keys < MANY_TILES * size),
    )


def choose_for(sch: Schedule) -> AttentionWgmmaConfig:
    """`choose_config` of a kernel as it was written; raises `TransformError` for an open size."""
    scores, *_, power, _, _, _ = blocks = [sch.get(block) for block in get_sblocks(sch)]
    sizes = [constant(item.dom.extent) for item in scores.iter_vars]
    batch, heads, queries, keys, dim = (size or 0 for size in sizes)
    if None in sizes:
        raise TransformError(
            "attention_wgmma_best",
            f"the sizes {sizes} are not all known, and the config depends on them",
            "use attention_wgmma_overlap, or give them",
        )
    # Of scores that may be -inf a fused exponent is no number: a maximum begins at the lowest one.
    is_data = len(blocks) > len(BLOCKS.split())
    powers: Powers = "fused" if allows_fused_exponents(power) and not is_data else "two"
    is_masked = bool(find_choices(power)) and not is_data  # whose guards hold to the last tile
    return choose_config(batch * heads, queries, keys, dim, is_masked=is_masked, powers=powers)


@recipe(
    kernel="attention",
    blocks=FORMS,
    default_example=FUSED_WGMMA.default_example,
    golden=Example(
        {**SMALL, "heads": 2, "queries": 150, "keys": 250, "dim": 40},
        options={**FUSED_WGMMA.small.options, "causal": True},
    ),
    expects={"products_overlapped": BY_TMA},
    dtypes=FUSED_WGMMA.dtypes,
    arch=FUSED_WGMMA.arch,
)
def attention_wgmma_best(sch: Schedule) -> Iterator[str]:
    """The knobs that `choose_config` has for the sizes, with a mask and without.

    Queries, keys and elements of a head are of any number, in tiles that may end early. Exponents
    are fused where the kernel allows it.
    """
    yield from schedule(sch, choose_for(sch))


LADDERS = (
    order(
        "half precision on Hopper's tensor cores, by wgmma",
        *WGMMA.rungs,
        name="attention_wgmma",
        shape=SHAPE,
    ),
    order(
        "causal attention on Hopper's tensor cores, by wgmma",
        *CAUSAL_WGMMA.rungs,
        name="attention_wgmma_causal",
        shape=SHAPE,
    ),
    order(
        "attention on Hopper's tensor cores under a mask that is data, by wgmma",
        *MASKED_WGMMA.rungs,
        name="attention_wgmma_masked",
        shape=SHAPE,
    ),
    order(
        "attention on Hopper's tensor cores that may round exponents",
        *FUSED_WGMMA.rungs,
        attention_wgmma_best,
        name="attention_wgmma_best",
    ),
)
