"""Sums that begin with a repair of what they have come to: they need that to be there still.

`fuse_reductions` makes such blocks: their initialization reads what the block itself has written
in an iteration before of a loop around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm.ir import IRModule, TensorLoad
from tvm.tirx import BufferStore, For, IterVar, PrimFunc

from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    find_all,
    get_axis,
    get_places,
    get_regions,
    is_used,
)


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_broken_repairs(module: IRModule) -> tuple[Fault, ...]:
    """Blocks whose results TVM would lose between two repairs, or add up over threads."""
    return tuple(
        fault
        for _, function in module.functions_items()
        if isinstance(function, PrimFunc)
        for place in get_places(function.body)
        if place.block.init is not None
        for fault in _find_faults(place, function)
    )


def _find_faults(place: Place, function: PrimFunc) -> Iterator[Fault]:
    stores = find_all(place.block.init, BufferStore)
    loaded = [load.source for load in find_all(place.block.init, TensorLoad)]
    for buffer in [it.buffer for it in stores if any(it.buffer.same_as(own) for own in loaded)]:
        for loop in _find_loops(place, reduced=True):
            if (get_axis(loop) or "").startswith("threadIdx"):
                yield Fault(
                    f"block '{place.name}' repairs '{buffer.name}' before it adds up, and its "
                    f"terms would come from the threads of loop '{loop.loop_var.name}'",
                    'fuse with accumulate="apart", whose tiles are sums over threads',
                )
        for loop in _find_loops(place, reduced=False):
            if not _is_needed_outside(buffer, loop, function):
                yield Fault(
                    f"block '{place.name}' repairs what '{buffer.name}' held an iteration of loop "
                    f"'{loop.loop_var.name}' before, and TVM makes a new one in each",
                    "place what reads it outside of that loop",
                )


def _find_loops(place: Place, *, reduced: bool) -> list[For]:
    """The loops that decide a block's terms, or which time it is that it repairs."""
    written = [part.min for region in place.block.writes for part in region.region]
    values = [
        place.values[item.var]
        for item in place.block.iter_vars
        if (item.iter_type == IterVar.CommReduce) == reduced
        and not any(is_used(item.var, index) for index in written)
    ]
    return [loop for loop in place.loops if any(is_used(loop.loop_var, it) for it in values)]


def _is_needed_outside(buffer: Any, loop: For, function: PrimFunc) -> bool:
    """Whether a buffer is a tensor of the kernel's, or used by a block outside of a loop."""
    if any(buffer.same_as(given) for given in function.params):
        return True
    return any(
        region.source.same_as(buffer) and not any(around.same_as(loop) for around in place.loops)
        for place in get_places(function.body)
        for region in get_regions(place.block)
    )
