"""Shadows of memory: which thread stored to and loaded each cell, and when.

Time is counted in barrier intervals; each thread block passes barriers for itself. A cell is as
large as the smallest type that the memory is viewed as, so that buffers of several types may share
it.

Loads are compared with the last store that changed a cell, since storing the value that is there
already changes nothing for them; stores are compared with all loads and stores. Thread blocks do
not wait for one another, but for those of their own cluster, so that their accesses to global
memory are in no order with those of others until the launch ends.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...device import Array
from .run_state import RunState, spread_to

NO_THREAD = -1
OPAQUE, BY_PROXY, CHANGED = "mbarrier", "by proxy", "changed later on"
PROXY, GLOBAL_PROXY = "proxy", "proxy of global memory"
"""The fences between stores and what reads shared, or global, memory on another way than loads."""
_MAX_PENDING = 64
_BITS = 32
"""Bits of a thread's number in a key, below the element's."""


class Accessors:
    """Two threads that accessed each cell: where any is apart from a third one, one of them is.

    `are_apart` says of cells, threads, others, if any, and their times which are in no order, and
    `last` is the time of the last access of any.
    """

    def __init__(self, cells: int, are_apart: Callable[..., Array]) -> None:
        self._threads = np.full((2, cells), NO_THREAD, np.int64)
        self._times, self._are_apart, self.last = self._threads.copy(), are_apart, 0
        self._slots: tuple[int, ...] = (0,)  # that are in use, the first one last

    def _find(self, slot: int, cells: Array, threads: Array) -> tuple[Array, Array | None]:
        """The thread in a slot of each cell, and where it is apart; None where all are the same."""
        others = self._threads[slot][cells]
        is_apart = others != threads
        if not np.count_nonzero(is_apart):
            return others, None
        is_apart &= self._are_apart(cells, threads, others, self._times[slot][cells])
        return others, is_apart

    def add(self, cells: Array, threads: Array, time: int) -> None:
        """Threads accessed cells in an interval: they replace what they are not apart from."""
        first, times, self.last = self._threads[0], self._times[0], time
        others, is_apart = self._find(0, cells, threads)
        if is_apart is None:
            times[cells] = time
            return
        free = ~is_apart if np.count_nonzero(is_apart) else slice(None)
        there = cells[free]
        first[there], times[there] = threads[free], time
        others = first[cells]
        left = others != threads
        if np.count_nonzero(left):  # of several at once the last one is in there
            left &= self._are_apart(cells, threads, others, time)
            left |= is_apart
            there = cells[left]
            self._threads[1][there], self._times[1][there] = threads[left], time
            self._slots = (1, 0)

    def find_rivals(self, cells: Array, threads: Array) -> Array:
        """A thread that is apart from the one that accesses each of these cells; or NO_THREAD."""
        rivals = np.full(cells.shape, NO_THREAD, np.int64)
        for slot in self._slots:
            others, is_apart = self._find(slot, cells, threads)
            if is_apart is not None and np.count_nonzero(is_apart):
                rivals = np.where(is_apart, others, rivals)
        return rivals


class CoWriters:
    """Who else has stored the value that a cell holds.

    Several threads may store one value to one cell at once, and each may then load its own back. A
    shadow remembers one writer of each cell; the others are kept here, until the value changes.
    """

    def __init__(self, cells: int) -> None:
        self._dropped = np.zeros(cells, np.int64)  # up to which store none counts
        self.clear()

    def clear(self) -> None:
        """Forget all stores."""
        self._stores: list[Array] = []  # keys of a cell and a thread, times, numbers
        self._number = 0
        self._dropped.fill(0)

    def add(self, cells: Array, threads: Array, time: int) -> None:
        """Remember that threads stored to cells in an interval."""
        self._number += 1
        rest = (np.full(cells.size, each, np.int64) for each in (time, self._number))
        self._stores.append(np.stack([cells.astype(np.int64) << _BITS | threads, *rest]))

    def drop(self, cells: Array) -> None:
        """Forget which threads stored to these cells: another value is there now."""
        self._dropped[cells] = self._number

    def has(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """Which of these threads have stored to these cells, or another thread did before them.

        That is a thread of the same thread block, so many of which are one, before the interval in
        which it last passed a barrier, `since`.
        """
        if not self._stores:
            return np.zeros(cells.shape, bool)
        stores = np.concatenate(self._stores, axis=1)
        stores = stores[:, stores[2] > self._dropped[stores[0] >> _BITS]]
        keys, first = np.unique(stores[0], return_index=True)
        self._stores = [stores[:, first]]
        found = np.isin(cells.astype(np.int64) << _BITS | threads, keys)
        if keys.size:
            blocks = keys >> _BITS << _BITS | (keys & (1 << _BITS) - 1) // per_block
            blocks, begin = np.unique(blocks, return_index=True)
            earliest = np.minimum.reduceat(self._stores[0][1], begin)
            wanted = cells.astype(np.int64) << _BITS | threads // per_block
            at = np.minimum(np.searchsorted(blocks, wanted), blocks.size - 1)
            found |= (blocks[at] == wanted) & (earliest[at] < since)
        return found


class Shadow:
    """The shadow of one allocation; buffers that lie in it share it.

    Attributes
    ----------
    unit : bytes of a cell
    span : cells of each thread block's copy; of all, where the memory is global
    begin : where it begins in the shared memory of a block, in bytes
    is_tracked : whether any thread stores here; without that nothing can race
    written : which cells hold a stored value; empty where all of them did from the start
    written_before : which cells held one in an earlier lifetime of the buffer, the iteration of a
        loop that allocates it; None in the first
    writer : the thread that stored to each cell last
    changer : the thread that changed each cell last; `writer` itself until a thread stores what is
        there already
    owner : the id of the buffer that each cell was written as; empty where one buffer lies
    marks : which cells are `OPAQUE`, where an mbarrier is, were stored to `BY_PROXY` last, by a
        bulk copy, or are to be `CHANGED` by a reduction in flight; absent where none are
    readers, atomics, silent : who has loaded each cell, who has changed it atomically, and who has
        stored what is there beside its writer, as `Accessors`, by the order of threads and, of
        global memory, by thread blocks; empty where nobody has, as most outputs have no others
    loader : the thread that loaded each cell last, by an instruction of its own; None where nothing
        else reads or writes shared memory
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
        self.begin, self.is_tracked = 0, False
        self.last_write = NO_THREAD
        self.written = np.full(0 if starts_written else cells, False)
        self.written_before: Array | None = None
        self.owner = np.zeros(0, np.int16)
        self._pending: list[tuple[Array, Array]] = []
        self._copier: Array | None = None
        self._incoming: Array | None = None
        self.marks: dict[str, Array] = {}
        self.loader: Array | None = None
        self._forget()
        if is_written:
            self.track()

    def track(self) -> None:
        """Keep account of accesses from now on."""
        self.is_tracked = True
        self.writer, self._write_time = self._no_threads(), self._no_threads()
        self.changer, self._change_time = self.writer, self._write_time

    def _forget(self) -> None:
        self.readers: list[Accessors] = []
        self.atomics: list[Accessors] = []
        self.silent: list[Accessors] = []
        self._co_writers: CoWriters | None = None

    def _make_accessors(self, *, loads: bool = False) -> list[Accessors]:
        kinds: list[Callable[..., Array]] = [partial(self._are_unordered, loads=loads)]
        is_apart = self.is_global and not self.state.is_joint
        kinds += [self._are_other_clusters] if is_apart else []
        return [Accessors(self.cells, each) for each in kinds]

    def begin_lifetime(self, block: int | None = None) -> None:
        """Allocate the buffer again, for all blocks or for one: its cells hold nothing, and may be
        in use by other threads."""
        before, written = self.written_before, self.written.copy()
        self.written_before = written if before is None else before | written
        first = 0 if block is None else block * self.span
        self.written[first : self.cells if block is None else first + self.span] = False

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
        self._forget()
        self._pending.clear()
        self._copier = self.loader = None

    def end_batch(self) -> None:
        """Other thread blocks follow: global accesses of these are in no order with theirs."""
        if self.is_global and self.is_tracked:
            self.apply_pending_reads()
            self._co_writers = None

    def pass_barrier(self, passed: Array | None) -> None:
        """End a barrier interval: of all thread blocks that run, or of those of a mask."""
        if self.is_global or passed is not None:
            self.apply_pending_reads()
        self._pending.clear()
        if self._co_writers is not None and not self.is_global and passed is None:
            self._co_writers.clear()

    def record_read(self, cells: Array, threads: Array) -> None:
        """Remember which threads load; at once where they may learn of others at any time."""
        self._pending.append((cells, threads))
        if len(self._pending) > _MAX_PENDING or self.state.known is not None:
            self.apply_pending_reads()

    def apply_pending_reads(self) -> None:
        """Bring the loads since the last barrier into the shadow; needed before a store only."""
        if self._pending and not self.readers:
            self.readers = self._make_accessors(loads=True)
        for cells, threads in self._pending:
            for readers in self.readers:
                readers.add(cells, threads, self.state.interval)
        self._pending.clear()

    def record_atomic(self, cells: Array, threads: Array) -> None:
        """Remember which threads change cells atomically; those are in any order."""
        self.atomics = self.atomics or self._make_accessors()
        for each in self.atomics:
            each.add(cells, threads, self.state.interval)
        if self.written.size:
            self.written[cells] = True

    def _are_unordered(
        self, cells: Array, threads: Array, others: Array, times: Any, *, loads: bool = False
    ) -> Array:
        """Where threads do not know of what others did at a time."""
        are_reads: Array | None = None
        if loads and self.state.batch.cluster > 1:
            # Tensor cores read for threads what these do not load themselves.
            are_reads = np.ones(cells.shape, bool)
            are_reads &= self.loader is None or self.loader[cells] == NO_THREAD
        unordered: Array = times >= self.state.get_since(threads, others, are_reads)
        return unordered

    def _are_other_clusters(
        self, cells: Array, threads: Array, others: Array, times: Array
    ) -> Array:
        per = self.state.batch.group
        apart: Array = (threads // per != others // per) & (others != NO_THREAD)
        return apart

    def record_write(self, cells: Array, threads: Array, changes: Array) -> Array | None:
        """Remember which threads store, and where that changes what is there.

        Returns where another thread stored to the same cell in the same instruction and won; None
        for nowhere.
        """
        changed, by = cells, threads
        if np.count_nonzero(changes) < changes.size:
            # Stores of what is there already: other threads' stores of it are remembered, too.
            if self.changer is self.writer:
                self.changer, self._change_time = self.writer.copy(), self._write_time.copy()
            silent, their = cells[~changes], threads[~changes]
            other = self._find_conflicts(self.writer, self._write_time, silent, their)
            if np.count_nonzero(other):
                silent, their = silent[other], their[other]
                both = np.concatenate([their, self.writer[silent]])
                self._remember(np.concatenate([silent, silent]), both)
            changed, by = cells[changes], threads[changes]
        if self._co_writers is not None:
            self._co_writers.drop(changed)
        if self.changer is not self.writer:
            self.changer[changed], self._change_time[changed] = by, self.state.interval
        self.writer[cells], self._write_time[cells] = threads, self.state.interval
        if self.written.size:
            self.written[cells] = True
        if BY_PROXY in self.marks:
            self.mark(BY_PROXY, cells, False)
        self.last_write = self.state.interval
        lost = self.writer[cells] != threads
        if not np.count_nonzero(lost):
            return None
        self._remember(cells[lost], threads[lost])
        return lost

    def mark(self, kind: str, cells: Array | slice, holds: bool = True) -> None:
        """Note what these cells are from now on, or are no more."""
        if kind not in self.marks:
            self.marks[kind] = np.zeros(self.cells, bool)
        self.marks[kind][cells] = holds

    def _remember(self, cells: Array, threads: Array) -> None:
        if self._co_writers is None:
            self._co_writers = CoWriters(self.cells)
        self.silent = self.silent or self._make_accessors()
        self._co_writers.add(cells, threads, self.state.interval)
        for each in self.silent:
            each.add(cells, threads, self.state.interval)

    def find_unfenced(
        self, cells: Array, lanes: Array, *, loads: bool = False, fence: str = ""
    ) -> Array:
        """Where a thread stored to a cell, and no proxy fence makes that visible to lanes' copies.

        Its own fence after it does, and so does one that a lane passed when it knew of the store,
        or a thread that both know of (PTX ISA, "Causality Order": a fence along the path).
        With `loads`, where a thread loaded a cell itself, and no fence orders the copies behind it;
        with a `fence`, of that kind.
        """
        accessors = self.loader if loads else self.writer if self.is_tracked else None
        if accessors is None:
            return np.zeros(cells.shape, bool)
        threads, times = accessors[cells], (self._load_time if loads else self._write_time)[cells]
        kind, batch = fence or (GLOBAL_PROXY if self.is_global else PROXY), self.state.batch
        fences = self.state.get_fences(kind)
        inside = threads - batch.first * batch.threads  # blocks before are in no order at all
        own = fences.last[np.maximum(inside, 0), 0] > times
        known = fences.get_known(lanes, threads) > times
        unfenced: Array = (threads != NO_THREAD) & (inside >= 0) & ~own & ~known
        for lane in np.unique(lanes[unfenced]) if self.state.known is not None else ():
            first = lane // batch.threads * batch.threads
            heard = self.state.tell_known(lane)[first % batch.group :][: batch.threads]
            is_own = (lanes == lane) & (inside // batch.threads == lane // batch.threads)
            for barrier, since in fences.first.items():
                if (since[first : first + batch.threads] < heard).any():
                    unfenced &= ~is_own | (times >= barrier)
        return (
            unfenced
            if loads or BY_PROXY not in self.marks
            else unfenced & ~self.marks[BY_PROXY][cells]
        )

    def mark_loaded(self, cells: Array, threads: Array) -> None:
        """Note that threads loaded these cells themselves, and not by a bulk copy or wgmma."""
        if self.loader is None:
            self.loader, self._load_time = self._no_threads(), self._no_threads()
        self.loader[cells], self._load_time[cells] = threads, self.state.interval

    def find_rivals(self, kinds: list[Accessors], cells: Array, threads: Array) -> Array | None:
        """One of the `readers`, `atomics` or `silent` of each cell, in no order with these threads.

        NO_THREAD where there is none in a cell; None where there is none at all.
        """
        found = None
        for accessors in kinds:
            if not self.is_global and accessors.last < self.state.oldest_interval:
                continue
            rivals = accessors.find_rivals(cells, threads)
            found = rivals if found is None else np.where(found == NO_THREAD, rivals, found)
        return found

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
        if self._co_writers is not None and np.count_nonzero(conflicts):
            since = spread_to(self.state.get_last_barrier(threads), cells.shape)
            at = (cells[conflicts], threads[conflicts], since[conflicts])
            conflicts[conflicts] = ~self._co_writers.has(*at, self.state.batch.threads)
        return conflicts

    def _find_conflicts(
        self, accessors: Array, times: Array, cells: Array, threads: Array
    ) -> Array:
        """Where another thread accessed a cell in no order with these threads."""
        found = accessors[cells]
        other = self._are_others(cells, threads, found) & (found != NO_THREAD)
        if not np.count_nonzero(other):
            return other
        unordered = self._are_unordered(cells, threads, found, times[cells])
        if self.is_global and not self.state.is_joint:
            unordered = unordered | self._are_other_clusters(cells, found, threads, times)
        return other & unordered

    def _are_others(self, cells: Array, threads: Array, found: Array) -> Array:
        """Where the thread that accessed a cell is not the one that accesses it now."""
        others: Array = found != threads
        return others

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
        return in_flight if np.count_nonzero(in_flight) else None
