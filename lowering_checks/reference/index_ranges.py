"""Which integers among the arguments are used as indices, and how far they may reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import Var
from tvm_ffi import structural_map

from tirstep.transforms.tir import constant, find_all, is_choice

from ..devices.device import is_scalar

LARGEST = 1 << 20
FEW = 8
"""What an integer that a loop counts up to is at most."""


def find_index_ranges(function: Any) -> dict[str, tuple[int, int]]:
    """The range of each integer argument that an index or a loop's extent depends on, by name.

    Where a condition depends on it as well, it may leave what it indexes by a bit. What is
    computed of several arguments is bounded for each as if the others were 0.
    """
    places = list(_find_places(function.body, {}, {}, ()))
    ranges: dict[str, tuple[int, int]] = {}
    for parameter in function.params:
        found = [_find_range(parameter, *place) for place in places]
        known = [each for each in found if each is not None]
        if known:
            name = str(parameter.name)
            ranges[name] = (max(low for low, _ in known), min(high for _, high in known))
    return ranges


Loops = dict[Any, Any]
Place = tuple[Any, int, Loops, Sequence[Any]]


def _find_places(
    node: Any, loops: Loops, bound: dict[Any, Any], conditions: Sequence[Any]
) -> Iterator[Place]:
    """Each index, with the extent that it must stay below, the loops and the conditions around."""
    kind = type(node).__name__
    if kind == "SeqStmt":
        for statement in node.seq:
            yield from _find_places(statement, loops, bound, conditions)
    elif kind == "For":
        yield _inline(node.extent, bound), FEW + 1, loops, conditions
        inner = {**loops, node.loop_var: tvm.ir.Range.from_min_extent(node.min, node.extent)}
        yield from _find_places(node.body, inner, bound, conditions)
    elif kind == "SBlockRealize":
        values = {
            iterator.var: _inline(value, bound)
            for iterator, value in zip(node.block.iter_vars, node.iter_values, strict=True)
        }
        inner_bound = {**bound, **values}
        for part in (node.block.init, node.block.body):
            if part is not None:
                yield from _find_places(part, loops, inner_bound, conditions)
    elif kind == "Bind":
        bound[node.var] = _inline(node.value, bound)
        yield from _find_loads(node.value, loops, bound, conditions)
    elif kind == "IfThenElse":
        condition = _inline(node.condition, bound)
        yield from _find_loads(node.condition, loops, bound, conditions)
        for case in (node.then_case, node.else_case):
            if case is not None:
                yield from _find_places(case, loops, bound, (*conditions, condition))
    elif kind == "BufferStore":
        yield from _make_places(node.buffer, node.indices, loops, bound, conditions)
        for part in (node.value, *node.indices):
            yield from _find_loads(part, loops, bound, conditions)
    elif hasattr(node, "body"):
        yield from _find_places(node.body, loops, bound, conditions)


def _make_places(
    buffer: Any, indices: Any, loops: Loops, bound: dict[Any, Any], conditions: Sequence[Any]
) -> Iterator[Place]:
    for index, extent in zip(indices, buffer.shape, strict=True):
        if (size := constant(extent)) is not None:
            yield _inline(index, bound), size, loops, conditions


def _find_loads(
    expression: Any, loops: Loops, bound: dict[Any, Any], conditions: Sequence[Any]
) -> Iterator[Place]:
    choices = [call.args[0] for call in find_all(expression, Call) if is_choice(call)]
    choices += [node.condition for node in find_all(expression, tvm.tirx.Select)]
    around = (*conditions, *(_inline(choice, bound) for choice in choices))
    for load in find_all(expression, TensorLoad):
        yield from _make_places(load.source, load.indices, loops, bound, around)


def _inline(expression: Any, bound: dict[Any, Any]) -> Any:
    return structural_map(expression, (Var, lambda var: bound.get(var, var)))


def _find_range(
    parameter: Any, index: Any, extent: int, loops: Loops, conditions: Sequence[Any]
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


def _search(index: Any, value: Any, loops: Loops, extent: int) -> int:
    """The largest value for which the index stays below the extent."""
    low, high = 0, LARGEST
    while low < high:
        middle = (low + high + 1) // 2
        analyzer = Analyzer()
        for variable, bounds in loops.items():
            analyzer.bind(variable, bounds)
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
