"""Who wrote a cell without changing it, beside the thread whose write is remembered.

Several threads may write one value to one cell at once, and each may then read its own back. Few
kernels do so: the memory's shadow remembers one writer, and the others are kept here.
"""

from __future__ import annotations

import numpy as np

from .grid import Array


class Crowd:
    """Pairs of a cell and a thread that wrote what is there."""

    def __init__(self) -> None:
        self._cells, self._threads, self._times = _empty(), _empty(), _empty()
        self._waiting: list[tuple[Array, Array, Array]] = []
        self.clear()

    def __bool__(self) -> bool:
        return bool(self._waiting) or self._cells.size > 0

    def clear(self) -> None:
        """Forget all pairs."""
        self._cells, self._threads, self._times = _empty(), _empty(), _empty()
        self._waiting = []

    def add(self, cells: Array, threads: Array, time: int) -> None:
        """Remember that threads wrote cells, in an interval."""
        if cells.size:
            self._waiting.append((cells, threads, np.full(cells.size, time)))

    def has(self, cells: Array, threads: Array, begun: Array, per_block: int) -> Array:
        """Which of these threads have written these cells, or somebody before them.

        That is a thread of the same GPU block, before the interval in which it last passed a
        barrier, `begun`.
        """
        self._gather()
        if not self._cells.size:
            return np.zeros(cells.shape, bool)
        most = int(max(self._threads.max(), threads.max())) + 1
        own = np.isin(cells * most + threads, self._cells * most + self._threads)
        keys = self._cells * most + self._threads // per_block
        order = np.lexsort((self._times, keys))
        wanted = cells * most + threads // per_block
        first = np.minimum(np.searchsorted(keys[order], wanted), keys.size - 1)
        earliest = order[first]  # of the pairs of a cell and a block
        before: Array = (keys[earliest] == wanted) & (self._times[earliest] < begun)
        return own | before

    def find_rivals(self, cells: Array, threads: Array, begun: Array, per_block: int) -> Array:
        """A thread that wrote one of these cells in no order with the given thread, or -1.

        `begun` is the interval in which the thread's GPU block last passed a barrier.
        """
        self._gather()
        rivals = np.full(cells.shape, -1, np.int64)
        order = np.argsort(self._cells, kind="stable")
        first = np.searchsorted(self._cells[order], cells, "left")
        left = np.searchsorted(self._cells[order], cells, "right") - first
        for step in range(int(left.max(initial=0))):  # all pairs of a cell, one after the other
            pair = order[np.minimum(first + step, order.size - 1)]
            thread = self._threads[pair]
            apart = (thread // per_block != threads // per_block) | (self._times[pair] >= begun)
            rivals = np.where((step < left) & (thread != threads) & apart, thread, rivals)
        return rivals

    def drop(self, cells: Array) -> None:
        """Forget who wrote these cells: another value is there now."""
        self._keep(~np.isin(self._cells, cells))

    def drop_blocks(self, passed: Array, per_block: int, first: int) -> None:
        """Forget what threads of these GPU blocks wrote: they have passed a barrier."""
        self._gather()
        self._keep(~passed[self._threads // per_block - first])

    def take(self) -> tuple[Array, Array]:
        """All cells and their threads, which are forgotten here."""
        self._gather()
        cells, threads = self._cells, self._threads
        self.clear()
        return cells, threads

    def _keep(self, kept: Array) -> None:
        self._cells, self._threads = self._cells[kept], self._threads[kept]
        self._times = self._times[kept]

    def _gather(self) -> None:
        if self._waiting:
            own = (self._cells, self._threads, self._times)
            columns = zip(own, *self._waiting, strict=True)
            self._cells, self._threads, self._times = (np.concatenate(one) for one in columns)
            self._waiting = []


def _empty() -> Array:
    return np.empty(0, np.int64)
