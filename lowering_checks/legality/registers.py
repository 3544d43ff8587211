"""Whose memory a thread may read, or a GPU block.

Registers ("local") belong to one thread, shared memory to one GPU block.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tvm.ir import IRModule, Range
from tvm.s_tir import SBlock
from tvm.sym import Analyzer, estimate_region_lower_bound, estimate_region_upper_bound
from tvm.tirx import For, PrimFunc
from tvm_ffi import structural_equal

from tirstep.transforms.own_lanes import drop_lane, stay_in_lanes
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    bind_ranges,
    cached_by_module,
    cached_by_node,
    constant,
    get_axis,
    get_places,
    is_among,
    is_at_most,
    is_less,
    is_used,
    substitute,
)


class RegisterLeak(NamedTuple):
    """A buffer whose reader needs what other threads, or GPU blocks, wrote.

    Attributes
    ----------
    guard : of the writer, where that keeps threads out whose reader is let in; empty otherwise
    """

    buffer: str
    scope: str
    axis: str
    writer: str
    reader: str
    guard: str = ""


@dataclass(frozen=True)
class _Access:
    """What one block writes or reads of a buffer, in loop variables.

    Attributes
    ----------
    key : what makes it the same in another module: the addresses of its block, and of what stands
        around that, all of which the place keeps alive
    drops_lane : whether the ranges are those of any lane as if it were the first one
    """

    key: tuple[Any, ...]
    place: Place = field(compare=False)
    region: Any = field(compare=False)
    drops_lane: bool = False

    @classmethod
    def of(cls, place: Place, kind: str, number: int) -> _Access:
        """The access by a region of a block: of what it ``"reads"`` or ``"writes"``."""
        key = (kind, number, *_list_addresses(place))
        return cls(key, place, getattr(place.block, kind)[number])

    @property
    def buffer(self) -> Any:
        return self.region.source

    @functools.cached_property
    def ranges(self) -> list[Range]:
        found = [substitute(each, self.place.values) for each in self.region.region]
        return drop_lane(found) if self.drops_lane else found

    @property
    def block(self) -> SBlock:
        return self.place.block

    @property
    def loops(self) -> tuple[For, ...]:
        return self.place.loops

    @property
    def scope(self) -> str:
        return str(self.buffer.scope())

    @property
    def levels(self) -> tuple[str, ...]:
        """The axes along which each has a buffer of its own."""
        return ("blockIdx", "threadIdx") if self.scope == "local" else ("blockIdx",)


def _list_addresses(place: Place) -> Iterator[Any]:
    """What makes a place the same in another module; loops with other bodies are the same."""
    yield place.block.__chandle__()
    yield len(place.values)
    for variable, value in place.values.items():
        yield variable.__chandle__()
        yield value.__chandle__()
    for guard in place.guards:
        yield guard.__chandle__()
    for loop in place.loops:
        yield from _read_loop(loop)


@cached_by_node(4096)
def _read_loop(loop: For) -> tuple[Any, ...]:
    begin, extent = constant(loop.min), constant(loop.extent)
    return (
        loop.loop_var.__chandle__(),
        loop.min.__chandle__() if begin is None else (begin,),
        loop.extent.__chandle__() if extent is None else (extent,),
        get_axis(loop),
    )


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_leaks(module: IRModule) -> dict[tuple[str, str, str], RegisterLeak]:
    """The buffers of a module that leak from thread to thread, or GPU block to GPU block.

    In one thread, all loops on one thread axis have the same value. What a block reads at that
    value must be a part of what each writer that is spread over the axis writes at that value.
    """
    found: dict[tuple[str, str, str], RegisterLeak] = {}
    for _, function in module.functions_items():
        if isinstance(function, PrimFunc):
            for leak in _find_leaks_in(get_places(function.body)):
                found.setdefault((leak.buffer, leak.writer, leak.reader), leak)
    return found


def _find_leaks_in(places: list[Place]) -> Iterator[RegisterLeak]:
    bound = [place for place in places if place.kernel is not None]
    reads: dict[int, list[_Access]] = {}
    for read in _find_accesses(places, "reads") if bound else ():
        reads.setdefault(read.buffer.__chandle__(), []).append(read)
    for write in _find_accesses(bound, "writes") if reads else ():
        for read in reads.get(write.buffer.__chandle__(), ()):
            if read.block.same_as(write.block):
                continue
            axis, guard = _find_leak(write, read)
            if axis is not None:
                names = (write.place.name, read.place.name)
                yield RegisterLeak(str(write.buffer.name), write.scope, axis, *names, guard)


def blame_leak(leak: RegisterLeak) -> Fault:
    """Why a thread would have to read the registers of another."""
    what = "register" if leak.scope == "local" else "shared"
    if leak.guard:
        return Fault(
            f"the guard {leak.guard} lets a part of '{leak.axis}' alone write the {what} buffer "
            f"'{leak.buffer}' in block '{leak.writer}', and block '{leak.reader}' would read it in "
            "all of them",
            f"place '{leak.reader}' outside of that loop, or let all of it write and read",
        )
    if leak.scope == "local":
        owners, why = "threads", "a thread cannot read the registers of another"
        advice = (
            'use scope "shared", or let the same threads write and read (bind the reader first)'
        )
    else:
        owners, why = "GPU blocks", "a GPU block cannot read the shared memory of another"
        advice = (
            "let the same GPU blocks write and read (bind the reader first), or spread the writer "
            "over threads"
        )
    return Fault(
        f"the {owners} of '{leak.axis}' write the {what} buffer '{leak.buffer}' in block "
        f"'{leak.writer}', and block '{leak.reader}' would read what other {owners} wrote: {why}",
        advice,
    )


@functools.lru_cache(maxsize=2048)  # most of what one transform leaves is as it was before
def _find_leak(write: _Access, read: _Access) -> tuple[str | None, str]:
    """The axis over which a buffer leaks, and the guard that keeps its writers out."""
    if stay_in_lanes(write.buffer, write.place, read.place):
        write, read = replace(write, drops_lane=True), replace(read, drops_lane=True)
    axis = _find_leaking_axis(write, read)
    return (axis, "") if axis is not None else _find_idle_axis(write, read)


def _find_leaking_axis(write: _Access, read: _Access) -> str | None:
    """A block or thread axis over which a reader needs what others wrote."""
    read_axes = {get_axis(loop) for loop in read.loops}
    for loop in _find_spreading_loops(write, "blockIdx"):
        if get_axis(loop) not in read_axes:
            return get_axis(loop)
        if not is_among(loop, read.loops) and not _covers(write, read, [loop]):
            return get_axis(loop)
    spread = _find_spreading_loops(write, "threadIdx") if write.scope == "local" else []
    if spread and not _covers(write, read, spread):
        foreign = [loop for loop in spread if not is_among(loop, read.loops)]
        return get_axis((foreign or spread)[0])
    return None


def _find_idle_axis(write: _Access, read: _Access) -> tuple[str | None, str]:
    """An axis, and the guard, that stands in a writer's guards alone, and not in the reader's.

    Most threads along it write nothing, and would read what they never wrote. Shared memory is
    theirs to read, but not in the very loop, where nothing says that the others have written.
    """
    if not write.place.guards:
        return None, ""
    idle = [
        loop
        for loop in write.loops
        if (get_axis(loop) or "").startswith(("blockIdx", "threadIdx"))
        and not write.place.is_fed(loop)
        and ((get_axis(loop) or "").startswith(write.levels) or is_among(loop, read.loops))
    ]
    for loop in idle:
        foreign = [
            guard
            for guard in write.place.find_real_guards()
            if is_used(loop.loop_var, guard) and not _has_guard(read, guard, write)
        ]
        if foreign:
            return get_axis(loop), str(foreign[0])
    return None, ""


def _has_guard(read: _Access, guard: Any, write: _Access) -> bool:
    """Whether a reader has a guard of its writer's, in loops on the same axes."""
    axes = {str(get_axis(loop)): loop.loop_var for loop in write.loops if get_axis(loop)}
    wanted = _simplify(guard, write.loops, {})
    same = {
        loop.loop_var: axes[str(get_axis(loop))]
        for loop in read.loops
        if str(get_axis(loop)) in axes
    }
    return any(
        structural_equal(_simplify(own, read.loops, same), wanted) for own in read.place.guards
    )


