"""The loads and stores of a program, with what stands around them; and what they ask of threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer, IntervalSet
from tvm.tirx import For

from tirstep.transforms.tir import bind_ranges, find_all, get_axis, is_choice, is_used, substitute


@dataclass(frozen=True)
class Access:
    """A load or a store, or the extent of a loop as its one index.

    Attributes
    ----------
    buffer : None for a loop
    indices : in loop variables and what is loaded
    loops : around it, from the outside
    conditions : that decide over it
    """

    buffer: Any
    indices: tuple[Any, ...]
    is_store: bool
    loops: tuple[For, ...]
    conditions: tuple[Any, ...]


def find_accesses(body: Any) -> list[Access]:
    """All accesses of a program with blocks or without, in the order of its text."""
    return list(_visit(body, (), {}, ()))


def _visit(
    node: Any, loops: tuple[For, ...], bound: dict[Any, Any], conditions: tuple[Any, ...]
) -> Iterator[Access]:
    def make(buffer: Any, indices: Any, is_store: bool, around: tuple[Any, ...]) -> Access:
        inlined = tuple(substitute(index, bound) for index in indices)
        return Access(buffer, inlined, is_store, loops, around)

    def load(expression: Any) -> Iterator[Access]:
        choices = [call.args[0] for call in find_all(expression, Call) if is_choice(call)]
        choices += [select.condition for select in find_all(expression, tvm.tirx.Select)]
        around = (*conditions, *(substitute(choice, bound) for choice in choices))
        for found in find_all(expression, TensorLoad):
            yield make(found.source, found.indices, False, around)

    kind = type(node).__name__
    if kind == "SeqStmt":
        for statement in node.seq:
            yield from _visit(statement, loops, bound, conditions)
    elif kind == "For":
        yield make(None, (node.extent,), False, conditions)
        yield from _visit(node.body, (*loops, node), bound, conditions)
    elif kind == "SBlockRealize":
        pairs = zip(node.block.iter_vars, node.iter_values, strict=True)
        inner = {**bound, **{it.var: substitute(value, bound) for it, value in pairs}}
        for part in (node.block.init, node.block.body):
            if part is not None:
                yield from _visit(part, loops, inner, conditions)
    elif kind == "Bind":
        bound[node.var] = substitute(node.value, bound)
        yield from load(node.value)
    elif kind == "IfThenElse":
        yield from load(node.condition)
        for case in (node.then_case, node.else_case):
            if case is not None:
                decided = (*conditions, substitute(node.condition, bound))
                yield from _visit(case, loops, bound, decided)
    elif kind == "BufferStore":
        yield make(node.buffer, node.indices, True, conditions)
        for part in (node.value, *node.indices):
            yield from load(part)
    elif hasattr(node, "body"):
        yield from _visit(node.body, loops, bound, conditions)


def find_exchange(body: Any) -> str | None:
    """The name of a shared buffer in which a thread finds what another one stored; None of none.

    A program with blocks says what is computed whatever order its threads come in: what one stage
    stores, and another one loads, stands in loops of its own. One loop over threads in which both
    stand is a GPU's program, where TVM puts a barrier between the two.
    """
    shared = [
        access
        for access in find_accesses(body)
        if access.buffer is not None and str(access.buffer.scope()).startswith("shared")
    ]
    for load in shared:
        stores = [
            store
            for store in shared
            if store.is_store and not load.is_store and store.buffer.same_as(load.buffer)
        ]
        met = [store for store in stores if _meet(store, _get_common(store, load))]
        if met and not any(_covers(store, load) for store in met):
            return str(load.buffer.name)
    return None


def _get_common(store: Access, load: Access) -> list[For]:
    pairs = zip(store.loops, load.loops, strict=False)
    return [one for one, other in pairs if one.same_as(other)]


def _meet(store: Access, common: list[For]) -> bool:
    """Whether a store and a load stand in one loop over threads, each of which stores elsewhere."""
    threads = [loop for loop in common if "threadIdx" in (get_axis(loop) or "")]
    return any(is_used(loop.loop_var, index) for loop in threads for index in store.indices)


def _covers(store: Access, load: Access) -> bool:
    """Whether each thread loads, in one iteration of the common loops, what it has stored there."""
    common = _get_common(store, load)
    analyzer = bind_ranges(common)

    def reach(access: Access, index: Any) -> Any:
        own = {
            loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1)
            for loop in access.loops[len(common) :]
        }
        return Analyzer().int_set(index, own)

    for ours, theirs in zip(store.indices, load.indices, strict=True):
        stored, loaded = reach(store, ours), reach(load, theirs)
        if not analyzer.can_prove(loaded.min_value >= stored.min_value):
            return False
        if not analyzer.can_prove(loaded.max_value <= stored.max_value):
            return False
    return True
