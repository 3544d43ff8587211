"""The gated layer and the matmul after a normalization: a kernel for each block, fewer, or one.

In one kernel both have two sums under one loop over k, which share the tile of X, and a function of
both as the store.

Fusion starts from a kernel for each block, with the tiles of matmul's tutorials and with rows that
are reduced as those of softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..binding import bind_loop, tile_block
from ..caching import cache_read_at, cache_write_at, fetch_cooperatively, stage_operand_at
from ..fusion.factors import factor_out_of_sum
from ..gpu_limits import WARP
from ..inlining import inline_epilogue
from ..layout import pad_longer_rows, transpose_tile
from ..loops import (
    Split,
    Tail,
    fuse_loops,
    merge_loops,
    reorder_loops,
    split_loop,
    suggest_unrolling,
)
from ..pass_options import set_pipeline
from ..pipelining import prefetch_through_registers
from ..placement import compute_block_at
from ..queries import find_row_length, get_extent, get_own_loops, get_spatial_loops
from ..reduction import decompose_reduction_at, split_reduction
from ..thread_rows import spread_over_threads
from ..vectorize import vectorize_copy
from ..warp_tiling import STRIP, largest_divisor, tile_in_warps
from .recipe import Example, get_sblocks
from .rungs import Family, Pair, Rung, knob, order, pairs


@dataclass(frozen=True, kw_only=True)
class ElementsConfig:
    """Knobs of a kernel of one element for each thread."""

    threads: Pair = knob(
        (8, 16), "rows and columns of threads in a block", choices=pairs((4, 8, 16), (8, 16, 32))
    )
    tail: Tail = knob("refuse", "what to do if tiles do not divide")


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


SHAPE = {"m": 4096, "n": 4096, "k": 4096}
SMALL = {"m": 8, "n": 12, "k": 16}
SMALL_CONFIG = {"threads": (2, 2), "thread_tile": (2, 2), "tile_k": 4}
TILES = ("thread_tile", "tile_k")
SWIZZLE = 8
"""Rows of tiles, at most, that blocks go through column by column."""
VECTOR_BYTES = 16
"""Bytes of a vector, and of the padding after each row of X's tile, which spreads transposed stores
over the banks of shared memory."""


@dataclass(frozen=True, kw_only=True)
class NormProductConfig(TilesConfig):
    """Knobs of a product behind a normalization."""

    rows: bool = knob(False, "whether the threads of a warp share a row of squares")


def schedule_swiglu(sch: Schedule, config: TilesConfig) -> Iterator[str]:
    """Two products, and a function of both."""
    gate, up, result = get_sblocks(sch)
    if config.tiled:
        for block, name in ((gate, "gate"), (up, "up")):
            tile_product(sch, block, config)
            yield f"{name}_tiled"
    for block in [result] if config.tiled else [gate, up, result]:
        bind_elements(sch, block, config)
    yield "bound"


def schedule_norm_product(sch: Schedule, config: NormProductConfig) -> Iterator[str]:
    """Squares of rows, rows by their roots, and a product of these."""
    squares, normed, product, result = get_sblocks(sch)
    if config.tiled:
        tile_product(sch, product, config)  # whose fetch normalizes
        yield "product_tiled"
    if config.rows:
        share_rows(sch, squares, config)
        yield "rows_shared"
    rows = [] if config.rows else [squares]
    for block in (*rows, *([] if config.tiled else [normed, product]), result):
        bind_elements(sch, block, config)
    yield "bound"


@dataclass(frozen=True, kw_only=True)
class FusedConfig:
    """Knobs of a chain in one kernel.

    With a tail of "refuse" the tile divides m and n, and tile_k divides k. With one of "guard" a
    block has no more threads, and a thread no more strips, than there are rows and columns for.
    """

    threads: Pair = knob(
        (8, 16), "rows and columns of threads in a block", choices=pairs((4, 8, 16), (8, 16, 32))
    )
    thread_tile: Pair = knob(
        (8, 4), "rows and columns of results that a thread computes", choices=pairs((4, 8), (4, 8))
    )
    tile_k: int = knob(16, "the depth of the tiles of operands", choices=(8, 16, 32))
    shared: bool = knob(
        False, "whether tiles of operands are in shared memory, that of X once for both sums"
    )
    vectors: bool = knob(
        False,
        "whether rows of X's tile lie side by side and a thread's tile in strips of 4, so that "
        "a thread reads both operands in vectors, into registers, and a warp a tile of 4 by 8",
    )
    stages: int = knob(1, "tiles in flight: 1 no pipeline, 2 through registers", choices=(1, 2))
    tail: Tail = knob("refuse", "what to do if tiles do not divide")

    @property
    def strips(self) -> Pair:
        """The pieces of a thread's tile, by rows and by columns."""
        rows, columns = (
            size // STRIP if self.vectors and size % STRIP == 0 else 1 for size in self.thread_tile
        )
        return rows, columns


