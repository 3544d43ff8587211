"""What the blocks of a module touch: in which thread, in which iteration, where it must have been.

The rules about memory are queries over these tables. A block and a statement of one are the same
here, and so is a reduction's initialization: all are accesses of elements, under loops and guards.
A table is exact: it has a row for each iteration of the loops that decide it, and of no others
(the projection onto the variables that occur). What has too many rows, or hangs on data, has no
table, and the rules leave it open. What rules try out one by one has no answer at open sizes: a
module that leaves sizes open is asked with some (`close_sizes`), and what is wrong there is wrong.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from tvm.ir import Call, IRModule, Range, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import (
    EQ,
    And,
    AttrStmt,
    Bind,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    Not,
    Or,
    PrimFunc,
    SeqStmt,
    Var,
    While,
)

from tirstep.transforms.enumeration import Table, choose_values, number_rows, tabulate
from tirstep.transforms.tir import (
    Place,
    bind_ranges,
    cached_by_module,
    cached_by_node,
    constant,
    find_all,
    find_choices,
    get_axis,
    get_places,
    is_among,
    is_used,
    list_functions,
    substitute,
)

from ..device import close_extents, get_open_sizes

ROWS = 1 << 17
"""Rows of one table at most: some milliseconds."""
LEVELS = ("blockIdx", "threadIdx")


def list_places(module: IRModule) -> list[Place]:
    """The places of all blocks of all functions, in program order."""
    return [place for each in list_functions(module) for place in get_places(each.body)]


def list_loads(body: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The loads, and what must hold where each is done, in arms of one choice or more, or behind
    what decides a conjunction or a disjunction.
    """
    arms = [(it.a, it.b) for it in find_all(body, And)]
    arms += [(Not(it.a), it.b) for it in find_all(body, Or)]
    for condition, *both in find_choices(body):
        arms += zip((condition, Not(condition)), both, strict=False)
    inside = [(it, [load.indices for load in find_all(arm, TensorLoad)]) for it, arm in arms]
    for load in find_all(body, TensorLoad):
        yield load, [condition for condition, found in inside if is_among(load.indices, found)]


class Element(NamedTuple):
    """What a block reads or writes in one place of its body, in its own iterators.

    Attributes
    ----------
    ranges : of the elements, one for each dimension
    conditions : those that the loops alone decide, and that all hold
    is_told : whether no data decide where it is: otherwise the ranges are all that it may be
    is_conditional : whether data decide if it is done
    lanes : the axes that the block binds in its body, so that one cannot tell whose it is
    """

    buffer: Any
    ranges: tuple[Range, ...]
    conditions: tuple[Any, ...]
    is_written: bool
    is_told: bool
    is_conditional: bool
    lanes: tuple[str, ...] = ()


class Count(NamedTuple):
    """What runs over a range, or over the threads of an axis, as a loop does."""

    loop_var: Var
    extent: Any
    min: int = 0


