"""Threads: which loops may become one axis, and whose memory a thread may read.

Registers ("local") belong to one thread, shared memory to one GPU block. A virtual thread repeats
its kernel.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tvm.ir import IRModule, Range
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore, For, IterVar, PrimFunc
from tvm_ffi import structural_equal

from tirstep.tvm_compat import (
    Analyzer,
    Call,
    SBlock,
    SBlockRealize,
    TensorLoad,
    estimate_region_lower_bound,
    estimate_region_upper_bound,
    get_op_name,
)

from ..errors import TransformError
from ..gpu_limits import MAX_EXTENTS, WARP
from ..queries import get_enclosing_kernel, get_enclosing_loops, get_loop_name, get_root
from ..tir import (
    Place,
    bind_ranges,
    cached_by_node,
    constant,
    find_all,
    get_axis,
    get_fed_iterators,
    get_places,
    is_among,
    is_used,
    substitute,
)
from .own_lanes import drop_lane, stay_in_lanes


def require_same_extents(sch: Schedule, loop: LoopRV, axis: str) -> dict[str, For]:
    """One loop for each axis of the kernel, the new one included; refuse unequal extents."""
    first = {axis: sch.get(loop)}
    for node in find_all(get_enclosing_kernel(sch, loop), For):
        used = get_axis(node)
        if used is None or used.startswith("vthread"):
            continue
        other = first.setdefault(used, node)
        if not _is_same_extent(node.extent, other.extent):
            raise TransformError(
                f"loop '{other.loop_var.name}' runs {other.extent} times, and '{used}' has the "
                f"extent {node.extent} at loop '{node.loop_var.name}' of the same kernel",
                "split the loop so that both have one extent",
            )
    return first


def _is_same_extent(one: Any, other: Any) -> bool:
    if constant(one) is not None:
        return constant(one) == constant(other)
    return bool(structural_equal(one, other))


def require_thread_limit(
    sch: Schedule, loop: LoopRV, extents: dict[str, For], max_threads: int
) -> None:
    """Refuse a block of more threads than a GPU takes."""
    sizes = {
        used: constant(node.extent) or 1
        for used, node in extents.items()
        if used.startswith("threadIdx")
    }
    total = math.prod(sizes.values())
    if total > max_threads:
        product = " * ".join(f"{used}={size}" for used, size in sorted(sizes.items()))
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' would make a block of {total} threads "
            f"({product}), more than max_threads={max_threads}",
            "split the loop and bind its inner part",
        )


def require_axis_limit(sch: Schedule, loop: LoopRV, axis: str) -> None:
    """Refuse a constant extent that a GPU does not take on an axis: the launch would fail."""
    extent, limit = constant(sch.get(loop).extent), MAX_EXTENTS.get(axis)
    if extent is None or limit is None or extent <= limit:
        return
    wide = axis[:-1] + "x"
    advice = "split it and bind the inner part"
    if extent <= MAX_EXTENTS[wide]:
        advice = f"put the larger loop on {wide}, or {advice}"
    raise TransformError(
        f"loop '{get_loop_name(sch, loop)}' runs {extent} times, and a GPU takes {limit} on "
        f"'{axis}' at most",
        advice,
    )


def require_sound_reduction(sch: Schedule, loop: LoopRV) -> None:
    """Refuse a reduction over threads that TVM lowers to something else."""
    node = sch.get(loop)
    outer = get_enclosing_loops(sch, loop)
    on_host = not any("Idx" in (get_axis(item) or "") for item in outer)
    for realize in find_all(node, SBlockRealize):
        types = {iterator.iter_type for iterator in get_fed_iterators(realize, node)}
        if IterVar.CommReduce not in types:
            continue
        what = f"loop '{node.loop_var.name}' is a reduction of block '{realize.block.name_hint}'"
        if len(types) > 1:
            raise TransformError(
                f"{what} and goes over its outputs as well: TVM would sum over all threads of the "
                "loop, whichever output they work on",
                "bind the spatial loops and the reduction apart, without fusing them",
            )
        _require_constant_beginning(realize, what)
        if find_all(realize.block.body, SBlock):
            raise TransformError(
                f"{what}, which holds a block of its own, and TVM adds up over threads only what "
                "one block computes",
                "bind the reduction of a block without others in it",
            )
        extent = constant(node.extent) or 1
        if extent > WARP and extent % WARP:
            raise TransformError(
                f"{what} over {extent} threads: TVM's last steps would take for granted that the "
                "threads of a warp wait for one another",
                f"use up to {WARP} threads, or a multiple of {WARP}",
            )
        if on_host:
            raise _make_shared_sums_error(what, outer)
        _require_begun_parts(outer, node, realize, what)


def _require_constant_beginning(realize: SBlockRealize, what: str) -> None:
    """Refuse sums that begin with a tensor's elements: TVM has no reducer that begins so.

    What begins with its own elements repairs them, which has a sentence of its own (`repairs`).
    """
    begin = realize.block.init
    if begin is None:
        return
    own = [store.buffer for store in find_all(begin, BufferStore)]
    loads = find_all(begin, TensorLoad)
    if loads and not any(is_among(load.source, own) for load in loads):
        raise TransformError(
            f"{what}, which begins with elements of '{loads[0].source.name}', and TVM adds up over "
            "threads from a constant alone",
            "let it begin with 0 and add them in a block of their own behind it",
        )


def _require_begun_parts(outer: list[For], node: For, realize: SBlockRealize, what: str) -> None:
    """Refuse threads that take one element each into a sum of powers and its maximum.

    Where a thread has a serial loop, or a guard, TVM lets it begin with the maximum of nothing,
    which is finite. Otherwise its part is the element itself, and of two parts of -inf the scales
    are exp(-inf - -inf).
    """
    block = realize.block
    is_begun = constant(realize.predicate) != 1 or len(block.reads) != 1
    calls = [get_op_name(call) for call in find_all(block.body, Call)]
    powers = [name for name in calls if name.endswith(".exp")]
    if is_begun or len(block.writes) != 2 or not powers:
        return
    around = [*outer, *find_all(node.body, For)]
    for loop in around:
        if get_axis(loop) is None and any(
            iterator.iter_type == IterVar.CommReduce
            for iterator in get_fed_iterators(realize, loop)
        ):
            return
    raise TransformError(
        f"{what}, of which each thread would take one element and begin with it instead of the "
        "maximum of nothing: elements of -inf, which are masked, would make a NaN",
        "split it and leave a part serial, with inner=1 at least",
    )


def _make_shared_sums_error(what: str, outer: list[For]) -> TransformError:
    where, advice = "with no loop around it", "bind a spatial loop around it first"
    if outer:
        where = f"inside of loop '{outer[0].loop_var.name}', which is bound to nothing"
        advice = "bind the outer loop first"
    return TransformError(
        f"{what} {where}: its threads would share one cell for their sums", advice
    )


def require_virtual_threads_around_all(sch: Schedule, handle: LoopRV | SBlockRV) -> None:
    """Refuse a kernel of which a virtual thread does a part only, or adds up over threads.

    TVM hoists the loops of a vthread axis to the top of their kernel, so that blocks outside of
    them run once for each virtual thread, on buffers of its own. The sum of all threads it lowers
    once, for one virtual thread, or not at all.
    """
    kernel = get_enclosing_kernel(sch, handle)
    blocks = find_all(kernel, SBlock)
    for loop in find_all(kernel, For):
        axis = get_axis(loop) or ""
        if not axis.startswith("vthread"):
            continue
        _require_no_sum_over_threads(kernel, loop, axis)
        inside = find_all(loop, SBlock)
        for block in blocks:
            if not any(block.same_as(other) for other in [*inside, *_around(blocks, loop)]):
                raise TransformError(
                    f"block '{block.name_hint}' stands outside of loop '{loop.loop_var.name}' on "
                    f"'{axis}', and TVM would repeat it for each virtual thread",
                    "keep all blocks of the kernel inside of that loop",
                )


def _require_no_sum_over_threads(kernel: For, virtual: For, axis: str) -> None:
    for loop in find_all(kernel, For):
        is_inside = is_among(virtual, find_all(loop.body, For))
        if not (get_axis(loop) or "").startswith("threadIdx"):
            continue
        if constant(virtual.extent) == 1 and not is_inside:
            continue  # one virtual thread has one sum
        for realize in find_all(loop, SBlockRealize):
            types = {iterator.iter_type for iterator in get_fed_iterators(realize, loop)}
            if IterVar.CommReduce in types:
                raise TransformError(
                    f"loop '{loop.loop_var.name}' is a reduction of block "
                    f"'{realize.block.name_hint}' over threads, in a kernel with loop "
                    f"'{virtual.loop_var.name}' on '{axis}': TVM would add up for one virtual "
                    "thread and not for the others",
                    "bind the reduction, or the virtual threads, but not both",
                )


def _around(blocks: list[SBlock], loop: For) -> list[SBlock]:
    """The blocks that enclose a loop themselves."""
    return [
        block for block in blocks if any(loop.same_as(other) for other in find_all(block.body, For))
    ]


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


@dataclass
class RegistersLater:
    """Schedules that are not asked yet whether threads read each other's registers.

    Attributes
    ----------
    schedules : the one that a recipe runs on, and the copies on which its transforms are tried
    is_needed : whether somebody would have asked
    """

    schedules: list[Schedule]
    is_needed: bool = False

    def has(self, sch: Schedule) -> bool:
        return any(sch is each for each in self.schedules)


_later: ContextVar[RegistersLater | None] = ContextVar("_later", default=None)


@contextlib.contextmanager
def registers_later(sch: Schedule) -> Iterator[RegistersLater]:
    """While this lasts, `require_own_registers` takes a schedule as it is: who asks for this asks
    `find_any_leak` at the end, which takes a tenth of the time.
    """
    token = _later.set(held := RegistersLater([sch]))
    try:
        yield held
    finally:
        _later.reset(token)


@contextlib.contextmanager
def tried_on_copy(sch: Schedule, copy: Schedule) -> Iterator[None]:
    """While this lasts, a copy is asked about registers when its schedule is."""
    later = _later.get()
    if later is None or not later.has(sch):
        yield
        return
    later.schedules.append(copy)
    try:
        yield
    finally:
        later.schedules.pop()


def find_any_leak(module: IRModule) -> RegisterLeak | None:
    """What `find_register_leak` finds in the first function of a module that has it."""
    leaks = (
        _find_leak_in(places)
        for _, function in module.functions_items()
        if isinstance(function, PrimFunc) and (places := get_places(function.body))
    )
    return next((leak for leak in leaks if leak is not None), None)


def require_own_registers(sch: Schedule, handle: LoopRV | SBlockRV) -> None:
    """Refuse a schedule in which a thread would have to read the registers of another."""
    later = _later.get()
    if later is not None and later.has(sch):
        later.is_needed = True
        return
    leak = find_register_leak(sch, handle)
    if leak is None:
        return
    what = "register" if leak.scope == "local" else "shared"
    if leak.guard:
        raise TransformError(
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
    raise TransformError(
        f"the {owners} of '{leak.axis}' write the {what} buffer '{leak.buffer}' in block "
        f"'{leak.writer}', and block '{leak.reader}' would read what other {owners} wrote: {why}",
        advice,
    )


def find_register_leak(sch: Schedule, handle: LoopRV | SBlockRV) -> RegisterLeak | None:
    """The first buffer of a function that leaks from thread to thread or block to block, or None.

    In one thread, all loops on one thread axis have the same value. What a block reads at that
    value must be a part of what each writer that is spread over the axis writes at that value.
    """
    return _find_leak_in(get_places(get_root(sch, handle)))


def _find_leak_in(places: list[Place]) -> RegisterLeak | None:
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
                return RegisterLeak(str(write.buffer.name), write.scope, axis, *names, guard)
    return None


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
    is_nonsense = any(analyzer.can_prove(need.max_value < need.min_value) for need in needed)
    if written is None or is_nonsense:
        return all(is_among(loop, read.loops) for loop in spread)
    # Loops that do not divide are guarded: what lies behind the buffer's end is not read.
    return all(
        analyzer.can_prove(own.min_value <= need.min_value)
        and (
            analyzer.can_prove(need.max_value <= own.max_value)
            or analyzer.can_prove(extent - 1 <= own.max_value)
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
