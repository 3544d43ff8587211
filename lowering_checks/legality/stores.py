"""Elements of memory that several threads store, where that is not one value all the time.

A block that stands in loops of its consumers is computed by each thread, or thread block, that uses
it. In global memory these store one element together, and nothing orders what they do. As long as
all of them store the value that it keeps that is right: a thread reads what it stored itself, and
the others change nothing. A block that reduces stores an initial value first and sums in between,
of which another thread reads some that is not complete, or adds to it; and where two blocks store
an element, one thread's last value is followed by another's first. Shared memory is one thread
block's own, and barriers stand between two blocks, but not within one. A block that stands outside
of the loops over threads that others have is run by all of them, unless it has a loop yet to be
bound. A virtual thread repeats its kernel (`find_partial_virtual_threads`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from tvm.ir import IRModule, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferStore, FloatImm, For, IntImm, IterVar
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import Table
from tirstep.transforms.schedule import Fault
from tirstep.transforms.tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_fed_iterators,
    is_among,
    is_used,
)

from .accesses import (
    LEVELS,
    Access,
    close_sizes,
    find_idle,
    find_launch,
    find_shared_axis,
    list_accesses,
    list_places,
    tabulate_threads,
)


class _Writer(NamedTuple):
    """A block that stores elements of a buffer that threads share, and the loops of these threads.

    Where data decide over what it stores, these are the loops of other blocks alone, on axes that
    it does not have itself: all threads along them run it.
    """

    place: Place
    buffer: Any
    stores: list[Access]
    axes: dict[str, For]

    def tabulate(self, axes: list[str]) -> Table:
        """A row for each element that is stored, of some iterations: axes, launch, indices."""
        loops = [self.axes[axis] for axis in axes]
        tables = [tabulate_threads(store, loops) for store in self.stores]
        width = len(axes) + len(find_launch(self.place)) + len(self.buffer.shape)
        return np.concatenate(
            [np.empty((0, width), np.int64), *(it for it in tables if it is not None)]
        )


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_unowned(module: IRModule, *, is_last: bool = False) -> dict[tuple[str, str, str], Fault]:
    """The blocks whose elements other threads store in between, by block, buffer and axis.

    Unless it `is_last`, a block with a serial loop may yet get threads of its own.
    """
    found: dict[tuple[str, str, str], Fault] = {}
    kernels: dict[tuple[For, Any], list[_Writer]] = {}
    stores: dict[tuple[int, Any], list[Access]] = {}  # to memory that threads share
    for access in itertools.chain.from_iterable(list_accesses(close_sizes(module))):
        place = access.place
        is_shared = access.scope.startswith(("global", "shared"))
        # Of an instruction the lanes share what it stores, and one thread stores a sum of several.
        if not (access.element.is_written and is_shared and place.kernel) or access.summed:
            continue
        if not place.block.match_buffers:
            stores.setdefault((id(place), access.buffer), []).append(access)
    for (_, buffer), own in stores.items():
        place = own[0].place
        lanes = {axis for access in own for axis in access.element.lanes}
        around = [it for it in find_idle(place, is_last=is_last) if get_axis(it) not in lanes]
        if all(access.is_plain for access in own):
            around += place.loops
        levels = LEVELS if str(buffer.scope()) == "global" else ("threadIdx",)
        loops = [loop for loop in around if constant(loop.extent) != 1]
        bound = {axis: it for it in loops if (axis := get_axis(it) or "").startswith(levels)}
        writer = _Writer(place, buffer, own, bound)
        kernels.setdefault((place.kernel, buffer), []).append(writer)
    for writers in kernels.values():
        name = str(writers[0].buffer.name)
        for writer in writers:
            # A reduction stores several values to one element; and so does a block whose value is
            # computed from the iterators of a block around it.
            block, own = writer.place.block, [it.var for it in writer.place.block.iter_vars]
            loads = [load.source for load in find_all(block.body, TensorLoad)]
            changes = block.init is not None or is_among(writer.buffer, loads)
            outer = [variable for variable in writer.place.values if not is_among(variable, own)]
            varies = any(
                is_used(variable, store.value)
                for store in (find_all(block.body, BufferStore) if outer else ())
                if store.buffer.same_as(writer.buffer)
                for variable in outer
            )
            axes = list(writer.axes) if changes or varies else []
            rows = writer.tabulate(axes) if axes else np.empty((0, 0), np.int64)
            if axis := find_shared_axis(axes, rows, rows):
                who = "threads" if axis.startswith("thread") else "thread blocks"
                sums = "initial values and incomplete sums among them, while others read final ones"
                what = sums if changes else "each a value of its own"
                found[writer.place.name, name, axis] = Fault(
                    f"{who} on '{axis}' would store the same elements of '{name}' in block "
                    f"'{writer.place.name}', {what}",
                    'keep its results in registers (cache_write_at with scope="local"), place it '
                    "where one thread computes each of them, or leave it a kernel of its own",
                )
        for one, other in itertools.combinations(writers, 2):
            axes = [axis for axis in one.axes if axis in other.axes]
            if str(one.buffer.scope()) != "global" or not axes:
                continue
            values = [
                store.value
                for block in (one.place.block, other.place.block)
                for store in find_all((block.body, block.init), BufferStore)
                if store.buffer.same_as(one.buffer)
            ]
            is_constant = isinstance(values[0], IntImm | FloatImm)  # it matters not who is last
            if is_constant and all(structural_equal(value, values[0]) for value in values):
                continue
            if axis := find_shared_axis(axes, one.tabulate(axes), other.tabulate(axes)):
                names = one.place.name, other.place.name
                found[" and ".join(names), name, axis] = Fault(
                    f"blocks '{names[0]}' and '{names[1]}' would store the same elements of "
                    f"'{name}' in one kernel by different threads or thread blocks on "
                    f"'{axis}', in no order",
                    "bind the loops of both in the same way, or leave them kernels of their own",
                )
    return found


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_partial_virtual_threads(module: IRModule) -> Iterable[Fault]:
    """Kernels of which a virtual thread does a part only, or adds up over threads.

    TVM hoists the loops of a vthread axis to the top of their kernel, so that blocks outside of
    them run once for each virtual thread, on buffers of its own. The sum of all threads it lowers
    once, for one virtual thread, or not at all.
    """
    kernels = [it.kernel for it in list_places(module) if it.kernel is not None]
    for kernel in dict.fromkeys(kernels):
        loops, blocks = find_all(kernel, For), find_all(kernel, SBlock)
        for loop in loops:
            axis, name = get_axis(loop) or "", loop.loop_var.name
            if not axis.startswith("vthread"):
                continue
            for other in loops:
                is_inside = is_among(loop, find_all(other.body, For))
                is_of_one = constant(loop.extent) == 1 and not is_inside  # it has one sum
                if is_of_one or not (get_axis(other) or "").startswith("threadIdx"):
                    continue
                for realize in find_all(other, SBlockRealize):
                    fed = get_fed_iterators(realize, other)
                    if any(it.iter_type == IterVar.CommReduce for it in fed):
                        yield Fault(
                            f"loop '{other.loop_var.name}' is a reduction of block "
                            f"'{realize.block.name_hint}' over threads, in a kernel with loop "
                            f"'{name}' on '{axis}': TVM would sum for one virtual thread only",
                            "bind the reduction, or the virtual threads, but not both",
                        )
            inside = find_all(loop, SBlock)
            for block in blocks:
                if not is_among(block, inside) and not is_among(loop, find_all(block.body, For)):
                    yield Fault(
                        f"block '{block.name_hint}' stands outside of loop '{name}' on '{axis}', "
                        "and TVM would repeat it for each virtual thread",
                        "keep all blocks of the kernel inside of that loop",
                    )
