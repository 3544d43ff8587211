"""Loops whose iterations touch nothing of one another's: each thread runs them at once.

A module in the middle of a schedule has few threads with long loops, and one statement for some
threads takes Python as long as one for thousands. So a nest of loops becomes one *wide* loop, whose
variables are rows of all their values, where that is proven, and not declared by anybody: no
iteration accesses an element of what another one stores to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.sym import detect_linear_equation
from tvm.tirx import (
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Var,
)

from tirstep.transforms.tir import THREAD_EXTENT, constant, find_all, substitute
from tirstep.tvm_compat import get_op_name

from .memory import count_lanes
from .operators import BITWISE, FUNCTIONS
from .run_state import LANES

WIDE = "tirstep_wide"
"""The annotation of a wide loop: a nest of such loops is run at once."""
_PURE = {*BITWISE, *FUNCTIONS, "if_then_else"}
_STATEMENTS = (SeqStmt, For, IfThenElse, Bind, BufferStore, Evaluate)


def widen_loops(body: Any, *, in_order: bool) -> Any:
    """Flat statements with loops made wide where iterations are apart; `body` if there are none.

    `in_order`: barriers are no statements of the program.
    """
    declared = find_all(body, DeclBuffer)
    bases = [variable for node in declared for variable in find_all(node.data, Var)]
    shared = frozenset([*(node.buffer for node in declared), *bases])
    return _Widening(in_order, shared).widen(body, 1)


def has_wide_loops(body: Any) -> bool:
    """Whether `widen_loops` made any."""
    return any(map(is_wide, find_all(body, For)))


def is_wide(loop: Any) -> bool:
    """Whether a statement is a wide loop."""
    return isinstance(loop, For) and WIDE in loop.annotations


@dataclass(frozen=True)
class _Widening:
    """What is the same in a whole function.

    Attributes
    ----------
    in_order : barriers are no statements of the program
    aliased : buffers whose elements may be those of others
    """

    in_order: bool
    aliased: frozenset[Var]

    def widen(self, body: Any, lanes: int) -> Any:
        """A statement that so many threads run."""
        if isinstance(body, SeqStmt):
            parts = [self.widen(part, lanes) for part in body.seq]
            is_same = all(new.same_as(old) for new, old in zip(parts, body.seq, strict=True))
            return body if is_same else SeqStmt(parts)
        if isinstance(body, AttrStmt):
            extent = constant(body.value) if body.attr_key == THREAD_EXTENT else 1
            inside = self.widen(body.body, lanes * (extent or 1))
            is_same = inside.same_as(body.body)
            return body if is_same else AttrStmt(body.node, body.attr_key, body.value, inside)
        if isinstance(body, IfThenElse):
            return self._widen_branch(body, lanes)
        if isinstance(body, For):
            widened = self._widen_nest(body, lanes)
            if widened is not None:
                return widened
            inside = self.widen(body.body, lanes)
            return body if inside.same_as(body.body) else _copy(body, inside)
        return body

    def _widen_branch(self, body: Any, lanes: int) -> Any:
        then, other = self.widen(body.then_case, lanes), body.else_case
        if other is not None:
            other = self.widen(other, lanes)
        is_same = then.same_as(body.then_case) and (other is None or other.same_as(body.else_case))
        return body if is_same else IfThenElse(body.condition, then, other)

    def _widen_nest(self, loop: For, lanes: int) -> Any:
        """The nest with the wide loops innermost; None where none can be, or is worth it."""
        nest, node = [loop], loop.body
        while isinstance(node, For):
            nest.append(node)
            node = node.body
        if any(constant(each.min) is None or not constant(each.extent) for each in nest):
            return None
        region = _Region.read(nest[-1].body, in_order=self.in_order)
        if region is None or not self.aliased.isdisjoint(region.stored):
            return None
        chosen: list[For] = []
        room = max(1, LANES // min(lanes, LANES))
        for each in sorted(nest, key=lambda each: -_extent(each)):
            is_small = math.prod(map(_extent, [*chosen, each])) <= room
            if is_small and region.is_apart([*chosen, each], nest):
                chosen.append(each)
        if math.prod(map(_extent, chosen)) < 2:
            return None
        is_wide = [any(map(each.same_as, chosen)) for each in nest]
        for wide in (True, False):
            for each, own in reversed([*zip(nest, is_wide, strict=True)]):
                node = _copy(each, node, is_wide=wide) if own == wide else node
        return node


def _extent(loop: For) -> int:
    return int(constant(loop.extent) or 0)


def _copy(loop: For, body: Any, *, is_wide: bool = False) -> For:
    notes = {WIDE: 1} if is_wide else None
    return For(
        loop.loop_var,
        loop.min,
        loop.extent,
        ForKind.SERIAL,
        body,
        thread_binding=None,
        annotations=notes,
    )


@dataclass(frozen=True)
class _Region:
    """What stands in a nest of loops.

    Attributes
    ----------
    loops : the loops inside
    stored : the buffers that it stores to
    places : of each of them, all indices at which it accesses that
    extents : of what must be the same in all iterations
    """

    loops: tuple[For, ...]
    stored: frozenset[Var]
    places: tuple[tuple[Any, ...], ...]
    extents: tuple[Any, ...]

    @classmethod
    def read(cls, body: Any, *, in_order: bool) -> _Region | None:
        """None for a region with anything but plain loops, branches, stores and sums of values."""
        bound: dict[Var, Any] = {}
        for node in _walk(body):
            if not isinstance(node, _STATEMENTS) or not _is_plain(node, in_order=in_order):
                return None
            if isinstance(node, Bind):
                if node.var in bound:
                    return None
                bound[node.var] = substitute(node.value, bound)
        calls = [call for call in find_all(body, Call) if not _is_barrier(call)]
        if any(get_op_name(call).rsplit(".", 1)[-1] not in _PURE for call in calls):
            return None
        stores = find_all(body, BufferStore)
        loads = find_all(body, TensorLoad)
        places, stored = [], frozenset(store.buffer for store in stores)
        for buffer in stored:
            indices = [store.indices for store in stores if store.buffer.same_as(buffer)]
            indices += [load.indices for load in loads if load.source.same_as(buffer)]
            if any(len(index) != 1 for index in indices):
                return None
            places.append(tuple(substitute(index[0], bound) for index in indices))
        loops = tuple(find_all(body, For))
        extents = tuple(
            substitute(size, bound) for each in loops for size in (each.min, each.extent)
        )
        return cls(loops, stored, tuple(places), extents)

    def is_apart(self, wide: Sequence[For], nest: Sequence[For]) -> bool:
        """Whether no two iterations of some loops of the nest access one element, one storing."""
        names = {each.loop_var for each in wide}
        if any(names & _find_variables(size) for size in self.extents):
            return False
        inner = [*self.loops, *(each for each in nest if each.loop_var not in names)]
        return bool(self.places) and all(_is_apart(each, wide, inner) for each in self.places)


def _walk(statement: Any) -> Iterator[Any]:
    """A statement and all within it, in their order."""
    yield statement
    if isinstance(statement, SeqStmt):
        for part in statement.seq:
            yield from _walk(part)
    elif isinstance(statement, IfThenElse):
        yield from _walk(statement.then_case)
        if statement.else_case is not None:
            yield from _walk(statement.else_case)
    elif isinstance(statement, For):
        yield from _walk(statement.body)


def _is_plain(node: Any, *, in_order: bool) -> bool:
    """Whether it is run for rows of values as for single ones."""
    if isinstance(node, Evaluate):
        is_barrier = _is_barrier(node.value)
        return in_order if is_barrier else constant(node.value) is not None
    if isinstance(node, BufferStore):
        return count_lanes(node.value.ty.dtype) == 1 == count_lanes(node.buffer.dtype)
    if isinstance(node, Bind):
        return hasattr(node.value.ty, "dtype") and count_lanes(node.value.ty.dtype) == 1
    return True


def _is_barrier(value: Any) -> bool:
    return str(getattr(getattr(value, "op", None), "name", "")).endswith("tvm_storage_sync")


def _find_variables(expression: Any) -> set[Var]:
    return set(find_all(expression, Var))


def _is_apart(indices: Sequence[Any], wide: Sequence[For], inner: Sequence[For]) -> bool:
    """Whether iterations of wide loops have elements of their own, at one index that is linear.

    The index is linear in wide and inner loops' variables, and the same wherever the buffer is
    accessed. Different values of them are different elements, then, where each coefficient is
    larger than all that those of smaller ones come to.
    """
    first, *others = indices
    if any(not tvm_ffi.structural_equal(other, first) for other in others):
        return False
    if find_all(first, TensorLoad):
        return False
    used = _find_variables(first)
    loops = [each for each in (*wide, *inner) if each.loop_var in used]
    if any(each.loop_var not in used for each in wide):
        return False
    if any(constant(each.extent) is None for each in loops):
        return False
    terms = detect_linear_equation(first, [each.loop_var for each in loops])
    if len(terms) != len(loops) + 1:
        return False
    steps = [abs(constant(term) or 0) for term in list(terms)[:-1]]
    if not all(steps):
        return False
    reach = 0
    for step, each in sorted(zip(steps, loops, strict=True), key=lambda pair: pair[0]):
        if step <= reach:
            return False
        reach += step * (_extent(each) - 1)
    return True
