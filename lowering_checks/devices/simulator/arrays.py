"""Questions about small arrays, asked for each access of each statement.

A NumPy reduction of a few hundred elements takes over a microsecond before it begins, and so does
a broadcast: counting and finding a place do not, nor does looking at a shape first.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..device import Array


def is_any(mask: Any) -> bool:
    """Whether a mask holds anywhere."""
    return bool(np.count_nonzero(mask))


def are_all(mask: Any) -> bool:
    """Whether a mask holds everywhere."""
    return bool(np.count_nonzero(mask) == mask.size)


def is_within(places: Array, low: int, end: int) -> bool:
    """Whether all of some integers, of which there is at least one, lie in ``low <= i < end``."""
    return low <= places.item(places.argmin()) and places.item(places.argmax()) < end


def spread(value: Any, shape: tuple[int, ...]) -> Array:
    """A value of a shape, not to be stored to: itself where it has that shape already."""
    return value if getattr(value, "shape", None) == shape else np.broadcast_to(value, shape)


@functools.lru_cache(maxsize=32)
def get_full_mask(shape: tuple[int, ...]) -> Array:
    """A mask of a shape that holds everywhere; it cannot be stored to."""
    mask = np.ones(shape, bool)
    mask.flags.writeable = False
    return mask


@functools.lru_cache(maxsize=4096)
def get_row(place: int) -> Array:
    """The row of one cell; it cannot be stored to."""
    row = np.array([place])
    row.flags.writeable = False
    return row
