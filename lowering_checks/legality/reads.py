"""Reads of what another thread wrote, or of what nobody has written by then.

Registers ("local") belong to one thread, shared memory to one thread block, whose threads wait for
each other. All threads share global memory, and nothing orders what those of one kernel do to it:
what a thread reads there it must have written itself, or an earlier kernel must. TVM allocates a
buffer where all that uses it comes together, inside of the loops around that: each of their
iterations has a buffer of its own, with nothing in it of the one before.

All rules ask the same of two tables, a reader's and a writer's: which elements that the reader
reads did the same thread, or thread block, write to the same allocation, and earlier.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm.ir import IRModule
from tvm.s_tir import transform as passes
from tvm.tirx import For, Var
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import Table, list_values, number_rows
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tensor_cores.fragments import stay_in_lanes
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    get_axis,
    get_places,
    is_among,
    is_used,
    list_functions,
)

from .accesses import (
    LEVELS,
    Access,
    Count,
    close_sizes,
    find_launch,
    find_shared_axis,
    list_accesses,
    tabulate_threads,
)

_POINTS = 1 << 13
"""Elements that are read, above which of outer loops and axes one iteration at an end is tried."""
_TRIED = 256
"""Iterations of a reader of global memory that are tried."""
_ASKED = 12
"""Rows that a thread reads and does not write for which another writer is looked for."""


class _Frame:
    """What a reader and its writers have in common: places on axes, and loops around all of them.

    Attributes
    ----------
    axes : the axes along which each has memory, or iterations, of its own, with the reader's place
    around : the variables of loops around all
    rows : one for each element that the reader reads in some thread and iteration: places on axes,
        loops around, the reader's other serial loops, and indices; None where there is no table
    """

    def __init__(
        self,
        reader: Access,
        writers: Sequence[Access],
        axes: dict[str, For],
        around: list[Any],
        *,
        is_exact: bool,
    ) -> None:
        self.reader, uses = reader, (reader, *writers)
        # Threads along an axis without a loop of the reader's all do the same.
        beside = [
            Count(Var(axis, loop.loop_var.ty), loop.extent)
            for axis, loop in axes.items()
            if axis not in reader.bound
        ]
        others = {str(count.loop_var.name): count for count in beside}
        loops = {axis: reader.bound.get(axis) or others[axis] for axis in axes}
        if is_exact:  # what decides about nothing is the same for all
            decided = [loop.loop_var for use in uses for loop in use.deciding]
            around = [variable for variable in around if is_among(variable, decided)]
            bound = [(axis, loop.loop_var) for use in uses for axis, loop in use.bound.items()]
            used = {axis for axis, variable in bound if is_among(variable, decided)}
            loops = {axis: loop for axis, loop in loops.items() if axis in used}
        self.axes = {axis: loop.loop_var for axis, loop in loops.items()}
        self.around = around
        self.serial = [
            loop
            for loop in reader.place.loops
            if get_axis(loop) is None and not is_among(loop.loop_var, around)
        ]
        fixed = [
            *loops.values(),
            *(it for it in reader.place.loops if is_among(it.loop_var, around)),
        ]
        columns = [*self.axes.values(), *around, *_tell_time(reader, self.serial)]
        tried = 0 if is_exact else _TRIED
        for end in (-1, 0) if is_exact else (0,):  # a guard may leave the last iterations out
            # All places and iterations, the first and the last, or one at an end.
            chosen: dict[Any, list[int]] = {}
            outer = [loop.loop_var for loop in fixed]
            inside = [it for it in reader.deciding if not is_among(it.loop_var, outer)]
            points = math.prod(constant(loop.extent) or 1 for loop in inside)
            for loop in reversed(fixed) if is_exact else ():
                times = constant(loop.extent) or 1
                few = [*range(times)] if times * points <= _POINTS else [0, times - 1]
                chosen[loop.loop_var] = few if len(few) * points <= _POINTS else [few[end]]
                points *= len(chosen[loop.loop_var])
            self.rows = reader.tabulate(columns, chosen, tried=tried, beside=beside)
            if self.rows is None or len(self.rows):
                break
        shape = [constant(extent) for extent in reader.buffer.shape]
        for at, extent in zip(range(-len(shape), 0), shape, strict=True):
            if self.rows is not None:  # what lies outside is no element
                column = self.rows[:, at]
                is_in = (column >= 0) & (extent is None or column < extent)
                self.rows = self.rows if is_in.all() else self.rows[is_in]

    def _place(self, writer: Access) -> list[Any]:
        """The writer's variables of the axes and loops around, 0 where all have the same."""
        own = self._find_own(writer)
        return [*(own[it].loop_var if it in own else 0 for it in self.axes), *self.around]

    def _find_own(self, writer: Access) -> dict[str, For]:
        """The axes along which each writes its own: a sum over threads all have in registers."""
        summed = () if writer.scope == "global" else writer.summed
        return {axis: loop for axis, loop in writer.bound.items() if axis not in summed}

    def _list_cells(self, writer: Access) -> list[int]:
        """The columns of indices, from behind; but of own rows of fragments, whose lanes agree."""
        buffer, width = self.reader.buffer, len(self.reader.buffer.shape)
        lane = -2 if stay_in_lanes(buffer, writer.place, self.reader.place) else 0
        return [at for at in range(-width, 0) if at != lane]

    def ask(
        self, writer: Access, *, is_early: bool = True
    ) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """For each row whether the writer has its element in the same place, and before it.

        `is_early` says whether it does in an iteration that both are in.
        """
        assert self.rows is not None
        rows, place, cells = self.rows, self._place(writer), self._list_cells(writer)
        known = [at for at, variable in enumerate(place) if not isinstance(variable, int)]
        common = [at for at, it in enumerate(self.serial) if is_among(it, writer.place.loops)]
        clock = _tell_time(writer, [self.serial[at] for at in common])
        chosen = {place[at]: list_values(rows[:, at]) for at in known}
        table = writer.tabulate([*place, *clock], chosen)
        if table is None:
            return None
        if not len(table):
            return np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        first = len(place)
        needed, had = number_rows(rows[:, [*known, *cells]], table[:, [*known, *cells]])
        times = [first + at for at in common]
        now, since = number_rows(rows[:, times], table[:, first : first + len(clock)])
        order = np.lexsort((since, had))  # of each element the earliest time is the first
        had, since = had[order], since[order]
        at = np.minimum(np.searchsorted(had, needed), len(had) - 1)
        has = had[at] == needed
        return has, has & ((since[at] < now) | ((since[at] == now) & is_early))

    def find_owner(self, writer: Access, rows: Table) -> str:
        """The axis on which another one writes what some row reads; empty if none is found."""
        place, names = self._place(writer), list(self.axes)
        cells, loops = self._list_cells(writer), self.reader.place.loops
        # Thread blocks in one iteration of a loop around both have one life of a buffer.
        lives = () if self.reader.scope == "global" else loops
        axes = [
            axis
            for axis in names
            if axis in self._find_own(writer)
            and (axis.startswith("threadIdx") or not is_among(writer.bound[axis], lives))
        ]
        own = [axis for axis in axes if is_among(writer.bound[axis], loops)]
        axes.sort(key=lambda axis: (not axis.startswith("blockIdx"), axis in own))
        threads = [axis for axis in axes if axis.startswith("threadIdx")]
        asked = rows[np.linspace(0, len(rows) - 1, min(len(rows), _ASKED), dtype=int)]
        for free in (*([axis] for axis in axes), threads, axes):
            columns = [writer.bound[axis].loop_var for axis in free]
            for row in asked if free else ():
                chosen = {
                    variable: [int(row[at])]
                    for at, variable in enumerate(place)
                    if not isinstance(variable, int) and not is_among(variable, columns)
                }
                table = writer.tabulate(columns, chosen)
                if table is not None:
                    same = (table[:, cells] == row[cells]).all(axis=1)
                    if (table[same, : len(free)] != [row[names.index(it)] for it in free]).any():
                        return free[0]
        return ""


