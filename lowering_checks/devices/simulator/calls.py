"""Calls of functions in TIR: pointers, and what functions mean."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .async_copies import ASYNC_COPIES
from .faults import UnsupportedError, find_line
from .grid import Array
from .matrices import MATRICES, TYPED
from .meanings import Machine, Meaning, Pointer, Threads, find_meaning
from .memory import Memory, VectorMemory, count_lanes, numpy_type

Evaluate = Callable[[Machine, "Array | None"], Any]
BUILT_IN: dict[str, Meaning] = {**ASYNC_COPIES, **MATRICES}


@dataclass(frozen=True)
class Address:
    """The value of a pointer: an offset into a memory, in elements of its type."""

    memory: Memory
    offset: Any


def translate_call(node: Any, translate: Callable[[Any], Evaluate]) -> Evaluate:
    """The function of a call of a pointer's operator, or of a function that has a meaning."""
    name = str(getattr(node.op, "name", node.op)).removeprefix("tirx.")
    if name in _POINTERS:
        return _POINTERS[name](node, translate)
    arguments = list(node.args)
    if name == "cuda.func_call":
        name, arguments = str(arguments[0].value), arguments[1:-1]
    meaning, line = find_meaning(name, BUILT_IN), find_line(node)
    if name in TYPED:
        meaning = functools.partial(meaning, result=str(node.ty))
    values = [_argument(argument, translate) for argument in arguments]

    def run(machine: Machine, mask: Array | None) -> Any:
        threads = Threads(machine, mask, name, line or machine.line)
        given = (value(machine, mask) for value in values)
        return meaning(threads, *(_show(one, threads) for one in given))

    return run


def _argument(node: Any, translate: Callable[[Any], Evaluate]) -> Evaluate:
    if type(node).__name__ == "StringImm":
        text = str(node.value)
        return lambda machine, mask: text
    return translate(node)


def _show(value: Any, threads: Threads) -> Any:
    if isinstance(value, Address):
        return Pointer(threads, value.memory, value.offset)
    return value


def _buffer_data(node: Any, translate: Callable[[Any], Evaluate]) -> Evaluate:
    return _point_to(node.args[0])


def _access_ptr(node: Any, translate: Callable[[Any], Evaluate]) -> Evaluate:
    base, shift = node.args[1], translate(node.args[2])
    dtype, lanes = numpy_type(node.args[0].ty.dtype), count_lanes(node.args[0].ty.dtype)
    begin = _point_to(base) if type(base).__name__ == "Var" else translate(base)

    def point(machine: Machine, mask: Array | None) -> Address:
        address = begin(machine, mask)
        memory = address.memory.seen_as(dtype)
        if memory is not address.memory and not (
            isinstance(address.offset, int) and address.offset == 0
        ):
            raise UnsupportedError(f"the simulator does not know the pointer {node}")
        return Address(memory, address.offset + shift(machine, mask) * lanes)

    return point


def _address_of(node: Any, translate: Callable[[Any], Evaluate]) -> Evaluate:
    load = node.args[0]
    if len(load.indices) != 1:
        raise UnsupportedError(f"the simulator wants flat buffers, and has {load}")
    buffer, index = load.source, translate(load.indices[0])

    def point(machine: Machine, mask: Array | None) -> Address:
        memory, place = machine.memories[buffer], index(machine, mask)
        if isinstance(memory, VectorMemory):
            place, memory = place * memory.lanes, memory.scalars
        return Address(memory, place if isinstance(place, int) else place[:, :1])

    return point


def _point_to(buffer: Any) -> Evaluate:
    def point(machine: Machine, mask: Array | None) -> Address:
        memory = machine.memories[buffer]
        return Address(memory.scalars if isinstance(memory, VectorMemory) else memory, 0)

    return point


_POINTERS: dict[str, Callable[[Any, Callable[[Any], Evaluate]], Evaluate]] = {
    "buffer_data": _buffer_data,
    "tvm_access_ptr": _access_ptr,
    "address_of": _address_of,
    "cuda.cvta_generic_to_shared": lambda node, translate: translate(node.args[0]),
}
