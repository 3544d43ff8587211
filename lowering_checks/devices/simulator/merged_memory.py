"""What a lowered function says of its buffers: which of them it stores to, and where buffers lie in
shared memory that TVM has merged into one allocation of bytes.

`MergeSharedMemoryAllocations` leaves views of the types that the buffers had, all of which begin
where the allocation does. The place of each buffer is added to all its indices: it is what these
have more than before. Of a module that came merged it is not known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import AllocBuffer, BufferStore, DeclBuffer, PrimFunc, Var
from tvm_ffi import structural_equal

from tirstep.transforms.tir import constant, find_all, get_elements
from tirstep.tvm_compat import get_op_name, get_pointed

from ...legality.storage_reuse import find_offset
from .atomics import ATOMICS
from .function_semantics import name_call
from .memory import count_lanes, get_numpy_dtype
from .run_state import Shapes

_WRITES = 2
"""The bit of an access pointer's mask that says so."""


def find_written_buffers(body: Any) -> set[Var]:
    """The buffers that a function stores to through any of their views.

    A pointer that is passed to a function without a mask does not count, but for an atomic
    operation's: stores through it are seen when they happen.
    """
    bases = {node.buffer: find_base(node.data) for node in find_all(body, DeclBuffer)}
    written = {node.buffer for node in find_all(body, BufferStore)} | {
        base
        for call in find_all(body, Call)
        if get_op_name(call) == "tirx.tvm_access_ptr"
        and (constant(call.args[4]) or 0) & _WRITES
        and (base := find_base(call.args[1])) is not None
    }
    written |= {
        address.args[0].source
        for call in find_all(body, Call)
        if name_call(call) in ATOMICS
        for address in find_all(call, Call)
        if get_op_name(address) == "tirx.address_of"
    }
    found: set[Var] = set()
    for buffer in written:
        while bases.get(buffer) is not None:
            buffer = bases[buffer]
        found.add(buffer)
    return found


def find_shapes(module: IRModule) -> Shapes:
    """The shapes of buffers of several dimensions that functions allocate, which lie row by row."""
    bodies = [it.body for it in module.functions.values() if isinstance(it, PrimFunc)]
    found: Shapes = {}
    buffers = [it.buffer for body in bodies for it in find_all(body, AllocBuffer)]
    blocks = [it for body in bodies for it in find_all(body, SBlock)]
    for each in itertools.chain(buffers, *(it.alloc_buffers for it in blocks)):
        sizes = tuple(constant(it) or 0 for it in each.shape)
        if len(sizes) > 1 and all(sizes) and (each.layout is None or each.layout.is_trivial()):
            found[str(each.name), math.prod(sizes)] = sizes
    return found


def find_private(body: Any, buffers: Collection[Any]) -> set[Any]:
    """The buffers, of some, that are loaded nowhere but at the index of a store to them: what is
    computed there depends on no other element of theirs.
    """
    found = set(buffers)
    stores = [it for it in find_all(body, BufferStore) if it.buffer in found]
    for load in find_all(body, TensorLoad):
        if load.source in found and not any(
            store.buffer.same_as(load.source)
            and all(map(structural_equal, load.indices, store.indices))
            for store in stores
        ):
            found.discard(load.source)
    return found


def find_base(data: Any) -> Var | None:
    """The variable of a buffer's data: another buffer, or a parameter of the kernel."""
    return next(iter(find_all(data, Var)), None)


class Origin(NamedTuple):
    """What a view of merged memory was: the number of its buffer, and the element it begins at."""

    buffer: int
    begin: int | None


SharedLayout = tuple[dict[Var, int], dict[Var, int], dict[Var, int]]
"""What a kernel's views say of its allocations: of an allocation, of registers too, the bytes of
the smallest type that it is viewed as; of a view the element of the allocation that it begins at,
where the kernel tells; and of one that shares its place with another buffer the id of its own."""


