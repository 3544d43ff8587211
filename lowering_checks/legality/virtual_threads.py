"""Virtual threads: one repeats its kernel."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import For, IterVar, PrimFunc

from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_fed_iterators,
    get_places,
    is_among,
)


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_partial_virtual_threads(module: IRModule) -> tuple[Fault, ...]:
    """Kernels of which a virtual thread does a part only, or adds up over threads.

    TVM hoists the loops of a vthread axis to the top of their kernel, so that blocks outside of
    them run once for each virtual thread, on buffers of its own. The sum of all threads it lowers
    once, for one virtual thread, or not at all.
    """
    return tuple(
        fault
        for _, function in module.functions_items()
        if isinstance(function, PrimFunc) and _has_virtual_threads(function)
        for kernel in dict.fromkeys(place.kernel for place in get_places(function.body))
        if kernel is not None
        for fault in _find_partial(kernel)
    )


def _has_virtual_threads(function: PrimFunc) -> bool:
    return any(
        (get_axis(loop) or "").startswith("vthread") for loop in find_all(function.body, For)
    )


def _find_partial(kernel: For) -> Iterator[Fault]:
    blocks = find_all(kernel, SBlock)
    for loop in find_all(kernel, For):
        axis = get_axis(loop) or ""
        if not axis.startswith("vthread"):
            continue
        yield from _find_sums_over_threads(kernel, loop, axis)
        inside = find_all(loop, SBlock)
        for block in blocks:
            if not any(block.same_as(other) for other in [*inside, *_around(blocks, loop)]):
                yield Fault(
                    f"block '{block.name_hint}' stands outside of loop '{loop.loop_var.name}' on "
                    f"'{axis}', and TVM would repeat it for each virtual thread",
                    "keep all blocks of the kernel inside of that loop",
                )


def _find_sums_over_threads(kernel: For, virtual: For, axis: str) -> Iterator[Fault]:
    for loop in find_all(kernel, For):
        is_inside = is_among(virtual, find_all(loop.body, For))
        if not (get_axis(loop) or "").startswith("threadIdx"):
            continue
        if constant(virtual.extent) == 1 and not is_inside:
            continue  # one virtual thread has one sum
        for realize in find_all(loop, SBlockRealize):
            types = {iterator.iter_type for iterator in get_fed_iterators(realize, loop)}
            if IterVar.CommReduce in types:
                yield Fault(
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
