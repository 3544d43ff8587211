"""Who else has stored the value that a cell of memory holds.

Several threads may store one value to one cell at once, and each may then load its own back. A
shadow remembers one writer of each cell; the others are kept here, until the value changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...device import Array

NO_THREAD = -1
_MOST = 1 << 16
"""Stores that are kept as they come before they are sorted."""


class _Stores(NamedTuple):
    """Stores: the cell, the thread, the interval and the number of each."""

    cells: Array
    threads: Array
    times: Array
    numbers: Array

    def keep(self, kept: Array) -> _Stores:
        """Those at the places that are kept."""
        return _Stores(*(column[kept] for column in self))


class _Sorted:
    """Stores of one time span, the earliest of each thread to a cell, sorted by both.

    Attributes
    ----------
    stores : in that order
    keys : of a cell and a thread, ascending
    first, block_keys : the earliest store of a thread block to a cell, and its key, ascending
    """

    def __init__(self, stores: _Stores, stride: int, per_block: int) -> None:
        keys = stores.cells * stride + stores.threads
        order = np.lexsort((stores.numbers, keys))
        order = order[_find_firsts(keys[order])]
        self.stores, self.keys, self.stride = stores.keep(order), keys[order], stride
        blocks = self.stores.cells * stride + self.stores.threads // per_block
        order = np.lexsort((self.stores.times, blocks))
        self.first = order[_find_firsts(blocks[order])]
        self.block_keys = blocks[self.first]

    def find(self, cells: Array, threads: Array) -> tuple[Array, Array]:
        """Which threads stored to these cells, and where those stores are."""
        return self._look_up(self.keys, cells, threads)

    def find_earliest(self, cells: Array, blocks: Array) -> tuple[Array, Array]:
        """Which thread blocks stored to these cells, and where their earliest stores are."""
        is_known, at = self._look_up(self.block_keys, cells, blocks)
        return is_known, self.first[at]

    def _look_up(self, keys: Array, cells: Array, others: Array) -> tuple[Array, Array]:
        wanted = cells * self.stride + others
        at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        # A thread behind all of these would have the key of another cell.
        return (keys[at] == wanted) & (others < self.stride), at


def _find_firsts(keys: Array) -> Array:
    """Where a key differs from the one before it."""
    firsts = np.ones(keys.size, bool)
    np.not_equal(keys[1:], keys[:-1], out=firsts[1:])
    return firsts


class CoWriters:
    """Pairs of a cell and a thread that stored what is there, beside the cell's `writer`.

    Whether *another* thread is among them is told by three of each cell: the last one, the last
    one before it, and one of another thread block than the last one's. Whether a *given* thread
    is needs all of them: stores are sorted in parts, each at least twice as long as the next, as
    in a log-structured merge tree (O'Neil et al., 1996), so that n of them take O(n log n) in
    all, however often they are asked for in between.
    """

    def __init__(self) -> None:
        self._begun = np.zeros(0, np.int64)
        self._grow(0)
        self._number = 0
        self.clear()

    def __bool__(self) -> bool:
        return self._number > self._cleared

    def clear(self) -> None:
        """Forget all stores."""
        self._cleared = self._number
        self._latest: list[_Stores] = []
        self._parts: list[_Sorted] = []
        self._count, self._stride, self._per_block = 0, 1, 1

    def add(self, cells: Array, threads: Array, time: int, per_block: int) -> None:
        """Remember that threads, so many in each block, stored to cells in an interval."""
        if not cells.size:
            return
        self._number += 1
        self._grow(int(cells.max()) + 1)
        self._stride = max(self._stride, int(threads.max()) + 1)
        self._per_block = per_block
        order = np.lexsort((threads, cells))
        firsts = np.flatnonzero(_find_firsts(cells[order]))
        lasts = np.append(firsts[1:], order.size) - 1
        for at in (order[lasts], order[firsts]):  # of another block, if any of them is
            self._note(cells[at], threads[at], time)
        times, numbers = np.full(cells.size, time), np.full(cells.size, self._number)
        self._latest.append(_Stores(cells, threads, times, numbers))
        self._count += cells.size
        if self._count > _MOST:
            self._sort()

    def has(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """Which of these threads have stored to these cells, or another thread did before them.

        That is a thread of the same thread block, before the interval in which it last passed a
        barrier, `since`.
        """
        self._sort()
        found = np.zeros(cells.shape, bool)
        begun, blocks = self._get_begun(cells), threads // per_block
        for part in self._parts:
            is_own, at = part.find(cells, threads)
            found |= is_own & (part.stores.numbers[at] > begun)
            is_known, at = part.find_earliest(cells, blocks)
            is_earlier = is_known & (part.stores.times[at] < since)
            found |= is_earlier & (part.stores.numbers[at] > begun)
        return found

    def find_rivals(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """A thread that stored to one of these cells in no order with the given thread, or -1.

        `since` is the interval in which the thread's block last passed a barrier.
        """
        rivals = np.full(cells.shape, NO_THREAD, np.int64)
        near = cells < self._begun.size
        near[near] = self._is_held(cells[near])
        if not near.any():
            return rivals
        cells, threads = cells[near], threads[near]
        since = np.broadcast_to(since, near.shape)[near]
        found = np.full(cells.shape, NO_THREAD, np.int64)
        for others, times in (
            (self._other_block, None),
            (self._before, self._before_time),
            (self._last, self._last_time),
        ):
            other = others[cells]
            is_rival = other // per_block != threads // per_block
            if times is not None:
                is_rival |= times[cells] >= since
            is_rival &= (other != NO_THREAD) & (other != threads)
            found[is_rival] = other[is_rival]
        rivals[near] = found
        return rivals

    def drop(self, cells: Array) -> None:
        """Forget which threads stored to these cells: another value is there now."""
        self._begun[cells[cells < self._begun.size]] = self._number

    def drop_blocks(self, passed: Array, per_block: int, first: int) -> None:
        """Forget what threads of these thread blocks stored: they have passed a barrier.

        Only one thread block stores to each of the cells.
        """
        cells, threads = self._get_all()
        self.drop(cells[passed[threads // per_block - first]])

    def take(self) -> tuple[Array, Array]:
        """All cells and a thread of each, which are forgotten here."""
        known = self._get_all()
        self.clear()
        return known

    def _get_all(self) -> tuple[Array, Array]:
        cells = np.flatnonzero(self._is_held(np.arange(self._begun.size)))
        return cells, self._last[cells]

    def _is_held(self, cells: Array) -> Array:
        held: Array = self._last_number[cells] > np.maximum(self._begun[cells], self._cleared)
        return held

    def _get_begun(self, cells: Array) -> Array:
        """The number of the last store to each cell that is forgotten."""
        begun = np.zeros(cells.shape, np.int64)
        near = cells < self._begun.size
        begun[near] = self._begun[cells[near]]
        return begun

    def _grow(self, cells: int) -> None:
        """Make room for the first so many cells."""
        have = self._begun.size
        if cells <= have and have:
            return
        more = np.full(max(cells, 2 * have) - have, NO_THREAD, np.int64)
        if not have:
            self._last = self._before = self._other_block = self._begun
            self._last_time = self._before_time = self._last_number = self._begun
        self._begun = np.append(self._begun, more)
        self._last, self._last_time = np.append(self._last, more), np.append(self._last_time, more)
        self._before = np.append(self._before, more)
        self._before_time = np.append(self._before_time, more)
        self._other_block = np.append(self._other_block, more)
        self._last_number = np.append(self._last_number, more)

    def _note(self, cells: Array, threads: Array, time: int) -> None:
        """Put threads before the last ones of cells, each of which stands there once."""
        new = ~self._is_held(cells)
        if new.any():
            for column in (self._last, self._before, self._other_block):
                column[cells[new]] = NO_THREAD
        self._last_number[cells] = self._number
        last = self._last[cells]
        moved = (last != threads) & (last != NO_THREAD)
        at, last = cells[moved], last[moved]
        other = last // self._per_block != threads[moved] // self._per_block
        self._other_block[at[other]] = last[other]
        self._before[at], self._before_time[at] = last, self._last_time[at]
        self._last[cells], self._last_time[cells] = threads, time

    def _sort(self) -> None:
        """Sort what has come since the last time, with parts that are not much longer."""
        if not self._latest:
            return
        parts, count = self._latest, self._count
        while self._parts and (
            self._parts[-1].stride < self._stride or self._parts[-1].keys.size < 2 * count
        ):
            stores = self._parts.pop().stores
            parts.append(stores)
            count += stores.cells.size
        stores = _Stores(*map(np.concatenate, zip(*parts, strict=True)))
        stores = stores.keep(stores.numbers > self._begun[stores.cells])
        if stores.cells.size:
            self._parts.append(_Sorted(stores, self._stride, self._per_block))
        self._latest, self._count = [], 0
