"""Ownership: blocks in no kernel, run too often or too rarely, and reads of what others own.

TVM lowers such schedules without an error. A recipe binds step by step, so its steps may be
unfinished; what it ends with may not.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import SBlock
from tvm.tirx import For

from tirstep.transforms.legality.foreign_reads import find_settled_foreign_reads
from tirstep.transforms.legality.lowered_memory import find_missing_barriers
from tirstep.transforms.legality.merged_memory import find_overwritten
from tirstep.transforms.legality.own_lanes import stay_in_lanes
from tirstep.transforms.legality.owners import find_unowned
from tirstep.transforms.tir import (
    Place,
    constant,
    find_all,
    get_axis,
    get_places,
    is_among,
    is_used,
)

from .accesses import (
    GPU_AXES,
    LEVELS,
    Array,
    BlockAccess,
    Grid,
    Points,
    UndecidedError,
    enumerate_access,
    find_accesses,
    find_bounding_loops,
    find_key,
    find_reduced_axes,
    find_used_loops,
    name_element,
)
from .steps import Finding

_SCOPES = ("local", "shared", "shared.dyn", "global")
Loops = list[tuple[Any, For]]
"""Loops with what stands for each: its thread axis, or its variable."""
Witness = tuple[str, str, int]
"""An element, the axis along which threads share it wrongly, and how many do."""


def check_ownership(module: tvm.IRModule, *, where: str = "") -> list[Finding]:
    """What of a scheduled module is not spread over its threads soundly, block by block.

    Nothing for functions without a bound loop. In all others: blocks that are in no kernel; an
    axis with several extents in one kernel; iterations that no thread runs (two loops on one
    axis); shared or global memory that several threads update with nothing between them (a
    reduction beside threads that it does not use), or that two blocks set by other threads; reads
    of what other threads keep in registers, other GPU blocks or kernels in shared memory, or, with
    no barrier, in global memory; shared memory that TVM takes for one thread's, and puts no barrier
    there; and buffers that are written again while TVM keeps another one in their place.

    A module may be as it was written, scheduled, with any sizes open (each is tried with one
    value). The elements are counted, not proven, so each finding has a witness; where a kernel has
    too many, some GPU blocks and threads stand for all. Left out are indices that depend on data
    and the inside of tensor intrinsics.

    Returns findings of the check ``"threads"``, with `where` as their place.
    """
    messages: dict[str, None] = {}
    for variable, function in module.functions_items():
        if not isinstance(function, tvm.tirx.PrimFunc):
            continue
        places = [place for place in get_places(function.body) if _is_leaf(place)]
        if any(place.kernel is not None for place in places):
            name = "" if len(module.functions) == 1 else f"{variable.name_hint}: "
            messages.update(dict.fromkeys(name + message for message in _judge(places)))
    unowned = find_unowned(module, is_last=True)
    faults = [(block, fault) for (block, _, _), fault in unowned.items()]
    faults += [(read.reader, fault) for read, fault in find_settled_foreign_reads(module).items()]
    for block, fault in faults:
        if not any(f"block '{block}'" in message for message in messages):
            messages[f"{fault.problem}; {fault.advice}"] = None
    for buffer in find_missing_barriers(module, is_last=True):
        message = (
            f"threads share elements of the shared buffer '{buffer}' with no barrier between: TVM "
            "assumes that accesses at one index are one thread's; let the blocks that use it have "
            "loops on all thread axes of the kernel, and each thread write a part of its own"
        )
        messages[message] = None
    for lost in find_overwritten(module, is_last=True):
        message = (
            f"TVM keeps '{lost.taker}' in the place of '{lost.buffer}', from which it is computed, "
            f"and block '{lost.writer}' writes elements of them several times in one kernel; let "
            "each thread write elements of its own"
        )
        messages[message] = None
    return [Finding("threads", where, message) for message in messages]


def _is_leaf(place: Place) -> bool:
    block = place.block
    return not find_all(block.body, SBlock)


def _judge(places: list[Place]) -> Iterator[str]:
    for place in places:
        if place.kernel is None:
            yield (
                f"block '{place.name}' is in no kernel, and would run on the host on a GPU's "
                "memory; bind its loops, or place it under a bound one"
            )
    kernels = _group(places)
    for kernel in kernels:
        yield from _find_unequal_extents(kernel)
        for place in kernel.places:
            yield from _find_lost_iterations(place)
            yield from _find_outer_reduction(place)
        yield from _find_shared_updates(kernel)
        yield from _find_foreign_reads(kernel, kernels)


@dataclass(frozen=True)
class _Kernel:
    """The blocks under one outermost bound loop, and what they touch."""

    loop: For
    places: list[Place]
    writes: list[BlockAccess]
    reads: list[BlockAccess]

    def find_axes(self, *levels: str) -> dict[str, For]:
        """A loop for each axis of some levels that has more than one value."""
        found: dict[str, For] = {}
        for place in self.places:
            for level in levels:
                for loop in place.find_bound(level):
                    if constant(loop.extent) != 1:
                        found.setdefault(str(get_axis(loop)), loop)
        return found

    @property
    def host(self) -> Loops:
        """The loops around the kernel, whose iterations launch it."""
        outer = itertools.takewhile(lambda loop: not loop.same_as(self.loop), self.places[0].loops)
        return [(find_key(loop), loop) for loop in outer]

    def updates(self, write: BlockAccess) -> bool:
        """Whether a write's block reads what it writes."""
        return any(read.has_buffer_of(write) and read.has_block_of(write) for read in self.reads)