def _simplify(guard: Any, loops: Sequence[For], names: dict[Any, Any]) -> Any:
    """A guard with loops renamed, and those that run once at their only value."""
    once = {loop.loop_var: loop.min for loop in loops if constant(loop.extent) == 1}
    return Analyzer().simplify(substitute(guard, {**names, **once}))


def _find_accesses(places: list[Place], kind: str) -> list[_Access]:
    return [
        _Access.of(place, kind, number)
        for place in places
        for number, region in enumerate(getattr(place.block, kind))
        if region.source.scope() in ("local", "shared", "shared.dyn")
    ]


def _find_spreading_loops(write: _Access, level: str) -> list[For]:
    """The loops on block or thread axes that decide where a block writes."""
    starts = [each.min for each in write.ranges]
    return [
        loop
        for loop in write.place.find_bound(level)
        if any(is_used(loop.loop_var, start) for start in starts)
    ]


def _covers(write: _Access, read: _Access, spread: list[For]) -> bool:
    """Whether each thread, or GPU block, writes all that it reads."""
    if all(map(structural_equal, write.ranges, read.ranges)):  # in the same loops, then
        return True
    threads: dict[str, Any] = {}
    merged: dict[Any, Any] = {}
    known: list[For] = []
    for loop in [*write.loops, *read.loops]:
        axis = str(get_axis(loop))
        if axis.startswith(write.levels):
            if axis not in threads:
                threads[axis] = loop.loop_var
                known.append(loop)
            merged[loop.loop_var] = threads[axis]
    shared = [loop for loop in write.loops if is_among(loop, read.loops)]
    for loop in shared:
        # Shared memory is read by other threads than those that wrote it.
        if loop.loop_var not in merged and not (get_axis(loop) or "").startswith("threadIdx"):
            known.append(loop)
            merged[loop.loop_var] = loop.loop_var
    placed = _place(write, merged), _place(read, merged)
    if _is_same(write, read, merged, placed):
        return True
    analyzer = bind_ranges(known)
    domains = [_find_domains(access, merged) for access in (write, read)]
    written = estimate_region_lower_bound(placed[0], domains[0], True, analyzer)
    needed = estimate_region_upper_bound(placed[1], domains[1], True, analyzer)
    # Of quotients of differences, (i - r) // 2, TVM estimates regions that end before they begin.
    is_nonsense = any(is_less(analyzer, need.max_value, need.min_value) for need in needed)
    if written is None or is_nonsense:
        return all(is_among(loop, read.loops) for loop in spread)
    # Loops that do not divide are guarded: what lies behind the buffer's end is not read.
    return all(
        is_at_most(analyzer, own.min_value, need.min_value)
        and (
            is_at_most(analyzer, need.max_value, own.max_value)
            or is_at_most(analyzer, extent - 1, own.max_value)
        )
        for own, need, extent in zip(written, needed, read.buffer.shape, strict=True)
    )


