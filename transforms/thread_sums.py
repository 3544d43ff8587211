"""Sums over threads: whether TVM orders their steps, asked after every transform.

How TVM adds up depends on all threads of the kernel, so that a sum which was sound may no longer be
when a loop of another block is bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from tvm.ir import IRModule
from tvm.tirx import For, IterVar, PrimFunc

from .gpu_limits import WARP
from .legality import Fault
from .places import Place, find_places
from .queries import constant, find_all, find_axis, is_used

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_ORDERED = 3
"""So many threads add up in one step behind a barrier."""


@functools.lru_cache(maxsize=2)  # what one transform leaves behind, the next one finds
def find_unordered_sums(module: IRModule) -> tuple[Fault, ...]:
    """Sums over threads that TVM would add up in a race."""
    functions = [one for _, one in module.functions_items() if isinstance(one, PrimFunc)]
    return tuple(
        fault
        for function in functions
        if _has_threads(function)
        for place in find_places(function.body)
        if _find_axes(place)
        for fault in _find_unordered_steps(place)
    )


def _has_threads(function: PrimFunc) -> bool:
    return any(find_axis(loop) in _AXES for loop in find_all(function.body, For))


def _find_axes(place: Place) -> dict[str, int]:
    """The threads that a block sums over, along each axis; none where it has begun elsewhere."""
    reduced = _find_reduced(place)
    if place.block.init is None or not reduced:
        return {}
    return {
        str(find_axis(loop)): constant(loop.extent) or 1
        for loop in place.find_bound("threadIdx")
        if any(is_used(loop.loop_var, one) for one in reduced)
    }


def _find_reduced(place: Place) -> list[Any]:
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
        str(find_axis(loop)): constant(loop.extent) or 1
        for loop in find_all(place.kernel, For)
        if find_axis(loop) in _AXES and find_axis(loop) not in summed
    }
    several = math.prod(others.values()) > 1
    first = next((at for at, axis in enumerate(_AXES) if others.get(axis, 1) > 1), len(_AXES))
    following = math.prod(summed.get(axis, 1) for axis in _AXES[:first])
    many = math.prod(summed.values())
    narrow = [str(one.source.dtype) for one in place.block.writes if not _is_shuffled(one.source)]
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


def _is_shuffled(buffer: Any) -> bool:
    return buffer.dtype.bits >= WARP or str(buffer.dtype) == "float16"
