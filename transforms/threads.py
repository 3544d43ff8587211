"""Threads: which loops may become one axis, beside those that run there already."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import Add, BufferStore, For, IterVar, Max, Min, Mul, max_value, min_value
from tvm_ffi import structural_equal

from tirstep.tvm_compat import get_op_name

from .gpu_limits import MAX_EXTENTS, WARP
from .queries import get_enclosing_kernel, get_enclosing_loops, get_loop_name, get_root
from .schedule import TransformError
from .tir import (
    Place,
    constant,
    find_all,
    get_axis,
    get_fed_iterators,
    get_places,
    is_among,
    is_used,
)


def require_axis_free(sch: Schedule, loop: LoopRV, axis: str) -> None:
    """Refuse an axis on which another loop of the same block runs already."""
    node = sch.get(loop)
    lineage = [*get_enclosing_loops(sch, loop), *find_all(node.body, For)]
    rivals = [other for other in lineage if get_axis(other) == axis]
    if rivals and axis.startswith("vthread"):
        raise TransformError(
            f"loop '{node.loop_var.name}': '{axis}' already drives loop "
            f"'{rivals[0].loop_var.name}' around or inside, and a virtual thread would do its own "
            "share of both only",
            "bind it to another axis, or leave it serial",
        )
    if not rivals:
        return
    for place in get_places(get_root(sch, loop)):
        if not is_among(node, place.loops):
            continue
        guards = place.find_real_guards()
        _require_no_instruction(place, guards, node, rivals)
        mine = [rival for rival in rivals if is_among(rival, place.loops)]
        if mine and _is_used(place, guards, node):
            _require_unused(place, guards, node, mine)


def _require_no_instruction(place: Place, guards: list[Any], loop: For, rivals: list[For]) -> None:
    """Refuse a loop of an instruction's block, whose own loops are all threads of the axis."""
    own = find_all(place.block.body, For)
    taken = [rival for rival in rivals if place.is_innermost and is_among(rival, own)]
    if taken and _is_used(place, guards, loop):
        raise TransformError(
            f"loop '{loop.loop_var.name}': block '{place.name}' is an instruction of all threads "
            f"on '{get_axis(taken[0])}', of which each would do its own share of the loop only",
            "bind it to another axis, or leave it serial",
        )


def _require_unused(place: Place, guards: list[Any], loop: For, rivals: list[For]) -> None:
    """Refuse rivals that a block uses: a thread would do its own share of both loops only."""
    for rival in rivals:
        if not _is_used(place, guards, rival):
            continue
        what = f"loop '{loop.loop_var.name}': '{get_axis(rival)}' already drives loop "
        what += f"'{rival.loop_var.name}' of block '{place.name}', "
        guarded = [item for item in (loop, rival) if not place.is_fed(item)]
        if not guarded:
            raise TransformError(
                f"{what}so that only the diagonal would run",
                "bind it to another axis, or fuse the two loops first",
            )
        name = guarded[0].loop_var.name
        guard = next(guard for guard in guards if is_used(guarded[0].loop_var, guard))
        raise TransformError(
            f"{what}where '{name}' decides through the guard {guard} alone which threads run: "
            "each would do its own share, and those that the guard keeps out none",
            "bind it to another axis, or bind the outer loop first, and fetch or spread what is "
            "inside of it afterwards",
        )


def _is_used(place: Place, guards: list[Any], loop: For) -> bool:
    """Whether a loop decides what a block works on, or whether it runs: guards are uses, too."""
    return place.is_fed(loop) or any(is_used(loop.loop_var, guard) for guard in guards)


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
    _require_identity(realize.block, what)


def _require_identity(block: SBlock, what: str) -> None:
    """Refuse a sum, product or extreme from another constant than TVM's reducer begins with."""
    store, begin = block.body, block.init
    if not isinstance(store, BufferStore) or not isinstance(begin, BufferStore):
        return
    first, dtype = getattr(begin.value, "value", None), str(store.buffer.dtype)
    if dtype == "bool":  # of which TVM knows no least value
        return
    identities: dict[type, Callable[[], float]] = {
        Add: lambda: 0,
        Mul: lambda: 1,
        Max: lambda: min_value(dtype).value,
        Min: lambda: max_value(dtype).value,
    }
    find_identity = identities.get(type(store.value))
    if first is None or find_identity is None or first == (identity := find_identity()):
        return
    raise TransformError(
        f"{what}, which begins with {first}, and TVM's threads begin with {identity} alone",
        f"let it begin with {identity}, and bring {first} in with a block behind it",
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
