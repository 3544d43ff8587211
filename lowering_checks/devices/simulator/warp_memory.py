"""Registers that the threads of a warp hold together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from .grid import Array
from .memory import Memory, Moment, garbage


class WarpMemory(Memory):
    """Scope "warp", as TVM's own tensor intrinsics use it: one copy of the buffer for each warp.

    TVM shares the elements out later, each to one thread's registers, and lets others read them
    with shuffles; lanes of a warp run in step, so that nothing can race.
    """

    def __init__(self, name: str, size: int, dtype: np.dtype[Any], now: Moment) -> None:
        super().__init__(name, size, dtype, now)
        batch = now.batch
        per_block = -(-batch.threads // WARP)
        self._first = (batch.block * per_block + batch.lane % batch.threads // WARP) * size
        self.data = np.full(batch.blocks * per_block * size, garbage(dtype), dtype)
        self.written = np.zeros(self.data.size, bool)

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        places, active = self._places(index, mask, line, "reads")
        cells = places + self._first
        wrong = active & ~self.written[cells]
        if wrong.any():

            def describe(at: tuple[int, ...]) -> str:
                place = f"{self.name}[{places[at]}]"
                return f"{self.now.describe(at[0])} reads {place}, which its warp never wrote"

            self.now.log.add("uninitialized read", self.name, line, wrong, describe)
        return self.data[cells]

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        places, active = self._places(index, mask, line, "writes")
        cells = (places + self._first)[active]
        self.data[cells] = np.broadcast_to(value, active.shape)[active]
        self.written[cells] = True

    def _places(self, index: Any, mask: Array | None, line: str, verb: str) -> tuple[Array, Array]:
        shape = np.broadcast_shapes(np.shape(index) or (1, 1), self._first.shape)
        active = np.broadcast_to(True if mask is None else mask, shape)
        places = np.where(active, np.broadcast_to(index, shape), 0)
        return self._inside(places, active, line, verb), active
