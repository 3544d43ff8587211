"""The loads and stores of a program, with what stands around them: what threads exchange by them,
and how far the integers among the arguments may reach that are used as indices.
"""

from __future__ import annotations

import bisect
import functools
import itertools
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
        for part in (node.value, *node.indices):
            yield from load(part)
        yield make(node.buffer, node.indices, True, conditions)
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
        met = []
        for store in shared:
            if not store.is_store or load.is_store or not store.buffer.same_as(load.buffer):
                continue
            pairs = zip(store.loops, load.loops, strict=False)
            common = [one for one, other in pairs if one.same_as(other)]
            # In one loop over threads, each of which stores elsewhere.
            threads = [loop for loop in common if "threadIdx" in (get_axis(loop) or "")]
            if any(is_used(loop.loop_var, index) for loop in threads for index in store.indices):
                met.append((store, common))
        if met and not any(_covers(store, load, common) for store, common in met):
            return str(load.buffer.name)
    return None


def _covers(store: Access, load: Access, common: list[For]) -> bool:
    """Whether each thread loads, in one iteration of the common loops, what it has stored there."""
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
    ranges: dict[str, tuple[int, int]] = {}
    for parameter, access in itertools.product(function.params, find_accesses(function.body)):
        sizes = [FEW + 1] if access.buffer is None else map(constant, access.buffer.shape)
        for index, size in zip(access.indices, sizes, strict=True):
            if size is None or not _stands_in(parameter, index):
                continue
            name, dtype = (
                str(parameter.name),
                str(parameter.ty if is_scalar(parameter) else parameter.dtype),
            )
            reach = functools.partial(_reach, parameter, Var("value", dtype), index, access.loops)
            # The largest value for which the index stays below the extent.
            low, high = 0, bisect.bisect_left(range(1, LARGEST + 1), size, key=reach)
            if any(_stands_in(parameter, condition) for condition in access.conditions):
                low, high = 0 if dtype.startswith("u") else -1, high + 1
            least, most = ranges.get(name, (low, high))
            ranges[name] = max(least, low), min(most, high)
    return ranges


def _reach(parameter: Any, value: Any, index: Any, loops: Sequence[For], most: int) -> int:
    """How far an index reaches where a parameter is at most so much, and all else loaded 0."""

    def load(node: Any) -> Any:
        is_own = parameter.same_as(node.source)
        return value if is_own else tvm.tirx.const(0, str(node.source.dtype))

    analyzer = bind_ranges(loops)
    analyzer.bind(value, tvm.ir.Range(0, most + 1))
    own = substitute(index, {parameter: value}) if is_scalar(parameter) else index
    return int(analyzer.const_int_bound(structural_map(own, (TensorLoad, load))).max_value)


def _stands_in(parameter: Any, expression: Any) -> bool:
    if is_scalar(parameter):
        return any(parameter.same_as(variable) for variable in find_all(expression, Var))
    return any(parameter.same_as(load.source) for load in find_all(expression, TensorLoad))
