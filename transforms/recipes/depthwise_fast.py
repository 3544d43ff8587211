"""Recipes of depthwise_conv2d that keep tiles of the padded image in shared memory.

The tile with its halo in shared memory is that of V. Podlozhnyuk (Image convolution with CUDA,
NVIDIA 2007); several outputs for each thread are V. Volkov's (Better performance at lower
occupancy, GTC 2010).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..binding import bind_loop
from ..caching import accumulate_in_registers, cache_read_at
from ..fetching import fetch_cooperatively
from ..layout import pad_shared_rows
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, suggest_unrolling
from ..placement import compute_block_at
from ..queries import find_row_length
from ..queries import get_extent as find_extent
from ..queries import get_own_loops as find_own_loops
from ..reduction import decompose_reduction_at
from ..rows import find_vector, spread_over_threads
from ..vectorize import vectorize_copy, vectorize_loop
from .convolution import BLOCKS, SEED
from .depthwise_tiles import fit_planes, split_pixels
from .recipe import Example, recipe

SHAPE = {"b": 2, "c": 4, "h": 8, "w": 16, "k": 3}
TILE = {"rows": (2, 4, 8, 16), "columns": (4, 8, 16)}
LOCAL = {**TILE, "local_y": (1, 2, 4, 8), "local_x": (1, 2, 4)}
PLANES = {**LOCAL, "planes": (1, 2, 4, 8), "blocks": (1, 128)}
VECTOR = 4
"""Elements of a vector at most."""


class TilePlan(NamedTuple):
    """How the pixels are dealt out.

    Attributes
    ----------
    threads : rows and columns of threads that share a tile of a plane (a channel of an image)
    per_thread : rows and columns of the pixels of each, side by side
    planes : of a GPU block at most, each with threads of its own; fewer where the channels want it
    blocks : that the grid should have; planes and rows of pixels are fewer where it has not
    in_registers : whether a thread's pixels of the window, and its filter, are in registers
    by_rows : whether zeros and image are written apart, row by row
    tail : what happens where a tile does not divide a plane
    """

    threads: tuple[int, int]
    per_thread: tuple[int, int] = (1, 1)
    planes: int = 1
    blocks: int = 1
    in_registers: bool = False
    by_rows: bool = False
    tail: Tail = "refuse"


class _Loops(NamedTuple):
    """The loops of block "Y": the innermost on a GPU block, and its threads."""

    block: LoopRV
    threads: LoopRV


def schedule_tiles(sch: Schedule, plan: TilePlan) -> Iterator[str]:
    """The steps of a plan."""
    padded, block = (sch.get_sblock(name) for name in BLOCKS[0].split())
    plan = _fit(sch, block, plan)
    steps = sch.get_loops(block)[-2]
    loops = _tile(sch, block, plan)
    yield "tiled"
    result = accumulate_in_registers(sch, block, loops.threads)
    if plan.in_registers:
        vectorize_copy(sch, result, vector=VECTOR)
    yield "accumulated_in_registers"
    if plan.in_registers:
        for operand in range(2):
            fragment = cache_read_at(sch, block, loops.threads, operand=operand, scope="local")
            suggest_unrolling(sch, find_own_loops(sch, fragment)[0])
        suggest_unrolling(sch, steps)
        yield "fragments_in_registers"
    sch.set_scope(padded, 0, "shared")
    compute_block_at(sch, padded, loops.block)
    if plan.by_rows and find_extent(sch, steps) != 1:  # a filter of one tap needs no zeros
        _write_by_rows(sch, padded, loops, plan)
    else:
        threads = math.prod(plan.threads)
        fetch_cooperatively(sch, padded, threads=(plan.planes, threads), tail="guard")
    yield "padded_in_shared_memory"
    decompose_reduction_at(sch, block, steps)
    yield "decomposed"


def _fit(sch: Schedule, block: SBlockRV, plan: TilePlan) -> TilePlan:
    """Fewer planes and rows of pixels, as long as the grid has too few blocks."""
    (_, planes), per_thread = fit_planes(
        sch,
        block,
        (1, plan.planes),
        threads=plan.threads,
        per_thread=plan.per_thread,
        blocks=plan.blocks,
    )
    return plan._replace(planes=planes, per_thread=per_thread)


def _tile(sch: Schedule, block: SBlockRV, plan: TilePlan) -> _Loops:
    image, channel, height, width, *reductions = sch.get_loops(block)
    channels, plane = split_loop(sch, channel, inner=plan.planes)
    tiles, inside, pixels = split_pixels(
        sch, (height, width), threads=plan.threads, per_thread=plan.per_thread, tail=plan.tail
    )
    reorder_loops(sch, [image, channels, *tiles, plane, *inside, *reductions, *pixels])
    bind_loop(sch, fuse_loops(sch, [image, channels]), axis="blockIdx.x")
    bind_loop(sch, tiles[0], axis="blockIdx.y")
    bind_loop(sch, tiles[1], axis="blockIdx.z")
    bind_loop(sch, plane, axis="threadIdx.y")
    together = fuse_loops(sch, inside)
    bind_loop(sch, together, axis="threadIdx.x")
    return _Loops(tiles[1], together)


def _write_by_rows(sch: Schedule, padded: SBlockRV, loops: _Loops, plan: TilePlan) -> None:
    """Zeros in vectors everywhere, then the image: neither asks for each pixel where it lies.

    The image comes through shared memory, too, in vectors as it lies. That is also what orders
    the two: TVM puts a barrier between a write and a read, and none between two writes.
    """
    length, threads = find_row_length(sch, padded) or 1, math.prod(plan.threads)
    zeros = sch.decompose_padding(padded, find_own_loops(sch, padded)[0])
    gap = -length % VECTOR
    if 0 < gap < length:
        pad_shared_rows(sch, zeros, elements=gap)
    image = cache_read_at(sch, padded, loops.block, operand=0)
    size = sch.get(image).writes[0].source.dtype.itemsize
    row = find_row_length(sch, image) or 1
    vector = find_vector(row, sch.get(image).writes[0].source.dtype, most=16 // size)
    fetch_cooperatively(sch, image, threads=(plan.planes, threads), vector=vector, tail="guard")
    for block, most in ((zeros, VECTOR), (padded, 1)):
        *_, plane, rows, _ = find_own_loops(sch, block)
        vector = find_vector(length, sch.get(block).writes[0].source.dtype, most=most)
        spread = spread_over_threads(sch, block, threads=threads, vector=vector, tail="guard")
        if vector > 1:
            vectorize_loop(sch, spread.elements)
        bind_loop(sch, plane, axis="threadIdx.y")
        suggest_unrolling(sch, rows)


@recipe(
    kernel="depthwise_conv2d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, config={"rows": 4, "columns": 8}),
    choices=TILE,
    expects={"decomposed": ("threads == 256", "barriers == 1")},
)
def depthwise_conv2d_shared(
    sch: Schedule, *, rows: int = 16, columns: int = 16, tail: Tail = "refuse"
) -> Iterator[str]:
    """A tile of the padded image in shared memory: no product asks whether it is in the image.

    Sizes: rows and columns of a tile of pixels, which are the threads of a block.
    """
    yield from schedule_tiles(sch, TilePlan((rows, columns), tail=tail))


@recipe(
    kernel="depthwise_conv2d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, config={"rows": 4, "columns": 4, "local_y": 2, "local_x": 4}),
    choices=LOCAL,
    expects={"decomposed": ("barriers == 1", "spills == 0 on sm_90a")},
)
def depthwise_conv2d_registers(
    sch: Schedule,
    *,
    rows: int = 4,
    columns: int = 8,
    local_y: int = 4,
    local_x: int = 4,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """A tile of pixels for each thread, with its window and its filter in registers.

    Sizes: rows and columns of threads in a block; local_y, local_x, the tile of a thread.
    """
    plan = TilePlan((rows, columns), (local_y, local_x), in_registers=True, tail=tail)
    yield from schedule_tiles(sch, plan)


@recipe(
    kernel="depthwise_conv2d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, config={"rows": 4, "columns": 4, "local_y": 2, "local_x": 4}),
    choices=PLANES,
    expects={"decomposed": ("barriers == 2", "spills == 0 on sm_90a")},
)
def depthwise_conv2d_planes(
    sch: Schedule,
    *,
    planes: int = 2,
    rows: int = 4,
    columns: int = 8,
    local_y: int = 4,
    local_x: int = 4,
    blocks: int = 128,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Several channels for each block; zeros, then the image are written row by row, in full.

    Sizes: planes, the channels of a block at most; rows and columns of threads for each; local_y,
    local_x, the tile of a thread; blocks of a grid: where there would be fewer, planes and local_y
    are smaller.
    """
    plan = TilePlan((rows, columns), (local_y, local_x), planes, blocks, True, True, tail)
    yield from schedule_tiles(sch, plan)
