"""Reads of elements of global memory that other threads of the same kernel write.

Nothing orders what the threads of a kernel do to global memory: what a thread reads there it must
have written itself, or an earlier kernel must. A reader of which a loop is yet to be bound is run
by all threads, and reads what all of them write; and what TVM adds up over threads one of them
writes, until it is kept in registers, where all have it. As long as a schedule is on that way only
the placing of blocks is refused.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm.ir import Call, IRModule, Range, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, Evaluate, For, IfThenElse, IntImm, Not, PrimFunc, SeqStmt, Var
from tvm.tirx import all as all_of
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import choose_values, compute_values, is_of
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    find_conditions,
    get_axis,
    get_patterns,
    get_places,
    is_among,
    is_used,
    substitute,
)

from .open_sizes import close_sizes
from .owners import find_idle, find_launch, find_summed

_TRIED = 256
"""Iterations of a reader that are tried: some milliseconds."""
_STORED = 2048
"""Elements that a thread may store for each of these to be looked for among them."""
_LEVELS = ("blockIdx", "threadIdx")
_Numbers = tuple[int, ...]


class ForeignRead(NamedTuple):
    """A block that reads what others write in its kernel.

    Attributes
    ----------
    axis : on which these others run
    is_settled : whether the reader has threads of its own on that axis, and reads no sum over
        threads, which it could have in registers
    """

    reader: str
    buffer: str
    axis: str
    is_settled: bool


@cached_by_module(2)
def find_foreign_reads(module: IRModule) -> dict[ForeignRead, Fault]:
    """Blocks that read of global memory what other threads write in the same kernel.

    Some of what is read is tried; what is found is so.
    """
    found: dict[ForeignRead, Fault] = {}
    for uses in _list_uses(module):
        writers = [use for use in uses if use.element.is_written]
        readers = [use for use in uses if not use.element.is_written] if writers else []
        for reader in readers:
            axis = "" if _is_own(reader, writers) else _find_foreign_axis(reader, writers)
            if axis:
                name, block = str(reader.element.buffer.name), reader.place.name
                is_bound = axis in reader.bound or axis in reader.element.lanes
                is_settled = is_bound and not any(writer.summed for writer in writers)
                found[ForeignRead(block, name, axis, is_settled)] = _blame(block, name, axis)
        for reader in readers:
            behind = [use for use in uses[uses.index(reader) :] if use.element.is_written]
            axis = next(filter(None, (_find_early_axis(reader, use) for use in behind)), "")
            if axis:
                name, block = str(reader.element.buffer.name), reader.place.name
                found[ForeignRead(block, name, axis, True)] = _blame(block, name, axis)
    return found


def _find_early_axis(reader: _Use, writer: _Use) -> str:
    """An axis on which another thread writes an element behind its reading; empty for none.

    That one writes it, too, is no help: others may have done so before it reads.
    """
    if writer.place is reader.place or writer.element.lanes or reader.element.lanes:
        return ""
    axes = tuple(axis for axis in reader.known if axis in writer.known)
    if not axes:
        return ""
    first, last = (_list_owners(use, axes) or {} for use in (reader, writer))
    for element in first.keys() & last.keys():
        both = [*first[element], *last[element]]
        for other in both[1:]:
            if differing := _find_differences(axes, both[0], other):
                return differing[0]
    return ""


def _is_own(reader: _Use, writers: list[_Use]) -> bool:
    """Whether a block writes what it reads, as sums do, or reads sums of TVM's in registers."""
    at = reader.element.ranges
    return any(
        writer.place is reader.place
        and (
            writer.summed
            or (writer.element.is_plain and structural_equal(writer.element.ranges, at))
        )
        for writer in writers
    )


def find_settled_foreign_reads(module: IRModule) -> dict[ForeignRead, Fault]:
    """Those that no binding yet to come, and no registers, would mend."""
    return {read: fault for read, fault in find_foreign_reads(module).items() if read.is_settled}


def _blame(block: str, name: str, axis: str) -> Fault:
    return Fault(
        f"block '{block}' would read elements of '{name}' that others on '{axis}' write in the "
        "same kernel, and nothing orders what these do to global memory",
        "place it inside of the loops whose threads write them, let them go through shared memory "
        '(cache_write_at with scope="shared"), or leave it a kernel of its own',
    )


