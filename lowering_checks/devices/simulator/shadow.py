"""Shadows of memory: which thread stored to and loaded each cell, and when.

Time is counted in barrier intervals; each thread block passes barriers for itself. A cell is as
large as the smallest type that the memory is viewed as, so that buffers of several types may share
it.

Loads are compared with the last store that changed a cell, since storing the value that is there
already changes nothing for them; stores are compared with all loads and stores. Thread blocks do
not wait for one another, so that their accesses to global memory are in no order with those of
other blocks until the launch ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...device import Array
from .broadcasting import are_all, is_any, spread_to
from .co_writers import NO_THREAD, CoWriters
from .run_state import RunState

PROXY, GLOBAL_PROXY = "proxy", "proxy of global memory"
"""The fences between stores and what reads shared, or global, memory on another way than loads."""
_MAX_PENDING = 64


class Shadow:
    """The shadow of one allocation; buffers that lie in it share it.

    Attributes
    ----------
    unit : bytes of a cell
    span : cells of each thread block's copy; of all, where the memory is global
    is_tracked : whether any thread stores here; without that nothing can race
    written : which cells hold a stored value; empty where all of them did from the start
    written_before : which cells held one in an earlier lifetime of the buffer, the iteration of a
        loop that allocates it; None in the first
    writer : the thread that stored to each cell last
    changer : the thread that changed each cell last; `writer` itself until a thread stores what is
        there already
    owner : the id of the buffer that each cell was written as; empty where one buffer lies
    by_proxy : which cells a bulk copy stored to last; None where none did
    loader : the thread that loaded each cell last, by an instruction of its own; None where nothing
        else reads or writes shared memory
    opaque : which cells are mbarriers now; None for none
    """

    def __init__(
        self,
        cells: int,
        unit: int,
        state: RunState,
        *,
        span: int | None = None,
        is_written: bool = True,
        starts_written: bool = False,
    ) -> None:
        self.cells, self.unit, self.state = cells, unit, state
        self.span, self.is_global = cells if span is None else span, span is None
        self.is_tracked = False
        self.last_write = NO_THREAD
        self.written = np.full(0 if starts_written else cells, False)
        self.written_before: Array | None = None
        self.owner = np.zeros(0, np.int16)
        self._pending: list[tuple[Array, Array]] = []
        self._copier: Array | None = None
        self._incoming: Array | None = None
        self._co_writers = CoWriters(cells)
        self._stored: Array | None = None
        self._loaded: Array | None = None
        self.by_proxy: Array | None = None
        self.loader: Array | None = None
        self.opaque: Array | None = None
        if is_written:
            self.track()

    def track(self) -> None:
        """Keep account of accesses from now on."""
        self.is_tracked = True
        self.writer, self._write_time = self._no_threads(), self._no_threads()
        self.changer, self._change_time = self.writer, self._write_time
        self._has_readers = False  # most outputs are never loaded
        # Of global memory, since the launch began: a reader of each cell, one of another thread
        # block, and a writer of the value that was there.
        self._launch_reader: Array | None = None
        self._other_block_reader: Array | None = None
        self._launch_co_writer: Array | None = None

    def begin_knowing(self) -> None:
        """Threads know of one another through mbarriers from now on: keep when each loaded."""
        if self.is_tracked:
            self.apply_pending_reads()
        if self.is_tracked and self._has_readers:
            self._reader_time = self._read_time.copy()
            self._second_reader_time = self._read_time.copy()

    def begin_lifetime(self) -> None:
        """Allocate the buffer again: its cells hold nothing, and may be in use by other threads."""
        before = self.written_before
        self.written_before = self.written if before is None else before | self.written
        self.written = np.zeros_like(self.written)

    def track_owners(self) -> None:
        """Remember from now on as which buffer each cell was written."""
        if not self.owner.size:
            self.owner = np.zeros(self.cells, np.int16)

    def _no_threads(self) -> Array:
        return np.full(self.cells, NO_THREAD, np.int64)

    def begin_launch(self) -> None:
        """Forget all accesses: kernels run one after the other."""
        if self.is_tracked:
            self.writer.fill(NO_THREAD)
            self.changer, self._change_time = self.writer, self._write_time
            if self._has_readers:
                self.reader.fill(NO_THREAD)
            self._launch_reader = self._other_block_reader = self._launch_co_writer = None
        self._co_writers.clear()
        self._pending.clear()
        self._copier = self.loader = self._loaded = self._stored = None

    def end_batch(self) -> None:
        """Other thread blocks follow: global accesses of these are in no order with theirs."""
        if self.is_global and self.is_tracked:
            self.apply_pending_reads()
            if self._co_writers:
                cells, threads = self._co_writers.take()
                if self._launch_co_writer is None:
                    self._launch_co_writer = self._no_threads()
                self._launch_co_writer[cells] = threads

    def pass_barrier(self, passed: Array | None) -> None:
        """End a barrier interval: of all thread blocks that run, or of those of a mask."""
        if self.is_global or passed is not None or self.state.batch.cluster > 1:
            self.apply_pending_reads()
        self._pending.clear()
        if self._co_writers and not self.is_global:
            if passed is None:
                self._co_writers.clear()
            else:
                batch = self.state.batch
                self._co_writers.drop_blocks(passed, batch.threads, batch.first)

    def record_read(self, cells: Array, threads: Array) -> None:
        """Remember which threads load."""
        self._pending.append((cells, threads))
        if len(self._pending) > _MAX_PENDING:
            self.apply_pending_reads()

    def apply_pending_reads(self) -> None:
        """Bring the loads since the last barrier into the shadow; needed before a store only."""
        if self._pending and not self._has_readers:  # room for two threads that loaded each cell
            self._has_readers = True
            self.reader, self._read_time = self._no_threads(), self._no_threads()
            self._second_reader = self._no_threads()
            if self.state.known is not None:
                self._reader_time = self._no_threads()
                self._second_reader_time = self._no_threads()
        for cells, threads in self._pending:
            stale = self._read_time[cells] < self.state.get_last_meeting(threads)
            if self.is_global:
                self._record_launch_readers(cells, threads)
            self.reader[cells[stale]] = threads[stale]
            self._second_reader[cells[stale]] = NO_THREAD
            self._read_time[cells] = self.state.interval
            several = self.reader[cells] != threads
            if self.state.known is not None:
                self._reader_time[cells[~several]] = self.state.interval
                self._second_reader_time[cells[several]] = self.state.interval
            if is_any(several):
                self._second_reader[cells[several]] = threads[several]
        self._pending.clear()

    def _record_launch_readers(self, cells: Array, threads: Array) -> None:
        """Keep a reader of each cell until the launch ends, and one of another thread block."""
        if self._launch_reader is None or self._other_block_reader is None:
            self._launch_reader, self._other_block_reader = self._no_threads(), self._no_threads()
        first = self._launch_reader[cells]
        new = first == NO_THREAD
        if is_any(new):
            self._launch_reader[cells[new]] = threads[new]
            first = self._launch_reader[cells]
        other = first != threads
        if is_any(other):
            other[other] = self._are_other_blocks(first[other], threads[other])
            self._other_block_reader[cells[other]] = threads[other]

    def _are_other_blocks(self, threads: Array, others: Array) -> Array:
        per_block = self.state.batch.threads
        apart: Array = threads // per_block != others // per_block
        return apart

    def record_write(self, cells: Array, threads: Array, changes: Array) -> Array | None:
        """Remember which threads store, and where that changes what is there.

        Returns where another thread stored to the same cell in the same instruction and won; None
        for nowhere.
        """
        if are_all(changes):
            if self._co_writers:
                self._co_writers.drop(cells)
            self._set_changer(cells, threads)
        else:
            self._record_silent_writes(cells[~changes], threads[~changes])
            if self._co_writers:
                self._co_writers.drop(cells[changes])
            self._set_changer(cells[changes], threads[changes])
        self.writer[cells], self._write_time[cells] = threads, self.state.interval
        if self.state.has_proxies:
            if self._stored is None:
                self._stored = self._no_threads()
            self._stored[cells] = self.state.get_fences(self._proxy).count
        if self.written.size:
            self.written[cells] = True
        if self.by_proxy is not None:
            self.by_proxy[cells] = False
        self.last_write = self.state.interval
        lost = self.writer[cells] != threads
        if not is_any(lost):
            return None
        self._remember(cells[lost], threads[lost])
        return lost

    @property
    def _proxy(self) -> str:
        return GLOBAL_PROXY if self.is_global else PROXY

    def mark_opaque(self, cells: slice, is_opaque: bool) -> None:
        """Note that an mbarrier lies in these cells from now on, or none any more."""
        if self.opaque is None:
            self.opaque = np.zeros(self.cells, bool)
        self.opaque[cells] = is_opaque

    def _set_changer(self, cells: Array, threads: Array) -> None:
        if self.changer is not self.writer:
            self.changer[cells], self._change_time[cells] = threads, self.state.interval

    def _record_silent_writes(self, cells: Array, threads: Array) -> None:
        """Stores of what is there already: other threads' stores of it are remembered, too."""
        if self.changer is self.writer:
            self.changer, self._change_time = self.writer.copy(), self._write_time.copy()
        other = self._find_conflicts(self.writer, self._write_time, cells, threads)
        if is_any(other):
            cells, threads = cells[other], threads[other]
            both = np.concatenate([threads, self.writer[cells]])
            self._remember(np.concatenate([cells, cells]), both)

    def _remember(self, cells: Array, threads: Array) -> None:
        self._co_writers.add(cells, threads, self.state.interval)

    def find_unfenced(self, cells: Array, lanes: Array, *, loads: bool = False) -> Array:
        """Where a thread stored to a cell, and no proxy fence makes that visible to lanes' copies.

        Its own fence after it does, and so does one that a lane passed when it knew of the store.
        With `loads`, where a thread loaded a cell itself, and no fence orders the copies behind it.
        """
        fenced_at = self._loaded if loads else self._stored
        if fenced_at is None:
            return np.zeros(cells.shape, bool)
        accessors = self.loader if loads else self.writer
        assert accessors is not None
        threads = accessors[cells]
        counts, times = fenced_at[cells], (self._load_time if loads else self._write_time)[cells]
        fences, batch = self.state.get_fences(self._proxy), self.state.batch
        inside = threads - batch.first * batch.threads  # blocks before are in no order at all
        own = fences.last[np.maximum(inside, 0), 0] > counts
        known = fences.get_known(lanes, threads % batch.group) > times
        unfenced: Array = (counts != NO_THREAD) & (inside >= 0) & ~own & ~known
        return unfenced if loads or self.by_proxy is None else unfenced & ~self.by_proxy[cells]

    def mark_loaded(self, cells: Array, threads: Array) -> None:
        """Note that threads loaded these cells themselves, and not by a bulk copy or wgmma."""
        if self.loader is None or self._loaded is None:
            self.loader, self._loaded = self._no_threads(), self._no_threads()
            self._load_time = self._no_threads()
        self.loader[cells], self._load_time[cells] = threads, self.state.interval
        self._loaded[cells] = self.state.get_fences(PROXY).count

    def find_readers(self, cells: Array, threads: Array) -> Array | None:
        """Another thread that loaded a cell in no order with these threads; NO_THREAD elsewhere.

        None where there is none at all.
        """
        if not self._has_readers:
            return None
        current = self._read_time[cells] >= self.state.get_last_meeting(threads)
        rivals = None
        if self.state.known is not None and is_any(current):
            rivals = self._find_unknown_readers(cells, threads)
        elif is_any(current):
            rivals = np.where(current, self.reader[cells], NO_THREAD)
            own = rivals == threads
            if is_any(own):
                rivals[own] = self._second_reader[cells[own]]
        if self._launch_reader is None or self._other_block_reader is None:
            return rivals
        rivals = np.full(cells.shape, NO_THREAD) if rivals is None else rivals
        for readers in (self._launch_reader[cells], self._other_block_reader[cells]):
            other = (rivals == NO_THREAD) & (readers != threads) & (readers != NO_THREAD)
            if is_any(other):
                other &= self._are_other_blocks(readers, threads)
                rivals = np.where(other, readers, rivals)
        return rivals

    def _find_unknown_readers(self, cells: Array, threads: Array) -> Array:
        """One of two threads that loaded a cell, of which these do not know through mbarriers."""
        rivals = np.full(cells.shape, NO_THREAD, np.int64)
        for readers, times in (
            (self.reader[cells], self._reader_time[cells]),
            (self._second_reader[cells], self._second_reader_time[cells]),
        ):
            are_reads = None
            if self.state.batch.cluster > 1:  # of cells that threads do not load themselves
                loaders = self.loader
                are_reads = np.ones(cells.shape, bool)
                are_reads &= loaders is None or loaders[cells] == NO_THREAD
            unknown = times >= self.state.get_since_pairs(threads, readers, are_reads)
            unknown &= (readers != threads) & (readers != NO_THREAD)
            rivals = np.where(unknown, readers, rivals)
        return rivals

    def find_writers(self, cells: Array, threads: Array) -> Array | None:
        """Where another thread stored to a cell in no order with these; None for nowhere."""
        if self.is_global or self.last_write >= self.state.oldest_interval:
            return self._find_conflicts(self.writer, self._write_time, cells, threads)
        return None

    def find_changers(self, cells: Array, threads: Array) -> Array | None:
        """Where another thread changed a cell in no order with these threads; None for nowhere.

        A thread that stored the same value itself loads that, whatever the others do.
        """
        if not self.is_global and self.last_write < self.state.oldest_interval:
            return None
        conflicts = self._find_conflicts(self.changer, self._change_time, cells, threads)
        if self._co_writers and is_any(conflicts):
            since = spread_to(self.state.get_last_barrier(threads), cells.shape)
            at = (cells[conflicts], threads[conflicts], since[conflicts])
            conflicts[conflicts] = ~self._co_writers.has(*at, self.state.batch.threads)
        return conflicts

    def find_co_writers(self, cells: Array, threads: Array) -> Array | None:
        """Another thread that stored what is in a cell, in no order with these; None for none."""
        found = None
        if self._co_writers:
            since = spread_to(self.state.get_last_barrier(threads), cells.shape)
            found = self._co_writers.find_rivals(cells, threads, since, self.state.batch.threads)
        if self._launch_co_writer is not None:
            earlier = self._launch_co_writer[cells]
            found = earlier if found is None else np.where(found == NO_THREAD, earlier, found)
        return found

    def _find_conflicts(
        self, accessors: Array, times: Array, cells: Array, threads: Array
    ) -> Array:
        """Where another thread accessed a cell in no order with these threads."""
        found = accessors[cells]
        other = (found != threads) & (found != NO_THREAD)
        if not is_any(other):
            return other
        unordered = times[cells] >= self.state.get_since_pairs(threads, found)
        if self.is_global:
            unordered = unordered | self._are_other_blocks(found, threads)
        return other & unordered

    def mark_by_proxy(self, cells: Array) -> None:
        """Note that a bulk copy stored to these cells."""
        if self.by_proxy is None:
            self.by_proxy = np.zeros(self.cells, bool)
        self.by_proxy[cells] = True

    @property
    def copier(self) -> Array:
        """The threads whose copies to the cells are in flight."""
        if self._copier is None:
            self._copier = self._no_threads()
        return self._copier

    def get_incoming(self, dtype: np.dtype[Any]) -> Array:
        """What copies in flight bring to the cells, as elements of a type."""
        if self._incoming is None:
            self._incoming = np.full(self.cells * self.unit, 0xFF, np.uint8)
        return self._incoming.view(dtype)

    def find_in_flight(self, cells: Array) -> Array | None:
        """Where a copy to a cell is in flight; None for nowhere."""
        if self._copier is None:
            return None
        in_flight = self._copier[cells] != NO_THREAD
        return in_flight if is_any(in_flight) else None

    def complete_copies(self, cells: Array, threads: Array, changes: Array) -> None:
        """Copies of these threads have arrived."""
        own = self.copier[cells] == threads
        self.copier[cells[own]] = NO_THREAD
        self.record_write(cells, threads, changes)
