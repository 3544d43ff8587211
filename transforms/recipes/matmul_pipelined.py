"""Recipes of matmul whose tiles are loaded while others are computed, up to split-K.

The pipelines are those of NVIDIA's CUTLASS (A. Kerr and others, CUTLASS: Fast Linear Algebra in
CUDA C++, 2017): through registers with two buffers, and with several stages of asynchronous
copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..warp_tiling import Inner
from .matmul_fast import BLOCKS, GEMM, GROUPS, SHAPE, SIZES
from .matmul_plan import Plan, WholeTail, schedule_plan
from .recipe import Example, recipe

PARTS = {
    "block_y": (4, 8, 16),
    "block_x": (8, 16, 32),
    "local_y": (4, 8),
    "local_x": (4, 8, 16),
    "tile_k": (8, 16, 32),
    "warp_y": (2, 4),
    "interleave": (1, 2),
    "inner": ("columns", "rows"),
    "inner_strips": ("columns", "rows"),
    "group": (1, 8),
    "stages": (2, 3, 4),
    "fragments": (1, 2),
    "parts": (1, 2, 4, 8, 16),
}


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(SHAPE, config={**SIZES, "warp_y": 4, "group": 2}),
    choices=GROUPS,
    expects={"barriers_dropped": ("barriers_per_step == 1", "spills == 0 on sm_90a")},
)
def matmul_prefetched(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 16,
    warp_y: int = 4,
    interleave: int = 2,
    group: int = 8,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """The next tiles are loaded into registers while these are computed; one barrier a step.

    Sizes: block_y, block_x, local_y, local_x, tile_k, warp_y, interleave and group, as for
    matmul_grouped.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, group=group, stages=2, tail=tail)
    yield from schedule_plan(sch, plan.in_warps(warp_y, interleave=interleave))


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(SHAPE, config={**SIZES, "warp_y": 4, "group": 2, "stages": 3}),
    choices={**GROUPS, "stages": (3, 4)},
    expects={"next_tiles_asynchronously": ("cp_async_bytes == 16", "vector_loads == 0")},
)
def matmul_async(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 16,
    warp_y: int = 4,
    interleave: int = 2,
    group: int = 8,
    stages: int = 4,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """The next tiles are on their way to shared memory by asynchronous copies, several at once.

    Sizes: block_y, block_x, local_y, local_x, tile_k, warp_y, interleave and group, as for
    matmul_grouped; stages, the tiles of A and B in shared memory, 3 or more.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, group=group, tail=tail)
    yield from schedule_plan(
        sch, plan._replace(stages=stages).in_warps(warp_y, interleave=interleave)
    )


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(
        SHAPE, config={**SIZES, "warp_y": 4, "group": 2, "stages": 2, "fragments": 2, "parts": 2}
    ),
    choices=PARTS,
    expects={"parts_added": ("kernels == 2", "barriers_per_step == 1")},
)
def matmul_split_k(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 16,
    warp_y: int = 4,
    interleave: int = 2,
    inner: Inner = "rows",
    inner_strips: Inner = "columns",
    group: int = 8,
    stages: int = 2,
    fragments: int = 1,
    parts: int = 4,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """The reduction in parts, on blocks of their own, whose sums a second kernel adds up.

    For shapes with fewer tiles than the GPU has multiprocessors.

    Sizes: block_y, block_x, local_y, local_x, tile_k, warp_y, interleave and group, as for
    matmul_grouped; inner and inner_strips, whether a thread goes through the columns or the rows of
    its tile in the innermost loop; stages, 2 for a pipeline through registers and more for
    asynchronous copies; fragments, 2 to load those of the next step, too; parts of the reduction.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, group=group, tail=tail)
    plan = plan._replace(
        inner=inner, inner_strips=inner_strips, stages=stages, ahead=fragments > 1, parts=parts
    )
    yield from schedule_plan(sch, plan.in_warps(warp_y, interleave=interleave))