def _tell_time(use: Access, loops: list[For]) -> list[Any]:
    """Loops, as columns: what decides about nothing is asked in its first iteration."""
    decided = [loop.loop_var for loop in use.deciding]
    return [it.loop_var if is_among(it.loop_var, decided) else 0 for it in loops]


def find_leaks(module: IRModule) -> dict[tuple[str, ...], Fault]:
    """Buffers whose readers need what other threads, or thread blocks, wrote; by buffer, writer and
    reader.
    """
    leaks: dict[tuple[str, ...], Fault] = {}
    for key, fault in _find_unwritten(close_sizes(module)):
        if len(key) > 2:
            leaks.setdefault(key, fault)
    return leaks


def find_lost_reads(module: IRModule, *, is_last: bool = False) -> dict[tuple[str, ...], Fault]:
    """What blocks read of buffers that was not written in the same life, by reader and buffer.

    What is found is so; what is not found may be there, of many elements, or with indices from
    data. If a module `is_last`, a read of what other threads own, which is told as that, is none.
    """
    closed = close_sizes(module) if is_last else module
    leaked = [buffer for buffer, *_ in find_leaks(closed)][:1] if is_last else []
    found = _find_unwritten(closed)
    return {key: it for key, it in found if len(key) == 2 and key[1] not in leaked}


