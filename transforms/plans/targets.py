"""What a target wants of functions: indices of 32 bits, and nothing that a kind of GPU has not.

No source is made to know it; tests/transforms/test_plan_targets.py holds it to what TVM's code
generators say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
    ForKind,
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
from ..pass_options import get_pass_options
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
from ..vectors import find_scattered

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


CUDA = "cuda"
_INSTRUCTIONS = (".ptx", ".cuda.", "cp_async", "tvm_mma_sync", "tvm_load_matrix_sync")
"""Parts of the names of operators that become instructions of NVIDIA's GPUs."""
_MOST_GATHERED = 4
_NARROW = {"metal": 4, "webgpu": 4}
"""The most lanes of a vector of 16 bits an element."""


def find_unsupported(module: IRModule, target: Target) -> str:
    """Why TVM makes no source of a scheduled module for a target, as far as that is known; or "".

    Known are the kinds opencl, metal and webgpu; on cuda nothing is missing but threads, and wgmma
    on another architecture than sm_90a, where the target names one.
    """
    functions = [it for it in module.functions.values() if isinstance(it, PrimFunc)]
    reasons = (reason for it in functions for reason in _list_reasons(module, it.body, target))
    return next(reasons, "")


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


def _list_reasons(module: IRModule, body: Any, target: Target) -> Iterator[str]:
    kind, loops, blocks = str(target.kind.name), find_all(body, For), find_all(body, SBlock)
    # The most threads of a block; the larger of both names that TVM has for it.
    given = [target.attrs.get(name, None) for name in ("max_num_threads", "max_threads_per_block")]
    most = max((int(number) for number in given if number is not None), default=None)
    # The threads of a GPU block, over all axes: the most of any kernel; 1 of a loop on none.
    kernels: dict[Any, dict[Any, int]] = {}
    for place in get_places(body):
        axes = kernels.setdefault(place.kernel, {})
        for loop in place.find_bound("threadIdx"):
            axis = get_axis(loop)
            axes[axis] = max(axes.get(axis, 1), constant(loop.extent) or 1)
    threads = max((math.prod(axes.values()) for axes in kernels.values()), default=1)
    calls = [get_op_name(call) for call in find_all(body, Call)]
    if most is not None and threads > most:
        yield f"it runs {threads} threads in a block, and the target '{kind}' takes {most}"
    if kind == CUDA:
        arch = str(target.attrs.get("arch", ""))
        if arch and arch != ARCHITECTURE and any("wgmma" in name for name in calls):
            yield f"it uses wgmma, which {arch} has not"
        return
    notes = [name for node in (*loops, *blocks) for name in node.annotations]
    is_async = get_pass_options(module).get("tirx.use_async_copy", False)
    used = [
        f"the instruction {name.removeprefix('tirx.')}"
        for name in calls
        if any(part in name for part in _INSTRUCTIONS)
    ]
    if any("tma" in name for name in notes):
        used.append("bulk copies (prefetch_by_tma)")
    if is_async and "software_pipeline_async_stages" in notes:
        used.append("asynchronous copies (prefetch_asynchronously)")
    for name in used:
        yield f"it uses {name}, which GPUs other than NVIDIA's have not"
    allocated = [buffer for block in blocks for buffer in block.alloc_buffers]
    dynamic = [str(buffer.name) for buffer in allocated if buffer.scope() == "shared.dyn"]
    if kind == "metal" and dynamic:
        yield f"'{dynamic[0]}' is in scope 'shared.dyn', which TVM's Metal does not know"
    if kind == "webgpu" and any(get_axis(loop) == "blockIdx.z" for loop in loops):
        yield "it runs on blockIdx.z, which TVM's WebGPU keeps for itself"
    lanes = [
        constant(loop.extent) or 1
        for loop in loops
        if loop.kind == ForKind.VECTORIZED
        if any(str(it.buffer.dtype).endswith("16") for it in find_all(loop.body, BufferStore))
    ]
    if kind in _NARROW and (widest := max(lanes, default=1)) > _NARROW[kind]:
        yield f"it has vectors of {widest} elements of 16 bits, and {kind} has {_NARROW[kind]}"
