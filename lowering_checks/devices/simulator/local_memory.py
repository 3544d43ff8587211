"""The registers of the threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from .faults import FaultLog
from .grid import Array, Batch, describe_thread
from .memory import Memory, garbage


class LocalMemory(Memory):
    """Registers: every thread has cells of its own. Laid out with a cell's threads in a row."""

    def __init__(
        self, name: str, size: int, dtype: np.dtype[Any], log: FaultLog, batch: Batch
    ) -> None:
        super().__init__(name, size, dtype, log)
        self.batch = batch
        self.data = np.full((size, batch.lanes), garbage(dtype), dtype)
        self.written = np.zeros((size, batch.lanes), bool)

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        if isinstance(index, int) and 0 <= index < self.size:
            self._check_written(self.written[index][:, None], index, mask, line)
            return self.data[index][:, None]
        cells = self._cells(index, mask, line, "reads")
        self._check_written(self.written[cells, self.batch.lane], cells, mask, line)
        return self.data[cells, self.batch.lane]

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        if isinstance(index, int) and 0 <= index < self.size and mask is None:
            self.data[index] = np.broadcast_to(value, (self.batch.lanes, 1))[:, 0]
            self.written[index] = True
            return
        cells = self._cells(index, mask, line, "writes")
        lanes = np.broadcast_to(self.batch.lane, cells.shape)
        values = np.broadcast_to(value, cells.shape)
        kept = np.broadcast_to(True if mask is None else mask, cells.shape)
        self.data[cells[kept], lanes[kept]] = values[kept]
        self.written[cells[kept], lanes[kept]] = True

    def _cells(self, index: Any, mask: Array | None, line: str, verb: str) -> Array:
        shape = np.broadcast_shapes(np.shape(index) or (1, 1), (self.batch.lanes, 1))
        active = np.broadcast_to(True if mask is None else mask, shape)
        cells = np.where(active, np.broadcast_to(index, shape), 0)
        return self._inside(cells, active, self.batch, line, verb)

    def _check_written(self, written: Array, cells: Any, mask: Array | None, line: str) -> None:
        wrong = ~written if mask is None else ~written & mask
        if not wrong.any():
            return

        def describe(at: tuple[int, ...]) -> str:
            cell = cells if isinstance(cells, int) else int(cells[at])
            who = describe_thread(self.batch.thread[at[0], 0], self.extents)
            others = np.flatnonzero(self.written[cell])
            text = f"{who} reads {self.name}[{cell}], which it never wrote"
            if others.size:
                other = describe_thread(self.batch.thread[others[0], 0], self.extents)
                text += f": {other} did, in a register of its own"
            return text

        self.log.add("uninitialized read", self.name, line, wrong, describe)
