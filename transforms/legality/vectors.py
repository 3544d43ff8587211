"""Neighbours: whether the elements of a vector lie side by side in a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm.ir import Call, Range
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import FloorDiv, FloorMod, For, ForKind, IfThenElse, Var, const

from ..queries import find_enclosing_loops, find_realize, find_root
from ..tir import (
    Place,
    constant,
    find_all,
    find_elements,
    find_iterator_values,
    is_choice,
    is_used,
    substitute,
)

LARGEST = 2**31 - 1
"""What the analyzer does not bound says that it may be up to 2**63."""


def find_scattered(place: Place) -> Iterator[tuple[For, Any]]:
    """The vectorized loops around a block, each with a buffer of which they take no neighbours."""
    for loop, buffer, indices, analyzer in _find_vectors(place.loops, place.block, place.values):
        if not _are_neighbours(indices, loop, analyzer):
            yield loop, buffer


def find_taken_apart(sch: Schedule, block: SBlockRV) -> Iterator[tuple[str, Any]]:
    """What TVM takes apart of the vectors around a block: how they lie, and in which buffer.

    One element that is repeated is not taken apart. Of buffers that are compacted later nothing is
    known but whether they take neighbours; and where lanes have conditions of their own, there are
    vectors of what is aligned alone (`SplitGuardedVectors`).
    """
    conditions = _find_conditions(sch, block)
    loops, values = find_enclosing_loops(sch, block), find_iterator_values(find_root(sch, block))
    for loop, buffer, indices, analyzer in _find_vectors(loops, sch.get(block), values):
        if not any(is_used(loop.loop_var, index) for index in indices):
            continue
        is_guarded = any(is_used(loop.loop_var, condition) for condition in conditions)
        is_known = buffer.scope() == "global" and not is_guarded
        if not _are_neighbours(indices, loop, analyzer):
            yield "are no neighbours", buffer
        elif is_known and not begin_aligned(buffer, indices, loop, analyzer):
            yield "do not begin at multiples of a vector", buffer


def _find_conditions(sch: Schedule, block: SBlockRV) -> list[Any]:
    """What is asked before and in a block, in loop variables alone."""
    values, body = find_iterator_values(find_root(sch, block)), sch.get(block).body
    conditions = [node.condition for node in find_all(body, IfThenElse)]
    conditions += [node.args[0] for node in find_all(body, Call) if is_choice(node)]
    predicate = find_realize(sch, block).predicate
    return [predicate, *(substitute(condition, values) for condition in conditions)]


def _find_vectors(
    loops: Sequence[For], block: SBlock, values: dict[Any, Any]
) -> Iterator[tuple[For, Any, list[Any], Analyzer]]:
    """The vectorized loops, with each element's buffer and its indices in loop variables alone."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    for loop in loops:
        if loop.kind == ForKind.VECTORIZED:
            for buffer, indices in find_elements(block.body):
                yield loop, buffer, [substitute(index, values) for index in indices], analyzer


def begin_aligned(buffer: Any, indices: Sequence[Any], loop: For, analyzer: Analyzer) -> bool:
    """Whether all vectors of a loop begin at a multiple of their length, counted from the buffer's
    first element."""
    first = find_place(buffer, [_take_lane(index, loop, 0) for index in indices])
    return bool(analyzer.can_prove_equal(first % loop.extent, 0))


def find_place(buffer: Any, indices: list[Any]) -> Any:
    """The place of an element in a buffer."""
    place = indices[0]
    if len(buffer.strides):
        place = sum(index * stride for index, stride in zip(indices, buffer.strides, strict=True))
    else:
        for index, size in zip(indices[1:], buffer.shape[1:], strict=True):
            place = place * size + index
    return place + buffer.elem_offset


def _are_neighbours(indices: list[Any], loop: For, analyzer: Analyzer) -> bool:
    """Whether a vectorized loop goes along the last dimension in steps of one."""
    for place, index in enumerate(_number_vectors(indices, loop, analyzer), start=1):
        step = 1 if place == len(indices) else 0
        first = _take_lane(index, loop, 0)
        for lane in range(1, constant(loop.extent) or 1):
            other = _take_lane(index, loop, lane)
            if not analyzer.can_prove_equal(other - first, lane * step):
                return False
    return True


def _take_lane(index: Any, loop: For, lane: int) -> Any:
    """An index for one iteration of a vectorized loop, counted from its first."""
    dtype = loop.loop_var.ty.dtype
    return substitute(index, {loop.loop_var: loop.min + const(lane, dtype)})


def _number_vectors(indices: list[Any], loop: For, analyzer: Analyzer) -> list[Any]:
    """The indices with ``lanes * number + lane`` for each sum that is divided and is such a one.

    TVM proves that ``(2 * number + lane) // 18`` is the same for both lanes, but not that
    ``(256 * i + 2 * j + lane) // 18`` is, since 18 does not divide 256.
    """
    lane, lanes = loop.loop_var, constant(loop.extent) or 1
    numbered: list[tuple[Any, Any]] = []

    def number(division: Any) -> Any:
        total = division.a
        if not is_used(lane, total) or total.ty.dtype != lane.ty.dtype:
            return division
        known = next((new for old, new in numbered if tvm_ffi.structural_equal(old, total)), None)
        if known is None:
            first = analyzer.simplify(substitute(total, {lane: const(0, lane.ty.dtype)}))
            factors, bound = analyzer.modular_set(first), analyzer.const_int_bound(first)
            whole = factors.coeff % lanes == 0 and factors.base % lanes == 0
            bounded = bound.min_value >= -LARGEST and bound.max_value <= LARGEST
            if not (whole and bounded and analyzer.can_prove_equal(total - first, lane)):
                return division
            vector = Var("vector", lane.ty.dtype)
            low, high = bound.min_value // lanes, bound.max_value // lanes
            analyzer.bind(vector, Range.from_min_extent(low, high - low + 1))
            known = vector * lanes + lane
            numbered.append((total, known))
        return type(division)(known, division.b)

    return [tvm_ffi.structural_map(one, ((FloorDiv, FloorMod), number)) for one in indices]
