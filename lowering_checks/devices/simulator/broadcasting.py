"""Arrays of one shape, made without NumPy's way to find that there is nothing to do."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..device import Array

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
