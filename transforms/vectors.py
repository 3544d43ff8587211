"""Vectors: whether their elements are neighbours in a buffer, and whether CUDA has their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

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
        if loop.kind == ForKind.VECTORIZED and _may_be_unwritten(place, loop):
            lanes = constant(loop.extent) or 1
            yield from ((loop, what) for what in _find_unwritten(place, loop, lanes))


def _may_be_unwritten(place: Place, loop: For) -> bool:
    """A cheap answer: vectors of four, of all types but the narrow ones, are CUDA's."""
    dtypes = {str(buffer.dtype) for buffer, _ in get_elements(place.block.body)}
    narrow = any(dtype in _MOST_LOADED or dtype.startswith(_FLOAT8) for dtype in dtypes)
    return narrow or (constant(loop.extent) or 1) > _MOST


def find_longest_vector(place: Place, loop: For, lanes: int) -> int:
    """The longest vector, up to so many elements, that a loop of a block could make; 1 for none."""
    fitting = (most for most in (16, 8, 4, 2) if most <= lanes)
    return next((most for most in fitting if not any(_find_unwritten(place, loop, most))), 1)


class _Lane(NamedTuple):
    """A loop that is vectorized, around a block."""

    loop: For
    place: Place
    analyzer: Analyzer

    @classmethod
    def of(cls, place: Place, loop: For) -> _Lane:
        analyzer = bind_ranges(place.loops)
        return cls(loop, place, analyzer)

    def changes(self, expression: Any) -> bool:
        """Whether an expression of the block differs along the loop, as TVM simplifies it."""
        variable = self.loop.loop_var
        inner = substitute(expression, self.place.values)
        return is_used(variable, inner) and is_used(variable, self.analyzer.simplify(inner))


def _find_unwritten(place: Place, loop: For, lanes: int) -> Iterator[str]:
    lane = _Lane.of(place, loop)
    for store in find_all(place.block.body, BufferStore):
        choices = [node.args[0] for node in find_all(store.value, Call) if is_choice(node)]
        if not any(map(lane.changes, store.indices)) or any(map(lane.changes, choices)):
            continue
        for value in _find_repeated(store.value, lane):
            dtype = str(value.ty.dtype)
            if lanes > _find_most(value, dtype):
                yield f"{lanes} elements of {dtype} out of one value"
    for node in find_all(place.block.body, Select):
        if lanes > _MOST_CONDITIONS and lane.changes(node.condition):
            yield f"{lanes} conditions"
    for kind in (Cast, *_COMPUTING):
        for node in find_all(place.block.body, kind):
            fault = _find_float8_fault(node, lanes)
            if fault and lane.changes(node):
                yield fault


def _find_float8_fault(node: Any, lanes: int) -> str:
    """What CUDA's vectors of float8 do not do of an expression, or ""."""
    if isinstance(node, Cast):
        dtypes = [str(node.value.ty.dtype), str(node.ty.dtype)]
        narrow = [dtype for dtype in dtypes if dtype.startswith(_FLOAT8)]
        if narrow and (lanes > _MOST or any("int" in dtype for dtype in dtypes)):
            return f"{lanes} elements that are converted from {dtypes[0]} to {dtypes[1]}"
    elif isinstance(node, _COMPUTING) and str(node.ty.dtype).startswith(_FLOAT8):
        return f"{lanes} elements of {node.ty.dtype} that are computed with"
    return ""


def _find_most(value: Any, dtype: str) -> int:
    """The elements of the longest vector of one value."""
    most = REPEATED.get(dtype, _MOST)
    is_constant = isinstance(value, (IntImm, FloatImm))
    return most if is_constant else min(most, _MOST_LOADED.get(dtype, most))


def _find_repeated(value: Any, lane: _Lane) -> Iterator[Any]:
    """The largest parts of a value that are the same all along a loop, which TVM repeats."""
    if isinstance(value, TensorLoad):
        if not any(map(lane.changes, value.indices)):
            yield value
    elif not is_used(lane.loop.loop_var, substitute(value, lane.place.values)):
        yield value
    else:
        parts = value.args[1:] if is_choice(value) else _get_parts(value)
        yield from (found for part in parts for found in _find_repeated(part, lane))


def _get_parts(value: Any) -> list[Any]:
    """The expressions of which an expression is made, but for conditions."""
    names = ("a", "b", "value", "true_value", "false_value", "body")
    parts = [getattr(value, name, None) for name in names]
    return [*(part for part in parts if hasattr(part, "ty")), *getattr(value, "args", ())]


def find_taken_apart(sch: Schedule, block: SBlockRV) -> Iterator[tuple[str, Any]]:
    """What TVM takes apart of the vectors around a block: how they lie, and in which buffer.

    One element that is repeated is not taken apart. Of buffers that are compacted later nothing is
    known but whether they take neighbours; and where lanes have conditions of their own, there are
    vectors of what is aligned alone (`SplitGuardedVectors`).
    """
    conditions = _find_conditions(sch, block)
    loops, values = get_enclosing_loops(sch, block), get_iterator_values(get_root(sch, block))
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
    """The conditions around and in a block, in loop variables alone."""
    values, body = get_iterator_values(get_root(sch, block)), sch.get(block).body
    conditions = [node.condition for node in find_all(body, IfThenElse)]
    conditions += [node.args[0] for node in find_all(body, Call) if is_choice(node)]
    predicate = get_realize(sch, block).predicate
    return [predicate, *(substitute(condition, values) for condition in conditions)]


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
