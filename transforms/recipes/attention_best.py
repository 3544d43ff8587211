"""Attention by wgmma with the config that was fastest for such heads, masks and permissions."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..errors import TransformError
from ..exponentials import allows_fused_exponents
from ..mask_bounds import find_choices
from ..tir import constant
from .attention import BLOCKS
from .attention_mma import CAUSAL, HALF
from .attention_wgmma import (
    BY_TMA,
    FUSED,
    FUSED_WGMMA,
    SMALL,
    SMS,
    AttentionWgmmaConfig,
    fused,
    persistent,
    schedule,
)
from .ladder import Ladder
from .recipe import Example, get_sblocks, recipe

NARROW = 64
"""Elements of a head, up to which small blocks are faster than one that stays; and their keys."""
ROWS = 64
"""Queries of a warpgroup."""
TILES = (128, 64, 32, 16)
"""Numbers of keys of a tile, the fastest first."""


@recipe(
    kernel="attention",
    blocks=(BLOCKS,),
    default_example=FUSED_WGMMA.default_example,
    golden=Example({**SMALL, "queries": 256, "keys": 256}, options={**HALF, **FUSED, **CAUSAL}),
    expects={"products_overlapped": BY_TMA},
    dtypes=FUSED_WGMMA.dtypes,
    arch=FUSED_WGMMA.arch,
)
def attention_wgmma_best(sch: Schedule) -> Iterator[str]:
    """The config that was fastest on an H200 for such heads, with a mask and without.

    A block for each multiprocessor stays, and products overlap. Loops end and are split at a mask,
    whose longest tiles come first, and warpgroups take turns there. Of heads of up to 64 elements
    blocks have one warpgroup each, tiles of 64 keys, and come and go, several at a time on a
    multiprocessor; products overlap under a mask alone. Exponents are fused where the kernel allows
    it.
    """
    yield from schedule(sch, choose_attention_config(sch))


def choose_attention_config(sch: Schedule) -> AttentionWgmmaConfig:
    """The config of `attention_wgmma_best` for an attention; refuses sizes that are left open."""
    scores, _, power, *_ = (sch.get(block) for block in get_sblocks(sch))
    *_, queries, keys, dim = (constant(item.dom.extent) for item in scores.iter_vars)
    if queries is None or keys is None or dim is None:
        raise TransformError(
            "attention_wgmma_best",
            "queries, keys or dim are open, and choose the config",
            "use attention_wgmma_overlap, or give them",
        )
    is_narrow = dim <= NARROW and keys % NARROW == 0
    groups = 2 if queries % (2 * ROWS) == 0 and not is_narrow else 1
    is_masked, size = bool(find_choices(power)), NARROW if is_narrow else TILES[0]
    size = next((each for each in (size, *TILES) if keys % each == 0), TILES[-1])
    ends = is_masked and keys > size
    stages = 3
    if is_narrow:
        stages = 4 if is_masked else 2
    return AttentionWgmmaConfig(
        warpgroups=groups,
        keys=size,
        powers="fused" if allows_fused_exponents(power) else "two",
        stages=stages,
        copies="tma",
        roles=True,
        persistent=SMS if groups > 1 else 0,
        ends_at_mask=ends,
        splits_at_mask=ends,
        longest_first=ends and queries > groups * ROWS,
        overlaps=is_masked or not is_narrow,
        pingpong=is_masked and groups > 1,
    )


ATTENTION_WGMMA_BEST = Ladder(
    "attention_wgmma_best",
    "attention",
    "attention on Hopper's tensor cores that may round exponents",
    (fused, persistent, attention_wgmma_best),
    FUSED_WGMMA.default_example.shape,
)
