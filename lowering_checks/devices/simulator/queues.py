"""What hardware does beside the threads: groups of work that a thread commits and waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .grid import Array
from .memory import Arrive


@dataclass
class _Work:
    """`group` is the number of each lane's group, `left` the lanes whose part is still to come."""

    group: Array
    left: Array
    arrive: Arrive


class Queue:
    """Work of one kind, as of cp.async: each thread has groups of its own, in order.

    Work belongs to the group that its thread commits next; a wait for all but the last n groups
    makes what is older arrive, and work that nobody has committed never does. Columns have the
    shape (lanes, 1).
    """

    def __init__(self, lanes: int) -> None:
        self._committed = np.zeros((lanes, 1), np.int64)
        self._work: list[_Work] = []

    def defer(self, here: Array, arrive: Arrive) -> None:
        """Add work of these lanes."""
        self._work.append(_Work(self._committed.copy(), here.copy(), arrive))

    def commit(self, here: Array) -> None:
        """Close the group of these lanes; it may be empty."""
        self._committed = self._committed + here

    def wait(self, here: Array, in_flight: int | Array) -> None:
        """Let the work of these lanes arrive, but for that of their last `in_flight` groups."""
        for work in self._work:
            ready = work.left & here & (work.group < self._committed - in_flight)
            if ready.any():
                work.left &= ~ready
                work.arrive(ready)
        self._work = [work for work in self._work if work.left.any()]
