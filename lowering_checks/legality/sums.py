"""Sums that TVM computes wrongly.

They may be initialized after their first terms (`find_late_beginnings`), added up over threads in
a race (`find_unordered_sums`), or stored without the guard of their block (`find_lost_guards`).
Sums that `fuse_reductions` makes begin with a repair of what they have come to, which their
initialization reads, and need that to be there still (`find_broken_repairs`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

from tvm.ir import IRModule, TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import Add, BufferStore, Cast, For, ForKind, IterVar, Max, Min, Mul
from tvm.tirx import all as all_of
from tvm_ffi import structural_equal

from tirstep.transforms.annotations import STAGE
from tirstep.transforms.enumeration import begins_late
from tirstep.transforms.gpu_limits import WARP
from tirstep.transforms.pass_options import lower_around
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_places,
    get_regions,
    is_among,
    is_used,
    list_functions,
    substitute,
)

from .accesses import find_summed, find_values, list_elements, list_places

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_SYMMETRIC = (Add, Mul, Max, Min)
_CROSS_THREAD = "s_tir.LowerCrossThreadReduction"
_ORDERED = 3
"""So many threads add up in one step behind a barrier."""


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_late_beginnings(module: IRModule) -> Iterable[Fault]:
    """Blocks that would add to outputs before they initialize them."""
    for place in list_places(module):
        if place.block.init is None or (mixing := _find_mixing_loop(place)) is None:
            continue
        # Whether a term is seen to be added before the initialization, within one whole sum.
        outputs, terms = (find_values(place, reduced=item) for item in (False, True))
        feeding = [any(is_used(loop.loop_var, term) for term in terms) for loop in place.loops]
        loops = list(place.loops[feeding.index(True) :])
        reduced = (it for it in place.block.iter_vars if it.iter_type == IterVar.CommReduce)
        firsts = [iterator.dom.min for iterator in reduced]
        left = [term - first for term, first in zip(terms, firsts, strict=True)]
        if begins_late(outputs, left, all_of(True, *place.guards), loops):
            yield Fault(
                f"block '{place.name}' would add to outputs before it initializes them, since "
                f"loop '{mixing.loop_var.name}' goes over both its outputs and its terms",
                "take the initialization out first (decompose_reduction_at), or keep the order "
                "of these loops",
            )


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_broken_repairs(module: IRModule) -> Iterable[Fault]:
    """Blocks whose results TVM would lose between two repairs, or add up over threads."""
    tensors = [given for function in list_functions(module) for given in function.params]
    places = list_places(module)
    for place in places:
        init = place.block.init
        loaded = [load.source for load in find_all(init, TensorLoad)] if init is not None else []
        stored = [it.buffer for it in find_all(init, BufferStore)] if loaded else []
        written = [part.min for region in place.block.writes for part in region.region]
        for buffer in [it for it in stored if is_among(it, loaded)]:
            sums_first = lambda it: it.iter_type != IterVar.CommReduce  # noqa: E731
            for item in sorted(place.block.iter_vars, key=sums_first):
                # What decides a block's terms, or which time it is that it repairs.
                if any(is_used(item.var, index) for index in written):
                    continue
                for loop in place.loops:
                    if not is_used(loop.loop_var, place.values[item.var]):
                        continue
                    name, axis = loop.loop_var.name, get_axis(loop) or ""
                    if item.iter_type == IterVar.CommReduce:
                        if axis.startswith("threadIdx"):
                            yield Fault(
                                f"block '{place.name}' rescales '{buffer.name}' before it adds, "
                                f"and its terms would come from the threads of loop '{name}'",
                                'fuse with accumulate="apart", whose tiles are sums over threads',
                            )
                    elif not is_among(buffer, tensors) and not any(
                        region.source.same_as(buffer) and not is_among(loop, other.loops)
                        for other in places
                        for region in get_regions(other.block)
                    ):
                        yield Fault(
                            f"block '{place.name}' rescales what '{buffer.name}' held in the "
                            f"previous iteration of loop '{name}', and TVM makes a new one in each",
                            "place what reads it outside of that loop",
                        )


def _find_mixing_loop(place: Place, *, serial: bool = False) -> For | None:
    outputs, terms = (find_values(place, reduced=item) for item in (False, True))
    for loop in place.loops:
        fed = [any(is_used(loop.loop_var, each) for each in part) for part in (outputs, terms)]
        if all(fed) and constant(loop.extent) != 1 and not (serial and get_axis(loop)):
            return loop
    return None


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_unordered_sums(module: IRModule) -> tuple[Fault, ...]:
    """Sums over threads that TVM would add up in a race, or not at all."""
    places = [place for place in list_places(module) if find_summed(place)]
    return (
        (*_find_unseen_sums(module), *itertools.chain(*map(_judge_sum, places))) if places else ()
    )


def _judge_sum(place: Place) -> Iterator[Fault]:
    """What TVM does not make of a sum over threads as it is written.

    It knows ``Y + A``, and not ``A + Y``. The part of each thread it begins in front of all loops
    over terms, so for one output alone. And it adds up by shuffles where the threads of a sum
    follow each other and are a multiple of a warp, or fit into one. Otherwise it goes through
    shared memory, and leaves out the last barriers, within a warp, where it takes these threads for
    neighbours: since Volta the lanes of a warp are not in step. Of copies of it that TVM writes out
    itself, as of an unrolled loop or of what is left of a pipeline behind its loop, all have the
    same registers, which TVM does not lower.
    """
    store, summed = place.block.body, find_summed(place)
    axes, terms = _name_axes(summed), find_values(place, reduced=True)
    for loop in place.loops:
        name, last = loop.loop_var.name, max(map(int, loop.annotations.get(STAGE, [0])))
        is_unrolled = loop.kind == ForKind.UNROLLED and constant(loop.extent) != 1
        if is_unrolled and not any(is_used(loop.loop_var, term) for term in terms):
            yield Fault(
                f"loop '{name}' would be unrolled around block '{place.name}', which reduces over "
                f"threads of {axes}, and TVM lowers no copies of that",
                "leave the loop serial, or suggest_unrolling to the CUDA compiler",
            )
        elif last > 1:
            yield Fault(
                f"loop '{name}' would be a pipeline of {last + 1} stages, of which TVM writes out "
                f"{last} iterations, and it lowers no copies of block '{place.name}', which "
                f"reduces over threads of {axes}",
                "use 2 stages",
            )

    def is_result(value: Any) -> bool:
        return (
            isinstance(value, TensorLoad)
            and value.source.same_as(store.buffer)
            and structural_equal(value.indices, store.indices)
        )

    is_symmetric = isinstance(store, BufferStore) and isinstance(store.value, _SYMMETRIC)
    if is_symmetric and is_result(store.value.b) and not is_result(store.value.a):
        yield Fault(
            f"block '{place.name}' reduces over threads of {axes} with its accumulator as the "
            "second operand, which TVM does not lower",
            f"write the element of '{store.buffer.name}' as the first one",
        )
    if (mixing := _find_mixing_loop(place, serial=True)) is not None:
        yield Fault(
            f"block '{place.name}' reduces over threads, and loop '{mixing.loop_var.name}' "
            "goes over both its outputs and its terms: TVM would initialize each thread's "
            "part once for all of these outputs",
            "keep loops over outputs and over terms separate",
        )
    others = {
        str(get_axis(loop)): constant(loop.extent) or 1
        for loop in find_all(place.kernel, For)
        if get_axis(loop) in _AXES and get_axis(loop) not in summed
    }
    several = math.prod(others.values()) > 1
    first = next((at for at, axis in enumerate(_AXES) if others.get(axis, 1) > 1), len(_AXES))
    following = math.prod(summed.get(axis, 1) for axis in _AXES[:first])
    many = math.prod(summed.values())
    types = [write.source.dtype for write in place.block.writes]
    narrow = [str(it) for it in types if it.bits < WARP and str(it) != "float16"]  # not shuffled
    divides = WARP % many == 0 or many % WARP == 0 or (many <= WARP and not several)
    by_shuffles = divides and following == many and not narrow
    if by_shuffles or many <= _ORDERED or (several and following % WARP):
        return
    what = f"block '{place.name}' reduces over the {many} threads of {axes}"
    advice = f"use up to {WARP} threads, or a multiple of {WARP}"
    if divides and narrow:
        what = f"{what} in '{narrow[0]}', a type that TVM does not shuffle"
        advice = "accumulate in 32 bits"
    elif divides:
        what = f"{what}, with '{_AXES[first]}' between them"
        advice = "bind the reduction to axes that follow each other, x first"
    yield Fault(
        f"{what}: in its last steps, TVM assumes that the threads of a warp run in lockstep",
        advice,
    )


def _find_unseen_sums(module: IRModule) -> Iterator[Fault]:
    """Sums that TVM does not see to be over threads, each of which would store one of its own.

    TVM's own pass decides, which leaves a block alone whose iterators are no affine map of the
    loops within the guard, of loops of different integer types that were fused, say, or whose
    buffer another block writes. Nothing is found where TVM refuses the module.
    """
    around = lower_around(module, [_CROSS_THREAD]).get(_CROSS_THREAD)
    for place in list_places(around.after) if around else ():
        if not (summed := find_summed(place)):
            continue
        cast = next((item for item in place.values.items() if find_all(item[1], Cast)), None)
        if cast is not None:
            why = f"where its iterator '{cast[0].name}' is the cast {cast[1]}"
            advice = "fuse loops of one integer type only, and bind the others on their own"
        elif place.guards:
            why = "under guards that it cannot solve"
            advice = "choose sizes that divide, or split and fuse fewer of its loops"
        else:
            why = "where other blocks write the same buffer, or loops overlap"
            advice = "accumulate in a buffer of its own (cache_write_at)"
        yield Fault(
            f"block '{place.name}' reduces over threads of {_name_axes(summed)}, which TVM does "
            f"not see {why}: each thread would store sums of its own",
            advice,
        )


def _name_axes(summed: Iterable[str]) -> str:
    return " and ".join(f"'{axis}'" for axis in sorted(summed))


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_lost_terms(module: IRModule) -> dict[str, tuple[str, str, str]]:
    """The reductions over threads without an initialization, with their buffers and axes.

    TVM adds up over threads where the block has its own. Otherwise each thread adds its terms to a
    register of its own, and none has the sum.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for place in list_places(module):
        if place.block.init is not None or place.block.match_buffers or not place.is_innermost:
            continue
        terms, outputs = (find_values(place, reduced=each) for each in (True, False))
        for loop in place.find_bound("threadIdx"):
            adds = any(is_used(loop.loop_var, term) for term in terms)
            if constant(loop.extent) == 1 or not adds:
                continue
            for region in place.block.writes:
                own = [substitute(part.min, place.values) for part in region.region]
                is_apart = any(is_used(loop.loop_var, each) for each in (*own, *outputs))
                if region.source.scope() == "local" and not is_apart:
                    name = str(region.source.name)
                    found[place.name] = (place.name, name, str(get_axis(loop)))
    return found


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_lost_guards(module: IRModule) -> dict[str, tuple[str, str, str]]:
    """The reductions over threads that need the guard which TVM loses, by the block's name: that
    name, the guard, and the buffer into which it stores the sums.

    None that keeps its sums in registers, if the guard decides over whole lives of these and all
    that uses them does so at the same place: what no output belongs to lies in registers apart.
    """
    found: dict[str, tuple[str, str, str]] = {}
    for function in list_functions(module):
        places = [place for place in get_places(function.body) if place.is_innermost]
        for place in places:
            reduced = _find_reduced_loops(place)
            if (
                not find_summed(place)
                or len(place.guards) != 1
                or len(place.find_real_guards()) != 1
                or any(is_used(loop.loop_var, place.guards[0]) for loop in reduced)
            ):
                continue  # its guard is none, or of its terms
            for region in place.block.writes:
                if not _is_private(places, place, region.source):
                    guard, buffer = str(place.guards[0]), str(region.source.name)
                    found.setdefault(place.name, (place.name, guard, buffer))
    return found