def _group(places: list[Place]) -> list[_Kernel]:
    kernels: list[_Kernel] = []
    for place in places:
        loop = place.kernel
        if loop is None:
            continue
        writes, reads = find_accesses(place)
        if not kernels or not kernels[-1].loop.same_as(loop):
            kernels.append(_Kernel(loop, [], [], []))
        kernels[-1].places.append(place)
        kernels[-1].writes.extend(writes)
        kernels[-1].reads.extend(reads)
    return kernels


def _find_unequal_extents(kernel: _Kernel) -> Iterator[str]:
    seen: dict[str, tuple[int, str]] = {}
    for place in kernel.places:
        for loop in (loop for level in GPU_AXES for loop in place.find_bound(level)):
            extent, axis, name = constant(loop.extent), str(get_axis(loop)), loop.loop_var.name
            if extent is None:
                continue
            other, first = seen.setdefault(axis, (extent, str(name)))
            if other != extent:
                yield (
                    f"loop '{name}' on '{axis}' runs {extent} times and loop '{first}' of the same "
                    f"kernel {other} times, and it is launched with one of them; split the longer "
                    "one"
                )


def _find_lost_iterations(place: Place) -> Iterator[str]:
    """Two loops of a block on one axis, which have the same value in each thread."""
    guards = place.find_real_guards()
    uses = [*place.values.values(), *guards]
    bound = [loop for loop in find_used_loops(place, uses) if constant(loop.extent) != 1]
    bound = [loop for loop in bound if (get_axis(loop) or "").startswith(GPU_AXES)]
    axes = [get_axis(loop) for loop in bound]
    rivals = [loop for loop in bound if axes.count(get_axis(loop)) > 1]
    if not rivals:
        return
    try:
        run, wanted = (_count_iterations(place, rivals, guards, apart) for apart in (False, True))
    except UndecidedError:
        return
    lost = len(wanted) - len(run)
    if lost:
        names = " and ".join(f"'{loop.loop_var.name}'" for loop in rivals[:2])
        yield (
            f"{lost} of {len(wanted)} iterations of block '{place.name}' run in no thread, since "
            f"its loops {names} are both on '{get_axis(rivals[0])}'; bind one of them to another "
            "axis, or bind the outer one first and fetch or spread the inner one afterwards"
        )


