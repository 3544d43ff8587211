"""ld and st of PTX: one register or several at a pointer, whatever the type of its memory.

Semantics: PTX ISA, Data Movement and Conversion Instructions, ld and st.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import clusters
from .function_semantics import Pointer, Semantics, Threads
from .ptx_calls import fill_register, get_type, name_operands
from .run_state import UnsupportedError


def _require_unordered(threads: Threads, words: Mapping[str, str]) -> None:
    """Refuse what orders other accesses."""
    if ordered := words.get("mmio") or words["sem"].replace("weak", ""):
        raise UnsupportedError(
            f"the simulator does not know what {threads.name} with .{ordered} orders"
        )


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


def _load(threads: Threads, *given: Any) -> None:
    words, operands = name_operands(threads.name, given)
    if words["space"] == "shared::cluster":
        clusters.load(threads, *given)
        return
    _require_unordered(threads, words)
    (address,), registers, (dtype, _) = operands["addr"], operands["d"], get_type(words["type"])
    size = len(registers) * dtype.itemsize
    bits = np.ascontiguousarray(address.load(_find_elements(threads, address, size))).view(dtype)
    for place, register in enumerate(registers):
        fill_register(register, bits[:, place : place + 1])


def _store(threads: Threads, *given: Any) -> None:
    words, operands = name_operands(threads.name, given)
    if words["space"] == "shared::cluster":
        clusters.store(threads, *given)
        return
    _require_unordered(threads, words)
    (address,), values, (dtype, _) = operands["addr"], operands["value"], get_type(words["type"])
    columns = []
    for value in values:
        column = np.broadcast_to(value, (threads.lanes, 1))
        is_other = column.dtype.itemsize != dtype.itemsize
        columns.append(column.astype(dtype) if is_other else column.copy().view(dtype))
    elements = _find_elements(threads, address, len(values) * dtype.itemsize)
    address.store(elements, np.hstack(columns).view(address.dtype))


VECTOR_ACCESSES: dict[str, Semantics] = {
    **dict.fromkeys(("ptx.ld", "ptx.ld_vec", "ptx.ld_vec256"), _load),
    **dict.fromkeys(("ptx.st", "ptx.st_vec", "ptx.st_vec256"), _store),
}