class _Element(NamedTuple):
    """What a block reads or writes in one place of its body, in its own iterators.

    Attributes
    ----------
    ranges : of the elements, one for each dimension
    conditions : those that the loops alone decide, and that all hold
    is_certain : whether it writes all of them, whatever the data are
    lanes : the axes that the block binds in its body, so that one cannot tell whose it is
    """

    buffer: Any
    ranges: tuple[Range, ...]
    conditions: tuple[Any, ...]
    is_written: bool
    is_certain: bool
    lanes: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the block writes it wherever it stands."""
        return self.is_certain and not self.conditions and not self.lanes


class _Count(NamedTuple):
    """What runs over a range as a loop does."""

    loop_var: Var
    extent: Any


@dataclass(frozen=True, eq=False)
class _Use:
    """An element, or a range of them, that a block of a kernel reads or writes."""

    place: Place
    element: _Element

    @functools.cached_property
    def bound(self) -> dict[str, For]:
        """The innermost loops on blocks and threads of a GPU, by their axes."""
        loops = [loop for loop in self.place.loops if constant(loop.extent) != 1]
        return {axis: loop for loop in loops if (axis := get_axis(loop) or "").startswith(_LEVELS)}

    @functools.cached_property
    def known(self) -> dict[str, For]:
        """The same, and those of other blocks on axes that it will not have: all run it."""
        idle = (loop for loop in find_idle(self.place) if constant(loop.extent) != 1)
        others = {str(get_axis(loop)): loop for loop in idle}
        return {a: it for a, it in others.items() if a.startswith(_LEVELS)} | self.bound

    @functools.cached_property
    def summed(self) -> tuple[str, ...]:
        """The axes over whose threads TVM adds up what is written: the first of these writes it."""
        return find_summed(self.place) if self.element.is_written else ()

    @functools.cached_property
    def counts(self) -> list[_Count]:
        """One for each dimension of which there is more than an element."""
        return [
            _Count(Var(f"d{at}", part.min.ty), part.extent)
            for at, part in enumerate(self.element.ranges)
            if constant(part.extent) != 1
        ]

    @functools.cached_property
    def indices(self) -> tuple[Any, ...]:
        """The launch, as loops around a kernel run it anew, and the element, in variables."""
        counts, parts = iter(self.counts), self.element.ranges
        own = (
            part.min if constant(part.extent) == 1 else part.min + next(counts).loop_var
            for part in parts
        )
        return (*find_launch(self.place), *map(self._tell, own))

    @functools.cached_property
    def guards(self) -> list[Any]:
        """What all holds where it is used."""
        threads = [self.bound[axis].loop_var for axis in self.summed if axis in self.bound]
        first = [variable < IntImm(str(variable.ty), 1) for variable in threads]
        own = map(self._tell, self.element.conditions)
        return [*map(self._unify, self.place.guards), *own, *first]

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

    def find_loops(self, threads: dict[str, Any]) -> list[Any] | None:
        """Those that decide besides the threads' own; None where others than loops do, too.

        Sizes that are open, and numbers of the caller's, may be any.
        """
        needed = (*self.indices, *self.guards)
        names = [loop.loop_var for loop in (*self.place.loops, *self.counts)]
        if not all(is_of(names, each) for each in needed):
            return None
        given = list(threads.values())
        return [
            loop
            for loop in (*self.place.loops, *self.counts)
            if not is_among(loop.loop_var, given)
            and any(is_used(loop.loop_var, each) for each in needed)
        ]


def _list_uses(module: IRModule) -> Iterator[list[_Use]]:
    """What blocks of one kernel read and write of one buffer in global memory."""
    for _, function in close_sizes(module).functions_items():
        kernels: dict[tuple[For, Any], list[_Use]] = {}
        for place in get_places(function.body) if isinstance(function, PrimFunc) else ():
            if not place.is_innermost or place.kernel is None:
                continue
            for element in _list_elements(place.block):
                kernels.setdefault((place.kernel, element.buffer), []).append(_Use(place, element))
        yield from kernels.values()


@functools.lru_cache(maxsize=64)  # a transform leaves most blocks as they are
def _list_elements(block: SBlock) -> tuple[_Element, ...]:
    """What a block without others in it reads and writes of global memory."""
    body = block.body
    if block.match_buffers or find_all(body, Evaluate) or find_all(body, For):
        found = list(_list_regions(block))
    else:
        found = list(_visit(body, ()))
        found += [it for it in _visit(block.init, ()) if not it.is_written]
    return tuple(element for element in found if str(element.buffer.scope()) == "global")


def _list_regions(block: SBlock) -> Iterator[_Element]:
    """What a block declares whose elements cannot be told, such as an instruction's."""
    lanes = tuple(axis for loop in find_all(block.body, For) if (axis := get_axis(loop)))
    for written, patterns in zip((True, False), get_patterns(block), strict=True):
        for it in patterns:
            yield _Element(it.buffer, it.ranges, it.conditions, written, True, lanes)


def _visit(statement: Any, conditions: tuple[Any, ...]) -> Iterator[_Element]:
    """What stores and branches read and write."""
    if isinstance(statement, SeqStmt):
        for part in statement.seq:
            yield from _visit(part, conditions)
    elif isinstance(statement, IfThenElse):
        yield from _list_loads(statement.condition, conditions)
        yield from _visit(statement.then_case, (*conditions, statement.condition))
        yield from _visit(statement.else_case, (*conditions, Not(statement.condition)))
    elif isinstance(statement, BufferStore):
        yield from _list_loads((statement.value, statement.indices), conditions)
        ranges = _make_ranges(statement.buffer, statement.indices)
        known = _keep_known(conditions)
        is_certain = not find_all(statement.indices, TensorLoad)
        yield _Element(statement.buffer, ranges, known, True, is_certain)


