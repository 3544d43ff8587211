"""Sums in parts: whether all that becomes of the parts elsewhere is that they are added up."""

from __future__ import annotations

from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import Add, BufferLoad, BufferStore, For, IterVar
from tvm_ffi import structural_equal

from .enumeration import count_values, is_of
from .tir import Place, constant, find_all, get_places, get_regions, is_among, is_used


def find_other_use(body: Any, kernel: For, buffer: Any, at: int) -> str | None:
    """The name of what does anything with the parts in a buffer but to add up all of them.

    `at` is the dimension of parts, `kernel` what writes them, in a function's body.
    """
    inside = find_all(kernel, SBlock)
    places = [place for place in get_places(body) if not is_among(place.block, inside)]
    using = [place for place in places if place.is_innermost and _uses(place.block, buffer)]
    for place in using:
        if not _adds_up(place, buffer, at) or _is_read_meanwhile(place, at, places):
            return f"block '{place.name}'"
    own = [*(place.block.body.value.b for place in using), *find_all(kernel, TensorLoad)]
    loads = [it for it in find_all(body, TensorLoad) if it.source.same_as(buffer)]
    return None if all(is_among(it, own) for it in loads) else "a condition, or a bound,"


def is_sum(store: BufferStore) -> bool:
    """Whether a store adds something else to what was there."""
    value = store.value
    before = BufferLoad(store.buffer, store.indices)
    if not isinstance(value, Add) or not structural_equal(value.a, before):
        return False
    return not any(it.source.same_as(store.buffer) for it in find_all(value.b, TensorLoad))


def _uses(block: SBlock, buffer: Any) -> bool:
    """Whether a block reads or writes a buffer, by what it declares or by what it does."""
    used = [region.source for region in get_regions(block)]
    used += [matched.source.source for matched in block.match_buffers]
    used += [store.buffer for store in find_all(block, BufferStore)]
    used += [load.source for load in find_all(block, TensorLoad)]
    return is_among(buffer, used)


def _adds_up(place: Place, buffer: Any, at: int) -> bool:
    """Whether a block adds up all parts, each as often, and uses them for nothing else."""
    store = place.block.body
    if not isinstance(store, BufferStore) or not is_sum(store):
        return False
    load, loads = store.value.b, find_all(place.block, TensorLoad)
    if [it for it in loads if it.source.same_as(buffer)] != [load]:
        return False
    index = load.indices[at]
    others = [it for n, it in enumerate(load.indices) if n != at]
    reduced = [it.var for it in place.block.iter_vars if it.iter_type == IterVar.CommReduce]
    return (
        not place.block.match_buffers
        and is_among(index, reduced)
        and not any(is_used(index, it) for it in others)
        and _takes_all(place, index, constant(buffer.shape[at]))
    )


def _takes_all(place: Place, index: Any, count: int | None) -> bool:
    """Whether an iterator has each of so many values as often, whatever the others have."""
    loops = _find_loops(place, index)
    variables = [loop.loop_var for loop in loops]
    items = [item.var for item in place.block.iter_vars if not item.var.same_as(index)]
    if any(is_used(it, place.values[item]) for item in items for it in variables):
        return False
    guards = [it for it in place.guards if any(is_used(each, it) for each in variables)]
    if not all(is_of(variables, it) for it in guards):
        return False
    times = count_values(place.values[index], guards, loops)
    return set(times) == set(range(count or 0)) and len(set(times.values())) == 1


def _is_read_meanwhile(place: Place, at: int, places: list[Place]) -> bool:
    """Whether another block uses a sum to which not all parts have been added."""
    store = place.block.body
    loops = _find_loops(place, store.value.b.indices[at])
    others = [it for it in places if it.is_innermost and it is not place]
    return any(
        _uses(other.block, store.buffer) and any(is_among(it, loops) for it in other.loops)
        for other in others
    )


def _find_loops(place: Place, index: Any) -> list[For]:
    """The loops that decide over an iterator."""
    return [it for it in place.loops if is_used(it.loop_var, place.values[index])]
