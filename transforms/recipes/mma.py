"""Matmul on tensor cores by mma.sync: one schedule, and the ladder that sets one knob after the
other.

The instruction and its fragments are those of the PTX ISA (see `transforms.intrinsics`). Tiles of
blocks and warps, swizzled shared memory, a pipeline of asynchronous copies and fragments that are
loaded ahead are the structure of NVIDIA's CUTLASS on its architecture of 2020 (A. Kerr and others,
CUTLASS: Fast Linear Algebra in CUDA C++, 2017; V. Thakkar and others, CUTLASS 3, 2023).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..bulk_copies import prefetch_by_tma, specialize_warps
from ..caching import accumulate_in_registers, cache_read_at
from ..intrinsics import get_depth
from ..loops import suggest_unrolling
from ..pass_options import set_pipeline
from ..pipelining import prefetch_asynchronously, prefetch_fragments
from ..queries import find_epilogue, get_extent
from ..reduction import decompose_reduction_at
from ..tensorize import (
    FragmentTile,
    TileLayout,
    stage_fragments_at,
    store_through_shared,
    tensorize_fragments,
    tile_in_fragments,
)
from ..tir import constant
from ..tma_tiles import PITCH
from .gemm import WholeTail, add_parts, cut_matmul, fit_swizzle
from .ladder import Family, Pair, knob
from .recipe import Example
from .tile_choice import VECTOR_BYTES, choose_vector, require_operands, require_shared_room

Copies = Literal["threads", "tma"]
"""Who copies tiles into shared memory: all threads, or the Tensor Memory Accelerator."""
Store = Literal["registers", "shared"]
"""From where a result is written: registers, or shared memory, in whole rows."""
TYPES = ("float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2", "tf32")


@dataclass(frozen=True, kw_only=True)
class MmaConfig:
    """Knobs of a matmul on tensor cores, whose operands go through shared memory into fragments.

    With a tail of "refuse" the tile divides m and n, and tile_k * split_k divides k; a padded
    problem and its crop are written through shared memory. The pipeline has fewer stages where the
    reduction has fewer steps. With a tail of "pad" the TMA brings the zeros, and where rows are no
    multiples of 16 bytes, operands are copied between zeros before, as with "copy"; it leaves
    fragments_first aside.
    """

    tile: Pair = knob(
        (128, 128),
        "rows and columns of C that a block of threads computes",
        choices=((64, 64), (64, 128), (128, 128), (128, 256)),
    )
    warp: Pair = knob(
        (64, 64),
        "rows and columns of C that a warp computes",
        choices=((32, 32), (32, 64), (64, 32), (64, 64)),
    )
    tile_k: int = knob(32, "the depth of the tiles of A and B", choices=(32, 64))
    layout: TileLayout = knob("rows", "how the rows of a tile lie in shared memory")
    stages: int = knob(1, "tiles in flight: 1 no pipeline, more cp.async", choices=(2, 3, 4, 5))
    copies: Copies = knob("threads", "who copies tiles into shared memory, of several stages")
    roles: bool = knob(
        False,
        "whether a warp of its own issues TMA copies, while the others compute",
        choices=(False, True),
    )
    prefetch_fragments: bool = knob(
        False, "whether fragments are loaded one step ahead, too", choices=(False, True)
    )
    fragments_first: bool = knob(
        False,
        "whether the first fragments of the next tile come before the last products of this one",
        choices=(False, True),
    )
    swizzle: int = knob(
        1, "rows of tiles, at most, that blocks go through column by column", choices=(1, 4, 8)
    )
    store: Store = knob("registers", "from where the result is written")
    split_k: int = knob(1, "slices of the reduction, each on blocks of its own", choices=(1, 2, 4))
    tail: WholeTail = knob("refuse", "what happens where a tile does not divide")

    @property
    def warps(self) -> int:
        """Of a block of threads."""
        return self.tile[0] // self.warp[0] * (self.tile[1] // self.warp[1])


def schedule(sch: Schedule, config: MmaConfig) -> Iterator[str]:
    """The steps of a config, on block "C" of matmul."""
    yield from schedule_product(sch, sch.get_sblock("C"), config)


def schedule_product(sch: Schedule, total: SBlockRV, config: MmaConfig) -> Iterator[str]:
    """The steps of a config, on a block that sums products over one loop, of two operands.

    Loops in front of the last two spatial ones are those of a batch. What consumes the sums, a
    bias and a function of them, say, becomes part of the store.
    """
    dtype = sch.get(total).reads[-1].source.dtype
    require_operands(sch, total, TYPES)
    require_shared_room(config.tile, config.tile_k, config.stages, dtype.itemsize)
    depth, lengths = get_depth(dtype.bits), get_row_lengths(sch, total)
    store = choose_store(sch, total, config.store, config.tail)
    config = replace(config, tile_k=max(config.tile_k, depth), store=store)
    if config.copies == "tma" and config.tail == "pad" and has_odd_pitch(lengths, dtype.itemsize):
        config = replace(config, tail="copy")
    block = yield from cut_matmul(
        sch, total, (*config.tile, config.tile_k), split_k=config.split_k, tail=config.tail
    )
    tile = tile_in_fragments(
        sch,
        block,
        tile=config.tile,
        warp=config.warp,
        tile_k=config.tile_k,
        depth=depth,
        swizzle=fit_swizzle(sch, block, config.tile[0], most=config.swizzle),
    )
    yield "tiled"
    yield from _compute(sch, tile, config, lengths)
    if config.split_k > 1:
        add_parts(sch, total, config.tail)
        yield "parts_added"


def choose_store(sch: Schedule, total: SBlockRV, store: Store, tail: WholeTail) -> Store:
    """From where a result is written: from shared memory where it is cropped, or computed with."""
    epilogue = find_epilogue(sch, total)
    has_more = epilogue is not None and len(sch.get(epilogue).reads) > 1
    return "shared" if has_more or tail != "refuse" else store


def has_odd_pitch(lengths: tuple[int, int, int], size: int) -> bool:
    """Whether the TMA cannot address A or B as it lies."""
    return any(length * size % PITCH for length in lengths[:2])


def get_row_lengths(sch: Schedule, block: SBlockRV) -> tuple[int, int, int]:
    """The elements in a row of A, of B and of the result."""
    node = sch.get(block)
    a, b = (region.source for region in node.reads[-2:])
    lengths = [constant(buffer.shape[-1]) or 1 for buffer in (a, b, node.writes[0].source)]
    return lengths[0], lengths[1], lengths[2]


def _compute(
    sch: Schedule, tile: FragmentTile, config: MmaConfig, lengths: tuple[int, int, int]
) -> Iterator[str]:
    """Bring the operands through shared memory into fragments, multiply them, and store."""
    store = _store(sch, tile, config, lengths[2])
    yield "accumulated_in_registers"
    copies = []
    for operand, name in enumerate("AB"):
        copies.append(_stage(sch, tile, config, operand, lengths[operand]))
        yield f"{name}_in_shared_memory"
    loads = [
        cache_read_at(sch, tile.block, tile.inner, operand=operand, scope="local")
        for operand in range(2)
    ]
    suggest_unrolling(sch, tile.inner)
    yield "fragments_in_registers"
    zeros = decompose_reduction_at(sch, tile.block, tile.outer)
    yield "decomposed"
    # Of float32 operands the kernel allows it, or they were refused.
    tensorize_fragments(sch, tile.block, loads, zeros, store, tf32=True)
    yield "tensorized"
    steps = get_extent(sch, tile.inner) or 1
    ahead = config.prefetch_fragments and steps > 1
    if ahead:
        prefetch_fragments(sch, tile.inner)
        yield "fragments_ahead"
    stages = min(config.stages, get_extent(sch, tile.outer) or 1)
    if _uses_tma(sch, tile, config):
        prefetch_by_tma(sch, tile.outer, copies, stages=stages)
        yield "next_tiles_by_tma"
        if config.roles:
            specialize_warps(sch, tile.outer)
            yield "warps_specialized"
    elif stages > 1:
        first = config.fragments_first and ahead and stages > 2
        prefetch_asynchronously(sch, tile.outer, copies, stages=stages, fragments_first=first)
        set_pipeline(sch)
        yield "next_tiles_asynchronously"


def _uses_tma(sch: Schedule, tile: FragmentTile, config: MmaConfig) -> bool:
    stages = min(config.stages, get_extent(sch, tile.outer) or 1)
    return config.copies == "tma" and stages > 1


def _store(sch: Schedule, tile: FragmentTile, config: MmaConfig, length: int) -> SBlockRV:
    """Keep the sums in registers; the block that stores them, for its fragments."""
    if config.store == "registers":
        return accumulate_in_registers(sch, tile.block, tile.warps)
    set_pipeline(sch)  # whose passes keep vectors under the guard of a crop
    stores = [block for block in (tile.block, find_epilogue(sch, tile.block)) if block is not None]
    widest = max(sch.get(block).writes[0].source.dtype.itemsize for block in stores)
    vector = math.gcd(VECTOR_BYTES // widest, length)
    return store_through_shared(
        sch,
        tile.block,
        tile.grid,
        tile.warps,
        columns=config.tile[1],
        warps=config.warps,
        vector=vector,
    ).store


def _stage(
    sch: Schedule, tile: FragmentTile, config: MmaConfig, operand: int, length: int
) -> SBlockRV:
    """The copy of an operand's tile into shared memory, in vectors of 16 bytes where it can."""
    dtype = sch.get(tile.block).reads[operand].source.dtype
    is_async = config.stages > 1 and get_extent(sch, tile.outer) != 1
    layout = config.layout if dtype.itemsize == 2 or config.layout == "rows" else "padded"
    uses_tma = _uses_tma(sch, tile, config)
    vector = choose_vector(dtype, length, config.tail, is_async=is_async)
    if uses_tma:  # which copies by itself: threads are to divide the tile, in vectors of any width
        layout = "rows" if layout == "padded" else layout
        threads = 32 * config.warps
        vector = math.gcd(vector, config.tile[operand] * config.tile_k // threads) or vector
    return stage_fragments_at(
        sch,
        tile.block,
        tile.outer,
        operand=operand,
        warps=config.warps,
        vector=vector,
        layout=layout,
        panels=uses_tma,
        tail="guard",
    )


MMA = Family(
    kernel="matmul",
    config=MmaConfig,
    schedule=schedule,
    blocks=("C", "C C_cast"),
    default_example=Example({"m": 1024, "n": 512, "k": 2048}, options={"dtype": "float16"}),
    small=Example(
        {"m": 32, "n": 64, "k": 96},
        options={"dtype": "float16"},
        config={"tile": (16, 32), "warp": (16, 16)},
    ),
    tiles=("tile", "warp", "tile_k"),
    dtypes=TYPES,
    arch="sm_80",
)

ON_TENSOR_CORES = (
    "HMMA > 0 on sm_80",
    "LDSM > 0 on sm_80",
    "spills == 0 on sm_80",
    "spills == 0 on sm_90a",
)

plain = MMA.root(
    "mma",
    why="Tensor cores multiply fragments of 16x16x16, which ldmatrix loads",
    expects={"tensorized": ON_TENSOR_CORES},
)
swizzled = plain.plus(
    "mma_swizzled",
    layout="swizzled",
    why="The eight rows that ldmatrix reads at once lie in different banks",
)
piped = swizzled.plus(
    "mma_async",
    stages=4,
    why="The next tiles are copied asynchronously, several in flight",
    expects={"next_tiles_asynchronously": ("cp_async_bytes == 16", *ON_TENSOR_CORES)},
    golden={"stages": 3},
)
ahead = piped.plus(
    "mma_fragments",
    prefetch_fragments=True,
    why="The next fragments are loaded during the products of these",
)
first = ahead.plus(
    "mma_fragments_first",
    fragments_first=True,
    why="The products need not wait for shared memory at the begin of each tile",
)
block_swizzle = first.plus(
    "mma_block_swizzle",
    swizzle=8,
    why="Blocks that run at the same time share rows of A and columns of B in the L2 cache",
    golden={"swizzle": 2},
)
rows = block_swizzle.plus(
    "mma_rows",
    store="shared",
    why="Whole rows of the result are written, from shared memory",
)
split = rows.plus(
    "mma_split_k",
    split_k=4,
    why="Few tiles fill the GPU, too, in slices of K, which a second kernel adds up; slower "
    "where tiles are many, as here",
    golden={"split_k": 3},
    expects={"parts_added": ("kernels == 2", *ON_TENSOR_CORES)},
)
ON_HOPPER = ("HMMA > 0 on sm_90a", "UTMALDG > 0 on sm_90a", "spills == 0 on sm_90a")
tma = ahead.plus(
    "mma_tma",
    copies="tma",
    why="One thread copies whole tiles, and no others spend registers and instructions on it; "
    "slower than cp.async for large products",
    expects={"next_tiles_by_tma": ON_HOPPER},
    changes={"arch": "sm_90"},
)
roles = tma.plus(
    "mma_tma_roles",
    roles=True,
    why="Warps that compute wait for no others, but for tiles that a warp of its own copies; "
    "slower for large products",
    expects={"warps_specialized": ON_HOPPER},
)

RUNGS = (plain, swizzled, piped, ahead, first, block_swizzle, rows, split, tma, roles)
"""The ladder by mma.sync, slow to fast; `matmul_best` puts the recipe behind it that chooses."""
