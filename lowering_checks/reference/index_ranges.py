"""The loads and stores of a program, with what stands around them: what threads exchange by them,
and how far the integers among the arguments may reach that are used as indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import TensorLoad
from tvm.sym import Analyzer, IntervalSet
from tvm.tirx import For, Var
from tvm_ffi import structural_map

from tirstep.transforms.tir import (
    bind_ranges,
    constant,
    find_all,
    find_choices,
    get_axis,
    is_used,
    substitute,
)

from ..device import is_scalar

LARGEST = 1 << 20
FEW = 8
"""What an integer that a loop counts up to is at most."""


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
        choices = (substitute(choice, bound) for choice, *_ in find_choices(expression))
        around = (*conditions, *choices)
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


def find_index_ranges(function: Any) -> dict[str, tuple[int, int]]:
    """The range of each integer argument that an index or a loop's extent depends on, by name.

    Where a condition depends on it as well, it may leave what it indexes by a bit. What is
    computed of several arguments is bounded for each as if the others were 0.
    """
    places: list[Place] = []
    for access in find_accesses(function.body):
        sizes = [FEW + 1] if access.buffer is None else map(constant, access.buffer.shape)
        for index, size in zip(access.indices, sizes, strict=True):
            if size is not None:
                places.append((index, size, access.loops, access.conditions))
    ranges: dict[str, tuple[int, int]] = {}
    for parameter in function.params:
        found = [_find_range(parameter, *place) for place in places]
        known = [each for each in found if each is not None]
        if known:
            name = str(parameter.name)
            ranges[name] = (max(low for low, _ in known), min(high for _, high in known))
    return ranges


Place = tuple[Any, int, Sequence[For], Sequence[Any]]
"""An index, the extent that it must stay below, the loops and the conditions around it."""


def _find_range(
    parameter: Any, index: Any, extent: int, loops: Sequence[For], conditions: Sequence[Any]
) -> tuple[int, int] | None:
    """How far a parameter's values may reach that stand in an index; None where they do not."""
    if not _stands_in(parameter, index):
        return None
    guarded = any(_stands_in(parameter, condition) for condition in conditions)
    dtype = str(parameter.ty if is_scalar(parameter) else parameter.dtype)
    value = Var("value", dtype)
    replaced = _replace(index, parameter, value)
    high = _search(replaced, value, loops, extent)
    if guarded:
        return (-1, high + 1) if not dtype.startswith("u") else (0, high + 1)
    return 0, high


def _search(index: Any, value: Any, loops: Sequence[For], extent: int) -> int:
    """The largest value for which the index stays below the extent."""
    low, high = 0, LARGEST
    while low < high:
        middle = (low + high + 1) // 2
        analyzer = bind_ranges(loops)
        analyzer.bind(value, tvm.ir.Range(0, middle + 1))
        if analyzer.const_int_bound(index).max_value < extent:
            low = middle
        else:
            high = middle - 1
    return low


def _stands_in(parameter: Any, expression: Any) -> bool:
    if is_scalar(parameter):
        return any(parameter.same_as(variable) for variable in find_all(expression, Var))
    return any(parameter.same_as(load.source) for load in find_all(expression, TensorLoad))


def _replace(expression: Any, parameter: Any, value: Any) -> Any:
    """The expression with a variable for a parameter, and 0 for all else that is loaded."""

    def load(node: Any) -> Any:
        if parameter.same_as(node.source):
            return value
        return tvm.tirx.const(0, str(node.source.dtype))

    if is_scalar(parameter):
        expression = structural_map(
            expression, (Var, lambda var: value if parameter.same_as(var) else var)
        )
    return structural_map(expression, (TensorLoad, load))
