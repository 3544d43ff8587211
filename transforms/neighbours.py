"""Neighbours: whether the elements of a vector lie side by side in a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm.ir import Range
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import For, ForKind, const

from .queries import (
    constant,
    find_elements,
    find_enclosing_loops,
    find_iterator_values,
    find_root,
    is_used,
    substitute,
)


def find_scattered(
    sch: Schedule, block: SBlockRV, *, may_repeat: bool = False
) -> Iterator[tuple[For, Any]]:
    """The vectorized loops around a block, each with a buffer of which they take no neighbours.

    With `may_repeat` a vector may also be one element, repeated.
    """
    loops, body = find_enclosing_loops(sch, block), sch.get(block).body
    values, analyzer = find_iterator_values(find_root(sch, block)), Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    for loop in loops:
        if loop.kind != ForKind.VECTORIZED:
            continue
        for buffer, indices in find_elements(body):
            placed = [substitute(index, values) for index in indices]
            if may_repeat and not any(is_used(loop.loop_var, index) for index in placed):
                continue
            if not _are_neighbours(placed, loop, analyzer):
                yield loop, buffer


def _are_neighbours(indices: list[Any], loop: For, analyzer: Analyzer) -> bool:
    """Whether a vectorized loop goes along the last dimension in steps of one."""
    dtype = loop.loop_var.ty.dtype
    for place, index in enumerate(indices, start=1):
        step = 1 if place == len(indices) else 0
        first = substitute(index, {loop.loop_var: const(0, dtype)})
        for lane in range(1, constant(loop.extent) or 1):
            other = substitute(index, {loop.loop_var: const(lane, dtype)})
            if not analyzer.can_prove_equal(other - first, lane * step):
                return False
    return True