@dataclass(frozen=True)
class Access:
    """An element, or a range of them, that a block reads or writes, in loop variables.

    Attributes
    ----------
    key : what makes it the same in another module: what it is of its block, and the addresses of
        the block and of what stands around that, all of which the place keeps alive
    order : of the block in the program
    """

    key: tuple[Any, ...]
    place: Place = field(compare=False)
    element: Element = field(compare=False)
    order: int = field(compare=False)

    @property
    def buffer(self) -> Any:
        return self.element.buffer

    @property
    def scope(self) -> str:
        return str(self.element.buffer.scope())

    @property
    def is_plain(self) -> bool:
        """Whether the loops around its block decide all of it: no data, and no loops inside."""
        block, element = self.place.block, self.element
        is_opaque = (
            block.match_buffers or find_all(block.body, Evaluate) or find_all(block.body, For)
        )
        return element.is_told and not element.is_conditional and not is_opaque

    @functools.cached_property
    def left_open(self) -> str:
        """Why rules cannot decide about all of it; empty where they can."""
        if not self.element.is_told:
            return "data decide which elements"
        if self.element.is_conditional:
            return "data decide whether it is accessed"
        spans = _measure(self.deciding)
        if spans is None:
            return "a loop does not begin at a constant"
        if math.prod(span.extent for span in spans) <= ROWS:
            return ""
        is_known = all(constant(loop.extent) is not None for loop in self.deciding)
        return f"more than {ROWS} iterations" if is_known else "extents are open"

    @functools.cached_property
    def bound(self) -> dict[str, For]:
        """The innermost loops on blocks and threads of a GPU, by their axes."""
        loops = [loop for loop in self.place.loops if constant(loop.extent) != 1]
        return {axis: loop for loop in loops if (axis := get_axis(loop) or "").startswith(LEVELS)}

    @functools.cached_property
    def known(self) -> dict[str, For]:
        """The same, and those of other blocks on axes that it will not have: all run it."""
        idle = (loop for loop in find_idle(self.place) if constant(loop.extent) != 1)
        others = {str(get_axis(loop)): loop for loop in idle}
        return {a: it for a, it in others.items() if a.startswith(LEVELS)} | self.bound

    @functools.cached_property
    def summed(self) -> dict[str, int]:
        """The axes over whose threads TVM adds up what is written: the first of these writes it."""
        return find_summed(self.place) if self.element.is_written else {}

    @functools.cached_property
    def counts(self) -> list[Count]:
        """One for each dimension in which there is more than an element."""
        return [
            Count(Var(f"d{at}", part.min.ty), part.extent)
            for at, part in enumerate(self.element.ranges)
            if constant(part.extent) != 1
        ]

    @functools.cached_property
    def cells(self) -> tuple[Any, ...]:
        """The index along each dimension."""
        counts = iter(self.counts)
        return tuple(
            self._tell(part.min if constant(part.extent) == 1 else part.min + next(counts).loop_var)
            for part in self.element.ranges
        )

    @functools.cached_property
    def guards(self) -> list[Any]:
        """What all holds where it is done. Of sums over threads one stores to global memory."""
        summed = self.summed if self.scope == "global" else {}
        first = [self.bound[axis].loop_var for axis in summed if axis in self.bound]
        return [
            *map(self._unify, self.place.guards),
            *map(self._tell, self.element.conditions),
            *(variable < IntImm(str(variable.ty), 1) for variable in first),
        ]

    def _tell(self, expression: Any) -> Any:
        """What an expression of the block is in loop variables, one for each axis."""
        return self._unify(substitute(expression, self.place.values))

    def _unify(self, expression: Any) -> Any:
        """Loops that are nested on one axis are one thread's number."""
        others = {
            loop.loop_var: own.loop_var
            for loop in self.place.loops
            if (own := self.bound.get(get_axis(loop) or "")) is not None
            and not loop.same_as(own)
            and str(loop.loop_var.ty) == str(own.loop_var.ty)
        }
        return substitute(expression, others)

    @functools.cached_property
    def deciding(self) -> list[Any]:
        """The loops, outermost first, that decide whether it is done, and of which elements."""
        return self._find_deciding(())

    def _find_deciding(self, columns: Iterable[Any]) -> list[Any]:
        needed, found = [*self.cells, *self.guards, *columns], list[Any]()
        for loop in reversed((*self.place.loops, *self.counts)):
            if any(is_used(loop.loop_var, each) for each in needed):
                found.insert(0, loop)
                needed += [each for each in (loop.min, loop.extent) if constant(each) is None]
        return found

    def tabulate(
        self,
        columns: Sequence[Any] = (),
        chosen: Mapping[Any, Sequence[int]] | None = None,
        *,
        tried: int = 0,
        beside: Sequence[Count] = (),
    ) -> Table | None:
        """A row for each iteration in which it is done: the columns, then the indices.

        Of some variables only the `chosen` values; if more than `tried` iterations are left, the
        first and the last ones of each loop, and without `tried` all of them. `beside` are axes
        whose threads all do it. None for what other variables decide, or has too many rows.
        """
        chosen = chosen or {}
        used = [each for each in columns if not isinstance(each, int)]
        loops = self._find_deciding(used)
        loops += [it for it in beside if any(it.loop_var.same_as(each) for each in used)]
        if (spans := _measure(loops)) is None:
            return None
        ends = [loop.loop_var < loop.extent for loop in loops if constant(loop.extent) is None]
        values: dict[Any, Any] = {}
        free: list[Count] = []
        for span in spans:
            row = chosen.get(span.loop_var)
            if row is None:
                free.append(span)
            else:
                row = [value for value in row if span.min <= value < span.min + span.extent]
            values[span.loop_var] = row
        points = math.prod(count.extent for count in free)
        if points > ROWS and not tried:
            return None
        few = choose_values(free, tried) if tried and points > tried else None
        for at, count in enumerate(free):
            row = range(count.extent) if few is None else few[at]
            values[count.loop_var] = [count.min + value for value in row]
        if math.prod(map(len, values.values())) > 8 * ROWS:
            return None
        return tabulate([*columns, *self.cells], [*self.guards, *ends], values)


