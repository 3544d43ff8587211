"""Where buffers lie in shared memory that TVM has merged into one allocation of bytes.

`MergeSharedMemoryAllocations` leaves views of the types that the buffers had, all of which begin
where the allocation does. The place of each buffer is added to all its indices, as the last thing
that is done to them, so that it can be read off there.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx import AllocBuffer, BufferStore, DeclBuffer, Var

from tirstep.transforms.queries import constant, find_all

from .memory import count_lanes, numpy_type

_ALIGNMENT = 16
"""Buffers begin at multiples of these bytes."""


@dataclass(frozen=True)
class Layout:
    """What a kernel's views say of its allocations.

    Attributes
    ----------
    units : an allocation, to the bytes of the smallest type that it is seen as
    offsets : a view, to the element of the allocation that it begins at, where the kernel tells
    marks : a view that shares its place with another buffer, to a number of its own buffer
    """

    units: dict[Var, int]
    offsets: dict[Var, int]
    marks: dict[Var, int]


def find_layout(body: Any, origins: Mapping[str, str]) -> Layout:
    """The layout of a kernel's shared memory.

    `origins` are names of views to names of the buffers that TVM has merged; without them it is not
    known whether two views are one buffer or two.
    """
    views: dict[Var, list[Var]] = {}
    for node in find_all(body, DeclBuffer):
        base = find_base(node.data)
        if base is not None and str(node.buffer.scope()).startswith("shared"):
            views.setdefault(base, []).append(node.buffer)
    indices = _find_indices(body) if views else {}
    units: dict[Var, int] = {}
    offsets: dict[Var, int | None] = {}
    for base, buffers in views.items():
        seen = [*buffers, *([base] if base in indices else [])]
        units[base] = min(numpy_type(one.dtype).itemsize for one in seen)
        if base.dtype == "uint8" and base not in indices:
            end = math.prod(constant(extent) or 0 for extent in base.shape)
            for buffer in buffers:
                offsets[buffer] = _find_offset(indices.get(buffer, []), buffer, end)
    known = {view: low for view, low in offsets.items() if low is not None}
    return Layout(units, known, _find_marks(offsets, origins))


def find_origins(body: Any) -> dict[str, str]:
    """The names of buffers in dynamic shared memory before TVM merges them, and of their views.

    Each is mapped to the name of its allocation. Empty where names do not tell buffers apart.
    """
    allocated = [node.buffer for node in find_all(body, AllocBuffer)]
    bases = {one: one for one in allocated if str(one.scope()) == "shared.dyn"}
    for node in find_all(body, DeclBuffer):
        base = find_base(node.data)
        if base in bases:
            bases[node.buffer] = bases[base]
    names = [str(one.name) for one in bases]
    if len(set(bases.values())) < 2 or len(set(names)) < len(names):
        return {}
    return {str(one.name): str(base.name) for one, base in bases.items()}


def _find_marks(offsets: Mapping[Var, int | None], origins: Mapping[str, str]) -> dict[Var, int]:
    """Numbers of the buffers whose places overlap, for all their views."""
    places: dict[str, list[tuple[float, float]]] = {}
    for view, low in offsets.items():
        if (origin := origins.get(str(view.name))) is not None:
            bytes_of = numpy_type(view.dtype).itemsize
            size = math.prod(constant(extent) or 0 for extent in view.shape)
            end = size * bytes_of * count_lanes(view.dtype)
            first = 0 if low is None else low * bytes_of
            places.setdefault(origin, []).append((first, math.inf if low is None else first + end))
    shared = {
        one
        for one, other in itertools.permutations(places, 2)
        if any(a < d and c < b for a, b in places[one] for c, d in places[other])
    }
    numbers = {origin: number for number, origin in enumerate(sorted(shared), 1)}
    marked = ((view, numbers.get(origins.get(str(view.name), ""))) for view in offsets)
    return {view: number for view, number in marked if number is not None}


def find_base(data: Any) -> Var | None:
    """The variable of a buffer's data: another buffer, or a parameter of the kernel."""
    return next(iter(find_all(data, Var)), None)


def _find_indices(body: Any) -> dict[Var, list[Any]]:
    """All indices that buffers are used with; None where a call takes a buffer without one."""
    indices: dict[Var, list[Any]] = {}
    for buffer, index in _walk_uses(body):
        indices.setdefault(buffer, []).append(index)
    return indices


def _walk_uses(body: Any) -> Iterator[tuple[Var, Any]]:
    for node in find_all(body, BufferStore):
        yield node.buffer, node.indices[0]
    for node in find_all(body, TensorLoad):
        yield node.source, node.indices[0]
    for node in find_all(body, Call):
        for argument, following in zip_longest(node.args, list(node.args)[1:]):
            if _is_data(argument):
                dtype = str(getattr(getattr(following, "ty", None), "dtype", ""))
                yield argument.args[0], following if dtype.startswith("int") else None


def _is_data(node: Any) -> bool:
    return getattr(getattr(node, "op", None), "name", "") == "tirx.buffer_data"


def _find_offset(indices: list[Any], view: Var, end: int) -> int | None:
    """The element that a view begins at: the constant that all indices end or begin with."""
    possible = [_find_constants(index) for index in indices]
    known = [one for one in possible if one]
    if not known or len(known) < len([index for index in indices if constant(index) is None]):
        return None
    common = sorted(set.intersection(*known), reverse=True)
    size = math.prod(constant(extent) or 0 for extent in view.shape)
    item = numpy_type(view.dtype).itemsize * count_lanes(view.dtype)
    for offset in common:
        if offset * item % _ALIGNMENT == 0 and (offset + size) * item <= end:
            return offset * count_lanes(view.dtype)
    return None


def _find_constants(index: Any) -> set[int]:
    """What may have been added to an index: its outermost constant, or 0; empty for unknown."""
    if index is None or constant(index) is not None:
        return set()
    if type(index).__name__ == "Ramp":
        return _find_constants(index.base)
    if type(index).__name__ != "Add":
        return {0}
    sides = (getattr(side, "value", None) for side in (index.a, index.b))  # Broadcast has one, too
    return {0, *(value for side in sides if (value := constant(side)) is not None)}
