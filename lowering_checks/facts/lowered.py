"""Reads the facts of a kernel off its lowered TIR."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx import AllocBuffer, BufferStore, For, ForKind, IfThenElse, Ramp

from tirstep.transforms.queries import constant, find_all, is_choice

from .calls import count_barriers, find_calls, find_copies
from .model import SCOPES, Accesses, KernelFacts

DYNAMIC = "tirx.use_dyn_shared_memory"
Loops = tuple[For, ...]


def find_kernel_facts(name: str, function: Any, extents: Mapping[str, int | None]) -> KernelFacts:
    """The facts of one kernel, launched with `extents` by axis."""
    body = function.body
    calls = find_calls(body)
    barriers = [
        (loops, count)
        for statement, loops in _visit(body, ())
        if (count := count_barriers(statement))
    ]
    return KernelFacts(
        name=name,
        grid=_pick_axes(extents, "blockIdx"),
        block=_pick_axes(extents, "threadIdx"),
        static_shared_bytes=_count_shared(body),
        dynamic_shared_bytes=extents.get(DYNAMIC, 0),
        barriers=sum(count for _, count in barriers),
        barriers_per_step=_count_per_step(barriers),
        barriers_executed=_count_executed(barriers),
        accesses=tuple(_find_accesses(body)),
        copies=find_copies(body),
        ldmatrix=calls["ldmatrix"],
        mma=calls["mma"],
        wgmma=calls["wgmma"],
        guards=_count_guards(body),
    )


def count_unrolled_loops(before: tvm.IRModule, after: tvm.IRModule) -> int:
    """Loops that TVM's pass wrote out, or left to the device's compiler to unroll.

    A loop that it wrote out is one whose variable is gone; a loop of one turn is not counted.
    """
    left = [loop for function in after.functions.values() for loop in find_all(function, For)]
    kept = {loop.loop_var for loop in left if ForKind(loop.kind) != ForKind.UNROLLED}
    loops = [loop for function in before.functions.values() for loop in find_all(function, For)]
    return sum(loop.loop_var not in kept and constant(loop.extent) != 1 for loop in loops)


def _visit(statement: Any, loops: Loops) -> Iterator[tuple[Any, Loops]]:
    """Every innermost statement, with the loops around it, outermost first."""
    if isinstance(statement, For):
        loops = (*loops, statement)
    children = [
        *getattr(statement, "seq", ()),
        *(getattr(statement, name, None) for name in ("body", "then_case", "else_case")),
    ]
    inner = [child for child in children if child is not None]
    for child in inner:
        yield from _visit(child, loops)
    if not inner:
        yield statement, loops


def _count_per_step(barriers: list[tuple[Loops, int]]) -> int:
    """Of the loop that runs most barriers, those for one turn; without a loop, none."""
    turns: Counter[Loops] = Counter()
    for loops, count in barriers:
        if loops:
            turns[loops] += count
    if not turns:
        return 0
    return turns[max(turns, key=lambda loops: (_count_turns(loops) or math.inf) * turns[loops])]


def _count_executed(barriers: list[tuple[Loops, int]]) -> int | None:
    total = 0
    for loops, count in barriers:
        turns = _count_turns(loops)
        if turns is None:
            return None
        total += turns * count
    return total


def _count_turns(loops: Loops) -> int | None:
    extents = [constant(loop.extent) for loop in loops]
    known = [extent for extent in extents if extent is not None]
    return math.prod(known) if len(known) == len(extents) else None


def _count_shared(body: Any) -> int | None:
    """The bytes of static shared memory; None where a shape is symbolic."""
    total = 0
    for node in find_all(body, AllocBuffer):
        if str(node.buffer.scope()) == "shared":
            extents = [constant(extent) for extent in node.buffer.shape]
            known = [extent for extent in extents if extent is not None]
            if len(known) < len(extents):
                return None
            total += math.prod(known) * item_bytes(node.buffer)
    return total


def _find_accesses(body: Any) -> Iterator[Accesses]:
    nodes = {"load": find_all(body, TensorLoad), "store": find_all(body, BufferStore)}
    for scope in SCOPES:
        for kind, found in nodes.items():
            places = [_read_access(node) for node in found if _find_scope(node) == scope]
            widths = Counter(size * lanes for size, lanes in places)
            vectors = sum(lanes > 1 for _, lanes in places)
            if places:
                yield Accesses(scope, kind, dict(widths), vectors, len(places) - vectors)


def _find_scope(node: Any) -> str:
    """The scope of an access; static and dynamic shared memory are one."""
    buffer = node.source if isinstance(node, TensorLoad) else node.buffer
    return str(buffer.scope()).partition(".")[0] or "global"


def _read_access(node: Any) -> tuple[int, int]:
    """The bytes of an element, and the neighbouring elements that one access takes.

    Where they are no neighbours, the code generator takes them one by one.
    """
    buffer = node.source if isinstance(node, TensorLoad) else node.buffer
    index = node.indices[-1]
    lanes = tvm.DataType(str(buffer.dtype)).lanes
    if isinstance(index, Ramp) and constant(index.stride) == 1:
        return item_bytes(buffer) // lanes, lanes * int(constant(index.lanes) or 1)
    return item_bytes(buffer) // lanes, lanes


def item_bytes(buffer: Any) -> int:
    """The bytes of one element of a buffer, which may be a vector."""
    dtype = tvm.DataType(str(buffer.dtype))
    return int(dtype.bits * dtype.lanes + 7) // 8


def _count_guards(body: Any) -> int:
    """Conditions that decide over an access to memory that is not the thread's own."""
    statements = [node.then_case for node in find_all(body, IfThenElse)]
    values = [call.args[1] for call in find_all(body, Call) if is_choice(call)]
    return sum(_accesses_memory(node) for node in (*statements, *values))


def _accesses_memory(node: Any) -> bool:
    touched = [*find_all(node, TensorLoad), *find_all(node, BufferStore)]
    return bool(find_copies(node)) or any(_find_scope(one) in SCOPES for one in touched)


def _pick_axes(extents: Mapping[str, int | None], kind: str) -> dict[str, int | None]:
    """The axes of one kind, x first."""
    return {axis: extents[f"{kind}.{axis}"] for axis in "xyz" if f"{kind}.{axis}" in extents}