def _find_outer_reduction(place: Place) -> Iterator[str]:
    """A reduction over the outermost bound loop: TVM gives its threads one cell for their sums."""
    kernel = place.kernel
    if kernel is not None and get_axis(kernel) in find_reduced_axes(place):
        yield (
            f"block '{place.name}' reduces over the outermost bound loop of its kernel, "
            f"'{kernel.loop_var.name}' on '{get_axis(kernel)}', whose threads would share one "
            "cell for their sums; bind a spatial loop around it"
        )


def _count_iterations(place: Place, rivals: list[For], guards: list[Any], apart: bool) -> Array:
    """The distinct iterations of a block, with `rivals` as one variable or `apart`."""
    values, linked = list(place.values.values()), list(rivals)
    parts: list[Any] = []
    while True:
        parts = [
            part
            for part in [*values, *guards]
            if any(is_used(loop.loop_var, part) for loop in linked)
        ]
        grown = find_used_loops(place, parts)
        if len(grown) == len(linked):
            break
        linked = grown
    grid = Grid()
    linked, bounds = find_bounding_loops(place, linked)
    keys = {loop.loop_var: loop.loop_var if apart else find_key(loop) for loop in linked}
    for loop in linked:
        grid.add(loop, keys[loop.loop_var], keys=keys)
    order = list(dict.fromkeys(keys.values()))
    grid.require_small(order)
    along = grid.spread(order)
    at = {variable: along[key] for variable, key in keys.items()}
    counts = tuple(len(grid.domains[key]) for key in order)
    kept = np.ones(counts, dtype=bool)
    for guard in [*bounds, *(guard for guard in guards if is_among(guard, parts))]:
        kept &= np.asarray(grid.evaluate(guard, at), dtype=bool)
    columns = [
        np.broadcast_to(grid.evaluate(value, at), counts)[kept]
        for value in values
        if is_among(value, parts)
    ]
    return (
        np.unique(np.stack(columns, axis=-1), axis=0) if columns else np.zeros((int(kept.any()), 0))
    )


def _find_shared_updates(kernel: _Kernel) -> Iterator[str]:
    """Shared and global memory that several threads update, with no barrier between."""
    for write in kernel.writes:
        updates = kernel.updates(write)
        others = [] if updates or write.scope != "global" else _list_updates(kernel, write)
        if not (updates or others) or write.scope not in ("global", "shared", "shared.dyn"):
            continue
        if find_reduced_axes(write.place):
            continue
        levels = GPU_AXES if write.scope == "global" else ("threadIdx",)
        axes = kernel.find_axes(*levels)
        search = functools.partial(_find_several, others=others, axes=axes, host=kernel.host)
        found = _try(functools.partial(search, write=write))
        if found:
            element, axis, many = found
            yield (
                f"{many} threads along '{axis}' {'update' if updates else 'set'} {element} "
                f"({write.scope} memory) in block '{write.place.name}', and nothing orders them"
                f"{'' if updates else ' and the updates of others'}; bind a loop of the block to "
                f"'{axis}', or let each thread keep its own in registers"
            )


def _list_updates(kernel: _Kernel, write: BlockAccess) -> list[BlockAccess]:
    """What other blocks of the kernel update of the buffer that a block has stored to."""
    return [
        other
        for other in kernel.writes
        if other.has_buffer_of(write) and not other.has_block_of(write) and kernel.updates(other)
    ]


