"""Recipes of depthwise_conv2d: those of the tutorial, then the fast ladder.

The fast ones have tiles in shared memory, and strips in registers alone. The tile with its halo in
shared memory is that of V. Podlozhnyuk (Image convolution with CUDA, NVIDIA 2007); several outputs
for each thread are V. Volkov's (Better performance at lower occupancy, GTC 2010). Going down a
strip, a row of the image is loaded once and used for as many rows of results as the filter has: the
register queue of P. Micikevicius (3D finite difference computation on GPUs using CUDA, GPGPU-2,
2009), which the CUDA compiler makes here of loops that are unrolled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from ..binding import bind_loop
from ..caching import accumulate_in_registers, cache_read_at, fetch_cooperatively
from ..inlining import inline_producers
from ..layout import pad_shared_rows
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, suggest_unrolling
from ..placement import compute_block_at
from ..queries import find_row_length, get_extent, get_own_loops
from ..reduction import decompose_reduction_at
from ..thread_rows import find_vector, spread_over_threads
from ..vectorize import align_vectors, vectorize_copy, vectorize_loop
from ..warp_tiling import largest_divisor
from .recipe import Example, recipe
from .rungs import Family, Pair, knob, order, pairs

EXAMPLE = Example({"b": 3, "c": 4, "h": 16, "w": 32, "k": 7})
SMALL = Example({"b": 5, "c": 2, "h": 6, "w": 8, "k": 3})
SMALL_TILES = Example(SMALL.shape, config={"rows": 3, "columns": 4})
BLOCKS = ("padded Y",)


convolution_tutorial = functools.partial(
    recipe,
    kernel="depthwise_conv2d",
    blocks=BLOCKS,
    default_example=EXAMPLE,
    golden=SMALL,
    symbolic=("b", "c", "h", "w"),
)


@convolution_tutorial(expects={"bound": ("blocks == 3", "guards == 2")})
def depthwise_conv2d_naive(sch: Schedule) -> Iterator[str]:
    """One image for each block of one thread; the padding is inlined."""
    block = sch.get_sblock("Y")
    inline_producers(sch, block)
    yield "padding_inlined"
    bind_loop(sch, sch.get_loops(block)[0], axis="blockIdx.x")
    yield "bound"


@convolution_tutorial(expects={"bound": ("blocks == 12", "guards == 2")})
def depthwise_conv2d_blocks_2d(sch: Schedule) -> Iterator[str]:
    """One channel of one image for each block: images on blockIdx.x, channels on blockIdx.y."""
    block = sch.get_sblock("Y")
    inline_producers(sch, block)
    yield "padding_inlined"
    image, channel = sch.get_loops(block)[:2]
    bind_loop(sch, image, axis="blockIdx.x")
    bind_loop(sch, channel, axis="blockIdx.y")
    yield "bound"


@convolution_tutorial(expects={"bound": ("blocks == 192", "guards == 2")})
def depthwise_conv2d_fused_blocks(sch: Schedule) -> Iterator[str]:
    """One row of pixels for each block: images and channels fused, rows on blockIdx.y."""
    block = sch.get_sblock("Y")
    inline_producers(sch, block)
    yield "padding_inlined"
    image, channel, row = sch.get_loops(block)[:3]
    planes = fuse_loops(sch, [image, channel])
    yield "planes_fused"
    bind_loop(sch, planes, axis="blockIdx.x")
    bind_loop(sch, row, axis="blockIdx.y")
    yield "bound"


@convolution_tutorial(
    golden=SMALL_TILES,
    choices={"rows": (4, 8, 16), "columns": (8, 16, 32)},
    expects={"bound": ("threads == 256", "guards == 2")},
)
def depthwise_conv2d_threads_2d(
    sch: Schedule, *, rows: int = 16, columns: int = 16, tail: Tail = "refuse"
) -> Iterator[str]:
    """One pixel for each thread; the tiles of a row of tiles follow each other in one block.

    Knobs: rows and columns of a tile of pixels, which are the threads of a block.
    """
    block = sch.get_sblock("Y")
    inline_producers(sch, block)
    yield "padding_inlined"
    image, channel, row, column = sch.get_loops(block)[:4]
    planes = fuse_loops(sch, [image, channel])
    row_tile, row_inner = split_loop(sch, row, inner=rows, tail=tail)
    column_inner = split_loop(sch, column, inner=columns, tail=tail).inner
    yield "tiled"
    bind_loop(sch, planes, axis="blockIdx.x")
    bind_loop(sch, row_tile, axis="blockIdx.y")
    bind_loop(sch, row_inner, axis="threadIdx.y")
    bind_loop(sch, column_inner, axis="threadIdx.x")
    yield "bound"


@convolution_tutorial(
    golden=SMALL_TILES,
    choices={"rows": (4, 8, 16), "columns": (8, 16, 32)},
    expects={"bound": ("threads == 256", "guards == 2")},
)
def depthwise_conv2d_outer_fusion(
    sch: Schedule, *, rows: int = 16, columns: int = 16, tail: Tail = "refuse"
) -> Iterator[str]:
    """One tile of pixels for each block: the tiles of both directions fused on blockIdx.y.

    Knobs: rows and columns of a tile of pixels, which are the threads of a block.
    """
    block = sch.get_sblock("Y")
    inline_producers(sch, block)
    yield "padding_inlined"
    image, channel, row, column = sch.get_loops(block)[:4]
    planes = fuse_loops(sch, [image, channel])
    row_tile, row_inner = split_loop(sch, row, inner=rows, tail=tail)
    column_tile, column_inner = split_loop(sch, column, inner=columns, tail=tail)
    reorder_loops(sch, [row_tile, column_tile, row_inner, column_inner])
    yield "tiled"
    tiles = fuse_loops(sch, [row_tile, column_tile])
    yield "tiles_fused"
    bind_loop(sch, planes, axis="blockIdx.x")
    bind_loop(sch, tiles, axis="blockIdx.y")
    bind_loop(sch, row_inner, axis="threadIdx.y")
    bind_loop(sch, column_inner, axis="threadIdx.x")
    yield "bound"


VECTOR = 4
"""Elements of a vector at most."""
UNROLL = 8192
"""Statements that are unrolled at most: a strip has few, and its products are many."""


@dataclass(frozen=True, kw_only=True)
class DepthwiseConfig:
    """Knobs of a schedule with tiles of the padded image in shared memory."""

    threads: Pair = knob(
        (16, 16),
        "rows and columns of threads for each plane (a channel of an image)",
        choices=pairs((2, 4, 8, 16), (4, 8, 16)),
    )
    thread_tile: Pair = knob(
        (1, 1), "rows and columns of a thread's pixels", choices=pairs((1, 2, 4, 8), (1, 2, 4))
    )
    in_registers: bool = knob(False, "whether a thread keeps its window and filter in registers")
    planes: int = knob(1, "most planes per block", choices=(1, 2, 4, 8))
    by_rows: bool = knob(False, "whether zeros and image are written separately, row by row")
    tail: Tail = knob("refuse", "what to do if tiles do not divide a plane")


@dataclass(frozen=True, kw_only=True)
class StripConfig:
    """Knobs of a schedule with strips of pixels in registers alone."""

    images: int = knob(2, "most images per block", choices=(1, 2, 4, 8))
    planes: int = knob(1, "most channels of each image", choices=(1, 2, 4))
    threads: Pair = knob(
        (1, 16), "rows and columns of threads for each plane", choices=pairs((1, 2, 4), (4, 8, 16))
    )
    thread_tile: Pair = knob(
        (16, 2), "rows and columns of a thread's strip", choices=pairs((1, 2, 4, 8, 16), (1, 2, 4))
    )
    blocks: int = knob(
        128,
        "blocks that the grid should have; if it has fewer, planes, images and strips are reduced",
        choices=(1, 128),
    )
    tail: Tail = knob("refuse", "what to do if strips do not divide a plane")


def split_pixels(
    sch: Schedule, plane: Sequence[LoopRV], config: DepthwiseConfig | StripConfig
) -> tuple[list[LoopRV], list[LoopRV], list[LoopRV]]:
    """Tiles of a plane, their threads, and the pixels of each, rows first."""
    tiles, threads, pixels = [], [], []
    for loop, many, each in zip(plane, config.threads, config.thread_tile, strict=True):
        vectors, pixel = split_loop(sch, loop, inner=each, tail=config.tail)
        tile, thread = split_loop(sch, vectors, inner=many, tail=config.tail)
        tiles.append(tile)
        threads.append(thread)
        pixels.append(pixel)
    return tiles, threads, pixels


def schedule_tiles(sch: Schedule, config: DepthwiseConfig) -> Iterator[str]:
    """Tiles of the padded image in shared memory."""
    padded, block = (sch.get_sblock(name) for name in BLOCKS[0].split())
    image, channel, height, width, *reductions = sch.get_loops(block)
    steps = reductions[0]
    planes = largest_divisor(get_extent(sch, channel) or 1, most=config.planes)
    channels, plane = split_loop(sch, channel, inner=planes)
    tiles, inside, pixels = split_pixels(sch, (height, width), config)
    reorder_loops(sch, [image, channels, *tiles, plane, *inside, *reductions, *pixels])
    bind_loop(sch, fuse_loops(sch, [image, channels]), axis="blockIdx.x")
    bind_loop(sch, tiles[0], axis="blockIdx.y")
    bind_loop(sch, tiles[1], axis="blockIdx.z")
    bind_loop(sch, plane, axis="threadIdx.y")
    together = fuse_loops(sch, inside)
    bind_loop(sch, together, axis="threadIdx.x")
    yield "tiled"
    result = accumulate_in_registers(sch, block, together)
    if config.in_registers:
        vectorize_copy(sch, result, vector=VECTOR)
    yield "accumulated_in_registers"
    if config.in_registers:
        for operand in range(2):
            fragment = cache_read_at(sch, block, together, operand=operand, scope="local")
            suggest_unrolling(sch, get_own_loops(sch, fragment)[0])
        suggest_unrolling(sch, steps)
        yield "fragments_in_registers"
    sch.set_scope(padded, 0, "shared")
    compute_block_at(sch, padded, tiles[1])
    threads = math.prod(config.threads)
    if config.by_rows and get_extent(sch, steps) != 1:  # a filter of one tap needs no zeros
        # Zeros in vectors everywhere, then the image: neither has a bounds check for each pixel.
        # The image comes through shared memory, too, in vectors as it lies. That is also what
        # orders the two: TVM puts a barrier between a write and a read, and none between two
        # writes.
        length = find_row_length(sch, padded) or 1
        zeros = sch.decompose_padding(padded, get_own_loops(sch, padded)[0])
        gap = -length % VECTOR
        if 0 < gap < length:
            pad_shared_rows(sch, zeros, elements=gap)
        whole = cache_read_at(sch, padded, tiles[1], operand=0)
        dtype, row = sch.get(whole).writes[0].source.dtype, find_row_length(sch, whole) or 1
        vector = find_vector(row, dtype, most=16 // dtype.itemsize)
        among = planes, threads
        fetch_cooperatively(sch, whole, threads=among, vector=vector, tail="guard")
        for each, most in ((zeros, VECTOR), (padded, 1)):
            *_, own_plane, rows, _ = get_own_loops(sch, each)
            vector = find_vector(length, sch.get(each).writes[0].source.dtype, most=most)
            spread = spread_over_threads(sch, each, threads=threads, vector=vector, tail="guard")
            if vector > 1:
                vectorize_loop(sch, spread.elements)
            bind_loop(sch, own_plane, axis="threadIdx.y")
            suggest_unrolling(sch, rows)
    else:
        fetch_cooperatively(sch, padded, threads=(planes, threads), tail="guard")
    yield "padded_in_shared_memory"
    decompose_reduction_at(sch, block, steps)
    yield "decomposed"


def schedule_strips(sch: Schedule, config: StripConfig) -> Iterator[str]:
    """Strips of pixels, whose window comes straight into registers, in vectors."""
    padded, block = (sch.get_sblock(name) for name in BLOCKS[0].split())
    # Images per thread block and channels of each divide the problem; while the grid would have too
    # few blocks, channels are reduced first, then images, then a thread's rows of pixels.
    wholes = [get_extent(sch, loop) or 1 for loop in sch.get_loops(block)[:4]]
    (rows, columns), (each_row, each_column) = config.threads, config.thread_tile
    wanted = (config.images, config.planes)
    most = [largest_divisor(whole, most=at) for whole, at in zip(wholes, wanted, strict=False)]

    def count_blocks() -> int:
        tiles = -(-wholes[2] // (rows * each_row)) * -(-wholes[3] // (columns * each_column))
        return wholes[0] // most[0] * (wholes[1] // most[1]) * tiles

    for at in (1, 0):
        while most[at] > 1 and count_blocks() < config.blocks:
            most[at] = largest_divisor(wholes[at], most=most[at] - 1)
    while each_row > 1 and count_blocks() < config.blocks:
        each_row //= 2
    images, planes = most
    config = replace(config, images=images, planes=planes, thread_tile=(each_row, each_column))
    # Rows of the padded image in vectors, which are vectors of the image. Rows of the image and
    # pixels of a thread are a whole number of them, so that all are aligned.
    *_, row, taps, _ = (get_extent(sch, loop) or 1 for loop in sch.get_loops(block))
    dtype = sch.get(padded).writes[0].source.dtype
    vector = find_vector(math.gcd(row, config.thread_tile[1]), dtype, most=VECTOR)
    if vector > 1:
        align_vectors(sch, padded, vector=vector, offset=-(taps // 2) % vector)
    yield "aligned"
    image, channel, height, width, *reductions = sch.get_loops(block)
    image_groups, one_image = split_loop(sch, image, inner=config.images)
    channels, one_channel = split_loop(sch, channel, inner=config.planes)
    tiles, threads, pixels = split_pixels(sch, (height, width), config)
    inside = [one_channel, one_image, *threads]
    grid = [image_groups, channels, *tiles]
    reorder_loops(sch, [*grid, *inside, pixels[0], *reductions, pixels[1]])
    for loop, axis in zip([fuse_loops(sch, grid[:2]), *tiles], "xyz", strict=True):
        bind_loop(sch, loop, axis=f"blockIdx.{axis}")
    together = fuse_loops(sch, inside)
    bind_loop(sch, together, axis="threadIdx.x")
    yield "tiled"
    result = accumulate_in_registers(sch, block, pixels[0])
    yield "accumulated_in_registers"
    sch.set_scope(padded, 0, "local")
    compute_block_at(sch, padded, together)
    first, *_, last = get_own_loops(sch, padded)
    suggest_unrolling(sch, first, limit=UNROLL)
    if vector > 1:
        vectorize_loop(sch, last)
    filters = cache_read_at(sch, block, together, operand=1, scope="local")
    suggest_unrolling(sch, get_own_loops(sch, filters)[0])
    suggest_unrolling(sch, pixels[0], limit=UNROLL)
    yield "window_in_registers"
    vectorize_copy(sch, result, vector=vector)
    yield "stored_in_vectors"
    decompose_reduction_at(sch, block, reductions[0])
    yield "decomposed"


SMALL_FAST = {"b": 2, "c": 4, "h": 16, "w": 32, "k": 3}
TILES = Family(
    kernel="depthwise_conv2d",
    config=DepthwiseConfig,
    schedule=schedule_tiles,
    blocks=BLOCKS,
    default_example=EXAMPLE,
    small=Example(SMALL_FAST),
    tiles=("threads",),
)
STRIPS = Family(
    kernel="depthwise_conv2d",
    config=StripConfig,
    schedule=schedule_strips,
    blocks=BLOCKS,
    default_example=EXAMPLE,
    small=Example(
        SMALL_FAST, config={"planes": 2, "threads": (1, 4), "thread_tile": (4, 4), "blocks": 1}
    ),
    tiles=("images", "planes", "threads", "thread_tile", "blocks"),
)

shared = TILES.root(
    "shared",
    why="A tile of the padded image in shared memory, so no multiply-add checks the image's bounds",
    expects={"decomposed": ("threads == 256", "barriers == 1")},
)
tiled = shared.plus(
    "tiled",
    threads=(4, 8),
    thread_tile=(4, 4),
    why="A tile of pixels for each thread of a warp",
    expects={"decomposed": ("threads == 32", "barriers == 1", "spills == 0 on sm_90a")},
)
registers = tiled.plus(
    "registers", in_registers=True, why="A thread loads its window and its filter once"
)
by_rows = registers.plus(
    "planes",
    planes=2,
    by_rows=True,
    why="Zeros, then the images of two channels are written row by row, in vectors, without bounds "
    "checks",
    expects={"decomposed": ("barriers == 2", "spills == 0 on sm_90a")},
)
strips = STRIPS.root(
    "strips",
    why="A strip of pixels for each thread, whose window comes straight into registers, in vectors",
    expects={"decomposed": ("barriers == 0", "scalar_stores == 0", "spills == 0 on sm_90a")},
)
LADDERS = (
    order(
        "the convolution tutorial, from images on blocks to fused loops",
        depthwise_conv2d_naive,
        depthwise_conv2d_blocks_2d,
        depthwise_conv2d_fused_blocks,
        depthwise_conv2d_threads_2d,
        depthwise_conv2d_outer_fusion,
        name="depthwise-tutorial",
    ),
    order(
        "tiles of the padded image, then strips in registers",
        *TILES.rungs,
        *STRIPS.rungs,
        shape={**EXAMPLE.shape, "b": 4096},
    ),
)
