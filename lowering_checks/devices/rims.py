"""Rims: memory around a tensor that no kernel may touch, so that stray stores are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from .fault import Fault

RIM_BYTES = 4096
ALIGNMENT = 64
FILLERS = tuple(range(0x7B, 0x73, -1))
"""Bytes of rims: large finite numbers in all types, another for each argument, so that what is read
from one rim and stored to another is seen as well."""


class RimmedTensor:
    """A tensor on the CPU with a rim in front of it and one behind it.

    A rim is as long as the tensor, at least `RIM_BYTES`: an index of a swapped or doubled extent
    still ends in it, and so does no harm to other memory.
    """

    def __init__(self, name: str, array: np.ndarray[Any, Any], place: int) -> None:
        self._filler = FILLERS[place % len(FILLERS)]
        self.name, self._dtype, self._shape = name, array.dtype, array.shape
        size, rim = array.nbytes, -(-max(array.nbytes, RIM_BYTES) // ALIGNMENT) * ALIGNMENT
        memory = np.full(size + 2 * rim + ALIGNMENT, self._filler, np.uint8)
        start = rim + -(memory.ctypes.data + rim) % ALIGNMENT
        self._inside = memory[start : start + size]
        self._before, self._behind = memory[:start], memory[start + size :]
        self._inside[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        flat = tvm.runtime.from_dlpack(self._inside)
        self.tensor = flat._create_view(array.shape, dtype=str(array.dtype))

    def numpy(self) -> np.ndarray[Any, Any]:
        """What the tensor holds."""
        return self._inside.view(self._dtype).reshape(self._shape).copy()

    def find_faults(self) -> list[Fault]:
        """The stray stores: one fault, if there is any."""
        size, count = self._dtype.itemsize, self._inside.size // self._dtype.itemsize
        before = (np.flatnonzero(self._before != self._filler) - self._before.size) // size
        behind = np.flatnonzero(self._behind != self._filler) // size + count
        strays = np.unique([*before, *behind])
        if not strays.size:
            return []
        text = f"somebody writes {self.name}[{int(strays[0])}], which has {count} elements"
        return [Fault("out of bounds", self.name, text, "", int(strays.size))]
