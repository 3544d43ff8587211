"""Shadows of memory: who wrote and who read each cell, and when.

Time is counted in barrier intervals; each GPU block passes barriers for itself. A cell is as large
as the smallest type that the memory is seen as, so that buffers of several types may share it.

Reads are compared with the last write that changed a cell, since writing what is there already
changes nothing for them; writes are compared with all reads and writes. GPU blocks wait for nobody,
so that what they do to global memory is in no order with other blocks until the launch ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .crowd import Crowd
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
    writer : who wrote each cell last
    changer : who changed each cell last; `writer` itself until somebody writes what is there
    owner : the mark of the buffer that each cell was written as; empty where one buffer lies
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
        self.owner = np.zeros(0, np.int16)
        self._pending: list[tuple[Array, Array]] = []
        self._courier: Array | None = None
        self._incoming: Array | None = None
        self._crowd = Crowd()
        if is_written:
            self.track()

    def track(self) -> None:
        """Keep account of who touches what from now on."""
        self.is_tracked = True
        self.writer, self._write_time = self._nobody(), self._nobody()
        self.changer, self._change_time = self.writer, self._write_time
        self.reader, self._read_time = self._nobody(), self._nobody()
        self._second_reader = self._nobody()
        # Of global memory: a reader of the launch, one of another block, and a writer that agreed.
        self._elder: Array | None = None
        self._stranger: Array | None = None
        self._agreed: Array | None = None

    def mark_owners(self) -> None:
        """Remember from now on as which buffer each cell was written."""
        if not self.owner.size:
            self.owner = np.zeros(self.cells, np.int16)

    def _nobody(self) -> Array:
        return np.full(self.cells, NOBODY, np.int64)

    def begin_launch(self) -> None:
        """Forget who touched what: kernels run one after the other."""
        if self.is_tracked:
            self.writer.fill(NOBODY)
            self.changer, self._change_time = self.writer, self._write_time
            self.reader.fill(NOBODY)
            self._elder = self._stranger = self._agreed = None
        self._crowd.clear()
        self._pending.clear()
        self._courier = None

    def end_batch(self) -> None:
        """Other GPU blocks follow: what these did to global memory is in no order with them."""
        if self.is_global and self.is_tracked:
            self.settle_reads()
            if self._crowd:
                cells, threads = self._crowd.take()
                self._agreed = self._nobody() if self._agreed is None else self._agreed
                self._agreed[cells] = threads

    def pass_barrier(self, passed: Array | None) -> None:
        """End a barrier interval: of all blocks that run, or of those of a mask."""
        if self.is_global or passed is not None:
            self.settle_reads()
        self._pending.clear()
        if self._crowd and not self.is_global:
            if passed is None:
                self._crowd.clear()
            else:
                batch = self.now.batch
                self._crowd.drop_blocks(passed, batch.threads, batch.first)

    def note_read(self, cells: Array, threads: Array) -> None:
        """Note who reads."""
        self._pending.append((cells, threads))
        if len(self._pending) > _PENDING:
            self.settle_reads()

    def note_write(self, cells: Array, threads: Array, changes: Array) -> Array | None:
        """Note who writes, and where that changes what is there.

        Returns where another thread wrote the same cell in the same instruction and won; None for
        nowhere.
        """
        if changes.all():
            if self._crowd:
                self._crowd.drop(cells)
            self._set_changer(cells, threads)
        else:
            self._note_silent(cells[~changes], threads[~changes])
            if self._crowd:
                self._crowd.drop(cells[changes])
            self._set_changer(cells[changes], threads[changes])
        self.writer[cells], self._write_time[cells] = threads, self.now.interval
        if self.written.size:
            self.written[cells] = True
        self.last_write = self.now.interval
        lost = self.writer[cells] != threads
        if not lost.any():
            return None
        self._crowd.add(cells[lost], threads[lost], self.now.interval)
        return lost

    def _set_changer(self, cells: Array, threads: Array) -> None:
        if self.changer is not self.writer:
            self.changer[cells], self._change_time[cells] = threads, self.now.interval

    def _note_silent(self, cells: Array, threads: Array) -> None:
        """Writes of what is there already: other threads' writes of it are remembered, too."""
        if self.changer is self.writer:
            self.changer, self._change_time = self.writer.copy(), self._write_time.copy()
        other = self._clashes(self.writer, self._write_time, cells, threads)
        if other.any():
            cells, threads = cells[other], threads[other]
            self._crowd.add(cells, threads, self.now.interval)
            self._crowd.add(cells, self.writer[cells], self.now.interval)

    def settle_reads(self) -> None:
        """Bring the reads since the last barrier into the shadow; needed before a write only."""
        interval = self.now.interval
        for cells, threads in self._pending:
            stale = self._read_time[cells] < self.now.begun_of(threads)
            if self.is_global:
                self._remember_blocks(cells, threads)
            self.reader[cells[stale]] = threads[stale]
            self._second_reader[cells[stale]] = NOBODY
            self._read_time[cells] = interval
            several = self.reader[cells] != threads
            if several.any():
                self._second_reader[cells[several]] = threads[several]
        self._pending.clear()

    def _remember_blocks(self, cells: Array, threads: Array) -> None:
        """Keep a reader of each cell until the launch ends, and one of another block."""
        if self._elder is None or self._stranger is None:
            self._elder, self._stranger = self._nobody(), self._nobody()
        elder = self._elder[cells]
        new = elder == NOBODY
        if new.any():
            self._elder[cells[new]] = threads[new]
            elder = self._elder[cells]
        other = elder != threads
        if other.any():
            cells, threads, elder = cells[other], threads[other], elder[other]
            per_block = self.now.batch.threads
            strange = elder // per_block != threads // per_block
            self._stranger[cells[strange]] = threads[strange]

    def find_readers(self, cells: Array, threads: Array) -> Array | None:
        """Somebody else who read a cell in no order with these threads; NOBODY elsewhere.

        None where there is nobody at all.
        """
        current = self._read_time[cells] >= self.now.begun_of(threads)
        rivals = None
        if current.any():
            rivals = np.where(current, self.reader[cells], NOBODY)
            own = rivals == threads
            if own.any():
                rivals[own] = self._second_reader[cells[own]]
        if self._elder is None or self._stranger is None:
            return rivals
        rivals = np.full(cells.shape, NOBODY) if rivals is None else rivals
        for readers in (self._elder[cells], self._stranger[cells]):
            other = (rivals == NOBODY) & (readers != threads) & (readers != NOBODY)
            if other.any():
                per_block = self.now.batch.threads
                other &= readers // per_block != threads // per_block
                rivals = np.where(other, readers, rivals)
        return rivals

    def find_writers(self, cells: Array, threads: Array) -> Array | None:
        """Where somebody else wrote a cell in no order with these threads; None for nowhere."""
        if self.is_global or self.last_write >= self.now.oldest:
            return self._clashes(self.writer, self._write_time, cells, threads)
        return None

    def find_changers(self, cells: Array, threads: Array) -> Array | None:
        """Where somebody else changed a cell in no order with these threads; None for nowhere.

        A thread that wrote the same value itself reads that, whatever the others do.
        """
        if not self.is_global and self.last_write < self.now.oldest:
            return None
        clashes = self._clashes(self.changer, self._change_time, cells, threads)
        if self._crowd and clashes.any():
            begun = np.broadcast_to(self.now.begun_of(threads), cells.shape)
            at = (cells[clashes], threads[clashes], begun[clashes])
            clashes[clashes] = ~self._crowd.has(*at, self.now.batch.threads)
        return clashes

    def find_crowd(self, cells: Array, threads: Array) -> Array | None:
        """Who else wrote what is in a cell, in no order with these threads; None for nobody."""
        found = None
        if self._crowd:
            begun = np.broadcast_to(self.now.begun_of(threads), cells.shape)
            found = self._crowd.find_rivals(cells, threads, begun, self.now.batch.threads)
        if self._agreed is not None:
            agreed = self._agreed[cells]
            found = agreed if found is None else np.where(found == NOBODY, agreed, found)
        return found

    def _clashes(self, who: Array, when: Array, cells: Array, threads: Array) -> Array:
        found = who[cells]
        other = (found != threads) & (found != NOBODY)
        if not other.any():
            return other
        at_once = when[cells] >= self.now.begun_of(threads)
        if self.is_global:
            per_block = self.now.batch.threads
            at_once = at_once | (found // per_block != threads // per_block)
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

    def land(self, cells: Array, threads: Array, changes: Array) -> None:
        """Copies of these threads have arrived."""
        mine = self.courier[cells] == threads
        self.courier[cells[mine]] = NOBODY
        self.note_write(cells, threads, changes)
