"""Asynchronous copies, cp.async: data arrives at the wait, and not before.

Semantics from the PTX ISA, section "Data Movement and Conversion Instructions: Asynchronous copy":
a copy belongs to the group that its thread commits next, and only a wait of the same thread for
that group completes it. When the source is loaded in between is open: here it is loaded at once,
and a value that changed until the copy arrives is a race.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...device import Array
from .function_semantics import Pointer, Semantics, Threads
from .memory import Arrive
from .ptx_calls import name_operands
from .run_state import UnsupportedError

CP_ASYNC = "cp.async"
"""The queue of these copies. TVM numbers its queues, and CUDA has this one."""
_SIZES = (4, 8, 16)


class AsyncQueue:
    """Work that hardware does asynchronously, of one kind: each thread has groups of its own.

    Work belongs to the group that its thread commits next; a wait for all but the last n groups
    completes what is older, and work that is never committed never completes. Columns have the
    shape (lanes, 1).

    Attributes
    ----------
    work : that no thread waited for yet: the number of each lane's group, the lanes whose part is
        in flight, and what makes it arrive
    """

    def __init__(self, lanes: int) -> None:
        self._committed = np.zeros((lanes, 1), np.int64)
        self.work: list[tuple[Array, Array, Arrive]] = []

    def defer(self, active: Array, arrive: Arrive) -> None:
        """Add work of these lanes."""
        self.work.append((self._committed, active.copy(), arrive))

    def commit(self, active: Array) -> None:
        """Close the group of these lanes; it may be empty."""
        self._committed = self._committed + active

    def wait(self, active: Array, in_flight: int | Array) -> None:
        """Complete the work of these lanes, but for that of their last `in_flight` groups."""
        for group, left, arrive in self.work:
            _complete(left, active & (group < self._committed - in_flight), arrive)
        self.work = [each for each in self.work if each[1].any()]

    def track(self, active: Array) -> Callable[[], None]:
        """A function that completes all work of these lanes so far, committed or not."""
        work = tuple(self.work)

        def bring() -> None:
            for _, left, arrive in work:
                _complete(left, active, arrive)

        return bring


def _complete(left: Array, chosen: Array, arrive: Arrive) -> None:
    """Have the work arrive that is left to these lanes, and take it from them."""
    ready = left & chosen
    if ready.any():
        left &= ~ready
        arrive(ready)


def _copy_raw(
    threads: Threads,
    target: Pointer,
    target_offset: Any,
    source: Pointer,
    source_offset: Any,
    size: int,
    predicate: Any = -1,
) -> None:
    """TVM's own: where the predicate does not hold it stores zeros, at once and not later."""
    target, source = target.shift(target_offset), source.shift(source_offset)
    holds = np.broadcast_to(predicate != 0, (threads.lanes, 1))
    _begin_copy(threads, target, source, size, holds)
    rest = threads.active & ~holds
    if rest.any():
        target.store(_get_offsets(target, size), 0, rest)


def _copy(threads: Threads, *given: Any) -> None:
    """With src-size the bytes after the first ones become zero, with ignore-src all of them; a
    cache policy changes no value."""
    _, operands = name_operands(threads.name, given)
    (target,), (source,), (size,) = (operands[it] for it in ("dst_mem", "src_mem", "cp_size"))
    valid, loaded = operands.get("src_size", []), None
    valid = valid or [np.where(it, 0, size) for it in operands.get("ignore_src", ())]
    if valid:
        loaded = np.arange(size // source.dtype.itemsize) * source.dtype.itemsize < valid[0]
    _begin_copy(threads, target, source, size, np.ones((threads.lanes, 1), bool), loaded)


def _begin_copy(
    threads: Threads,
    target: Pointer,
    source: Pointer,
    size: int,
    lanes: Array,
    loaded: Array | None = None,
) -> None:
    """Begin a copy of `size` bytes; of elements that are not `loaded`, zeros arrive."""
    if size not in _SIZES:
        raise UnsupportedError(f"{threads.name} copies {size} bytes; a GPU copies {_SIZES}")
    loading = lanes if loaded is None else lanes & loaded
    offsets = _get_offsets(source, size)
    values = source.load(offsets, loading)
    copied = values if loaded is None else np.where(loaded, values, values.dtype.type(0))
    if copied.dtype != target.dtype:
        copied = np.ascontiguousarray(copied).view(target.dtype)
    complete = target.begin_store(_get_offsets(target, size), copied, lanes)

    def arrive(ready: Array) -> None:
        source.check_unchanged(offsets, values, ready & loading)
        complete(ready)

    threads.defer(CP_ASYNC, arrive, lanes)
    threads.count("async_copies")


def _get_offsets(pointer: Pointer, size: int) -> Array:
    return np.arange(max(1, size // pointer.dtype.itemsize))


ASYNC_COPIES: dict[str, Semantics] = {
    "s_tir.cp_async_raw": _copy_raw,
    **{
        f"ptx.cp_async_{cache}{ending}": _copy
        for cache in ("ca", "cg")
        for ending in ("", "_src_size", "_ignore_src")
    },
    "ptx.cp_async_commit_group": lambda threads, *_: threads.commit(CP_ASYNC),
    "ptx.cp_async_wait_group": lambda threads, left, *_: threads.wait(CP_ASYNC, left),
    # The group that is not committed yet, too.
    "ptx.cp_async_wait_all": lambda threads, *_: threads.wait(CP_ASYNC, -1),
}
