"""Recipes of matmul above the tutorials', one idea each, towards the vendor's speed.

A tile of C in the registers of each thread is the SGEMM of V. Volkov and J. Demmel (Benchmarking
GPUs to tune dense linear algebra, SC 2008); tiles of blocks, warps and threads, fed by a pipeline,
are the structure of NVIDIA's CUTLASS.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from .matmul_plan import Plan, WholeTail, schedule_plan
from .recipe import Example, recipe

GEMM = Example({"m": 1024, "n": 512, "k": 2048})
SIZES = {"block_y": 4, "block_x": 8, "local_y": 8, "local_x": 2, "tile_k": 8}
SHAPE = {"m": 64, "n": 48, "k": 32}
SMALL = Example(SHAPE, config=SIZES)
TILES = {
    "block_y": (4, 8, 16),
    "block_x": (8, 16),
    "local_y": (4, 8),
    "local_x": (4, 8),
    "tile_k": (8, 16),
}
WARPS = {**TILES, "warp_y": (2, 4)}
LANES = {**WARPS, "interleave": (1, 2)}
GROUPS = {**LANES, "group": (1, 4, 8)}
BLOCKS = ("C", "C C_cast")
VECTORS = {"decomposed": ("scalar_loads == 0", "scalar_shared_loads == 0")}


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=SMALL,
    choices=TILES,
    expects=VECTORS,
)
def matmul_fragments(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 8,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """The rows that a thread needs lie side by side: A's tile is transposed, and loads are vectors.

    Sizes: block_y, block_x, the threads of a block; local_y, local_x, the tile of C of a thread;
    tile_k, the depth of the tiles of A and B.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, tail=tail)
    yield from schedule_plan(sch, plan)


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=SMALL,
    choices=TILES,
    expects=VECTORS,
)
def matmul_strips(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 8,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """A thread's tile in strips of 4: neighbouring threads read neighbouring vectors.

    Sizes: block_y, block_x, local_y, local_x and tile_k, as for matmul_fragments.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, tail=tail)
    yield from schedule_plan(sch, plan.in_strips())


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(SHAPE, config={**SIZES, "warp_y": 4}),
    choices=WARPS,
    expects=VECTORS,
)
def matmul_warps(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 16,
    warp_y: int = 4,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """A warp computes a tile that is almost square, so that it reads little of shared memory.

    The rows of A's tile are padded, so that the transposed stores fall into different banks.

    Sizes: block_y, block_x, local_y, local_x and tile_k, as for matmul_fragments; warp_y, the rows
    of threads in a warp.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, tail=tail)
    yield from schedule_plan(sch, plan.in_warps(warp_y))


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(SHAPE, config={**SIZES, "warp_y": 4}),
    choices=LANES,
    expects={"decomposed": (*VECTORS["decomposed"], "spills == 0 on sm_90a")},
)
def matmul_interleaved(
    sch: Schedule,
    *,
    block_y: int = 16,
    block_x: int = 16,
    local_y: int = 8,
    local_x: int = 8,
    tile_k: int = 16,
    warp_y: int = 4,
    interleave: int = 2,
    tail: WholeTail = "refuse",
) -> Iterator[str]:
    """Neighbours in a warp read the same vector, in pairs: shared memory answers each pair at once.

    Sizes: block_y, block_x, local_y, local_x, tile_k and warp_y, as for matmul_warps; interleave,
    the rows of a warp that are numbered together.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, tail=tail)
    yield from schedule_plan(sch, plan.in_warps(warp_y, interleave=interleave))


@recipe(
    kernel="matmul",
    blocks=BLOCKS,
    default_example=GEMM,
    golden=Example(SHAPE, config={**SIZES, "warp_y": 4, "group": 2}),
    choices=GROUPS,
    expects={"decomposed": ("scalar_loads == 0", "blocks == 32")},
)
def matmul_grouped(
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
    """Blocks that run at the same time share rows of A and columns of B in the L2 cache.

    Sizes: block_y, block_x, local_y, local_x, tile_k, warp_y and interleave, as for
    matmul_interleaved; group, the most rows of tiles that run column by column.
    """
    plan = Plan((block_y, block_x), (local_y, local_x), tile_k, group=group, tail=tail)
    yield from schedule_plan(sch, plan.in_warps(warp_y, interleave=interleave))
