"""What a lowered function says of its buffers: which of them it stores to, and where buffers lie in
shared memory that TVM has merged into one allocation of bytes.

`MergeSharedMemoryAllocations` leaves views of the types that the buffers had, all of which begin
where the allocation does. The place of each buffer is added to all its indices, as the last thing
that is done to them, so that it can be read off there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tvm.tirx import AllocBuffer, BufferStore, DeclBuffer, Var

from tirstep.transforms.tir import constant, find_all
from tirstep.tvm_compat import Call, TensorLoad, get_op_name

from .memory import count_lanes, get_numpy_dtype

_ALIGNMENT = 16
"""Buffers begin at multiples of these bytes."""
_WRITES = 2
"""The bit of an access pointer's mask that says so."""


def find_written_buffers(body: Any) -> set[Var]:
    """The buffers that a function stores to through any of their views, parameters among them.

    A pointer that is passed to a function without a mask does not count: stores through it are
    seen when they happen.
    """
    bases = {node.buffer: find_base(node.data) for node in find_all(body, DeclBuffer)}
    written = {node.buffer for node in find_all(body, BufferStore)} | _find_pointed_to(body)
    found: set[Var] = set()
    for buffer in written:
        while bases.get(buffer) is not None:
            buffer = bases[buffer]
        found.add(buffer)
    return found


def _find_pointed_to(body: Any) -> set[Var]:
    """The buffers of access pointers that may be stored through."""
    return {
        base
        for call in find_all(body, Call)
        if get_op_name(call) == "tirx.tvm_access_ptr"
        and (constant(call.args[4]) or 0) & _WRITES
        and (base := find_base(call.args[1])) is not None
    }


def find_base(data: Any) -> Var | None:
    """The variable of a buffer's data: another buffer, or a parameter of the kernel."""
    return next(iter(find_all(data, Var)), None)


@dataclass(frozen=True)
class SharedLayout:
    """What a kernel's views say of its allocations.

    Attributes
    ----------
    units : an allocation, to the bytes of the smallest type that it is viewed as
    offsets : a view, to the element of the allocation that it begins at, where the kernel tells
    buffer_ids : a view that shares its place with another buffer, to the id of its own buffer
    """

    units: dict[Var, int]
    offsets: dict[Var, int]
    buffer_ids: dict[Var, int]


def get_shared_layout(body: Any, origins: Mapping[str, str]) -> SharedLayout:
    """The layout of a kernel's shared memory.

    `origins` are names of views to names of the buffers that TVM has merged; without them it is not
    known whether two views are one buffer or two.
    """
    views: dict[Var, list[Var]] = {}
    for node in find_all(body, DeclBuffer):
        base = find_base(node.data)
        if base is not None and str(node.buffer.scope()).startswith("shared"):
            views.setdefault(base, []).append(node.buffer)
    indices: dict[Var, list[Any]] = {}
    if views:
        for buffer, index in _walk_uses(body):
            indices.setdefault(buffer, []).append(index)
    units: dict[Var, int] = {}
    offsets: dict[Var, int | None] = {}
    for base, buffers in views.items():
        used = [*buffers, *([base] if base in indices else [])]
        units[base] = min(get_numpy_dtype(buffer.dtype).itemsize for buffer in used)
        if base.dtype == "uint8" and base not in indices:
            end = _count_elements(base)
            for buffer in buffers:
                offsets[buffer] = _find_offset(indices.get(buffer, []), buffer, end)
    known = {view: low for view, low in offsets.items() if low is not None}
    return SharedLayout(units, known, _number_overlapping(offsets, origins))


def get_origins(body: Any) -> dict[str, str]:
    """The names of buffers in dynamic shared memory before TVM merges them, and of their views.

    Each is mapped to the name of its allocation. Empty where names do not tell buffers apart.
    """
    allocated = [node.buffer for node in find_all(body, AllocBuffer)]
    bases = {buffer: buffer for buffer in allocated if str(buffer.scope()) == "shared.dyn"}
    for node in find_all(body, DeclBuffer):
        base = find_base(node.data)
        if base in bases:
            bases[node.buffer] = bases[base]
    names = {str(buffer.name): str(base.name) for buffer, base in bases.items()}
    return names if len(set(bases.values())) > 1 and len(names) == len(bases) else {}


def _number_overlapping(
    offsets: Mapping[Var, int | None], origins: Mapping[str, str]
) -> dict[Var, int]:
    """Ids of the buffers whose places overlap, for all their views."""
    places: dict[str, list[tuple[float, float]]] = {}
    for view, low in offsets.items():
        if (origin := origins.get(str(view.name))) is not None:
            itemsize = get_numpy_dtype(view.dtype).itemsize
            size = _count_elements(view) * itemsize * count_lanes(view.dtype)
            place = (0, math.inf) if low is None else (low * itemsize, low * itemsize + size)
            places.setdefault(origin, []).append(place)
    overlapping = {
        origin
        for origin, other in itertools.permutations(places, 2)
        if any(a < d and c < b for a, b in places[origin] for c, d in places[other])
    }
    ids = {origin: number for number, origin in enumerate(sorted(overlapping), 1)}
    numbered = ((view, ids.get(origins.get(str(view.name), ""))) for view in offsets)
    return {view: number for view, number in numbered if number is not None}


def _count_elements(buffer: Var) -> int:
    return math.prod(constant(extent) or 0 for extent in buffer.shape)


def _walk_uses(body: Any) -> Iterator[tuple[Var, Any]]:
    """All indices that buffers are used with; None where a call takes a buffer without one."""
    for node in find_all(body, BufferStore):
        yield node.buffer, node.indices[0]
    for node in find_all(body, TensorLoad):
        yield node.source, node.indices[0]
    for node in find_all(body, Call):
        for argument, following in itertools.zip_longest(node.args, list(node.args)[1:]):
            if getattr(getattr(argument, "op", None), "name", "") == "tirx.buffer_data":
                dtype = str(getattr(getattr(following, "ty", None), "dtype", ""))
                yield argument.args[0], following if dtype.startswith("int") else None


def _find_offset(indices: list[Any], view: Var, end: int) -> int | None:
    """The element that a view begins at: the constant that all indices end or begin with."""
    known = [constants for index in indices if (constants := _list_constants(index))]
    if not known or len(known) < len([index for index in indices if constant(index) is None]):
        return None
    item = get_numpy_dtype(view.dtype).itemsize * count_lanes(view.dtype)
    for offset in sorted(set.intersection(*known), reverse=True):
        if offset * item % _ALIGNMENT == 0 and (offset + _count_elements(view)) * item <= end:
            return offset * count_lanes(view.dtype)
    return None


def _list_constants(index: Any) -> set[int]:
    """What may have been added to an index: its outermost constant, or 0; empty for unknown."""
    if index is None or constant(index) is not None:
        return set()
    if type(index).__name__ == "Ramp":
        return _list_constants(index.base)
    if type(index).__name__ != "Add":
        return {0}
    sides = (getattr(side, "value", None) for side in (index.a, index.b))  # Broadcast has one, too
    return {0, *(value for side in sides if (value := constant(side)) is not None)}
