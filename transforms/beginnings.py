"""Beginnings: whether sums are initialized before their terms are added, asked after every change.

A block initializes an output where all that it sums over is at its first value. That is the first
iteration of the output's as long as a loop goes over outputs or over terms; of a loop that was
fused of both, and taken apart in another way, it may be a later one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm.tirx import For, IterVar, PrimFunc
from tvm.tirx import all as all_of

from .enumeration import begins_late
from .legality import Fault
from .places import Place, find_places
from .queries import constant, find_all, is_used


@functools.lru_cache(maxsize=2)  # what one transform leaves behind, the next one finds
def find_late_beginnings(module: IRModule) -> tuple[Fault, ...]:
    """Blocks that would add to outputs before they initialize them."""
    return tuple(_find_late_beginnings(module))


def _find_late_beginnings(module: IRModule) -> Iterator[Fault]:
    for _, function in module.functions_items():
        if not isinstance(function, PrimFunc) or not _has_sums(function):
            continue
        for place in find_places(function.body):
            mixing = _find_mixing_loop(place) if place.block.init is not None else None
            if mixing is not None and _begins_late(place):
                yield Fault(
                    f"block '{place.name}' would add to outputs before it initializes them, since "
                    f"loop '{mixing.loop_var.name}' goes over both its outputs and its terms",
                    "take the initialization out first (decompose_reduction_at), or keep the order "
                    "of these loops",
                )


def _has_sums(function: PrimFunc) -> bool:
    return any(block.init is not None for block in find_all(function.body, SBlock))


def _find_values(place: Place, *, reduced: bool) -> list[Any]:
    return [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if _is_reduced(iterator) == reduced
    ]


def _find_mixing_loop(place: Place) -> For | None:
    outputs, terms = (_find_values(place, reduced=one) for one in (False, True))
    for loop in place.loops:
        fed = [any(is_used(loop.loop_var, each) for each in part) for part in (outputs, terms)]
        if all(fed) and constant(loop.extent) != 1:
            return loop
    return None


def _begins_late(place: Place) -> bool:
    """Whether a term is seen to be added before the initialization, within one whole sum."""
    terms = _find_values(place, reduced=True)
    feeding = [any(is_used(loop.loop_var, one) for one in terms) for loop in place.loops]
    loops = list(place.loops[feeding.index(True) :])
    firsts = [iterator.dom.min for iterator in place.block.iter_vars if _is_reduced(iterator)]
    left = [term - first for term, first in zip(terms, firsts, strict=True)]
    outputs = _find_values(place, reduced=False)
    return begins_late(outputs, left, all_of(True, *place.guards), loops)


def _is_reduced(iterator: IterVar) -> bool:
    return bool(iterator.iter_type == IterVar.CommReduce)
