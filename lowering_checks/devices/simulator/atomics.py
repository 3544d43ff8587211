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
from .ptx_calls import get_type, name_operands
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


def _change_by_ptx(threads: Threads, *given: Any) -> None:
    """``atom`` stores what it found in a register, which ``red`` does not have."""
    words, operands = name_operands(threads.name, given)
    if words["sem"] in _ORDERING:
        raise UnsupportedError(
            f"the simulator does not order other accesses by {threads.name} with .{words['sem']}"
        )
    (address,), values = operands["addr"], [*operands.get("compare", ()), *operands["value"]]
    memory = address.memory.reinterpret(get_type(words["type"])[0])
    place = Pointer(threads, memory, address.offset)
    found = _change(_CHANGES[words["op"]], threads, place, *values)
    for register in filter(None, operands.get("d", ())):
        register.store(0, found)


ATOMICS: dict[str, Semantics] = {
    **{
        f"atomic{'CAS' if name == 'cas' else name.title()}": functools.partial(_change, change)
        for name, change in _CHANGES.items()
    },
    "cuda.atomic_add": functools.partial(_change, _CHANGES["add"]),
    "cuda.atomic_cas": functools.partial(_change, _CHANGES["cas"]),
    **dict.fromkeys(("ptx.red", "ptx.atom", "ptx.atom_cas", "ptx.atom_exch"), _change_by_ptx),
}
