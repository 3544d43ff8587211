"""Recipes of depthwise_conv2d."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import bind_loop
from ..inlining import inline_producers
from ..loops import Tail, fuse_loops, reorder_loops, split_loop
from .recipe import Example, recipe

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

    Sizes: rows and columns of a tile of pixels, which are the threads of a block.
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

    Sizes: rows and columns of a tile of pixels, which are the threads of a block.
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