def _measure(loops: Sequence[Any]) -> list[Count] | None:
    """Loops with the most iterations that each may have; None where one begins at no constant."""
    analyzer, spans = bind_ranges(loops), []
    for loop in loops:
        first, extent = constant(loop.min), constant(loop.extent)
        if first is None:
            return None
        if extent is None:
            extent = int(analyzer.const_int_bound(loop.extent).max_value)
        spans.append(Count(loop.loop_var, extent, first))
    return spans


_STORED = 2048
"""Iterations of a block that are tried for elements that several threads use."""


def tabulate_threads(use: Access, loops: Sequence[For]) -> Table | None:
    """A row for each element that is used, of some iterations: loops of threads, launch, indices.

    Of loops that stand around other blocks alone the first and the last thread do the same.
    """
    beside = [loop for loop in loops if not is_among(loop, use.place.loops)]
    ends = {it.loop_var: [0, (constant(it.extent) or 1) - 1] for it in beside}
    columns = [*(loop.loop_var for loop in loops), *find_launch(use.place)]
    return use.tabulate(columns, ends, tried=_STORED, beside=beside)


def find_shared_axis(axes: Sequence[str], one: Table, other: Table) -> str:
    """An axis on which different threads have one cell, in two tables; empty if there is none.

    The first columns are the places on the axes, and the others the cell.
    """
    width = len(axes)
    first, last = number_rows(one[:, width:], other[:, width:])
    shared = np.isin(first, last), np.isin(last, first)
    numbers = np.concatenate([first[shared[0]], last[shared[1]]])
    order = np.argsort(numbers, kind="stable")
    rows, numbers = np.concatenate([one[shared[0]], other[shared[1]]])[order], numbers[order]
    if not len(numbers):
        return ""
    begins = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
    for at, axis in enumerate(axes):
        column = rows[:, at]
        if (np.minimum.reduceat(column, begins) != np.maximum.reduceat(column, begins)).any():
            return axis
    return ""


@cached_by_module(4)
def list_accesses(module: IRModule) -> list[list[Access]]:
    """What the blocks of each function touch, in program order, by function."""
    found = []
    for function in list_functions(module):
        own: list[Access] = []
        for order, place in enumerate(get_places(function.body)):
            values = place.values.items()
            # What makes it the same in another module; loops with other bodies are the same.
            nodes = (place.block, *place.guards, *itertools.chain(*values))
            addresses = (node.__chandle__() for node in nodes)
            key = (len(values), *addresses, *map(_read_loop, place.loops))
            elements = list_elements(place.block) if place.is_innermost else ()
            own += [Access((at, *key), place, it, order) for at, it in enumerate(elements)]
        found.append(own)
    return found


@cached_by_node(4096)
def _read_loop(loop: For) -> tuple[Any, ...]:
    begin, extent = constant(loop.min), constant(loop.extent)
    return (
        loop.loop_var.__chandle__(),
        loop.min.__chandle__() if begin is None else (begin,),
        loop.extent.__chandle__() if extent is None else (extent,),
        get_axis(loop),
    )


