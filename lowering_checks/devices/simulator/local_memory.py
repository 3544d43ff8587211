"""The registers of the threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from .grid import Array
from .memory import Memory, Moment, garbage


class LocalMemory(Memory):
    """Registers: every thread has cells of its own. Laid out with a cell's threads in a row.

    What nobody writes takes no memory: fragments of matrices are declared for a whole warp, and
    each thread uses one row of them.
    """

    def __init__(self, name: str, size: int, dtype: np.dtype[Any], now: Moment) -> None:
        super().__init__(name, size, dtype, now)
        self.data = np.zeros((size, now.batch.lanes), dtype)
        self.written = np.zeros((size, now.batch.lanes), bool)

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        rows = self._find_rows(index)
        if rows is not None:
            cells, values, written = rows[None, :], self.data[rows].T, self.written[rows].T
        else:
            cells, lanes = self._cells(index, mask, line, "reads"), self.now.batch.lane
            values, written = self.data[cells, lanes], self.written[cells, lanes]
        if written.all():
            return values
        self._note_unwritten(~written if mask is None else ~written & mask, cells, line)
        return np.where(written, values, garbage(self.dtype))

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        rows = self._find_rows(index) if mask is None else None
        if rows is not None:
            self.data[rows] = np.broadcast_to(value, (self.now.batch.lanes, len(rows))).T
            self.written[rows] = True
            return
        cells = self._cells(index, mask, line, "writes")
        lanes = np.broadcast_to(self.now.batch.lane, cells.shape)
        values = np.broadcast_to(value, cells.shape)
        kept = np.broadcast_to(True if mask is None else mask, cells.shape)
        self.data[cells[kept], lanes[kept]] = values[kept]
        self.written[cells[kept], lanes[kept]] = True

    def _find_rows(self, index: Any) -> Array | None:
        """The cells of an index in which all threads agree, if it is within bounds."""
        places: Array = np.atleast_2d(index)
        if len(places) > 1 or places.min() < 0 or places.max() >= self.size:
            return None
        return places[0]

    def _cells(self, index: Any, mask: Array | None, line: str, verb: str) -> Array:
        shape = np.broadcast_shapes(np.shape(index) or (1, 1), (self.now.batch.lanes, 1))
        active = np.broadcast_to(True if mask is None else mask, shape)
        cells = np.where(active, np.broadcast_to(index, shape), 0)
        return self._inside(cells, active, line, verb)

    def _note_unwritten(self, wrong: Array, cells: Array, line: str) -> None:
        cells = np.broadcast_to(cells, wrong.shape)

        def describe(at: tuple[int, ...]) -> str:
            cell = int(cells[at])
            others = np.flatnonzero(self.written[cell])
            text = f"{self.now.describe(at[0])} reads {self.name}[{cell}], which it never wrote"
            if others.size:
                text += f": {self.now.describe(others[0])} did, in a register of its own"
            return text

        self.now.log.add("uninitialized read", self.name, line, wrong, describe)
