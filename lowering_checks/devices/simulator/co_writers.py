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
_THREAD = (1 << _BITS) - 1


class CoWriters:
    """Pairs of a cell and a thread that stored what is there, beside the cell's `writer`.

    They are sorted when somebody asks for a cell that has any: most programs have none, and others
    ask for few.
    """

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self.clear()

    def __bool__(self) -> bool:
        return self._number > 0

    def clear(self) -> None:
        """Forget all stores."""
        # Keys of a cell and a thread, ascending, when that stored first and last, and the number of
        # the last store.
        self._sorted = np.zeros((4, 0), np.int64)
        self._new: list[tuple[Array, int, int]] = []
        self._number, self._is_sorted = 0, True

    def add(self, cells: Array, threads: Array, time: int) -> None:
        """Remember that threads stored to cells in an interval."""
        if not cells.size:
            return
        if not self._number:  # whether any store to a cell counts, and up to which one none does
            self._held, self._dropped = np.zeros(self._cells, bool), np.zeros(self._cells, np.int64)
        self._number, self._is_sorted = self._number + 1, False
        self._held[cells] = True
        self._new.append((_make_keys(cells, threads), time, self._number))

    def has(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """Which of these threads have stored to these cells, or another thread did before them.

        That is a thread of the same thread block, so many of which are one, before the interval in
        which it last passed a barrier, `since`.
        """
        if not self._number or not self._held[cells].any():
            return np.zeros(cells.shape, bool)
        keys, first, *_ = self._sort()
        found, _ = _look_up(keys, _make_keys(cells, threads))
        blocks = _make_keys(keys >> _BITS, (keys & _THREAD) // per_block)
        blocks, begin = np.unique(blocks, return_index=True)
        earliest = np.minimum.reduceat(first, begin)
        is_known, at = _look_up(blocks, _make_keys(cells, threads // per_block))
        found[is_known] |= earliest[at[is_known]] < since[is_known]
        return found

    def find_rivals(self, cells: Array, threads: Array, since: Array, per_block: int) -> Array:
        """A thread that stored to one of these cells in no order with the given thread, or -1.

        `since` is the interval in which the thread's block last passed a barrier.
        """
        rivals = np.full(cells.shape, NO_THREAD, np.int64)
        if not self._number or not (near := self._held[cells]).any():
            return rivals
        keys, _, last, _ = self._sort()
        cells, given, known = cells[near], threads[near], since[near]
        low, end = (np.searchsorted(keys, _make_keys(cells + more, 0)) for more in (0, 1))
        others, found = keys & _THREAD, rivals[near]
        latest = np.lexsort((-others, last, keys >> _BITS))
        # If any is of another block, the first or the last one is; of one block, the latest count.
        for at in (end - 1, low, latest[np.maximum(end - 2, low)], latest[end - 1]):
            other = others[at]
            is_rival = (other // per_block != given // per_block) | (last[at] >= known)
            found = np.where(is_rival & (other != given), other, found)
        rivals[near] = found
        return rivals

    def drop(self, cells: Array) -> None:
        """Forget which threads stored to these cells: another value is there now."""
        if self._number:
            self._held[cells], self._dropped[cells] = False, self._number
            self._is_sorted = False

    def drop_blocks(self, passed: Array, per_block: int, first: int) -> None:
        """Forget what threads of these thread blocks stored: they have passed a barrier.

        Only one thread block stores to each of the cells.
        """
        keys = self._sort()[0]
        self.drop((keys >> _BITS)[passed[(keys & _THREAD) // per_block - first]])

    def take(self) -> tuple[Array, Array]:
        """All cells and a thread of each, which are forgotten here."""
        keys = self._sort()[0]
        self.clear()
        return keys >> _BITS, keys & _THREAD

    def _sort(self) -> Array:
        """Keys, and when each stored first and last, of all stores that are not forgotten."""
        if self._is_sorted:
            return self._sorted
        new = [
            (keys, *(np.full(keys.size, it) for it in (time, time, no)))
            for keys, time, no in self._new
        ]
        rows = np.concatenate([self._sorted, *map(np.stack, new)], axis=1)
        rows = rows[:, rows[3] > self._dropped[rows[0] >> _BITS]]
        rows = rows[:, np.argsort(rows[0], kind="stable")]
        keys, begin = np.unique(rows[0], return_index=True)
        if keys.size:
            first = np.minimum.reduceat(rows[1], begin)
            rows = np.stack([keys, first, *np.maximum.reduceat(rows[2:], begin, axis=1)])
        self._sorted, self._new, self._is_sorted = rows, [], True
        return rows


def _make_keys(cells: Array, others: Array | int) -> Array:
    keys: Array = cells.astype(np.int64) << _BITS | others
    return keys


def _look_up(keys: Array, wanted: Array) -> tuple[Array, Array]:
    """Which keys there are, and where."""
    at = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return keys[at] == wanted, at