@cached_by_node(512)  # a transform leaves most blocks as they are
def list_elements(block: SBlock) -> tuple[Element, ...]:
    """What a block without others in it reads and writes.

    Of a body whose elements cannot be told, such as an intrinsic's, what the block declares.
    """
    unknown = (Evaluate, For, While)
    if block.match_buffers or any(find_all(block.body, kind) for kind in unknown):
        lanes = tuple(filter(None, map(get_axis, find_all(block.body, For))))
        is_chosen = bool(find_all(block.body, IfThenElse)) or any(find_choices(block.body))
        return tuple(
            Element(it.source, tuple(it.region), (), written, True, is_chosen, lanes)
            for written, regions in ((True, block.writes), (False, block.reads))
            for it in regions
        )
    reduced = (it for it in block.iter_vars if it.iter_type == IterVar.CommReduce)
    first = tuple(EQ(it.var, it.dom.min) for it in reduced)
    loads = [it for it in _visit(block.init, (), False) if not it.is_written]
    begun = [it._replace(conditions=(*first, *it.conditions)) for it in loads]
    return (*_visit(block.body, (), False), *begun)


def _visit(statement: Any, conditions: tuple[Any, ...], is_data: bool) -> Iterator[Element]:
    """What stores and branches read and write, under conditions, and whether under data's, too."""
    if isinstance(statement, SeqStmt):
        bound: dict[Any, Any] = {}  # what T.let binds is read where it is used
        for part in statement.seq:
            if isinstance(part, Bind):
                bound[part.var] = substitute(part.value, bound)
            else:
                yield from _visit(substitute(part, bound) if bound else part, conditions, is_data)
    elif isinstance(statement, IfThenElse):
        condition, is_known = statement.condition, _is_known(statement.condition)
        yield from _list_loads(condition, conditions, is_data)
        own, other = ((condition,), (Not(condition),)) if is_known else ((), ())
        yield from _visit(statement.then_case, (*conditions, *own), is_data or not is_known)
        yield from _visit(statement.else_case, (*conditions, *other), is_data or not is_known)
    elif isinstance(statement, AttrStmt):
        yield from _visit(statement.body, conditions, is_data)
    elif isinstance(statement, BufferStore):
        yield from _list_loads((statement.value, statement.indices), conditions, is_data)
        ranges, is_told = _make_ranges(statement.buffer, statement.indices)
        yield Element(statement.buffer, ranges, conditions, True, is_told, is_data)


def _list_loads(expression: Any, conditions: tuple[Any, ...], is_data: bool) -> Iterator[Element]:
    for load, more in list_loads(expression):
        known = [*filter(_is_known, more)]
        ranges, is_told = _make_ranges(load.source, load.indices)
        is_chosen = is_data or len(known) < len(more)
        yield Element(load.source, ranges, (*conditions, *known), False, is_told, is_chosen)


def _is_known(condition: Any) -> bool:
    """Whether the loops alone decide a condition."""
    return not find_all(condition, TensorLoad) and not find_all(condition, Call)


def _make_ranges(buffer: Any, indices: Any) -> tuple[tuple[Range, ...], bool]:
    """An element's place, and whether it is told; a dimension whose index is data may be any."""
    told = [not find_all(index, TensorLoad) for index in indices]
    ranges = tuple(
        Range.from_min_extent(index, 1)
        if is_told
        else Range.from_min_extent(extent - extent, extent)
        for index, extent, is_told in zip(indices, buffer.shape, told, strict=True)
    )
    return ranges, all(told)


def find_launch(place: Place) -> list[Any]:
    """The loops around a kernel: each of their iterations launches it anew, one after the other."""
    outer = itertools.takewhile(lambda loop: get_axis(loop) is None, place.loops)
    return [loop.loop_var for loop in outer]