def _find_several(
    grid: Grid,
    write: BlockAccess,
    others: list[BlockAccess],
    axes: dict[str, For],
    host: Loops,
) -> Witness | None:
    """An element with several owners, an axis along which they lie, and how many those are.

    Where there are `others`, one that these write, too, if that can be told.
    """
    if write.is_conditional:
        raise UndecidedError
    used = {find_key(loop) for loop in find_used_loops(write.place, _find_uses(write))}
    unused = [axis for axis in axes if axis not in used]
    among = [*host, *((axis, loop) for axis, loop in axes.items() if axis in used)]
    points = enumerate_access(grid, write, among, may_thin=True)
    with contextlib.suppress(UndecidedError):
        written = [enumerate_access(grid.fresh(), one, [], may_thin=True) for one in others]
        if written:
            points = points.keep(
                np.isin(points.elements, [it for w in written for it in w.elements])
            )
    if not len(points.elements):
        return None
    if unused:
        extent = int(grid.evaluate(axes[unused[0]].extent, {}))
        return name_element(write, grid, int(points.elements[0])), unused[0], extent
    columns = [points.elements, *(points.owners[key] for key, _ in among)]
    rows = np.unique(np.stack(columns, axis=-1), axis=0)
    for at in range(1 + len(host), rows.shape[1]):
        launched = rows[:, : 1 + len(host)]
        pairs = np.unique(np.column_stack([launched, rows[:, at]]), axis=0)
        same, many = np.unique(pairs[:, :-1], axis=0, return_counts=True)
        if (many > 1).any():
            worst = int(np.argmax(many > 1))
            element = name_element(write, grid, int(same[worst, 0]))
            return element, str(among[at - 1][0]), int(many[worst])
    return None


def _find_uses(access: BlockAccess) -> list[Any]:
    return [*(part.min for part in access.ranges), *access.place.find_real_guards()]


def _try(search: Callable[[Grid], Witness | None]) -> Witness | None:
    """Search with all values, then with fewer; what is undecided even so is no finding."""
    for thinned in range(LEVELS):
        try:
            return search(Grid(thinned))
        except UndecidedError:
            continue
    return None


def _find_foreign_reads(kernel: _Kernel, kernels: list[_Kernel]) -> Iterator[str]:
    for read in kernel.reads:
        if read.scope not in _SCOPES:
            continue
        writes = [write for write in kernel.writes if write.has_buffer_of(read)]
        is_update = any(write.has_block_of(read) for write in writes)
        others = [
            write
            for write in writes
            if not write.has_block_of(read)
            and not stay_in_lanes(read.buffer, write.place, read.place)
        ]
        begins = read.place.block.init is not None
        if not others and not (is_update and begins):
            yield from _find_other_kernel(read, kernel, kernels)
        if not others:
            continue
        updates = [write for write in others if kernel.updates(write)]
        yield from _find_other_threads(kernel, read, updates or others)


def _find_other_kernel(read: BlockAccess, kernel: _Kernel, kernels: list[_Kernel]) -> Iterator[str]:
    writers = [
        write
        for other in kernels
        if other is not kernel
        for write in other.writes
        if write.has_buffer_of(read)
    ]
    if writers and read.scope != "global":
        yield (
            f"block '{read.place.name}' reads '{read.buffer.name}' ({read.scope} memory), which "
            f"block '{writers[0].place.name}' writes in another kernel, so that TVM keeps one copy "
            "for all threads in global memory; bring them under one bound loop, or keep it in "
            "global memory"
        )


def _find_other_threads(
    kernel: _Kernel, read: BlockAccess, writes: list[BlockAccess]
) -> Iterator[str]:
    axes = kernel.find_axes(*GPU_AXES, *(["vthread"] if read.scope == "local" else []))
    search = functools.partial(_find_foreign, read=read, writes=writes, axes=axes, host=kernel.host)
    found = _try(search)
    if found is None:
        return
    element, axis, _ = found
    why = {
        "local": f"which it never wrote: each thread of '{axis}' writes registers of its own",
        "global": f"which other threads along '{axis}' write in the same kernel, with no barrier",
    }.get(read.scope, f"which other GPU blocks along '{axis}' write, if any")
    if read.scope.startswith("shared") and axis.startswith("threadIdx"):
        why = f"which other threads along '{axis}' write in a loop around both, and TVM may put no "
        why += "barrier there"
    yield (
        f"a thread reads {element} ({read.scope} memory) in block '{read.place.name}', {why} "
        f"(block '{writes[0].place.name}'); let the threads that write it read it"
        + ("" if read.scope.startswith("shared") else ", or keep it in shared memory")
    )


