"""Memories with shadows: who wrote and who read each cell, and when.

Time is counted in barrier intervals. Two threads of one GPU block that touch the same cell within
one interval, at least one of them writing, race; so do threads of two blocks at any time. Writing
the value that is there already is not counted as a race: its order does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .counts import Counts
from .faults import FaultLog
from .grid import Array, Batch, describe_thread

NOBODY = -1
_PENDING = 64


class Memory:
    """Cells and their shadows; the scopes differ in how a thread's index finds its cell."""

    def __init__(self, name: str, size: int, dtype: np.dtype[Any], log: FaultLog) -> None:
        self.name, self.size, self.dtype, self.log = name, size, dtype, log
        self.extents: dict[str, int] = {}
        self.counts: Counts | None = None

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        """The values at an index of shape (lanes or 1, vector), for the lanes of a mask."""
        raise NotImplementedError

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        """Store values at an index, for the lanes of a mask."""
        raise NotImplementedError

    def _inside(self, index: Array, active: Array, batch: Batch, line: str, verb: str) -> Array:
        """The index with what is out of bounds clipped, and noted."""
        if index.size and (index.min() < 0 or index.max() >= self.size):
            wrong = active & ((index < 0) | (index >= self.size))

            def describe(at: tuple[int, ...]) -> str:
                who = describe_thread(batch.thread[at[0], 0], self.extents)
                return f"{who} {verb} {self.name}[{index[at]}], which has {self.size} elements"

            self.log.add("out of bounds", self.name, line, wrong, describe)
            return np.clip(index, 0, self.size - 1)
        return index


