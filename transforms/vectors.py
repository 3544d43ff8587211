"""Vectors: whether their elements are neighbours in a buffer, and whether CUDA has their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    BufferStore,
    Cast,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
    const,
)
from tvm_ffi import structural_map

from .enumeration import choose_iterations
from .queries import get_enclosing_loops, get_realize, get_root
from .tir import (
    LARGEST_INDEX,
    Place,
    bind_ranges,
    constant,
    find_all,
    get_elements,
    get_iterator_values,
    is_choice,
    is_used,
    substitute,
)

REPEATED = {"float16": 8, "bfloat16": 8, "bool": 8}
"""The most elements of a vector of one value that TVM writes as CUDA's, by type; 4 of others.

Measured with nvcc 13.0: ``make_int4`` of 16 arguments is what TVM writes for 16 zeros of int8.
"""
_MOST, _MOST_LOADED, _MOST_CONDITIONS = 4, {"int8": 2, "uint8": 2}, 4
_FLOAT8, _COMPUTING = "float8", (Add, Sub, Mul, Div, Max, Min)
_TRIED = 64
"""Lanes that are compared with the first one; of more, the first and the last ones."""


def find_scattered(place: Place) -> Iterator[tuple[For, Any]]:
    """The vectorized loops around a block, each with a buffer of which they take no neighbours."""
    for loop, buffer, indices, analyzer in _find_vectors(place.loops, place.block, place.values):
        if not _are_neighbours(indices, loop, analyzer):
            yield loop, buffer


def takes_neighbours(place: Place, loop: For) -> bool:
    """Whether a loop around a block goes along the last dimension of all its buffers, by ones."""
    analyzer = bind_ranges(place.loops)
    return all(
        _are_neighbours([substitute(index, place.values) for index in indices], loop, analyzer)
        for _, indices in get_elements(place.block.body)
    )


def find_unwritten(place: Place) -> Iterator[tuple[For, str]]:
    """The vectorized loops around a kernel's block, with vectors that TVM does not write as CUDA's.

    One value for all elements, a constant say, may be more of them than TVM has an expression for;
    `Select` asks for as many conditions as there are elements; float8 is neither computed with nor
    converted to integers. What has a condition of its own for each element is taken apart.
    """
    for loop in place.loops if place.kernel is not None else ():
        if loop.kind != ForKind.VECTORIZED:
            continue
        # Vectors of four, of all types but the narrow ones, are CUDA's.
        lanes, elements = constant(loop.extent) or 1, get_elements(place.block.body)
        dtypes = {str(buffer.dtype) for buffer, _ in elements}
        if lanes > _MOST or any(it in _MOST_LOADED or it.startswith(_FLOAT8) for it in dtypes):
            yield from ((loop, what) for what in _find_unwritten(place, loop, lanes))


def find_longest_vector(place: Place, loop: For, lanes: int) -> int:
    """The longest vector, up to so many elements, that a loop of a block could make; 1 for none."""
    fitting = (most for most in (16, 8, 4, 2) if most <= lanes)
    return next((most for most in fitting if not any(_find_unwritten(place, loop, most))), 1)


def _find_unwritten(place: Place, loop: For, lanes: int) -> Iterator[str]:
    analyzer, body = bind_ranges(place.loops), place.block.body

    def changes(expression: Any) -> bool:
        """Whether an expression of the block differs along the loop, as TVM simplifies it."""
        inner = substitute(expression, place.values)
        return is_used(loop.loop_var, inner) and is_used(loop.loop_var, analyzer.simplify(inner))

    def find_repeated(value: Any) -> Iterator[Any]:
        """The largest parts of a value that are the same all along a loop, which TVM repeats."""
        if isinstance(value, TensorLoad):
            yield from [] if any(map(changes, value.indices)) else [value]
        elif not is_used(loop.loop_var, substitute(value, place.values)):
            yield value
        else:  # the expressions of which it is made, but for conditions
            names = ("a", "b", "value", "true_value", "false_value", "body")
            parts = [getattr(value, name, None) for name in names]
            parts = [*(part for part in parts if hasattr(part, "ty")), *getattr(value, "args", ())]
            for part in parts[1:] if is_choice(value) else parts:
                yield from find_repeated(part)

    for store in find_all(body, BufferStore):
        choices = [node.args[0] for node in find_all(store.value, Call) if is_choice(node)]
        if not any(map(changes, store.indices)) or any(map(changes, choices)):
            continue
        for value in find_repeated(store.value):
            dtype = str(value.ty.dtype)
            most = REPEATED.get(dtype, _MOST)
            if not isinstance(value, (IntImm, FloatImm)):
                most = min(most, _MOST_LOADED.get(dtype, most))
            if lanes > most:
                yield f"{lanes} elements of {dtype} out of one value"
    for node in find_all(body, Select):
        if lanes > _MOST_CONDITIONS and changes(node.condition):
            yield f"{lanes} conditions"
    for node in find_all(body, Cast):
        dtypes = [str(it.ty.dtype) for it in (node.value, node)]
        is_narrow = any(dtype.startswith(_FLOAT8) for dtype in dtypes)
        if is_narrow and (lanes > _MOST or any("int" in it for it in dtypes)) and changes(node):
            yield f"{lanes} elements that are converted from {dtypes[0]} to {dtypes[1]}"
    for node in (it for kind in _COMPUTING for it in find_all(body, kind)):
        if str(node.ty.dtype).startswith(_FLOAT8) and changes(node):
            yield f"{lanes} elements of {node.ty.dtype} that are computed with"


def find_taken_apart(sch: Schedule, block: SBlockRV) -> Iterator[tuple[str, Any]]:
    """What TVM takes apart of the vectors around a block: how they lie, and in which buffer.

    One element that is repeated is not taken apart. Of buffers that are compacted later nothing is
    known but whether they take neighbours; and where lanes have conditions of their own, there are
    vectors of what is aligned alone (`SplitGuardedVectors`).
    """
    loops, values = get_enclosing_loops(sch, block), get_iterator_values(get_root(sch, block))
    body = sch.get(block).body
    # The conditions around and in the block, in loop variables alone.
    inside = [node.condition for node in find_all(body, IfThenElse)]
    inside += [node.args[0] for node in find_all(body, Call) if is_choice(node)]
    conditions = [substitute(condition, values) for condition in inside]
    conditions.append(get_realize(sch, block).predicate)
    for loop, buffer, indices, analyzer in _find_vectors(loops, sch.get(block), values):
        if not any(is_used(loop.loop_var, index) for index in indices):
            continue
        is_guarded = any(is_used(loop.loop_var, condition) for condition in conditions)
        is_known = buffer.scope() == "global" and not is_guarded
        if not _are_neighbours(indices, loop, analyzer):
            yield "are no neighbours", buffer
        elif is_known and not begin_aligned(buffer, indices, loop, analyzer):
            yield "do not begin at multiples of a vector", buffer


def _find_vectors(
    loops: Sequence[For], block: SBlock, values: dict[Any, Any]
) -> Iterator[tuple[For, Any, list[Any], Analyzer]]:
    """The vectorized loops, with each element's buffer and its indices in loop variables alone."""
    analyzer = bind_ranges(loops)
    for loop in loops:
        if loop.kind == ForKind.VECTORIZED:
            for buffer, indices in get_elements(block.body):
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
        for lane in choose_iterations(constant(loop.extent) or 1, _TRIED)[1:]:
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
            # What the analyzer does not bound may be up to 2**63, it says.
            bounded = bound.min_value >= -LARGEST_INDEX and bound.max_value <= LARGEST_INDEX
            if not (whole and bounded and analyzer.can_prove_equal(total - first, lane)):
                return division
            vector = Var("vector", lane.ty.dtype)
            low, high = bound.min_value // lanes, bound.max_value // lanes
            analyzer.bind(vector, Range.from_min_extent(low, high - low + 1))
            known = vector * lanes + lane
            numbered.append((total, known))
        return type(division)(known, division.b)

    return [structural_map(index, ((FloorDiv, FloorMod), number)) for index in indices]