def find_idle(place: Place, *, is_last: bool = False) -> tuple[For, ...]:
    """The loops of a kernel on axes that a block of it does not have; none while a loop is serial.

    That one may yet be bound, or what it computes kept in registers before all of it has threads,
    unless this `is_last`.
    """
    around = itertools.dropwhile(lambda loop: get_axis(loop) is None, place.loops)
    if place.kernel is None:
        return ()
    if not is_last and any(loop.kind == ForKind.SERIAL for loop in around):
        return ()
    own = {get_axis(loop) for loop in place.loops}
    others = {get_axis(loop): loop for loop in find_all(place.kernel, For)}
    return tuple(loop for axis, loop in others.items() if axis is not None and axis not in own)


def find_summed(place: Place) -> dict[str, int]:
    """The axes over whose threads TVM adds up what a block computes, and how many these are: it
    stores complete sums. None where the block has its initialization elsewhere.
    """
    reduced = find_values(place, reduced=True)
    loops = place.find_bound("threadIdx") if place.block.init is not None else []
    return {
        str(get_axis(loop)): constant(loop.extent) or 1
        for loop in loops
        if any(is_used(loop.loop_var, value) for value in reduced)
    }


def find_values(place: Place, *, reduced: bool) -> list[Any]:
    """The values of a block's iterators that reduce, or of the others."""
    return [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if (iterator.iter_type == IterVar.CommReduce) == reduced
    ]


_SIZES = (12, 20, 28, 36, 44, 52, 60)
"""Some multiples of 4, which heads may share, and not of 8, so that guards of tiles decide."""


@cached_by_module(2)
def close_sizes(module: IRModule) -> IRModule:
    """The module with a constant for each size that its functions leave open; else itself.

    What cannot be closed stays open.
    """

    def close(function: Any) -> Any:
        if not isinstance(function, PrimFunc):
            return function
        found = get_open_sizes(function).values()
        if not found or len(found) > len(_SIZES):
            return function
        values = {var: IntImm(str(var.ty), size) for var, size in zip(found, _SIZES, strict=False)}
        return close_extents(function, values)

    functions = dict(module.functions_items())
    closed = {variable: close(function) for variable, function in functions.items()}
    is_closed = all(closed[variable] is functions[variable] for variable in functions)
    return module if is_closed else IRModule(closed)


_TRIED = 2048
"""Iterations of a block that are tried."""


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_outside(module: IRModule) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """What blocks use beyond the ends of buffers, by block, verb (``"read"`` or ``"write"``) and
    buffer: these, the dimension along which it is, and the buffer's length there.

    TVM estimates what a block writes from its loops, and forgets guards of loops that were fused
    and split: a copy of what such a block writes would go over all of the rounded-up tile.
    Iterations are tried: what is found is so, and what is not found may be there, at sizes that are
    open, in loops of many iterations, or with indices from data.
    """
    found = {}
    for access, dimension in list_outside(module):
        verb = "write" if access.element.is_written else "read"
        key = (access.place.name, verb, str(access.buffer.name))
        found[key] = (*key, dimension, constant(access.buffer.shape[dimension]) or 0)
    return found


def list_outside(module: IRModule, *, first: int = 0) -> Iterator[tuple[Access, int]]:
    """The accesses that leave their buffers along a dimension, from the `first` on, and that."""
    for access in itertools.chain.from_iterable(list_accesses(module)):
        dimension = find_left_dimension(access, range(first, len(access.buffer.shape)))
        if dimension is not None:
            yield access, dimension


@functools.lru_cache(maxsize=1024)
def find_left_dimension(access: Access, dimensions: Iterable[int]) -> int | None:
    """The first of some dimensions along which an access leaves its buffer; None for none.

    An index that is data counts as one within the buffer.
    """
    if access.element.is_conditional:
        return None
    analyzer, table = bind_ranges((*access.place.loops, *access.counts)), None
    for dimension in dimensions:
        size = constant(access.buffer.shape[dimension])
        if size is None:
            continue
        bound = analyzer.const_int_bound(access.cells[dimension])
        if bound.min_value >= 0 and bound.max_value < size:
            continue
        table = access.tabulate(tried=_TRIED) if table is None else table
        if table is None:
            return None
        column = table[:, dimension]
        if ((column < 0) | (column >= size)).any():
            return dimension
    return None
