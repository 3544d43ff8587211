"""Which threads hand values to one another through shared memory: no order of them is a reference.

A program with blocks says what is computed whatever order its threads come in: what one stage
stores, and another one loads, stands in loops of its own. One loop over threads in which both stand
is a GPU's program, where TVM puts a barrier between the two. One thread after the other, which is
how the reference runs, would load what nobody has stored yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.tirx import For, Var

from tirstep.transforms.tir import bind_ranges, find_all, get_axis, substitute
from tirstep.tvm_compat import Analyzer, IntervalSet, TensorLoad


@dataclass(frozen=True)
class _Access:
    """An access of shared memory, with the loops around it from the outside."""

    buffer: Any
    indices: tuple[Any, ...]
    loops: tuple[Any, ...]


def find_exchange(body: Any) -> str | None:
    """The name of a shared buffer in which a thread finds what another one stored; None of none."""
    stores: list[_Access] = []
    loads: list[_Access] = []
    for is_store, access in _find_accesses(body, (), {}):
        (stores if is_store else loads).append(access)
    for load in loads:
        theirs = [it for it in stores if it.buffer.same_as(load.buffer) and _meet(it, load)]
        if theirs and not any(_covers(store, load) for store in theirs):
            return str(load.buffer.name)
    return None


def _find_accesses(
    node: Any, loops: tuple[Any, ...], bound: dict[Any, Any]
) -> Iterator[tuple[bool, _Access]]:
    kind = type(node).__name__
    if kind == "SeqStmt":
        for statement in node.seq:
            yield from _find_accesses(statement, loops, bound)
    elif kind == "For":
        yield from _find_accesses(node.body, (*loops, node), bound)
    elif kind == "SBlockRealize":
        pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
        inner = {**bound, **{it.var: substitute(value, bound) for it, value in pairs}}
        for part in (node.block.init, node.block.body):
            if part is not None:
                yield from _find_accesses(part, loops, inner)
    elif kind == "IfThenElse":
        yield from _find_loads(node.condition, loops, bound)
        for case in (node.then_case, node.else_case):
            if case is not None:
                yield from _find_accesses(case, loops, bound)
    elif kind == "Bind":
        bound[node.var] = substitute(node.value, bound)
        yield from _find_loads(node.value, loops, bound)
    elif kind == "BufferStore":
        yield from _take(True, node.buffer, node.indices, loops, bound)
        for part in (node.value, *node.indices):
            yield from _find_loads(part, loops, bound)
    elif hasattr(node, "body"):
        yield from _find_accesses(node.body, loops, bound)


def _find_loads(
    expression: Any, loops: tuple[Any, ...], bound: dict[Any, Any]
) -> Iterator[tuple[bool, _Access]]:
    for load in find_all(expression, TensorLoad):
        yield from _take(False, load.source, load.indices, loops, bound)


def _take(
    is_store: bool, buffer: Any, indices: Any, loops: tuple[Any, ...], bound: dict[Any, Any]
) -> Iterator[tuple[bool, _Access]]:
    if str(buffer.scope()).startswith("shared"):
        yield is_store, _Access(buffer, tuple(substitute(it, bound) for it in indices), loops)


def _get_common(store: _Access, load: _Access) -> list[For]:
    common = []
    for one, other in zip(store.loops, load.loops, strict=False):
        if not one.same_as(other):
            break
        common.append(one)
    return common


def _meet(store: _Access, load: _Access) -> bool:
    """Whether a store and a load stand in one loop over threads, each of which stores elsewhere."""
    threads = [it for it in _get_common(store, load) if "threadIdx" in (get_axis(it) or "")]
    used = [variable for index in store.indices for variable in find_all(index, Var)]
    return any(loop.loop_var.same_as(variable) for loop in threads for variable in used)


def _covers(store: _Access, load: _Access) -> bool:
    """Whether each thread loads, in one iteration of the common loops, what it has stored there."""
    common = _get_common(store, load)
    analyzer = bind_ranges(common)
    pairs = zip(store.indices, load.indices, strict=True)
    return all(
        _lies_within(
            analyzer, _get_ends(load, theirs, len(common)), _get_ends(store, ours, len(common))
        )
        for ours, theirs in pairs
    )


def _get_ends(access: _Access, index: Any, first: int) -> Any:
    """The range of an index over the loops that are its own, in terms of the common ones."""
    own = {
        loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1)
        for loop in access.loops[first:]
    }
    return Analyzer().int_set(index, own)


def _lies_within(analyzer: Any, inner: Any, outer: Any) -> bool:
    return bool(
        analyzer.can_prove(inner.min_value >= outer.min_value)
        and analyzer.can_prove(inner.max_value <= outer.max_value)
    )
