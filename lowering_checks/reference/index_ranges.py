"""Which integers among the arguments are used as indices, and how far they may reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm.ir import TensorLoad
from tvm.tirx import For, Var
from tvm_ffi import structural_map

from tirstep.transforms.tir import bind_ranges, constant, find_all

from ..device import is_scalar
from .exchanges import find_accesses

LARGEST = 1 << 20
FEW = 8
"""What an integer that a loop counts up to is at most."""


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
