"""Who else has stored the value that a cell of memory holds.

Several threads may store one value to one cell at once, and each may then load its own back. A
shadow remembers one writer of each cell; the others are kept here, until the value changes.
"""

from __future__ import annotations

import numpy as np

from ...device import Array

NO_THREAD = -1
_BITS = 32
"""Of a thread in a key, whose cell stands before it."""


class CoWriters:
    """Pairs of a cell and a thread that stored what is there, beside the cell's `writer`.

    They are sorted when they are asked for, since most programs have none and others ask for few.
    """

    def __init__(self) -> None:
        self.clear()

    def __bool__(self) -> bool:
        return bool(self._new or self._keys.size)

    def clear(self) -> None:
        """Forget all stores."""
        # Keys of a cell and a thread, ascending, and when that stored first and last.
        self._keys, self._first, self._last = np.zeros((3, 0), np.int64)
        self._new: list[tuple[Array, int]] = []

    def add(self, cells: Array, threads: Array, time: int) -> None:
        """Remember that threads stored to cells in an interval."""
        if cells.size:
            self._new.append((_make_keys(cells, threads), time))

    def has(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """Which of these threads have stored to these cells, or another thread did before them.

        That is a thread of the same thread block, so many of which are one, before the interval in
        which it last passed a barrier, `since`.
        """
        self._sort()
        is_own, _ = _look_up(self._keys, _make_keys(cells, threads))
        blocks = _make_keys(self._keys >> _BITS, self._get_threads() // per_block)
        keys, begin = np.unique(blocks, return_index=True)
        earliest = np.minimum.reduceat(self._first, begin) if keys.size else self._first
        is_known, at = _look_up(keys, _make_keys(cells, threads // per_block))
        found: Array = is_own
        found[is_known] |= earliest[at[is_known]] < since[is_known]
        return found

    def find_rivals(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """A thread that stored to one of these cells in no order with the given thread, or -1.

        `since` is the interval in which the thread's block last passed a barrier.
        """
        self._sort()
        rivals = np.full(cells.shape, NO_THREAD, np.int64)
        low, end = (np.searchsorted(self._keys, _make_keys(cells + more, 0)) for more in (0, 1))
        near = low < end
        low, end, given, known = low[near], end[near], threads[near], since[near]
        others, found = self._get_threads(), rivals[near]
        latest = np.lexsort((-others, self._last, self._keys >> _BITS))
        # If any is of another block, the first or the last one is; of one block, the latest count.
        for at in (end - 1, low, latest[np.maximum(end - 2, low)], latest[end - 1]):
            other = others[at]
            is_rival = (other // per_block != given // per_block) | (self._last[at] >= known)
            found = np.where(is_rival & (other != given), other, found)
        rivals[near] = found
        return rivals

    def drop(self, cells: Array) -> None:
        """Forget which threads stored to these cells: another value is there now."""
        self._sort()
        self._keep(~np.isin(self._keys >> _BITS, cells))

    def drop_blocks(self, passed: Array, per_block: int, first: int) -> None:
        """Forget what threads of these thread blocks stored: they have passed a barrier."""
        self._sort()
        self._keep(~passed[self._get_threads() // per_block - first])

    def take(self) -> tuple[Array, Array]:
        """All cells and a thread of each, which are forgotten here."""
        self._sort()
        cells, threads = self._keys >> _BITS, self._get_threads()
        self.clear()
        return cells, threads

    def _get_threads(self) -> Array:
        threads: Array = self._keys & (1 << _BITS) - 1
        return threads

    def _keep(self, kept: Array) -> None:
        self._keys, self._first, self._last = (
            column[kept] for column in (self._keys, self._first, self._last)
        )

    def _sort(self) -> None:
        """Sort what has come since the last time in between."""
        if not self._new:
            return
        times = [np.full(keys.size, time) for keys, time in self._new]
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._new)])
        first, last = (np.concatenate([it, *times]) for it in (self._first, self._last))
        order = np.argsort(keys, kind="stable")
        self._keys, begin = np.unique(keys[order], return_index=True)
        self._first = np.minimum.reduceat(first[order], begin)
        self._last = np.maximum.reduceat(last[order], begin)
        self._new = []


def _make_keys(cells: Array, others: Array | int) -> Array:
    keys: Array = cells.astype(np.int64) << _BITS | others
    return keys


def _look_up(keys: Array, wanted: Array) -> tuple[Array, Array]:
    """Which keys there are, and where."""
    if not keys.size:
        return np.zeros(wanted.shape, bool), np.zeros(wanted.shape, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return keys[at] == wanted, at
