"""Elements of memory that several threads store, where that is not one value all the time.

A block that stands in loops of its consumers is computed by each thread, or GPU block, that uses
it. In global memory these store one element together, and nothing orders what they do. As long as
all of them store the value that it keeps that is right: a thread reads what it stored itself, and
the others change nothing. A block that reduces stores an initial value first and sums in between,
of which another thread reads some that is not complete, or adds to it; and where two blocks store
an element, one thread's last value is followed by another's first. Shared memory is one GPU block's
own, and barriers stand between two blocks, but not within one. A block that stands outside of the
loops over threads that others have is run by all of them, unless it has a loop yet to be bound.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tvm.ir import IRModule, TensorLoad
from tvm.tirx import BufferStore, FloatImm, For, ForKind, IntImm, IterVar, PrimFunc, SeqStmt
from tvm.tirx import all as all_of
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import compute_values, is_of
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_places,
    is_among,
    is_used,
    substitute,
)

from .open_sizes import close_sizes

_Owners = dict[tuple[int, ...], set[tuple[int, ...]]]


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_unowned(module: IRModule, *, is_last: bool = False) -> dict[tuple[str, str, str], Fault]:
    """The blocks whose elements other threads store in between, by block, buffer and axis.

    Unless it `is_last`, a block with a serial loop may yet get threads of its own.
    """
    found: dict[tuple[str, str, str], Fault] = {}
    for writers in _find_writers(module, is_last=is_last).values():
        storing = [writer for writer in writers if not writer.summed]
        for writer in storing:
            _look_at(writer, found)
        for pair in itertools.combinations(storing, 2):
            _compare(*pair, found)
    return found


@cached_by_module(2)
def _find_writers(module: IRModule, *, is_last: bool) -> dict[tuple[For, Any], list[_Writer]]:
    """The blocks that store elements of a buffer in a kernel, by these two."""
    kernels: dict[tuple[For, Any], list[_Writer]] = {}
    for _, function in close_sizes(module).functions_items():
        for place in get_places(function.body) if isinstance(function, PrimFunc) else ():
            for writer in _list_writers(place, is_last):
                kernels.setdefault((place.kernel, writer.buffer), []).append(writer)
    return kernels


@dataclass(frozen=True)
class _Writer:
    """A block that stores elements of memory that threads share.

    Attributes
    ----------
    key : what makes it the same in another module
    summed : the axes over whose threads TVM adds up what it stores, by the first of them
    idle : the loops of other blocks on axes that it does not have, nor a loop left to be bound:
        all threads along these run it
    is_plain : whether its block stores without a loop or a condition of its own
    """

    key: tuple[Any, ...]
    place: Place = field(compare=False)
    buffer: Any = field(compare=False)
    summed: tuple[str, ...] = ()
    idle: tuple[For, ...] = field(default=(), compare=False)
    is_plain: bool = field(default=True, compare=False)

    @property
    def is_global(self) -> bool:
        return str(self.buffer.scope()) == "global"

    @property
    def bound(self) -> dict[str, For]:
        """The loops of threads that share the buffer, by their axes."""
        levels = ("blockIdx", "threadIdx") if self.is_global else ("threadIdx",)
        around = (*self.idle, *(self.place.loops if self.is_plain else ()))
        loops = [loop for loop in around if constant(loop.extent) != 1]
        return {axis: loop for loop in loops if (axis := get_axis(loop) or "").startswith(levels)}

    def changes(self) -> bool:
        """Whether the block stores several values to one element: a reduction does."""
        block = self.place.block
        loads = find_all(block.body, TensorLoad)
        return block.init is not None or any(load.source.same_as(self.buffer) for load in loads)

    def varies(self) -> bool:
        """Whether what the block stores is computed from the iterators of a block around it."""
        own = [iterator.var for iterator in self.place.block.iter_vars]
        outer = [variable for variable in self.place.values if not is_among(variable, own)]
        stores = find_all(self.place.block.body, BufferStore) if outer else []
        return any(
            is_used(variable, store.value)
            for store in stores
            if store.buffer.same_as(self.buffer)
            for variable in outer
        )


def _list_writers(place: Place, is_last: bool) -> Iterator[_Writer]:
    """What a block stores, one for each buffer."""
    if not place.is_innermost or place.kernel is None:
        return
    if place.block.match_buffers:
        return  # of an instruction, whose lanes share what it stores
    body = place.block.body
    own = {get_axis(loop) for loop in find_all(body, For)}  # of a program written by hand
    idle = tuple(it for it in find_idle(place, is_last=is_last) if get_axis(it) not in own)
    parts = list(body.seq) if isinstance(body, SeqStmt) else [body]
    is_plain = all(isinstance(part, BufferStore) for part in parts)
    if not is_plain:  # a condition of its own may keep other threads out, but no idle ones
        parts = find_all(body, BufferStore) if idle else []
    around = ((it.loop_var, constant(it.extent), get_axis(it)) for it in (*idle, *place.loops))
    key = (*place.key, *itertools.chain(*around))
    for buffer in dict.fromkeys(part.buffer for part in parts):
        if str(buffer.scope()).startswith(("global", "shared")):
            yield _Writer((buffer, *key), place, buffer, find_summed(place), idle, is_plain)


def find_idle(place: Place, *, is_last: bool = False) -> tuple[For, ...]:
    """The loops of a kernel on axes that a block of it does not have; none while a loop is serial.

    That one may yet be bound, or what it computes kept in registers before all of it has threads,
    unless this `is_last`.
    """
    around = itertools.dropwhile(lambda loop: get_axis(loop) is None, place.loops)
    if not is_last and any(loop.kind == ForKind.SERIAL for loop in around):
        return ()
    own = {get_axis(loop) for loop in place.loops}
    others = {get_axis(loop): loop for loop in find_all(place.kernel, For)}
    return tuple(loop for axis, loop in others.items() if axis is not None and axis not in own)


def find_summed(place: Place) -> tuple[str, ...]:
    """The axes over whose threads TVM adds up what a block computes: it stores complete sums."""
    reduced = [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if iterator.iter_type == IterVar.CommReduce
    ]
    loops = place.find_bound("threadIdx") if place.block.init is not None else []
    return tuple(
        get_axis(loop) or ""
        for loop in loops
        if any(is_used(loop.loop_var, value) for value in reduced)
    )


def _look_at(writer: _Writer, found: dict[tuple[str, str, str], Fault]) -> None:
    bound = writer.bound
    if not bound or not (writer.changes() or writer.varies()):
        return
    for owners in _list_owners(writer, tuple(bound)).values():
        if len(owners) > 1:
            axis = _find_difference(tuple(bound), owners)
            name, block = str(writer.buffer.name), writer.place.name
            who = "threads" if axis.startswith("thread") else "GPU blocks"
            what = "initial values and incomplete sums among them, while others read the complete"
            what = f"{what} ones" if writer.changes() else "each a value of its own"
            found[block, name, axis] = Fault(
                f"{who} on '{axis}' would store the same elements of '{name}' in block "
                f"'{block}', {what}",
                'keep its results in registers (cache_write_at with scope="local"), place it where '
                "one thread computes each of them, or leave it a kernel of its own",
            )
            return


def _compare(one: _Writer, other: _Writer, found: dict[tuple[str, str, str], Fault]) -> None:
    """Look at two blocks of one kernel that store elements of one buffer in global memory."""
    axes = tuple(axis for axis in one.bound if axis in other.bound)
    if not one.is_global or not axes or _store_one_constant(one, other):
        return
    first, last = (_list_owners(writer, axes) for writer in (one, other))
    for element, owners in first.items():
        both = owners | last.get(element, owners)
        if element in last and len(both) > 1:
            axis, name = _find_difference(axes, both), str(one.buffer.name)
            found[f"{one.place.name} and {other.place.name}", name, axis] = Fault(
                f"blocks '{one.place.name}' and '{other.place.name}' would store the same elements "
                f"of '{name}' in one kernel by other threads or GPU blocks on '{axis}', and "
                "nothing orders these",
                "bind the loops of both alike, or leave them kernels of their own",
            )
            return


def _store_one_constant(*writers: _Writer) -> bool:
    """Whether all that blocks store to their buffer is one number: it matters not who is last."""
    values = [
        store.value
        for writer in writers
        for store in find_all((writer.place.block.body, writer.place.block.init), BufferStore)
        if store.buffer.same_as(writer.buffer)
    ]
    is_number = isinstance(values[0], IntImm | FloatImm)
    return is_number and all(structural_equal(value, values[0]) for value in values)


def _find_difference(axes: tuple[str, ...], owners: set[tuple[int, ...]]) -> str:
    columns = zip(*owners, strict=True)
    return next(axis for axis, column in zip(axes, columns, strict=True) if len(set(column)) > 1)


@functools.lru_cache(maxsize=128)
def _list_owners(writer: _Writer, axes: tuple[str, ...]) -> _Owners:
    """The elements that a block stores, each with the threads that do; of some iterations."""
    owners: _Owners = {}
    for asked, loops in _list_stores(writer, axes):
        for element, thread, is_let in compute_values(asked, loops):
            if is_let:
                owners.setdefault(element, set()).add(thread)
    return owners


def _list_stores(writer: _Writer, axes: tuple[str, ...]) -> Iterator[tuple[list[Any], list[For]]]:
    """Each store's element, thread and condition, and the loops that decide about these."""
    place, bound = writer.place, writer.bound
    threads = tuple(bound[axis].loop_var for axis in axes)
    for store in find_all(place.block.body, BufferStore):
        if not store.buffer.same_as(writer.buffer):
            continue
        own = (substitute(index, place.values) for index in store.indices)
        indices = (*find_launch(place), *own)
        needed = [*indices, *place.guards]
        if not _is_known(needed, place):
            continue
        loops = [
            loop
            for loop in (*writer.idle, *place.loops, *find_all(place.block.body, For))
            if is_among(loop, list(bound.values()))
            or any(is_used(loop.loop_var, each) for each in needed)
        ]
        yield [indices, threads, all_of(True, *place.guards)], loops


def find_launch(place: Place) -> list[Any]:
    """The loops around a kernel: each of their iterations launches it anew, one after the other."""
    outer = itertools.takewhile(lambda loop: get_axis(loop) is None, place.loops)
    return [loop.loop_var for loop in outer]


def _is_known(expressions: list[Any], place: Place) -> bool:
    """Whether loops alone decide: sizes that are open, and numbers of the caller's, may be any."""
    names = [loop.loop_var for loop in (*place.loops, *find_all(place.block.body, For))]
    return all(is_of(names, each) for each in expressions)
