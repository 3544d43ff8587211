"""ld and st of PTX: one register or several at a pointer, whatever the type of its memory.

Semantics: PTX ISA, Data Movement and Conversion Instructions, ld and st.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import clusters
from .function_semantics import Pointer, Semantics, Threads
from .run_state import UnsupportedError

_TYPE = re.compile(r"([busf])(8|16|32|64)$")
_KINDS = {"b": "uint", "u": "uint", "s": "int", "f": "float"}
_ORDERS = {"acquire", "relaxed", "release", "volatile", "mmio"}


def _count(words: Sequence[str]) -> int:
    return next((int(word[1:]) for word in words if re.fullmatch(r"v\d", word)), 1)


def _read(threads: Threads, given: Sequence[Any]) -> tuple[list[Any], int, np.dtype[Any]]:
    """What is no modifier, how many registers there are, and their type."""
    words = [it for it in given if isinstance(it, str) and it]
    if ordered := _ORDERS.intersection(words):
        raise UnsupportedError(
            f"the simulator does not know what {threads.name} with .{min(ordered)} orders"
        )
    types = [found for word in words if (found := _TYPE.fullmatch(word))]
    if not types:
        raise UnsupportedError(f"the simulator does not support {threads.name} of {words}")
    dtype = np.dtype(f"{_KINDS[types[0][1]]}{types[0][2]}")
    return [it for it in given if not isinstance(it, str)], _count(words), dtype


def _find_elements(threads: Threads, address: Any, size: int) -> np.ndarray[Any, Any]:
    """The elements of a pointer's memory that an access of so many bytes has."""
    if not isinstance(address, Pointer):
        raise UnsupportedError(f"the simulator supports {threads.name} at a pointer alone")
    if size % address.dtype.itemsize:
        raise UnsupportedError(
            f"the simulator does not support {threads.name} of {size} bytes in {address.name}, "
            f"whose elements have {address.dtype.itemsize}"
        )
    return np.arange(size // address.dtype.itemsize)


def _is_of_cluster(given: Sequence[Any]) -> bool:
    return "shared::cluster" in [it for it in given if isinstance(it, str)]


def _load(threads: Threads, *given: Any) -> None:
    if _is_of_cluster(given):
        clusters.load(threads, *given)
        return
    values, count, dtype = _read(threads, given)
    address = values[count]
    loaded = address.load(_find_elements(threads, address, count * dtype.itemsize))
    bits = np.ascontiguousarray(loaded).view(dtype)
    for place, register in enumerate(values[:count]):
        if register is None:
            continue
        column = bits[:, place : place + 1]
        is_other = register.dtype.itemsize != dtype.itemsize
        register.store(
            0, column.astype(register.dtype) if is_other else column.view(register.dtype)
        )


def _store(threads: Threads, *given: Any) -> None:
    if _is_of_cluster(given):
        clusters.store(threads, *given)
        return
    values, count, dtype = _read(threads, given)
    address, shape = values[0], (threads.lanes, 1)
    elements = _find_elements(threads, address, count * dtype.itemsize)
    columns = []
    for value in values[1 : 1 + count]:
        column = np.broadcast_to(value, shape)
        is_other = column.dtype.itemsize != dtype.itemsize
        columns.append(column.astype(dtype) if is_other else column.copy().view(dtype))
    address.store(elements, np.hstack(columns).view(address.dtype))


VECTOR_ACCESSES: dict[str, Semantics] = {
    **dict.fromkeys(("ptx.ld", "ptx.ld_vec", "ptx.ld_vec256"), _load),
    **dict.fromkeys(("ptx.st", "ptx.st_vec", "ptx.st_vec256"), _store),
}
