"""The threads of a launch: batches of GPU blocks, all threads of which are evaluated at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LANES = 1 << 15
"""About how many threads are evaluated at once: enough to hide Python, few enough for the cache."""


@dataclass(frozen=True)
class Batch:
    """Some GPU blocks with all their threads, which are the lanes; columns of shape (lanes, 1).

    Attributes
    ----------
    first : the number of the first of these blocks
    blocks, threads : how many GPU blocks, and threads in each of them
    coordinates : thread axis, as ``"threadIdx.x"``, to each lane's place on it
    block : each lane's GPU block, counted within this batch
    thread : each lane's thread, counted over the whole grid
    lane : 0, 1, 2, ...
    """

    first: int
    blocks: int
    threads: int
    coordinates: Mapping[str, Array]
    block: Array
    thread: Array
    lane: Array

    @property
    def lanes(self) -> int:
        """All threads of the batch."""
        return self.blocks * self.threads


def split_grid(extents: Mapping[str, int], *, first_only: bool = False) -> Iterator[Batch]:
    """The batches of a launch with these extents of thread axes, in the order of the blocks.

    With `first_only`, one batch of the first block alone.
    """
    block_axes = [axis for axis in _axes("blockIdx") if axis in extents]
    thread_axes = [axis for axis in _axes("threadIdx") if axis in extents]
    blocks = 1 if first_only else math.prod(extents[axis] for axis in block_axes)
    threads = math.prod(extents[axis] for axis in thread_axes)
    size = max(1, LANES // threads)
    for first in range(0, blocks, size):
        count = min(size, blocks - first)
        lane = np.arange(count * threads, dtype=np.int64)[:, None]
        block, inside = np.divmod(lane, threads)
        coordinates = {
            **_unravel(first + block, [(axis, extents[axis]) for axis in block_axes]),
            **_unravel(inside, [(axis, extents[axis]) for axis in thread_axes]),
        }
        yield Batch(first, count, threads, coordinates, block, first * threads + lane, lane)


def describe_thread(thread: int, extents: Mapping[str, int]) -> str:
    """A thread of the grid in words: ``thread (3, 0, 0) of block (1, 2, 0)``."""
    threads = math.prod(size for axis, size in extents.items() if axis.startswith("threadIdx"))
    block, inside = divmod(int(thread), threads)
    return f"thread {_place(inside, extents, 'threadIdx')} of block " + _place(
        block, extents, "blockIdx"
    )


def _place(number: int, extents: Mapping[str, int], level: str) -> str:
    places = []
    for axis in _axes(level):
        number, place = divmod(number, extents.get(axis, 1))
        places.append(place)
    return f"({', '.join(map(str, places))})"


def _axes(level: str) -> list[str]:
    return [f"{level}.{letter}" for letter in "xyz"]


def _unravel(number: Array, extents: list[tuple[str, int]]) -> dict[str, Array]:
    places = {}
    for axis, extent in extents:
        number, place = np.divmod(number, extent)
        places[axis] = place.astype(np.int32)
    return places
