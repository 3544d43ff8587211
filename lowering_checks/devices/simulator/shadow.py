"""Shadows of memory: who wrote and who read each cell, and when.

Time is counted in barrier intervals. A cell is as large as the smallest type that the memory is
seen as, so that buffers of several types may share it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .grid import Array
from .memory import Moment

NOBODY = -1
_PENDING = 64


class Shadow:
    """The shadow of one allocation; buffers that lie in it share it.

    Attributes
    ----------
    unit : bytes of a cell
    span : cells of each block's copy; of all, where the memory is global
    is_tracked : whether anybody writes here; without that nothing can race
    written : which cells somebody has written; empty where all of them were from the start
    """

    def __init__(
        self,
        cells: int,
        span: int,
        unit: int,
        now: Moment,
        *,
        is_global: bool,
        is_written: bool,
        starts_written: bool,
    ) -> None:
        self.cells, self.span, self.unit, self.now = cells, span, unit, now
        self.is_global, self.is_tracked = is_global, False
        self.last_write = NOBODY
        self.written = np.full(0 if starts_written else cells, False)
        self._pending: list[tuple[Array, Array]] = []
        self._courier: Array | None = None
        self._incoming: Array | None = None
        if is_written:
            self.track()

    def track(self) -> None:
        """Keep account of who touches what from now on."""
        self.is_tracked = True
        self.writer, self._write_time = self._nobody(), self._nobody()
        self.reader, self._read_time = self._nobody(), self._nobody()
        self._has_several_readers = np.zeros(self.cells, bool)

    def _nobody(self) -> Array:
        return np.full(self.cells, NOBODY, np.int64)

    def begin_launch(self) -> None:
        """Forget who touched what: kernels run one after the other."""
        if self.is_tracked:
            self.writer.fill(NOBODY)
            self.reader.fill(NOBODY)
        self._pending.clear()
        self._courier = None

    def pass_barrier(self) -> None:
        """End a barrier interval."""
        if self.is_global:
            self.settle_reads()
        self._pending.clear()

    def note_read(self, cells: Array, threads: Array) -> None:
        """Note who reads."""
        self._pending.append((cells, threads))
        if len(self._pending) > _PENDING:
            self.settle_reads()

    def note_write(self, cells: Array, threads: Array) -> None:
        """Note who writes."""
        self.writer[cells], self._write_time[cells] = threads, self.now.interval
        if self.written.size:
            self.written[cells] = True
        self.last_write = self.now.interval

    def settle_reads(self) -> None:
        """Bring the reads since the last barrier into the shadow; needed before a write only."""
        per_block, interval = self.now.batch.threads if self._pending else 1, self.now.interval
        for cells, threads in self._pending:
            stale = self._read_time[cells] != interval
            if self.is_global:
                stale &= self.reader[cells] // per_block == threads // per_block
                stale |= self.reader[cells] == NOBODY
            self.reader[cells[stale]] = threads[stale]
            self._has_several_readers[cells[stale]] = False
            self._read_time[cells] = interval
            several = self.reader[cells] != threads
            self._has_several_readers[cells[several]] = True
        self._pending.clear()

    def find_readers(self, cells: Array, threads: Array) -> Array:
        """Where somebody else read a cell with no barrier since."""
        several = self._has_several_readers[cells] & (self._read_time[cells] == self.now.interval)
        return several | self._clashes(self.reader, self._read_time, cells, threads)

    def find_writers(self, cells: Array, threads: Array) -> Array | None:
        """Where somebody else wrote a cell with no barrier since; None for nowhere."""
        if self.is_global or self.last_write == self.now.interval:
            return self._clashes(self.writer, self._write_time, cells, threads)
        return None

    def _clashes(self, who: Array, when: Array, cells: Array, threads: Array) -> Array:
        other = (who[cells] != threads) & (who[cells] != NOBODY)
        at_once = when[cells] == self.now.interval
        if self.is_global:
            per_block = self.now.batch.threads
            at_once = at_once | (who[cells] // per_block != threads // per_block)
        return other & at_once

    @property
    def courier(self) -> Array:
        """The threads whose copies are on their way to the cells."""
        if self._courier is None:
            self._courier = self._nobody()
        return self._courier

    def incoming(self, dtype: np.dtype[Any]) -> Array:
        """What is on its way to the cells, as elements of a type."""
        if self._incoming is None:
            self._incoming = np.full(self.cells * self.unit, 0xFF, np.uint8)
        return self._incoming.view(dtype)

    def find_flying(self, cells: Array) -> Array | None:
        """Where a copy is on its way to a cell; None for nowhere."""
        if self._courier is None:
            return None
        flying = self._courier[cells] != NOBODY
        return flying if flying.any() else None

    def land(self, cells: Array, threads: Array) -> None:
        """Copies of these threads have arrived."""
        mine = self.courier[cells] == threads
        self.courier[cells[mine]] = NOBODY
        self.note_write(cells, threads)