@cached_by_module(4)  # what one transform leaves behind, the next one finds
def _find_unwritten(module: IRModule) -> tuple[tuple[tuple[str, ...], Fault], ...]:
    """All of both kinds."""
    found: list[tuple[tuple[str, ...], Fault]] = []
    pairs = zip(list_functions(module), list_accesses(module), strict=True)
    for function, accesses in pairs:
        places = get_places(function.body) if accesses else []
        owned = {buffer for place in places for buffer in place.block.alloc_buffers}
        uses: dict[Any, tuple[list[Access], list[Access]]] = {}
        for access in accesses:
            if access.buffer in owned or access.scope.startswith(("local", "shared")):
                uses.setdefault(access.buffer, ([], []))[access.element.is_written].append(access)
        for readers, writers in uses.values():
            for reader in readers:
                others = [it for it in writers if not it.place.block.same_as(reader.place.block)]
                begins = len(others) < len(writers) and reader.place.block.init is not None
                if others and not begins:
                    early = tuple(it.order < reader.order for it in others)
                    # The loops in each of whose iterations TVM allocates a new buffer.
                    common = "threadIdx" if reader.scope.startswith("shared") else "none"
                    life = tuple(
                        loop.loop_var
                        for place in _allocate(module)
                        if is_among(reader.buffer, place.block.alloc_buffers)
                        for loop in place.loops
                        if not (get_axis(loop) or "").startswith(common)
                    )
                    wrong = _look_at(reader, tuple(others), early, life)
                    found += [] if wrong is None else [wrong]
    return tuple(found)


@functools.lru_cache(maxsize=1024)  # most of what one transform leaves is as it was before
def _look_at(
    reader: Access, writers: tuple[Access, ...], early: tuple[bool, ...], life: tuple[Any, ...]
) -> tuple[tuple[str, ...], Fault] | None:
    """What of a reader another thread writes, or what nobody has written before it is read.

    `early` says which writers stand before the reader in the program.
    """
    place, is_global = reader.place, reader.scope == "global"
    if is_global:
        axes = {
            axis: loop
            for axis, loop in reader.bound.items()
            if all(is_among(loop, writer.place.loops) for writer in writers)
        }
    else:
        levels = ("blockIdx",) if reader.scope.startswith("shared") else LEVELS
        bound = (pair for use in (*writers, reader) for pair in use.bound.items())
        axes = {axis: loop for axis, loop in bound if axis.startswith(levels)}
    fixed = [var for var in life if not any(var.same_as(it.loop_var) for it in axes.values())]
    frame = _Frame(reader, writers, axes, fixed, is_exact=True)
    if frame.rows is None:
        return None
    written, is_open = np.zeros(len(frame.rows), bool), False
    for writer, is_early in zip(writers, early, strict=True):
        asked = frame.ask(writer, is_early=is_early)
        if asked is None:
            is_open = True
            continue
        has, before = asked
        written |= before
        if not is_global and (axis := frame.find_owner(writer, frame.rows[~has])):
            # The guard that keeps threads on the axis out, if that is why.
            variable = writer.bound[axis].loop_var
            is_spread = any(is_used(variable, cell) for cell in writer.cells)
            guards = [] if is_spread else writer.place.find_real_guards()
            guard = next((str(it) for it in guards if is_used(variable, it)), "")
            names = (str(reader.buffer.name), writer.place.name, place.name)
            return names, blame_leak(*names, reader.scope, axis, guard)
    if is_open or written.all() or reader.element.is_conditional:
        return None
    name, element = str(reader.buffer.name), frame.rows[~written][0][-len(reader.buffer.shape) :]
    problem = (
        f"block '{place.name}' would read {name}[{', '.join(map(str, element))}], which block "
        f"'{writers[0].place.name}' has not written by then"
    )
    advice = "place the block that writes it before it, with all that it reads"
    # The innermost loop whose iterations do not find what others have written.
    around = [
        loop
        for loop in place.loops
        if is_among(loop.loop_var, life) or (is_global and is_among(loop, axes.values()))
    ]
    for loop in around[-1:]:
        why = f"TVM makes a new '{name}' in each"
        if is_global and get_axis(loop):  # they run side by side
            why = f"nothing orders the accesses of the others on '{get_axis(loop)}'"
        problem += f" in the same iteration of loop '{loop.loop_var.name}': {why}"
        advice = "place it outside of the loops that write a part of that, or use sizes that divide"
    return (place.name, name), Fault(problem, advice)


