"""A recipe of depthwise_conv2d without shared memory: strips of pixels, in registers alone.

Going down a strip, a row of the image is loaded once and used for as many rows of results as the
filter has: the register queue of P. Micikevicius (3D finite difference computation on GPUs using
CUDA, GPGPU-2, 2009), which the CUDA compiler makes here of loops that are unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..binding import bind_loop
from ..caching import accumulate_in_registers, cache_read_at
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, suggest_unrolling
from ..placement import compute_block_at
from ..queries import get_extent as find_extent
from ..queries import get_own_loops as find_own_loops
from ..reduction import decompose_reduction_at
from ..rows import find_vector
from ..vectorize import align_vectors, vectorize_copy, vectorize_loop
from .convolution import BLOCKS, SEED
from .depthwise_fast import SHAPE, VECTOR
from .depthwise_tiles import fit_planes, split_pixels
from .recipe import Example, recipe

STRIPS = {
    "images": (1, 2, 4, 8),
    "planes": (1, 2, 4),
    "rows": (1, 2, 4),
    "columns": (4, 8, 16),
    "local_y": (1, 2, 4, 8, 16),
    "local_x": (1, 2, 4),
    "blocks": (1, 128),
}
UNROLL = 8192
"""Statements that are unrolled at most: a strip has few, and its products are many."""


class _Plan(NamedTuple):
    """How the pixels are dealt out; of pairs, the rows come first.

    Attributes
    ----------
    planes : images of a GPU block at most, and channels of each
    threads : of a plane
    per_thread : pixels of each thread, side by side
    tail : what happens where a tile does not divide a plane
    """

    planes: tuple[int, int]
    threads: tuple[int, int]
    per_thread: tuple[int, int]
    tail: Tail


class _Loops(NamedTuple):
    """The loops of block "Y": its threads, the rows of a strip, and those of the filter."""

    threads: LoopRV
    rows: LoopRV
    steps: LoopRV


@recipe(
    kernel="depthwise_conv2d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(
        SHAPE,
        config={"images": 2, "planes": 2, "columns": 4, "local_y": 4, "local_x": 4, "blocks": 1},
    ),
    choices=STRIPS,
    expects={
        "decomposed": ("barriers == 0", "scalar_stores == 0", "spills == 0 on sm_90a"),
    },
)
def depthwise_conv2d_strips(
    sch: Schedule,
    *,
    images: int = 2,
    planes: int = 1,
    rows: int = 1,
    columns: int = 16,
    local_y: int = 16,
    local_x: int = 2,
    blocks: int = 128,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """A strip of pixels for each thread, whose window comes straight into registers, in vectors.

    Sizes: images of a block at most, and planes, the channels of each; rows and columns of threads
    for each plane; local_y, local_x, the strip of a thread; blocks of a grid: where there would be
    fewer, planes, images and local_y are smaller.
    """
    padded, block = (sch.get_sblock(name) for name in BLOCKS[0].split())
    plan = _Plan((images, planes), (rows, columns), (local_y, local_x), tail)
    plan = _fit(sch, block, plan, blocks)
    vector = _align(sch, padded, block, local_x)
    yield "aligned"
    loops = _tile(sch, block, plan)
    yield "tiled"
    result = accumulate_in_registers(sch, block, loops.rows)
    yield "accumulated_in_registers"
    sch.set_scope(padded, 0, "local")
    compute_block_at(sch, padded, loops.threads)
    first, *_, last = find_own_loops(sch, padded)
    suggest_unrolling(sch, first, limit=UNROLL)
    if vector > 1:
        vectorize_loop(sch, last)
    taps = cache_read_at(sch, block, loops.threads, operand=1, scope="local")
    suggest_unrolling(sch, find_own_loops(sch, taps)[0])
    suggest_unrolling(sch, loops.rows, limit=UNROLL)
    yield "window_in_registers"
    vectorize_copy(sch, result, vector=vector)
    yield "stored_in_vectors"
    decompose_reduction_at(sch, block, loops.steps)
    yield "decomposed"


def _fit(sch: Schedule, block: SBlockRV, plan: _Plan, blocks: int) -> _Plan:
    """Fewer planes and rows of pixels, as long as the grid has too few blocks."""
    planes, per_thread = fit_planes(
        sch, block, plan.planes, threads=plan.threads, per_thread=plan.per_thread, blocks=blocks
    )
    return plan._replace(planes=planes, per_thread=per_thread)


def _align(sch: Schedule, padded: SBlockRV, block: SBlockRV, local_x: int) -> int:
    """Rows of the padded image in vectors, which are vectors of the image; returns their length.

    Rows of the image and pixels of a thread are a whole number of them, so that all are aligned.
    """
    *_, width, taps, _ = (find_extent(sch, loop) or 1 for loop in sch.get_loops(block))
    dtype = sch.get(padded).writes[0].source.dtype
    vector = find_vector(math.gcd(width, local_x), dtype, most=VECTOR)
    if vector > 1:
        align_vectors(sch, padded, vector=vector, offset=-(taps // 2) % vector)
    return vector


def _tile(sch: Schedule, block: SBlockRV, plan: _Plan) -> _Loops:
    image, channel, height, width, *reductions = sch.get_loops(block)
    images, one_image = split_loop(sch, image, inner=plan.planes[0])
    channels, one_channel = split_loop(sch, channel, inner=plan.planes[1])
    tiles, threads, pixels = split_pixels(
        sch, (height, width), threads=plan.threads, per_thread=plan.per_thread, tail=plan.tail
    )
    inside = [one_channel, one_image, *threads]
    grid = [images, channels, *tiles]
    reorder_loops(sch, [*grid, *inside, pixels[0], *reductions, pixels[1]])
    for loop, axis in zip([fuse_loops(sch, grid[:2]), *tiles], "xyz", strict=True):
        bind_loop(sch, loop, axis=f"blockIdx.{axis}")
    together = fuse_loops(sch, inside)
    bind_loop(sch, together, axis="threadIdx.x")
    return _Loops(together, pixels[0], reductions[0])
