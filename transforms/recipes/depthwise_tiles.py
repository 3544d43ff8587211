"""How recipes of depthwise_conv2d deal out planes (channels of images) and their pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..loops import Tail, split_loop
from ..queries import get_extent as find_extent
from ..warp_tiling import find_group


class Pixels(NamedTuple):
    """The loops over a plane, rows first: its tiles, their threads, and the pixels of each."""

    tiles: list[LoopRV]
    threads: list[LoopRV]
    each: list[LoopRV]


def split_pixels(
    sch: Schedule,
    plane: Sequence[LoopRV],
    *,
    threads: tuple[int, int],
    per_thread: tuple[int, int],
    tail: Tail,
) -> Pixels:
    """Split the rows and the columns of a plane."""
    pixels = Pixels([], [], [])
    for loop, many, each in zip(plane, threads, per_thread, strict=True):
        vectors, pixel = split_loop(sch, loop, inner=each, tail=tail)
        tile, thread = split_loop(sch, vectors, inner=many, tail=tail)
        pixels.tiles.append(tile)
        pixels.threads.append(thread)
        pixels.each.append(pixel)
    return pixels


def fit_planes(
    sch: Schedule,
    block: SBlockRV,
    planes: tuple[int, int],
    *,
    threads: tuple[int, int],
    per_thread: tuple[int, int],
    blocks: int,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Images of a GPU block and channels of each, and the rows and columns of pixels of a thread.

    They divide the problem, and as long as the grid has too few blocks, channels are fewer, then
    images, then rows.
    """
    images, channels, height, width = (
        find_extent(sch, loop) or 1 for loop in sch.get_loops(block)[:4]
    )
    (rows, columns), (each_row, each_column) = threads, per_thread
    most = [find_group(images, most=planes[0]), find_group(channels, most=planes[1])]

    def count() -> int:
        tiles = -(-height // (rows * each_row)) * -(-width // (columns * each_column))
        return images // most[0] * (channels // most[1]) * tiles

    for at, whole in ((1, channels), (0, images)):
        while most[at] > 1 and count() < blocks:
            most[at] = find_group(whole, most=most[at] - 1)
    while each_row > 1 and count() < blocks:
        each_row //= 2
    return (most[0], most[1]), (each_row, each_column)