def get_shared_layout(body: Any, origins: Mapping[Var, Origin]) -> SharedLayout:
    """The layout of a kernel's shared memory, and the units of its registers.

    `origins` are views to what TVM has merged; without them it is not known whether two views are
    one buffer or two.
    """
    views: dict[Var, list[Var]] = {}
    units: dict[Var, int] = {}
    registers: dict[Var, Var] = {}  # views, and what they are views of
    for node in find_all(body, DeclBuffer):
        base, scope = find_base(node.data), str(node.buffer.scope())
        if base is None or not hasattr(base, "dtype"):  # a pointer of mapa
            continue
        if scope == "local":
            base = registers[node.buffer] = registers.get(base, base)
            own, size = (get_numpy_dtype(it.dtype).itemsize for it in (base, node.buffer))
            units[base] = min(size, units.get(base, own))
        elif scope.startswith("shared"):
            views.setdefault(base, []).append(node.buffer)
    used = {buffer for buffer, _ in get_elements(body)} if views else set()
    calls = find_all(body, Call) if views else []
    used.update(get_pointed(each) for call in calls for each in call.args)
    offsets: dict[Var, int | None] = {}
    for base, inside in views.items():
        typed = [*inside, *([base] if base in used else [])]
        units[base] = min(get_numpy_dtype(buffer.dtype).itemsize for buffer in typed)
        if base.dtype == "uint8" and base not in used:
            for buffer in inside:
                begin = origins[buffer].begin if buffer in origins else None
                offsets[buffer] = None if begin is None else begin * count_lanes(buffer.dtype)
    places: dict[int, list[tuple[float, float]]] = {}
    for view, low in offsets.items():
        if view in origins:
            size = get_numpy_dtype(view.dtype).itemsize
            count = math.prod(constant(it) or 0 for it in view.shape) * count_lanes(view.dtype)
            place = (0, math.inf) if low is None else (low * size, (low + count) * size)
            places.setdefault(origins[view].buffer, []).append(place)
    overlapping = {
        buffer
        for buffer, other in itertools.permutations(places, 2)
        if any(a < d and c < b for a, b in places[buffer] for c, d in places[other])
    }
    buffers = {view: origins[view].buffer for view in offsets if view in origins}
    known = {view: low for view, low in offsets.items() if low is not None}
    ids = {view: buffer for view, buffer in buffers.items() if buffer in overlapping}
    return units, known, ids


def get_origins(body: Any, merged: Any) -> dict[Var, Origin]:
    """What the views of dynamic shared memory were before TVM merged it, by comparison of all uses.

    Empty where there is one buffer, or a module came merged.
    """
    allocated = [node.buffer for node in find_all(body, AllocBuffer)]
    bases = {buffer: buffer for buffer in allocated if str(buffer.scope()) == "shared.dyn"}
    for node in find_all(body, DeclBuffer):
        base = find_base(node.data)
        if base in bases:
            bases[node.buffer] = bases[base]
    numbers = {base: number for number, base in enumerate(dict.fromkeys(bases.values()), 1)}
    if len(numbers) < 2:
        return {}
    elements = zip(get_elements(body), get_elements(merged), strict=True)
    uses = [(old, new, before[0], after[0]) for (old, before), (new, after) in elements]
    calls = (
        [call for call in find_all(each, Call) if get_pointed(call) is None]
        for each in (body, merged)
    )
    for call, moved in zip(*calls, strict=True):
        for place, data in enumerate(list(moved.args)[:-1]):
            if (pointed := get_pointed(data)) is not None:
                at = place + 1
                uses.append((find_base(call.args[place]), pointed, call.args[at], moved.args[at]))
    origins: dict[Var, Origin] = {}
    for buffer, view, before, after in uses:
        if buffer in bases and "int" in str(getattr(getattr(before, "ty", None), "dtype", "")):
            origin = Origin(numbers[bases[buffer]], find_offset(before, after))
            same = origins.setdefault(view, origin) == origin
            origins[view] = origin if same else Origin(origin.buffer, None)
    return origins