def _list_loads(expression: Any, conditions: tuple[Any, ...]) -> Iterator[_Element]:
    for load in find_all(expression, TensorLoad):
        known = _keep_known((*conditions, *find_conditions(expression, load.indices)))
        yield _Element(load.source, _make_ranges(load.source, load.indices), known, False, True)


def _keep_known(conditions: tuple[Any, ...]) -> tuple[Any, ...]:
    """The conditions that loops alone decide: of the others one takes it that they may hold."""
    return tuple(it for it in conditions if not find_all(it, TensorLoad) and not find_all(it, Call))


def _make_ranges(buffer: Any, indices: Any) -> tuple[Range, ...]:
    """An element's place; in a dimension whose index is data it may be any."""
    return tuple(
        Range.from_min_extent(extent - extent, extent)
        if find_all(index, TensorLoad)
        else Range.from_min_extent(index, 1)
        for index, extent in zip(indices, buffer.shape, strict=True)
    )


def _find_foreign_axis(reader: _Use, writers: list[_Use]) -> str:
    """An axis on which another thread writes an element that one reads; empty for none."""
    lanes = {*reader.element.lanes, *itertools.chain(*(it.element.lanes for it in writers))}
    known: dict[str, For] = {}
    for use in (*writers, reader):  # one that stands outside of loops is run by all threads
        known.update({axis: loop for axis, loop in use.bound.items() if axis not in lanes})
    written = {axis for writer in writers for axis in writer.bound}
    threads = {axis: loop for axis, loop in known.items() if axis in written}
    loops = reader.find_loops({axis: loop.loop_var for axis, loop in threads.items()})
    if not threads or loops is None:
        return ""
    around = [*threads.values(), *loops]
    asked = [
        reader.indices,
        tuple(loop.loop_var for loop in threads.values()),
        all_of(True, *reader.guards),
    ]
    for element, thread, is_let in compute_values(asked, around, choose_values(around, _TRIED)):
        own = dict(zip(threads, thread, strict=True))
        if is_let and (axis := _find_other(element, own, writers)):
            return axis
    return ""


def _find_other(element: _Numbers, reader: dict[str, int], writers: list[_Use]) -> str:
    """The axis of a thread that writes an element, which its reader does not write itself."""
    foreign = ""
    for writer in writers:
        axes = tuple(axis for axis in reader if axis in writer.bound)
        own = tuple(reader[axis] for axis in axes)
        owners = _list_owners(writer, axes)
        if owners is None:
            return ""
        found = owners.get(element, set())
        if own in found and writer.element.is_certain:
            return ""
        others = [_find_differences(axes, own, thread) for thread in found if thread != own]
        foreign = foreign or next(iter(min(others, key=len, default=())), "")
    if foreign and not any(map(functools.partial(_may_store, element, reader), writers)):
        return foreign
    return ""


def _find_differences(axes: tuple[str, ...], one: _Numbers, other: _Numbers) -> list[str]:
    """The axes on which two threads differ."""
    return [axis for axis, a, b in zip(axes, one, other, strict=True) if a != b]


@functools.lru_cache(maxsize=128)
def _list_owners(writer: _Use, axes: tuple[str, ...]) -> dict[_Numbers, set[_Numbers]] | None:
    """The elements that a block writes, each with threads that do; of some iterations.

    None where what it writes is not known.
    """
    threads = {axis: writer.known[axis] for axis in axes}
    loops = writer.find_loops({axis: loop.loop_var for axis, loop in threads.items()})
    if loops is None:
        return None
    owners: dict[_Numbers, set[_Numbers]] = {}
    asked = [
        writer.indices,
        tuple(loop.loop_var for loop in threads.values()),
        all_of(True, *writer.guards),
    ]
    for element, thread, is_let in compute_values(asked, [*threads.values(), *loops]):
        if is_let:
            owners.setdefault(element, set()).add(thread)
    return owners


def _may_store(element: _Numbers, reader: dict[str, int], writer: _Use) -> bool:
    """Whether a thread itself writes an element that it reads, for sure; or it takes too long."""
    axes = tuple(axis for axis in reader if axis in writer.bound)
    stored = _list_stored(writer, axes, tuple(reader[axis] for axis in axes))
    return stored is None or (writer.element.is_certain and element in stored)


@functools.lru_cache(maxsize=256)
def _list_stored(writer: _Use, axes: tuple[str, ...], thread: _Numbers) -> set[_Numbers] | None:
    """The elements that a thread stores; None where they are too many."""
    threads = [writer.bound[axis] for axis in axes]
    loops = writer.find_loops({axis: writer.bound[axis].loop_var for axis in axes})
    extents = [constant(loop.extent) or 0 for loop in loops or ()]
    if loops is None or not 0 < math.prod(extents) <= _STORED:
        return None
    chosen = [*([at] for at in thread), *map(range, extents)]
    found = compute_values(
        [writer.indices, all_of(True, *writer.guards)], [*threads, *loops], chosen
    )
    return {element for element, is_let in found if is_let}
