"""Sums that TVM computes wrongly.

They may be initialized after their first terms (`find_late_beginnings`), added up over threads in
a race (`find_unordered_sums`), stored without the guard of their block (`find_lost_guards`), or get
the same term more than once (`require_single_terms`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from tvm.ir import IRModule, Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer, detect_iter_map, detect_linear_equation
from tvm.tirx import Add, And, BufferStore, Cast, For, IterVar, Max, Min, Mul, Or, PrimFunc
from tvm.tirx import all as all_of
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal

from ..errors import Fault, TransformError
from ..gpu_limits import WARP
from ..passes.pipeline import lower_around
from ..queries import get_outer_loops, get_realize, get_root, get_sblock_name
from ..tir import (
    Access,
    Place,
    cached_by_module,
    constant,
    find_accesses,
    find_all,
    get_axis,
    get_places,
    is_among,
    is_used,
)
from .enumeration import begins_late, meets_again

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_SYMMETRIC = (Add, Mul, Max, Min)
_CROSS_THREAD = "s_tir.LowerCrossThreadReduction"
_ORDERED = 3
"""So many threads add up in one step behind a barrier."""


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_late_beginnings(module: IRModule) -> tuple[Fault, ...]:
    """Blocks that would add to outputs before they initialize them."""
    return tuple(_find_late_beginnings(module))


def _find_late_beginnings(module: IRModule) -> Iterator[Fault]:
    for _, function in module.functions_items():
        if not isinstance(function, PrimFunc) or not _has_sums(function):
            continue
        for place in get_places(function.body):
            mixing = _find_mixing_loop(place) if place.block.init is not None else None
            if mixing is not None and _begins_late(place):
                yield Fault(
                    f"block '{place.name}' would add to outputs before it initializes them, since "
                    f"loop '{mixing.loop_var.name}' goes over both its outputs and its terms",
                    "take the initialization out first (decompose_reduction_at), or keep the order "
                    "of these loops",
                )


def _has_sums(function: PrimFunc) -> bool:
    return any(place.block.init is not None for place in get_places(function.body))


def _find_values(place: Place, *, reduced: bool) -> list[Any]:
    return [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if _is_reduced(iterator) == reduced
    ]


def _find_mixing_loop(place: Place) -> For | None:
    outputs, terms = (_find_values(place, reduced=item) for item in (False, True))
    for loop in place.loops:
        fed = [any(is_used(loop.loop_var, each) for each in part) for part in (outputs, terms)]
        if all(fed) and constant(loop.extent) != 1:
            return loop
    return None


def _begins_late(place: Place) -> bool:
    """Whether a term is seen to be added before the initialization, within one whole sum."""
    terms = _find_values(place, reduced=True)
    feeding = [any(is_used(loop.loop_var, term) for term in terms) for loop in place.loops]
    loops = list(place.loops[feeding.index(True) :])
    firsts = [iterator.dom.min for iterator in place.block.iter_vars if _is_reduced(iterator)]
    left = [term - first for term, first in zip(terms, firsts, strict=True)]
    outputs = _find_values(place, reduced=False)
    return begins_late(outputs, left, all_of(True, *place.guards), loops)


def _is_reduced(iterator: IterVar) -> bool:
    return bool(iterator.iter_type == IterVar.CommReduce)


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_unordered_sums(module: IRModule) -> tuple[Fault, ...]:
    """Sums over threads that TVM would add up in a race."""
    functions = [item for _, item in module.functions_items() if isinstance(item, PrimFunc)]
    places = [
        place
        for function in functions
        if _has_threads(function)
        for place in get_places(function.body)
        if _find_axes(place)
    ]
    if not places:
        return ()
    steps = (_find_turned_operands, _find_unordered_steps)
    found = (fault for place in places for find in steps for fault in find(place))
    return (*_find_unseen_sums(module), *found)


def _has_threads(function: PrimFunc) -> bool:
    return any(get_axis(loop) in _AXES for loop in find_all(function.body, For))


def _find_axes(place: Place) -> dict[str, int]:
    """The threads that a block sums over, along each axis; none where it has begun elsewhere."""
    reduced = _find_reduced_values(place)
    if place.block.init is None or not reduced:
        return {}
    return {
        str(get_axis(loop)): constant(loop.extent) or 1
        for loop in place.find_bound("threadIdx")
        if any(is_used(loop.loop_var, item) for item in reduced)
    }


def _find_reduced_values(place: Place) -> list[Any]:
    return [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if iterator.iter_type == IterVar.CommReduce
    ]


def _find_unordered_steps(place: Place) -> Iterator[Fault]:
    """A sum in shared memory whose last steps, within a warp, have no barrier between them.

    TVM adds up by shuffles where the threads of a sum follow each other and are a multiple of a
    warp, or fit into one. Otherwise it goes through shared memory, and leaves out the last barriers
    where it takes these threads for neighbours: since Volta the lanes of a warp are not in step.
    """
    summed = _find_axes(place)
    others = {
        str(get_axis(loop)): constant(loop.extent) or 1
        for loop in find_all(place.kernel, For)
        if get_axis(loop) in _AXES and get_axis(loop) not in summed
    }
    several = math.prod(others.values()) > 1
    first = next((at for at, axis in enumerate(_AXES) if others.get(axis, 1) > 1), len(_AXES))
    following = math.prod(summed.get(axis, 1) for axis in _AXES[:first])
    many = math.prod(summed.values())
    narrow = [
        str(write.source.dtype) for write in place.block.writes if not _is_shuffled(write.source)
    ]
    divides = WARP % many == 0 or many % WARP == 0 or (many <= WARP and not several)
    by_shuffles = divides and following == many and not narrow
    if by_shuffles or many <= _ORDERED or (several and following % WARP):
        return
    axes = " and ".join(f"'{axis}'" for axis in _AXES if axis in summed)
    what = f"block '{place.name}' reduces over the {many} threads of {axes}"
    advice = f"use up to {WARP} threads, or a multiple of {WARP}"
    if divides and narrow:
        what = f"{what} in '{narrow[0]}', which TVM does not shuffle"
        advice = "accumulate in 32 bits"
    elif divides:
        what = f"{what}, with '{_AXES[first]}' between them"
        advice = "bind the reduction to axes that follow each other, x first"
    yield Fault(
        f"{what}: TVM's last steps would take for granted that the threads of a warp wait for one "
        "another",
        advice,
    )


def _find_unseen_sums(module: IRModule) -> Iterator[Fault]:
    """Sums that TVM does not see to be over threads, each of which would store one of its own.

    Asked is its pass, which leaves a block alone whose iterators are no affine map of the loops
    within the guard, of loops of different integer types that were fused, say, or whose buffer
    another block writes. Nothing is found where TVM refuses the module.
    """
    around = lower_around(module, [_CROSS_THREAD]).get(_CROSS_THREAD)
    for _, function in around.after.functions_items() if around else ():
        for place in get_places(function.body):
            if _find_axes(place):
                yield _blame_unseen(place)


def _blame_unseen(place: Place) -> Fault:
    axes = " and ".join(f"'{axis}'" for axis in _AXES if axis in _find_axes(place))
    cast = next((item for item in place.values.items() if find_all(item[1], Cast)), None)
    if cast is not None:
        why = f"where its iterator '{cast[0].name}' is the cast {cast[1]}"
        advice = "fuse loops of one integer type only, and bind the others on their own"
    elif place.guards:
        why = "behind guards that it cannot solve"
        advice = "choose sizes that divide, or split and fuse fewer of its loops"
    else:
        why = "where other blocks write the same buffer, or loops overlap"
        advice = "sum up in a buffer of its own (cache_write_at)"
    return Fault(
        f"block '{place.name}' reduces over threads of {axes}, which TVM does not see {why}: each "
        "thread would store sums of its own",
        advice,
    )


def _find_turned_operands(place: Place) -> Iterator[Fault]:
    """A sum over threads written as ``A + Y``, of which TVM knows ``Y + A`` alone."""
    store = place.block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, _SYMMETRIC):
        return

    def is_result(value: Any) -> bool:
        return (
            isinstance(value, TensorLoad)
            and value.source.same_as(store.buffer)
            and structural_equal(value.indices, store.indices)
        )

    if is_result(store.value.b) and not is_result(store.value.a):
        axes = " and ".join(f"'{axis}'" for axis in _AXES if axis in _find_axes(place))
        yield Fault(
            f"block '{place.name}' reduces over threads of {axes} with its result as the second "
            "operand, which TVM does not lower",
            f"write the element of '{store.buffer.name}' as the first one",
        )


def _is_shuffled(buffer: Any) -> bool:
    return buffer.dtype.bits >= WARP or str(buffer.dtype) == "float16"


class LostGuard(NamedTuple):
    """A block whose sums are stored without its guard, and what it stores them into."""

    block: str
    guard: str
    buffer: str


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_lost_guards(module: IRModule) -> dict[str, LostGuard]:
    """The reductions over threads that need the guard which TVM loses, by the block's name.

    None that keeps its sums in registers, if the guard decides over whole lives of these and all
    that uses them does so at the same place: what no output belongs to lies in registers apart.
    """
    found: dict[str, LostGuard] = {}
    for _, function in module.functions_items():
        if not isinstance(function, PrimFunc) or not _has_guarded_sums(function):
            continue
        places = [place for place in get_places(function.body) if place.is_innermost]
        for place in places:
            if not _loses_guard(place):
                continue
            for region in place.block.writes:
                if not _is_private(places, place, region.source):
                    guard, buffer = str(place.guards[0]), str(region.source.name)
                    found.setdefault(place.name, LostGuard(place.name, guard, buffer))
    return found


def _has_guarded_sums(function: PrimFunc) -> bool:
    return _has_sums(function) and any(
        constant(realize.predicate) != 1 and realize.block.init is not None
        for realize in find_all(function.body, SBlockRealize)
    )


def _loses_guard(place: Place) -> bool:
    """Whether a block reduces over threads, and has one guard, that is of its outputs."""
    reduced = _find_reduced_loops(place)
    return (
        any(is_among(loop, reduced) for loop in place.find_bound("threadIdx"))
        and place.block.init is not None
        and len(place.guards) == 1
        and len(place.find_real_guards()) == 1
        and not any(is_used(loop.loop_var, place.guards[0]) for loop in reduced)
    )


def _find_reduced_loops(place: Place) -> list[For]:
    """The loops over which a block reduces, outermost first."""
    values = [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if iterator.iter_type == IterVar.CommReduce
    ]
    return [loop for loop in place.loops if any(is_used(loop.loop_var, value) for value in values)]


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
    depth = next(
        at for at, item in enumerate(place.loops) if is_among(item, _find_reduced_loops(place))
    )
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
        is_used(loop.loop_var, analyzer.simplify(item.min - other.min))
        for item, other in zip(own.ranges, use.ranges, strict=True)
    )


def require_single_terms(sch: Schedule, block: SBlockRV, name: str = "") -> None:
    """Refuse a schedule in which a reduction would take one of its terms several times.

    `name` is the block's, where it had another one before.
    """
    repeating = find_repetition(sch, block)
    if repeating is not None:
        raise TransformError(
            f"loop '{repeating.loop_var.name}', which runs {repeating.extent} times, would add the "
            f"same terms to the sums of block '{name or get_sblock_name(sch, block)}' again in "
            "each iteration",
            "keep the initialization and the whole reduction inside of that loop",
        )


def find_repetition(sch: Schedule, block: SBlockRV) -> For | None:
    """A loop that has a reduction take its terms again; None for maxima, which do not mind."""
    if _is_idempotent(sch.get(block)):
        return None
    realize = get_realize(sch, block)
    return find_repeating_loop(realize, _find_summing_loops(sch, block, realize))


def find_repeating_loop(realize: SBlockRealize, loops: list[For]) -> For | None:
    """A loop, of some around a block, that has it compute a point again; None if none is seen to.

    A loop that feeds none of the iterators does, and loops that feed one with overlaps do, as
    the windows ``i + r`` of neighbouring ``i``.
    """
    running = [loop for loop in loops if constant(loop.extent) != 1]
    names = [loop.loop_var for loop in running]
    left = list(running)
    for values in _group(list(realize.iter_values), names):
        feeding = [
            loop for loop in running if any(is_used(loop.loop_var, value) for value in values)
        ]
        left = [loop for loop in left if not is_among(loop, feeding)]
        if not _is_injective(values, feeding) and meets_again(values, realize.predicate, feeding):
            return feeding[0]
    for loop in left:
        if meets_again([], realize.predicate, [loop]):
            return loop
    return None


def _is_idempotent(block: SBlock) -> bool:
    """Whether a term that is taken twice changes nothing."""
    stores = find_all(block.body, BufferStore)
    return all(isinstance(store.value, (Max, Min, And, Or)) for store in stores)


def _find_summing_loops(sch: Schedule, block: SBlockRV, realize: SBlockRealize) -> list[For]:
    """The loops around a block over which it adds to sums that were initialized once."""
    reducing = [
        value
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if iterator.iter_type == IterVar.CommReduce
    ]
    if not reducing:
        return []
    loops = get_outer_loops(sch, block)
    if realize.block.init is None:
        starts = _find_starts(sch, block)
        return [loop for loop in loops if not any(_holds(loop, start) for start in starts)]
    for place, loop in enumerate(loops):
        if any(is_used(loop.loop_var, value) for value in reducing):
            return loops[place:]
    return []


def _find_starts(sch: Schedule, block: SBlockRV) -> list[SBlock]:
    """The other blocks that write what a block sums up: they initialize it."""
    node, outputs = sch.get(block), [region.source for region in sch.get(block).writes]
    return [
        other
        for other in find_all(get_root(sch, block), SBlock)
        if not other.same_as(node)
        and any(is_among(region.source, outputs) for region in other.writes)
    ]


def _holds(loop: For, block: SBlock) -> bool:
    return is_among(block, find_all(loop, SBlock))


def _group(values: list[Any], names: list[Any]) -> list[list[Any]]:
    """The values, those that share a variable together."""
    groups: list[tuple[list[Any], list[Any]]] = []
    for value in values:
        used = [var for var in undefined_vars(value) if is_among(var, names)]
        near = [group for group in groups if any(is_among(var, group[1]) for var in used)]
        groups = [group for group in groups if not any(group is other for other in near)]
        merged = [item for group in near for item in group[0]], [v for g in near for v in g[1]]
        groups.append(([*merged[0], value], [*merged[1], *used]))
    return [group[0] for group in groups]


def _is_injective(values: list[Any], loops: list[For]) -> bool:
    """Whether it can be shown that each iteration of the loops has values of its own."""
    domains = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    if not loops or len(detect_iter_map(values, domains, True, "bijective").indices):
        return True
    return len(values) == 1 and _is_mixed_radix(values[0], loops)


def _is_mixed_radix(value: Any, loops: list[For]) -> bool:
    """Whether a sum of strides is one of digits: each stride beyond what the smaller ones reach."""
    factors = detect_linear_equation(value, [loop.loop_var for loop in loops])
    if not len(factors):
        return False
    strides = [constant(Analyzer().simplify(factor)) for factor in list(factors)[:-1]]
    extents = [constant(loop.extent) for loop in loops]
    reach = 0
    for stride, extent in sorted(
        zip(strides, extents, strict=True), key=lambda digit: abs(digit[0] or 0)
    ):
        if stride is None or extent is None or abs(stride) <= reach:
            return False
        reach += abs(stride) * (extent - 1)
    return True