def _is_same(
    write: _Access, read: _Access, fixed: dict[Any, Any], placed: tuple[list[Range], list[Range]]
) -> bool:
    """Whether the loops of a thread read, pass by pass, what loops like them have written.

    `placed` are the ranges of both with the `fixed` loops renamed.
    """
    ours, theirs = map(_find_own, (write, read), (fixed, fixed), placed)
    if [constant(loop.extent) for loop in ours] != [constant(loop.extent) for loop in theirs]:
        return False
    renamed = {b.loop_var: a.loop_var for a, b in zip(ours, theirs, strict=True)}
    others = _place(read, {**fixed, **renamed}) if renamed else placed[1]
    return all(
        structural_equal(item.min, other.min)
        and Analyzer().can_prove_equal(item.extent, other.extent)  # of int32 or int64
        for item, other in zip(placed[0], others, strict=True)
    )


def _find_own(access: _Access, fixed: dict[Any, Any], ranges: list[Range]) -> list[For]:
    """The loops of an access that are not fixed and decide what it touches, by dimension."""
    ends = [(each.min, each.extent) for each in ranges]
    used = {
        loop.loop_var: [
            at for at, both in enumerate(ends) if any(is_used(loop.loop_var, end) for end in both)
        ]
        for loop in access.loops
        if loop.loop_var not in fixed
    }
    own = [loop for loop in access.loops if used.get(loop.loop_var)]
    return sorted(own, key=lambda loop: used[loop.loop_var][0])


def _place(access: _Access, names: dict[Any, Any]) -> list[Range]:
    """The ranges with loops renamed, and those that run once at their only value."""
    once = {loop.loop_var: loop.min for loop in access.loops if constant(loop.extent) == 1}
    values = {**names, **once}
    ranges = [substitute(each, values) for each in access.ranges]
    ends = [end for each in ranges for end in (each.min, each.extent)]
    analyzer, is_closed = Analyzer(), all(constant(loop.extent) for loop in access.loops)
    for loop in access.loops:
        named = names.get(loop.loop_var, loop.loop_var)
        if not is_closed or any(is_used(named, end) for end in ends):
            analyzer.bind(named, Range.from_min_extent(loop.min, loop.extent))
    return [
        Range.from_min_extent(analyzer.simplify(each.min), analyzer.simplify(each.extent))
        for each in ranges
    ]


def _find_domains(access: _Access, fixed: dict[Any, Any]) -> dict[Any, Range]:
    """The domains of the loops that are not fixed."""
    return {
        loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
        for loop in access.loops
        if loop.loop_var not in fixed
    }
