"""Ownership: blocks in no kernel, run too often or too rarely, and reads of what others own.

TVM lowers such schedules without an error. A recipe binds step by step, so its steps may be
unfinished; what it ends with may not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import tvm
from tvm.tirx import For, IterVar, Mul

from tirstep.transforms.tir import (
    LARGEST_INDEX,
    Place,
    constant,
    get_axis,
    get_places,
    is_used,
    list_functions,
)

from .compile.compiling import name_functions
from .device import is_scalar
from .legality.accesses import list_accesses
from .legality.rules import list_faults_at_end
from .steps import Finding


def check_ownership(module: tvm.IRModule, *, where: str = "") -> list[Finding]:
    """What in a scheduled module is not distributed soundly over threads, block by block.

    Functions without a bound loop have no findings. In all others it finds blocks outside of any
    kernel, an axis with several extents in one kernel, and two loops of a block on one axis, of
    which only the diagonal runs. If there is none of these, it applies the guard's rules for
    completely bound schedules: memory that several threads store or update without an order; reads
    of what other threads or kernels keep or write; missing barriers; and buffers that are written
    again while TVM keeps another one in their place.

    A module may be scheduled or not, with any sizes symbolic. Findings are certain; indices that
    depend on data and the inside of tensor intrinsics are not checked. Returns findings of the
    check ``"threads"``, with `where` as their place.
    """
    messages: dict[str, None] = {}
    is_bound = False
    for function_name, function in name_functions(module).items():
        places = [place for place in get_places(function.body) if place.is_innermost]
        if any(place.kernel is not None for place in places):
            is_bound = True
            name = "" if len(module.functions) == 1 else f"{function_name}: "
            messages.update(dict.fromkeys(name + message for message in _judge(places)))
    if is_bound and not messages:  # the rules take loops on one axis for one loop
        faults = list_faults_at_end(module)
        messages = dict.fromkeys(f"{it.problem}; {it.advice}" for it in faults)
    return [Finding("threads", where, message) for message in messages]


def list_left_open(module: tvm.IRModule) -> list[str]:
    """What the rules about memory do not decide of the blocks in kernels, a sentence a reason.

    Where it is for the number of iterations, or for open sizes, the first and the last ones, or
    some sizes, are tried, so that what is found is so. What runs on a device shows the rest.
    """
    found: dict[str, dict[str, None]] = {}
    for access in itertools.chain.from_iterable(list_accesses(module)):
        if access.place.kernel is not None and access.left_open:
            what = f"'{access.buffer.name}' in block '{access.place.name}'"
            found.setdefault(access.left_open, {})[what] = None
    return [f"{', '.join(uses)}: {reason}" for reason, uses in found.items()]


def list_overflows(module: tvm.IRModule) -> list[str]:
    """The parameters whose indices need more than 32 bits from some sizes on, which no run shows: a
    sentence for each product of open sizes.
    """
    found: dict[str, dict[str, None]] = {}
    parameters = (it for function in list_functions(module) for it in function.params)
    for parameter in (it for it in parameters if not is_scalar(it)):
        sizes = [it for it in parameter.shape if constant(it) != 1]
        is_open = any(constant(it) is None for it in sizes)
        is_product = len(sizes) > 1 or any(isinstance(it, Mul) for it in sizes)
        if is_product and is_open and all(str(it.ty) == "int32" for it in sizes):
            end = f"from {' * '.join(map(str, sizes))} = {LARGEST_INDEX + 1:,} on"
            reason = f"its sizes are int32, and its indices overflow {end}; declare them as int64"
            found.setdefault(reason, {})[f"'{parameter.name}'"] = None
    return [f"{', '.join(names)}: {reason}" for reason, names in found.items()]


def _judge(places: list[Place]) -> Iterator[str]:
    writers: dict[Any, list[Place]] = {}
    extents: dict[tuple[For, str], tuple[int, str]] = {}
    for place in places:
        for region in place.block.writes:
            writers.setdefault(region.source, []).append(place)
    for place in places:
        kernel = place.kernel
        if kernel is None:
            yield (
                f"block '{place.name}' is outside of any kernel, and would run on the host, "
                "on a GPU's memory; bind its loops, or place it under a bound one"
            )
            continue
        bound = [*place.find_bound("blockIdx"), *place.find_bound("threadIdx")]
        for loop in bound:
            extent, axis, name = constant(loop.extent), str(get_axis(loop)), loop.loop_var.name
            if extent is None:
                continue
            other, first = extents.setdefault((kernel, axis), (extent, str(name)))
            if other != extent:
                yield (
                    f"loop '{name}' on '{axis}' runs {extent} times and loop '{first}' of the same "
                    f"kernel {other} times, and a launch has one extent; split the longer one"
                )
        # Two loops of a block on one axis have the same value in each thread.
        guards, used = place.find_real_guards(), list[For]()
        for loop in bound:
            feeds = place.is_fed(loop) or any(is_used(loop.loop_var, guard) for guard in guards)
            if constant(loop.extent) == 1 or not feeds:
                continue
            for other in used:
                if get_axis(other) == get_axis(loop):
                    yield (
                        f"iterations of block '{place.name}' run in no thread, since its loops "
                        f"'{other.loop_var.name}' and '{loop.loop_var.name}' are both on "
                        f"'{get_axis(loop)}'; bind one of them to another axis, or bind the outer "
                        "one first and fetch or spread the inner one afterwards"
                    )
            used.append(loop)
        reduced = [it for it in place.block.iter_vars if it.iter_type == IterVar.CommReduce]
        if any(is_used(kernel.loop_var, place.values[it.var]) for it in reduced):
            yield (
                f"block '{place.name}' reduces over the outermost bound loop of its kernel, "
                f"'{kernel.loop_var.name}' on '{get_axis(kernel)}', whose threads would add "
                "to one shared element; bind a spatial loop around it"
            )
        for region in place.block.reads:
            # A buffer of a thread, or of a thread block, that only others write.
            buffer, scope = region.source, str(region.source.scope())
            own = writers.get(buffer, [])
            others = [it for it in own if not it.block.same_as(place.block)]
            if scope not in ("local", "shared", "shared.dyn") or not others:
                continue
            is_near = any(it.kernel is not None and it.kernel.same_as(kernel) for it in others)
            if not is_near and not (len(others) < len(own) and place.block.init is not None):
                yield (
                    f"block '{place.name}' reads '{buffer.name}' ({scope} memory), which block "
                    f"'{others[0].name}' writes in another kernel, so that TVM keeps one copy for "
                    "all threads in global memory; bring them under one bound loop, or keep it in "
                    "global memory"
                )
