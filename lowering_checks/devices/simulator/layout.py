"""Where buffers lie in shared memory that TVM has merged into one allocation of bytes.

`MergeSharedMemoryAllocations` leaves views of the types that the buffers had, all of which begin
where the allocation does. The place of each buffer is added to all its indices, as the last thing
that is done to them, so that it can be read off there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx import BufferStore, DeclBuffer, Var

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
    """

    units: dict[Var, int]
    offsets: dict[Var, int]


def find_layout(body: Any) -> Layout:
    """The layout of a kernel's shared memory."""
    views: dict[Var, list[Var]] = {}
    for node in find_all(body, DeclBuffer):
        base = find_base(node.data)
        if base is not None and str(node.buffer.scope()).startswith("shared"):
            views.setdefault(base, []).append(node.buffer)
    indices = _find_indices(body) if views else {}
    units, offsets = {}, {}
    for base, buffers in views.items():
        seen = [*buffers, *([base] if base in indices else [])]
        units[base] = min(numpy_type(one.dtype).itemsize for one in seen)
        if base.dtype == "uint8" and base not in indices:
            end = math.prod(constant(extent) or 0 for extent in base.shape)
            for buffer in buffers:
                offsets[buffer] = _find_offset(indices.get(buffer, []), buffer, end)
    return Layout(units, {view: low for view, low in offsets.items() if low is not None})


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
