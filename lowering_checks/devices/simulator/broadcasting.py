"""Small arrays, as each access of each statement needs them, without what NumPy does beside that.

Arrays get one shape where there is nothing to do, and are asked without a reduction: of a few
hundred elements one takes a microsecond before it begins; counting and finding a place do not.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...device import Array

_FEW = 1024
"""Elements that are filled sooner than one finds that they need not be."""


@functools.lru_cache(maxsize=256)
def get_everywhere(shape: tuple[int, ...]) -> Array:
    """The mask of all: the same array each time, of one cell."""
    return np.broadcast_to(True, shape)


def spread_to(value: Any, shape: tuple[int, ...]) -> Array:
    """As `np.broadcast_to`, which takes ten times as long to find that there is nothing to do."""
    if isinstance(value, np.ndarray):
        return value if value.shape == shape else np.broadcast_to(value, shape)
    if value.__class__ is int and math.prod(shape) <= _FEW:
        return np.full(shape, value)
    return np.broadcast_to(value, shape)


def is_any(mask: Any) -> bool:
    """Whether a mask holds anywhere."""
    return bool(np.count_nonzero(mask))


def are_all(mask: Any) -> bool:
    """Whether a mask holds everywhere."""
    return bool(np.count_nonzero(mask) == mask.size)


def is_within(places: Array, low: int, end: int) -> bool:
    """Whether all of some integers, of which there is at least one, lie in ``low <= i < end``."""
    return bool(low <= places.item(places.argmin()) and places.item(places.argmax()) < end)
