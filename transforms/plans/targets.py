"""What a target wants of functions: indices of 32 bits, and nothing that a GPU has not."""

from __future__ import annotations

import itertools
import math
from typing import Any

import tvm
from tvm.ir import Call, IRModule
from tvm.s_tir import SBlock
from tvm.target import Target
from tvm.tirx import (
    Add,
    BufferStore,
    Cast,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    Max,
    Min,
    Mul,
    PrimFunc,
    Select,
    Sub,
    Var,
)

from tirstep.tvm_compat import get_op_name

from ..hopper.wgmma_intrinsics import ARCHITECTURE
from ..tir import (
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_elements,
    get_places,
    is_among,
    is_used,
    substitute,
)
from ..vectorize import find_scattered

_LIMIT = 2**31
"""Elements of a tensor whose places 32 bits number, whatever a schedule pads them by."""
_ROOM = 4
_WIDE = ("int64", "uint64")
_GROWING = (Add, Sub, Mul, Var)
"""What has larger values where a schedule pads loops."""
_OTHERS = (Cast, FloorDiv, FloorMod, IntImm, Max, Min, Select, Call)


def narrow_indices(function: PrimFunc) -> PrimFunc:
    """The function with loops and indices of 32 bits; as it is where these may not be enough.

    Relax makes functions whose indices have 64 bits, and the intrinsics of tensor cores have 32.
    Left alone are functions of open sizes, with tensors of a quarter of 2^31 elements or more, of
    integers of 64 bits, also as a parameter, or that compute with such beyond 32 bits.
    """
    if any(map(_is_wide, function.params)):
        return function
    for buffer, _ in get_elements(function.body):
        sizes = [constant(extent) for extent in buffer.shape]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes) or math.prod(known) * _ROOM >= _LIMIT:
            return function
        if str(buffer.dtype) in _WIDE:
            return function
    # All integers of 64 bits that it computes must be known to have 32.
    analyzer = bind_ranges(find_all(function.body, For))
    for block in find_all(function.body, SBlock):
        for iterator in block.iter_vars:
            analyzer.bind(iterator.var, iterator.dom)
    for kinds, most in ((_GROWING, _LIMIT // _ROOM), (_OTHERS, _LIMIT)):
        values = [it for kind in kinds for it in find_all(function.body, kind) if _is_wide(it)]
        for bound in map(analyzer.const_int_bound, values):
            if bound.min_value < -most or bound.max_value >= most:
                return function
    narrowed = tvm.tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))
    return narrowed["main"]


def _is_wide(value: Any) -> bool:
    """Whether a value, and no tensor, is an integer of 64 bits."""
    return not hasattr(value, "shape") and str(getattr(value.ty, "dtype", "")) in _WIDE


_MOST_GATHERED = 4


def find_unsupported(module: IRModule, target: Target) -> str:
    """Why a GPU does not run a scheduled module, as far as its target says; or "".

    Known are the threads of a block, and wgmma, which no other architecture than sm_90a has.
    """
    body = tuple(it.body for it in module.functions.values() if isinstance(it, PrimFunc))
    # The most threads of a block; the larger of both names that TVM has for it.
    given = [target.attrs.get(name, None) for name in ("max_num_threads", "max_threads_per_block")]
    most = max((int(number) for number in given if number is not None), default=None)
    # The threads of a GPU block, over all axes: the most of any kernel; 1 of a loop on none.
    kernels: dict[Any, dict[Any, int]] = {}
    for place in itertools.chain.from_iterable(map(get_places, body)):
        axes = kernels.setdefault(place.kernel, {})
        for loop in place.find_bound("threadIdx"):
            axis = get_axis(loop)
            axes[axis] = max(axes.get(axis, 1), constant(loop.extent) or 1)
    threads = max((math.prod(axes.values()) for axes in kernels.values()), default=1)
    if most is not None and threads > most:
        kind = target.kind.name
        return f"it runs {threads} threads in a block, and the target '{kind}' takes {most}"
    arch = str(target.attrs.get("arch", ""))
    calls = (get_op_name(call) for each in body for call in find_all(each, Call))
    if arch and arch != ARCHITECTURE and any("wgmma" in name for name in calls):
        return f"it uses wgmma, which {arch} has not"
    return ""


def find_gather(body: Any) -> str:
    """Why CUDA compiles no vector that a kernel gathers out of elements apart; or "".

    TVM writes ``make_uint4`` of eight elements of 16 bits, which takes four words (nvcc 13.0).
    One element that is repeated is no gather.
    """
    for place in get_places(body):
        written = [store.buffer for store in find_all(place.block.body, BufferStore)]
        for loop, buffer in find_scattered(place):
            lanes, bits = constant(loop.extent) or 1, int(buffer.dtype.bits)
            if lanes <= _MOST_GATHERED or bits != 16 or is_among(buffer, written):
                continue
            analyzer, lane = bind_ranges(place.loops), loop.loop_var
            reads = [it for read, it in get_elements(place.block.body) if read.same_as(buffer)]
            inner = [substitute(index, place.values) for it in reads for index in it]
            if any(is_used(lane, it) and is_used(lane, analyzer.simplify(it)) for it in inner):
                return (
                    f"block '{place.name}' gathers vectors of {lanes} elements of 16 bits out of "
                    f"'{buffer.name}', where they do not lie side by side"
                )
    return ""
