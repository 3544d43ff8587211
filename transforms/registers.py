"""Private memory: whether a block would read what another thread, or GPU block, wrote into its own.

Registers ("local") are a thread's own, shared memory is a GPU block's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.ir import Range
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer, estimate_region_lower_bound, estimate_region_upper_bound
from tvm.tirx import For
from tvm_ffi import structural_equal

from .errors import TransformError
from .places import Place, find_places, is_among
from .queries import constant, find_axis, find_root, is_used, substitute


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


class _Access(NamedTuple):
    """What one block writes or reads of a buffer, in loop variables."""

    place: Place
    buffer: Any
    ranges: list[Range]

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


def require_own_registers(sch: Schedule, who: str, handle: LoopRV | SBlockRV) -> None:
    """Refuse a schedule in which a thread would have to read the registers of another."""
    leak = find_register_leak(sch, handle)
    if leak is None:
        return
    what = "register" if leak.scope == "local" else "shared"
    if leak.guard:
        raise TransformError(
            who,
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
        who,
        f"the {owners} of '{leak.axis}' write the {what} buffer '{leak.buffer}' in block "
        f"'{leak.writer}', and block '{leak.reader}' would read what other {owners} wrote: {why}",
        advice,
    )


def find_register_leak(sch: Schedule, handle: LoopRV | SBlockRV) -> RegisterLeak | None:
    """The first buffer of a function that leaks from thread to thread or block to block, or None.

    In one thread, all loops on one thread axis have the same value. What a block reads at that
    value must be a part of what each writer that is spread over the axis writes at that value.
    """
    places = find_places(find_root(sch, handle))
    writes, reads = _find_accesses(places, "writes"), _find_accesses(places, "reads")
    for write in writes:
        for read in reads:
            if read.buffer.same_as(write.buffer) and not read.block.same_as(write.block):
                axis, guard = _find_leaking_axis(write, read), ""
                if axis is None:
                    axis, guard = _find_idle_axis(write, read)
                if axis is not None:
                    names = (write.place.name, read.place.name)
                    return RegisterLeak(str(write.buffer.name), write.scope, axis, *names, guard)
    return None


def _find_leaking_axis(write: _Access, read: _Access) -> str | None:
    """A block or thread axis over which a reader needs what others wrote."""
    read_axes = {find_axis(loop) for loop in read.loops}
    for loop in _find_spreading_loops(write, "blockIdx"):
        if find_axis(loop) not in read_axes:
            return find_axis(loop)
        if not is_among(loop, read.loops) and not _covers(write, read, [loop]):
            return find_axis(loop)
    spread = _find_spreading_loops(write, "threadIdx") if write.scope == "local" else []
    if spread and not _covers(write, read, spread):
        foreign = [loop for loop in spread if not is_among(loop, read.loops)]
        return find_axis((foreign or spread)[0])
    return None


def _find_idle_axis(write: _Access, read: _Access) -> tuple[str | None, str]:
    """An axis, and the guard, that stands in a writer's guards alone, and not in the reader's.

    Most threads along it write nothing, and would read what they never wrote. Shared memory is
    theirs to read, but not in the very loop, where nothing says that the others have written.
    """
    idle = [
        loop
        for loop in write.loops
        if (find_axis(loop) or "").startswith(("blockIdx", "threadIdx"))
        and not write.place.is_fed(loop)
        and ((find_axis(loop) or "").startswith(write.levels) or is_among(loop, read.loops))
    ]
    for loop in idle:
        foreign = [
            guard
            for guard in write.place.find_real_guards()
            if is_used(loop.loop_var, guard) and not _has_guard(read, guard, write)
        ]
        if foreign:
            return find_axis(loop), str(foreign[0])
    return None, ""


def _has_guard(read: _Access, guard: Any, write: _Access) -> bool:
    """Whether a reader has a guard of its writer's, in loops on the same axes."""
    axes = {str(find_axis(loop)): loop.loop_var for loop in write.loops if find_axis(loop)}
    wanted = _simplify(guard, write.loops, {})
    same = {
        loop.loop_var: axes[str(find_axis(loop))]
        for loop in read.loops
        if str(find_axis(loop)) in axes
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
        _Access(place, region.source, [substitute(each, place.values) for each in region.region])
        for place in places
        for region in getattr(place.block, kind)
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
    threads: dict[str, Any] = {}
    analyzer, merged = Analyzer(), {}
    for loop in [*write.loops, *read.loops]:
        axis = str(find_axis(loop))
        if axis.startswith(write.levels):
            if axis not in threads:
                threads[axis] = loop.loop_var
                analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
            merged[loop.loop_var] = threads[axis]
    shared = [loop for loop in write.loops if is_among(loop, read.loops)]
    for loop in shared:
        # Shared memory is read by other threads than those that wrote it.
        if loop.loop_var not in merged and not (find_axis(loop) or "").startswith("threadIdx"):
            analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
            merged[loop.loop_var] = loop.loop_var
    if _is_same(write, read, merged):
        return True
    written = estimate_region_lower_bound(*_relax(write, merged), True, analyzer)
    needed = estimate_region_upper_bound(*_relax(read, merged), True, analyzer)
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


def _is_same(write: _Access, read: _Access, fixed: dict[Any, Any]) -> bool:
    """Whether the loops of a thread read, pass by pass, what loops like them have written."""
    ours, theirs = (_find_own(access, fixed) for access in (write, read))
    if [constant(loop.extent) for loop in ours] != [constant(loop.extent) for loop in theirs]:
        return False
    renamed = {b.loop_var: a.loop_var for a, b in zip(ours, theirs, strict=True)}
    return all(
        structural_equal(one, other)
        for one, other in zip(_place(write, fixed), _place(read, {**fixed, **renamed}), strict=True)
    )


def _find_own(access: _Access, fixed: dict[Any, Any]) -> list[For]:
    """The loops of an access that are not fixed, and that run more than once."""
    return [
        loop for loop in access.loops if loop.loop_var not in fixed and constant(loop.extent) != 1
    ]


def _place(access: _Access, names: dict[Any, Any]) -> list[Range]:
    """The ranges with loops renamed, and those that run once at their only value."""
    once = {loop.loop_var: loop.min for loop in access.loops if constant(loop.extent) == 1}
    analyzer = Analyzer()
    for loop in access.loops:
        named = names.get(loop.loop_var, loop.loop_var)
        analyzer.bind(named, Range.from_min_extent(loop.min, loop.extent))
    ranges = [substitute(each, {**names, **once}) for each in access.ranges]
    return [
        Range.from_min_extent(analyzer.simplify(each.min), analyzer.simplify(each.extent))
        for each in ranges
    ]


def _relax(access: _Access, fixed: dict[Any, Any]) -> tuple[list[Range], dict[Any, Range]]:
    """The ranges and the domains of the loops that are not fixed."""
    domains = {
        loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
        for loop in access.loops
        if loop.loop_var not in fixed
    }
    return [substitute(each, fixed) for each in access.ranges], domains
