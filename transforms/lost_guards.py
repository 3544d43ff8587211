"""Lost guards: sums over threads that TVM stores where a guard says that there are none.

TVM lets the threads of a reduction add up within the guard of its block, and stores the sum behind
it. Of a guard of several conditions it keeps those that are of the outputs alone, of one condition
nothing.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import For, IterVar, PrimFunc

from .accesses import Access, find_accesses
from .places import Place, find_places, is_among
from .queries import constant, find_all, is_used


class LostGuard(NamedTuple):
    """A block whose sums are stored without its guard, and what it stores them into."""

    block: str
    guard: str
    buffer: str


@functools.lru_cache(maxsize=2)  # what one transform leaves behind, the next one finds
def find_lost_guards(module: IRModule) -> dict[str, LostGuard]:
    """The reductions over threads that need the guard which TVM loses, by the block's name.

    None that keeps its sums in registers, if the guard decides over whole lives of these and all
    that uses them does so at the same place: what no output belongs to lies in registers apart.
    """
    found: dict[str, LostGuard] = {}
    for _, function in module.functions_items():
        if not isinstance(function, PrimFunc) or not _has_guarded_sums(function):
            continue
        places = [one for one in find_places(function.body.block) if not _holds_blocks(one)]
        for place in places:
            if not _loses_guard(place):
                continue
            for region in place.block.writes:
                if not _is_private(places, place, region.source):
                    guard, buffer = str(place.guards[0]), str(region.source.name)
                    found.setdefault(place.name, LostGuard(place.name, guard, buffer))
    return found


def _has_guarded_sums(function: PrimFunc) -> bool:
    return any(
        constant(realize.predicate) != 1 and realize.block.init is not None
        for realize in find_all(function.body, SBlockRealize)
    )


def _holds_blocks(place: Place) -> bool:
    return bool(find_all(place.block.body, SBlock))


def _loses_guard(place: Place) -> bool:
    """Whether a block reduces over threads, and has one guard, that is of its outputs."""
    reduced = _find_reduced(place)
    return (
        any(is_among(loop, reduced) for loop in place.find_bound("threadIdx"))
        and place.block.init is not None
        and len(place.guards) == 1
        and len(place.find_real_guards()) == 1
        and not any(is_used(loop.loop_var, place.guards[0]) for loop in reduced)
    )


def _find_reduced(place: Place) -> list[For]:
    """The loops over which a block reduces, outermost first."""
    values = [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if iterator.iter_type == IterVar.CommReduce
    ]
    return [loop for loop in place.loops if any(is_used(loop.loop_var, one) for one in values)]


def _is_private(places: list[Place], place: Place, buffer: Any) -> bool:
    """Whether a buffer is of registers that each iteration of the guard's loops has apart."""
    if buffer.scope() != "local":
        return False
    uses = [
        access
        for other in places
        for accesses in find_accesses(other)
        for access in accesses
        if access.buffer.same_as(buffer)
    ]
    own = next(access for access in uses if access.place.block.same_as(place.block))
    # TVM allocates what sums are made in outside of the loops over which they are made.
    depth = next(at for at, one in enumerate(place.loops) if is_among(one, _find_reduced(place)))
    outer = place.loops[:depth]
    return all(
        is_among(loop, outer) and all(_is_apart(own, use, loop) for use in uses)
        for loop in place.loops
        if is_used(loop.loop_var, place.guards[0]) and constant(loop.extent) != 1
    )


def _is_apart(own: Access, use: Access, loop: For) -> bool:
    """Whether a loop is around both accesses, and shifts them alike."""
    if not is_among(loop, use.place.loops):
        return False
    analyzer = Analyzer()
    for one in (*own.place.loops, *use.place.loops):
        if constant(one.extent) == 1:
            analyzer.bind(one.loop_var, one.min)
    return not any(
        is_used(loop.loop_var, analyzer.simplify(mine.min - other.min))
        for mine, other in zip(own.ranges, use.ranges, strict=True)
    )
