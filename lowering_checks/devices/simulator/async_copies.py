"""Asynchronous copies, cp.async: data arrives at the wait, and not before.

Semantics from the PTX ISA, section "Data Movement and Conversion Instructions: Asynchronous copy":
a copy belongs to the group that its thread commits next, and only a wait of the same thread for
that group makes it complete. When the source is read in between is open: here it is read at once,
and a value that changed until the copy arrives is a race.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .faults import UnsupportedError
from .grid import Array
from .meanings import Meaning, Pointer, Threads

CP_ASYNC = "cp.async"
"""The queue of these copies. TVM numbers its queues, and CUDA has this one."""
_SIZES = (4, 8, 16)


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
    holds = _as_mask(predicate != 0, threads)
    _begin_copy(threads, (target, target_offset), (source, source_offset), size, holds)
    rest = threads.here & ~holds
    if rest.any():
        target.store(_row(target, target_offset, size), 0, rest)


def _copy(threads: Threads, target: Pointer, source: Pointer, size: int, *rest: Any) -> None:
    operands, predicate = _split(rest, threads)
    if operands:
        raise _unknown_operands(threads)
    _begin_copy(threads, (target, 0), (source, 0), size, predicate)


def _copy_some(
    threads: Threads, target: Pointer, source: Pointer, size: int, valid: Any, *rest: Any
) -> None:
    """With src-size: the bytes after the first `valid` ones become zero."""
    operands, predicate = _split(rest, threads)
    if operands:
        raise _unknown_operands(threads)
    wanted = np.arange(size // source.dtype.itemsize) * source.dtype.itemsize < valid
    _begin_copy(threads, (target, 0), (source, 0), size, predicate, wanted)


def _copy_or_zero(
    threads: Threads, target: Pointer, source: Pointer, size: int, ignored: Any, *rest: Any
) -> None:
    """With ignore-src: the source is not read, and zeros arrive."""
    _copy_some(threads, target, source, size, np.where(ignored, 0, size), *rest)


def _begin_copy(
    threads: Threads,
    target: tuple[Pointer, Any],
    source: tuple[Pointer, Any],
    size: int,
    lanes: Array,
    wanted: Array | None = None,
) -> None:
    if size not in _SIZES:
        raise UnsupportedError(f"{threads.name} copies {size} bytes; a GPU copies {_SIZES}")
    reading = lanes if wanted is None else lanes & wanted
    place = _row(*source, size)
    values = source[0].load(place, reading)
    brought = values if wanted is None else np.where(wanted, values, values.dtype.type(0))
    if brought.dtype != target[0].dtype:
        brought = np.ascontiguousarray(brought).view(target[0].dtype)
    land = target[0].begin_store(_row(*target, size), brought, lanes)

    def arrive(ready: Array) -> None:
        source[0].check_unchanged(place, values, ready & reading)
        land(ready)

    threads.defer(CP_ASYNC, arrive, lanes)
    threads.count("async_copies")


def _row(pointer: Pointer, offset: Any, size: int) -> Any:
    return offset + np.arange(max(1, size // pointer.dtype.itemsize))


def _as_mask(condition: Any, threads: Threads) -> Array:
    return np.broadcast_to(condition, (threads.lanes, 1))


def _split(rest: tuple[Any, ...], threads: Threads) -> tuple[list[Any], Array]:
    """The operands that are left of a PTX instruction, and the mask of its predicate.

    TVM passes operands, then modifiers as strings, the last of which says whether the last operand
    is the predicate that guards the instruction.
    """
    operands = [one for one in rest if not isinstance(one, str)]
    is_guarded = bool(rest) and "pred" in str(rest[-1]).split(",")
    guard = operands.pop() if is_guarded else True
    return operands, _as_mask(np.not_equal(guard, 0), threads)


def _unknown_operands(threads: Threads) -> UnsupportedError:
    return UnsupportedError(f"the simulator does not know the cache policy of {threads.name}")


def _commit(threads: Threads, *modifiers: str) -> None:
    threads.commit(CP_ASYNC)


def _wait(threads: Threads, in_flight: int, *modifiers: str) -> None:
    threads.wait(CP_ASYNC, in_flight)


def _wait_for_all(threads: Threads, *modifiers: str) -> None:
    threads.commit(CP_ASYNC)
    threads.wait(CP_ASYNC)


ASYNC_COPIES: dict[str, Meaning] = {
    "s_tir.cp_async_raw": _copy_raw,
    "ptx.cp_async_ca": _copy,
    "ptx.cp_async_cg": _copy,
    "ptx.cp_async_ca_src_size": _copy_some,
    "ptx.cp_async_cg_src_size": _copy_some,
    "ptx.cp_async_ca_ignore_src": _copy_or_zero,
    "ptx.cp_async_cg_ignore_src": _copy_or_zero,
    "ptx.cp_async_commit_group": _commit,
    "ptx.cp_async_wait_group": _wait,
    "ptx.cp_async_wait_all": _wait_for_all,
}