def _find_reduced_loops(place: Place) -> list[For]:
    """The loops over which a block reduces, outermost first."""
    values = find_values(place, reduced=True)
    return [loop for loop in place.loops if any(is_used(loop.loop_var, value) for value in values)]


def _is_private(places: list[Place], place: Place, buffer: Any) -> bool:
    """Whether a buffer is of registers that each iteration of the guard's loops has apart."""
    if buffer.scope() != "local":
        return False
    uses = [
        (other, [substitute(part.min, other.values) for part in element.ranges])
        for other in places
        for element in list_elements(other.block)
        if element.buffer.same_as(buffer)
    ]
    own = next(cells for other, cells in uses if other.block.same_as(place.block))
    # TVM allocates what sums are made in outside of the loops over which they are made.
    depth = next(
        at for at, item in enumerate(place.loops) if is_among(item, _find_reduced_loops(place))
    )
    outer = place.loops[:depth]

    def is_apart(other: Place, cells: list[Any], loop: For) -> bool:
        """Whether a loop is around both blocks, and shifts alike where their accesses begin."""
        analyzer = Analyzer()
        for one in (*place.loops, *other.loops):
            if constant(one.extent) == 1:
                analyzer.bind(one.loop_var, one.min)
        return is_among(loop, other.loops) and not any(
            is_used(loop.loop_var, analyzer.simplify(one - two))
            for one, two in zip(own, cells, strict=True)
        )

    return all(
        is_among(loop, outer) and all(is_apart(*use, loop) for use in uses)
        for loop in place.loops
        if is_used(loop.loop_var, place.guards[0]) and constant(loop.extent) != 1
    )