def schedule_fused_swiglu(sch: Schedule, config: FusedConfig) -> Iterator[str]:
    """Two products under one loop, and a function of both as the store."""
    gate, up, result = get_sblocks(sch)
    yield from fuse_sums(sch, (gate, up), result, config, ((gate, 0), (gate, 1), (up, 1)))


def schedule_fused_norm_product(sch: Schedule, config: FusedConfig) -> Iterator[str]:
    """Squares and products under one loop, and the norm as a factor of the store."""
    squares, normed, product, result = get_sblocks(sch)
    sch.compute_inline(normed)
    yield "normalized_in_the_product"
    factor_out_of_sum(sch, product)
    yield "norm_out_of_the_sum"
    inline_epilogue(sch, product)
    yield "norm_in_the_store"
    operands = ((squares, 0), (product, 1), (product, 2))
    yield from fuse_sums(sch, (squares, product), result, config, operands)


Operands = Sequence[tuple[SBlockRV, int]]
"""Each tile once: a block that reads it, and which operand of the block's it is; X's first."""


def fuse_sums(
    sch: Schedule,
    sums: Sequence[SBlockRV],
    result: SBlockRV,
    config: FusedConfig,
    operands: Operands,
) -> Iterator[str]:
    """The steps of a config: sums over one range that a result is a function of."""
    # Rows of tiles that a swizzle divides and, guarded, no idle threads or strips: TVM would
    # simplify what a thread sums and not what it stores, so that these look different.
    rows, columns = (get_extent(sch, it) or 1 for it in get_spatial_loops(sch, result)[-2:])
    lies_square = config.vectors
    if config.tail == "guard":
        given = zip((rows, columns), config.threads, config.thread_tile, config.strips, strict=True)
        fitted = []
        for extent, count, per_thread, strips in given:
            strip = per_thread // strips
            strips = min(strips, -(-extent // (count * strip)))
            fitted.append((min(count, -(-extent // strip)), strips * strip))
        threads, thread_tile = zip(*fitted, strict=True)
        lies_square = lies_square and threads == config.threads
        config = replace(config, threads=threads, thread_tile=thread_tile)
    tiles = -(-rows // (config.threads[0] * config.thread_tile[0]))
    tile = tile_in_warps(
        sch,
        result,
        threads=config.threads,
        per_thread=config.thread_tile,
        strips=config.strips,
        warp=(4, 8) if lies_square else None,
        interleave=2 if lies_square else 1,
        swizzle=largest_divisor(tiles, most=SWIZZLE),
        tail=config.tail,
    )
    yield "tiled"
    for block in sums:
        sch.set_scope(block, 0, "local")
        compute_block_at(sch, block, tile.threads)
    yield "sums_in_registers"
    # Bring sums over one range under the same two loops, of which the inner one is a tile deep.
    depths = []
    for block in sums:
        own = get_own_loops(sch, block)
        depth = split_reduction(sch, block, inner=config.tile_k, tail=config.tail)
        reorder_loops(sch, [*depth, *own[:-1]])
        depths.append(depth)
    outer = merge_loops(sch, [depth.outer for depth in depths])
    steps = Split(outer, merge_loops(sch, [depth.inner for depth in depths]))
    yield "under_one_loop"
    # Bring the operands through shared memory into registers; the copies into the former.
    copies: list[SBlockRV] = []
    if config.shared:
        for block, operand in operands:
            # A tile in shared memory; that of X, the first, is transposed for vectors of rows.
            is_first = not copies
            copy = cache_read_at(sch, block, steps.outer, operand=operand, scope="shared")
            lanes = VECTOR_BYTES // sch.get(copy).writes[0].source.dtype.itemsize
            is_whole = config.vectors and (find_row_length(sch, copy) or 1) % lanes == 0
            if is_first and config.vectors:
                transpose_tile(sch, copy)
                if (find_row_length(sch, copy) or 1) % lanes == 0:
                    pad_longer_rows(sch, copy, elements=lanes)
            among, vector = config.threads[0] * config.threads[1], lanes if is_whole else 1
            fetch_cooperatively(sch, copy, threads=among, vector=vector, tail="guard")
            copies.append(copy)
        yield "tiles_in_shared_memory"
    if config.vectors:
        vectorize_copy(sch, result)
        for block, operand in operands:
            fragment = cache_read_at(sch, block, steps.inner, operand=operand, scope="local")
            vectorize_copy(sch, fragment)
        yield "vectors_in_registers"
    suggest_unrolling(sch, steps.inner)
    for block in sums:
        decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"
    if config.stages == 2 and get_extent(sch, steps.outer) != 1:
        prefetch_through_registers(sch, steps.outer, copies)
        set_pipeline(sch)
        yield "next_tiles_through_registers"


def _make_family(
    kernel: str, blocks: str, config: type, schedule: Callable[[Schedule, Any], Iterator[str]]
) -> Family:
    small = Example(SMALL, config=SMALL_CONFIG)
    tiles: tuple[str, ...] = ("threads",)
    if config is FusedConfig:
        knobs = {"threads": (4, 8), "thread_tile": (8, 4), "tile_k": 4}
        small, tiles = Example({"m": 64, "n": 96, "k": 24}, config=knobs), ("threads", *TILES)
    return Family(
        kernel=kernel,
        config=config,
        schedule=schedule,
        blocks=(blocks,),
        default_example=Example(SHAPE),
        small=small,
        tiles=tiles,
    )


def _begin(family: Family, kernels: int, *, tiled: int, products: int, why: str) -> Rung:
    """The first rungs of a chain of so many kernels, and of so many once products are tiled, which
    is returned.
    """
    naive = family.root(
        "naive",
        why="One kernel for each TIR block, and one thread for each element",
        expects={"bound": (f"kernels == {kernels}", "barriers == 0")},
    )
    return naive.plus(
        "tiled",
        tiled=True,
        searched=TILES,
        why=f"Tiles of operands in shared memory{why}, and of the products in registers",
        expects={"bound": (f"kernels == {tiled}", f"barriers_per_step == {2 * products}")},
    )


def _climb(fused: Rung, *, tile_bytes: int) -> None:
    """The rungs over the first one with all in one kernel, whose tiles have so many bytes."""
    shared = fused.plus(
        "shared",
        shared=True,
        why="Tiles in shared memory; X's tile is fetched once for both sums",
        expects={"decomposed": ("barriers_per_step == 2", f"shared_bytes == {tile_bytes}")},
    )
    warps = shared.plus(
        "warps",
        vectors=True,
        why="Operands are read and results are stored in vectors; a warp's tile is almost square, "
        "so that it reads less shared memory",
        expects={"decomposed": ("kernels == 1", "barriers_per_step == 2", "scalar_loads == 0")},
    )
    warps.plus(
        "prefetched",
        stages=2,
        why="The next tiles are loaded into registers during the sums; one barrier per step",
        expects={
            "next_tiles_through_registers": ("barriers_per_step == 1", "spills == 0 on sm_90a")
        },
    )


SWIGLU = _make_family("mlp_swiglu", "G U D", TilesConfig, schedule_swiglu)
FUSED_SWIGLU = _make_family("mlp_swiglu", "G U D", FusedConfig, schedule_fused_swiglu)
swiglu_fused = FUSED_SWIGLU.root(
    "fused",
    why="One kernel: both matmuls in one loop, in registers; silu is part of the store",
    expects={"decomposed": ("kernels == 1", "barriers == 0")},
)
_begin(SWIGLU, 3, tiled=3, products=2, why="")
_climb(swiglu_fused, tile_bytes=12288)
NORM_PRODUCT = _make_family(
    "rms_norm_matmul", "sum R C C_cast", NormProductConfig, schedule_norm_product
)
_begin(
    NORM_PRODUCT, 4, tiled=3, products=1, why=", where rows are normalized as they are fetched"
).plus("rows", rows=True, why="A warp shares each row, so that its threads read adjacent elements")
FUSED_NORM_PRODUCT = _make_family(
    "rms_norm_matmul", "sum R C C_cast", FusedConfig, schedule_fused_norm_product
)
norm_fused = FUSED_NORM_PRODUCT.root(
    "fused",
    thread_tile=(8, 8),
    golden={"thread_tile": (8, 4)},
    why="One kernel: the norm becomes a factor of the result, so the matmul does not wait for the "
    "squares; both are summed in one loop",
    expects={"decomposed": ("kernels == 1", "barriers == 0")},
)
_climb(norm_fused, tile_bytes=12352)
LADDERS = tuple(
    order("from one kernel per block to a single one", *several.rungs, *one.rungs)
    for several, one in ((SWIGLU, FUSED_SWIGLU), (NORM_PRODUCT, FUSED_NORM_PRODUCT))
)