class SharedMemory(Memory):
    """Cells that threads share: within a block ("shared"), or over the grid ("global").

    `written` starts as True for the kernel's inputs. A memory that the kernel never writes keeps no
    shadows.
    """

    def __init__(
        self,
        name: str,
        data: Array,
        size: int,
        log: FaultLog,
        *,
        is_global: bool,
        is_written: bool,
        starts_written: bool,
    ) -> None:
        super().__init__(name, size, data.dtype, log)
        self.data, self.is_global, self.is_tracked = data, is_global, is_written
        self.interval = 0
        self.batch: Batch
        self._last_write = NOBODY
        self._pending: list[tuple[Array, Array]] = []
        cells = data.size if is_written else 0
        self.written = np.full(data.size if not starts_written else 0, False)
        self._writer = np.full(cells, NOBODY, np.int64)
        self._write_time = np.full(cells, NOBODY, np.int64)
        self._reader = np.full(cells, NOBODY, np.int64)
        self._read_time = np.full(cells, NOBODY, np.int64)
        self._has_several_readers = np.zeros(cells, bool)

    def begin_launch(self) -> None:
        """Forget who touched what: kernels run one after the other."""
        self._writer.fill(NOBODY)
        self._reader.fill(NOBODY)
        self._pending.clear()

    def enter(self, batch: Batch, interval: int) -> None:
        """Begin a batch of blocks: shared memory is theirs anew."""
        self.batch, self.interval = batch, interval

    def pass_barrier(self, interval: int) -> None:
        """Begin a barrier interval."""
        if self.is_global:
            self._note_reads()
        self._pending.clear()
        self.interval = interval

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        cells, threads, active = self._cells(index, mask, line, "reads")
        if self.written.size and not self.written[cells].all():
            wrong = active & ~self.written[cells]
            text = "which nobody has written"
            self._note("uninitialized read", wrong, cells, line, f"reads {{}}, {text}")
        if self.is_tracked:
            if self.is_global or self._last_write == self.interval:
                others = active & self._clashes(self._writer, self._write_time, cells, threads)
                self._note_race(others, cells, self._writer, line, "reads", "wrote")
            kept = active if mask is not None else slice(None)
            self._pending.append((cells[kept].ravel(), threads[kept].ravel()))
            if len(self._pending) > _PENDING:
                self._note_reads()
        return self.data[cells]

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        cells, threads, active = self._cells(index, mask, line, "writes")
        values = np.broadcast_to(value, cells.shape).astype(self.dtype, copy=False)
        self._note_reads()
        differs = active & _differ(self.data[cells], values)
        several = self._has_several_readers[cells] & (self._read_time[cells] == self.interval)
        readers = self._clashes(self._reader, self._read_time, cells, threads) | several
        readers &= differs
        self._note_race(readers, cells, self._reader, line, "writes", "read")
        writers = differs & self._clashes(self._writer, self._write_time, cells, threads)
        self._note_race(writers, cells, self._writer, line, "writes", "wrote")
        at, new, by = cells[active], values[active], threads[active]
        self.data[at] = new
        self._writer[at], self._write_time[at] = by, self.interval
        lost = np.zeros(cells.shape, bool)
        lost[active] = (self._writer[at] != by) & _differ(self.data[at], new)
        self._note_race(lost, cells, self._writer, line, "writes", "wrote")
        if self.written.size:
            self.written[at] = True
        self._last_write = self.interval

    def _cells(
        self, index: Any, mask: Array | None, line: str, verb: str
    ) -> tuple[Array, Array, Array]:
        batch = self.batch
        shape = np.broadcast_shapes(np.shape(index) or (1, 1), (batch.lanes, 1))
        active = np.broadcast_to(True if mask is None else mask, shape)
        places = np.broadcast_to(index, shape)
        places = places if mask is None else np.where(active, places, 0)
        places = self._inside(places, active, batch, line, verb)
        self._check_aligned(places, active, line)
        if self.counts is not None and batch.first == 0:
            first = slice(0, batch.threads)
            scope = "global" if self.is_global else "shared"
            self.counts.note(scope, places[first], active[first], self.dtype.itemsize)
        cells = places if self.is_global else places + batch.block * self.size
        return cells, np.broadcast_to(batch.thread, shape), active

    def _check_aligned(self, places: Array, active: Array, line: str) -> None:
        """A vector of neighbours is one access, which must begin at a multiple of its size."""
        lanes = places.shape[1]
        if lanes > 1:
            neighbours = places[:, 1:2] - places[:, :1] == 1
            wrong = active[:, :1] & neighbours & (places[:, :1] % lanes != 0)
            text = f"touches {{}} with a vector of {lanes}, which must begin at a multiple of it"
            self._note("misaligned access", wrong, places, line, text)

    def _note_reads(self) -> None:
        """Bring the reads since the last barrier into the shadows; needed before a write only."""
        for cells, threads in self._pending:
            stale = self._read_time[cells] != self.interval
            if self.is_global:
                stale &= self._reader[cells] // self.batch.threads == threads // self.batch.threads
                stale |= self._reader[cells] == NOBODY
            self._reader[cells[stale]] = threads[stale]
            self._has_several_readers[cells[stale]] = False
            self._read_time[cells] = self.interval
            several = self._reader[cells] != threads
            self._has_several_readers[cells[several]] = True
        self._pending.clear()

    def _clashes(self, who: Array, when: Array, cells: Array, threads: Array) -> Array:
        """Where somebody else touched a cell with no barrier between."""
        other = (who[cells] != threads) & (who[cells] != NOBODY)
        at_once = when[cells] == self.interval
        if self.is_global:
            elsewhere = who[cells] // self.batch.threads != threads // self.batch.threads
            at_once = at_once | elsewhere
        return other & at_once

    def _note_race(
        self, wrong: Array, cells: Array, who: Array, line: str, verb: str, other: str
    ) -> None:
        if not wrong.any():
            return
        rival = int(who[cells.ravel()[np.argmax(wrong)]])
        name = describe_thread(rival, self.extents)
        text = f"{verb} {{}}, which {name} {other} with no barrier between"
        self._note("race", wrong, cells, line, text)

    def _note(self, kind: str, wrong: Array, cells: Array, line: str, text: str) -> None:
        def describe(at: tuple[int, ...]) -> str:
            who = describe_thread(self.batch.thread[at[0], 0], self.extents)
            return f"{who} {text.format(f'{self.name}[{int(cells[at]) % self.size}]')}"

        self.log.add(kind, self.name, line, wrong, describe)


def _differ(old: Array, new: Array) -> Array:
    """Where two arrays differ in their bits, NaN being equal to NaN."""
    return (old != new) & ~((old != old) & (new != new))


def garbage(dtype: np.dtype[Any]) -> Any:
    """What a cell holds before anybody wrote it: NaN, for an integer the smallest one."""
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else np.nan