def blame_leak(buffer: str, writer: str, reader: str, scope: str, axis: str, guard: str) -> Fault:
    """Why a thread would have to read the registers of another: the `guard` keeps threads out."""
    what = "register" if scope == "local" else "shared"
    if guard:
        return Fault(
            f"the guard {guard} lets only a part of '{axis}' write the {what} buffer '{buffer}' in "
            f"block '{writer}', and all of '{axis}' would read it in block '{reader}'",
            f"place '{reader}' outside of that loop, or let all of it write and read",
        )
    if scope == "local":
        owners, why = "threads", "a thread cannot read the registers of another"
        advice = (
            'use scope "shared", or let the same threads write and read (bind the reader first)'
        )
    else:
        owners, why = "thread blocks", "a thread block cannot read the shared memory of another"
        advice = (
            "let the same thread blocks write and read (bind the reader first), or spread the "
            "writer over threads"
        )
    return Fault(
        f"the {owners} of '{axis}' write the {what} buffer '{buffer}' in block '{writer}', and "
        f"block '{reader}' would read what other {owners} wrote: {why}",
        advice,
    )


@cached_by_module(2)
def _allocate(module: IRModule) -> list[Place]:
    """The blocks of a module where TVM has put its allocations."""
    placed = passes.PlanAndUpdateBufferAllocationLocation()(passes.LowerInitBlock()(module))
    return [
        place
        for function in list_functions(placed)
        for place in get_places(function.body)
        if place.block.alloc_buffers
    ]


@cached_by_module(2)
def find_foreign_reads(module: IRModule) -> dict[tuple[str, str, str, bool], Fault]:
    """Blocks that read of global memory what other threads write in the same kernel: by reader,
    buffer, the axis on which those run, and whether the reader is settled. It has threads of its
    own on that axis then, and reads no sum over threads, which it could have in registers.

    Some of what is read is tried; what is found is so.
    """
    found: dict[tuple[str, str, str, bool], Fault] = {}
    kernels: dict[tuple[For, Any], list[Access]] = {}
    for access in itertools.chain.from_iterable(list_accesses(close_sizes(module))):
        if access.scope == "global" and access.place.kernel is not None:
            kernels.setdefault((access.place.kernel, access.buffer), []).append(access)
    for uses in kernels.values():
        writers = [use for use in uses if use.element.is_written]
        for reader in (use for use in uses if writers and not use.element.is_written):
            name, block = str(reader.buffer.name), reader.place.name
            if axis := _find_foreign_axis(reader, writers):
                is_bound = axis in reader.bound or axis in reader.element.lanes
                is_settled = is_bound and not any(writer.summed for writer in writers)
                found[block, name, axis, is_settled] = _blame(block, name, axis)
            behind = (use for use in uses[uses.index(reader) :] if use.element.is_written)
            if axis := next(filter(None, (_find_early_axis(reader, it) for it in behind)), ""):
                found[block, name, axis, True] = _blame(block, name, axis)
    return found


def find_settled_foreign_reads(module: IRModule) -> dict[tuple[str, str, str, bool], Fault]:
    """Those that no binding yet to come, and no registers, would mend."""
    return {read: fault for read, fault in find_foreign_reads(module).items() if read[-1]}


def _blame(block: str, name: str, axis: str) -> Fault:
    return Fault(
        f"block '{block}' would read elements of '{name}' that others on '{axis}' write in "
        "the same kernel, and nothing orders these accesses to global memory",
        "place it inside of the loops whose threads write them, pass them through shared "
        'memory (cache_write_at with scope="shared"), or leave it a kernel of its own',
    )


def _find_foreign_axis(reader: Access, writers: list[Access]) -> str:
    """An axis on which another thread writes an element that one reads; empty for none.

    A block may write what it reads, as sums do, or read sums of TVM's in registers.
    """
    for writer in writers:
        if writer.place is reader.place and (
            writer.summed
            or (
                writer.element.is_told
                and not writer.element.conditions
                and not writer.element.lanes
                and structural_equal(writer.element.ranges, reader.element.ranges)
            )
        ):
            return ""
    lanes = {*reader.element.lanes, *itertools.chain(*(it.element.lanes for it in writers))}
    axes = {
        axis: loop for writer in writers for axis, loop in writer.bound.items() if axis not in lanes
    }
    if not axes:
        return ""
    frame = _Frame(reader, writers, axes, find_launch(reader.place), is_exact=False)
    if frame.rows is None:
        return ""
    own = np.zeros(len(frame.rows), bool)
    for writer in writers:
        asked = frame.ask(writer)
        if asked is None:
            return ""
        if writer.element.is_told:
            own |= asked[0]
    return next(filter(None, (frame.find_owner(it, frame.rows[~own]) for it in writers)), "")


def _find_early_axis(reader: Access, writer: Access) -> str:
    """An axis on which another thread writes an element behind its reading; empty for none.

    That one writes it, too, is no help: others may have done so before it reads.
    """
    if writer.place is reader.place or writer.element.lanes or reader.element.lanes:
        return ""
    axes = [axis for axis in reader.known if axis in writer.known]
    if not axes:
        return ""
    one, other = (
        tabulate_threads(use, [use.known[axis] for axis in axes]) for use in (reader, writer)
    )
    return "" if one is None or other is None else find_shared_axis(axes, one, other)
