"""Atomic operations: ``atomicAdd`` and its relatives, as calls of C++ and as PTX's atom and red.

Semantics from the CUDA C++ Programming Guide, section "Atomic Functions", and the PTX ISA. Threads
that come to one do so in any order: the one in which they change a cell is drawn, so that what a
program makes of the values that it gets back must not depend on it. An atomic operation orders
nothing else; those that acquire or release are not supported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...device import Array
from .broadcasting import spread_to
from .function_semantics import Pointer, Semantics, Threads
from .run_state import UnsupportedError

_CHANGES: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "exch": lambda old, value: value,
    "min": min,
    "max": max,
    "and": lambda old, value: old & value,
    "or": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "inc": lambda old, value: old + old.dtype.type(1) if old < value else old.dtype.type(0),
    "dec": lambda old, value: value if old == 0 or old > value else old - old.dtype.type(1),
    "cas": lambda old, compared, value: value if old == compared else old,
}
"""What a cell becomes, of what it held and what a thread gives."""
_KINDS = {"f": "float", "s": "int", "u": "uint", "b": "uint"}
"""Of types of PTX, which have their bits behind."""
_ORDERING = ("acquire", "release", "acq_rel")


def _change(change: Callable[..., Any], threads: Threads, pointer: Pointer, *given: Any) -> Array:
    """Each thread changes its cell, one after the other; what each found there."""
    shape, dtype = (threads.lanes, 1), pointer.dtype
    operands = [spread_to(np.asarray(value).astype(dtype), shape)[:, 0] for value in given]
    order = np.flatnonzero(threads.active)
    threads.gpu.order.shuffle(order)
    found = np.zeros(shape, dtype)

    def run(data: Array, places: Array) -> None:
        for lane in order:
            found[lane] = old = data[places[lane, 0]]
            data[places[lane, 0]] = change(old, *(operand[lane] for operand in operands))

    pointer.change_atomically(run)
    return found


def _change_by_ptx(threads: Threads, *arguments: Any) -> None:
    """``atom`` stores what it found in its first argument, which ``red`` does not have."""
    values = [each for each in arguments if not isinstance(each, str)]
    words = [each for each in arguments if isinstance(each, str)]
    if ordering := next((word for word in words if word in _ORDERING), None):
        raise UnsupportedError(
            f"the simulator does not order other accesses by {threads.name} with .{ordering}"
        )
    target = None if threads.name == "ptx.red" else values.pop(0)
    (change,) = (_CHANGES[word] for word in words if word in _CHANGES)
    (kind,) = (word for word in words if word[:1] in _KINDS and word[1:].isdigit())
    memory = values[0].memory.reinterpret(np.dtype(_KINDS[kind[0]] + kind[1:]))
    found = _change(change, threads, Pointer(threads, memory, values[0].offset), *values[1:])
    if target is not None:
        target.store(0, found)


ATOMICS: dict[str, Semantics] = {
    **{
        f"atomic{'CAS' if name == 'cas' else name.title()}": functools.partial(_change, change)
        for name, change in _CHANGES.items()
    },
    "cuda.atomic_add": functools.partial(_change, _CHANGES["add"]),
    "cuda.atomic_cas": functools.partial(_change, _CHANGES["cas"]),
    **dict.fromkeys(("ptx.red", "ptx.atom", "ptx.atom_cas", "ptx.atom_exch"), _change_by_ptx),
}