def _find_foreign(
    grid: Grid,
    read: BlockAccess,
    writes: list[BlockAccess],
    axes: dict[str, For],
    host: Loops,
) -> Witness | None:
    """An element that is read where its own thread, or GPU block, has not written it."""
    owned = [_find_owner_axes(write, read, axes) for write in writes]
    among = {**dict(host), **{axis: axes[axis] for each in owned for axis in each}}
    grid.common = frozenset(
        find_key(loop)
        for loop in read.place.loops
        if get_axis(loop) is None and all(is_among(loop, w.place.loops) for w in writes)
    )
    written = [
        _list_written(grid.fresh(), write, own, axes, host)
        for write, own in zip(writes, owned, strict=True)
    ]
    points = enumerate_access(grid, read, list(among.items()), is_read=True, may_thin=True)
    keys = [key for key, _ in host]
    covered = np.zeros(len(points.elements), dtype=bool)
    anywhere = covered.copy()
    for each, own in zip(written, owned, strict=True):
        covered |= points.find_in(each, [*keys, *own])
        anywhere |= points.find_in(each, keys)
    wrong = ~covered & anywhere if read.scope == "global" else ~covered
    if not wrong.any():
        return None
    if read.is_conditional or any(write.is_conditional for write in writes):
        raise UndecidedError
    at = int(np.argmax(wrong))
    if grid.thinned == 3:
        _confirm(grid, points, at, writes, owned, axes, host)
    element = name_element(read, grid, int(points.elements[at]))
    return element, _find_axis_between(points, at, written, owned, keys), 0


def _find_axis_between(
    points: Points, at: int, written: list[Points], owned: list[list[str]], host: list[Any]
) -> str:
    """An axis along which the writers of an element and its reader lie apart, best on its own."""
    apart: list[str] = []
    for each, own in zip(written, owned, strict=True):
        same = each.elements == points.elements[at]
        for key in host:
            same &= each.owners[key] == points.owners[key][at]
        for place in np.flatnonzero(same)[:64]:
            differing = [ax for ax in own if each.owners[ax][place] != points.owners[ax][at]]
            if differing and (not apart or len(differing) < len(apart)):
                apart = differing
    return (apart or [axis for own in owned for axis in own] or ["blockIdx.x"])[-1]


def _list_written(
    grid: Grid,
    write: BlockAccess,
    own: list[str],
    axes: dict[str, For],
    host: Loops,
) -> Points:
    loops = [*host, *((axis, axes[axis]) for axis in own)]
    written = enumerate_access(grid, write, loops)
    if write.scope != "global":
        return written
    return written.of_first(find_reduced_axes(write.place))


def _confirm(
    grid: Grid,
    points: Points,
    at: int,
    writes: list[BlockAccess],
    owned: list[list[str]],
    axes: dict[str, For],
    host: Loops,
) -> None:
    """Raise `UndecidedError` where an element is written by an iteration that was left out."""
    for write, own in zip(writes, owned, strict=True):
        fixed = {key: int(points.owners[key][at]) for key in [*(k for k, _ in host), *own]}
        written = _list_written(grid.fresh(fixed), write, own, axes, host)
        if (written.elements == points.elements[at]).any():
            raise UndecidedError


def _find_owner_axes(write: BlockAccess, read: BlockAccess, axes: dict[str, For]) -> list[str]:
    """The axes along which different threads store different elements.

    A sum over threads is stored by the first of them, but for registers, where all have it. What
    threads of one loop share has no barrier within an iteration that a guard lets some in to.
    """
    used = {find_key(loop) for loop in find_used_loops(write.place, _find_uses(write))}
    if write.scope.startswith("shared"):
        used -= {
            get_axis(loop)
            for loop in write.place.find_bound("threadIdx")
            if write.place.is_fed(loop) or not is_among(loop, read.place.loops)
        }
    reduced = find_reduced_axes(write.place)
    stored = {axis for axis in axes if axis in used} - reduced
    if write.scope == "global":
        stored |= reduced & set(axes)
    return [axis for axis in axes if axis in stored]
