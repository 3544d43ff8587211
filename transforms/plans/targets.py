"""What a target wants of functions: indices of 32 bits, and nothing that a kind of GPU has not.

No source is made to know it; tests/transforms/test_plan_targets.py holds it to what TVM's code
generators say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import tvm
from tvm.ir import Call, IRModule, Range
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
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
    Place,
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
    if not _fits(function.body):
        return function
    narrowed = tvm.tirx.transform.ForceNarrowIndexToInt32()(tvm.IRModule({"main": function}))
    return narrowed["main"]


def _fits(body: Any) -> bool:
    """Whether all integers of 64 bits that a function computes are known to have 32."""
    analyzer = Analyzer()
    for loop in find_all(body, For):
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    for block in find_all(body, SBlock):
        for iterator in block.iter_vars:
            analyzer.bind(iterator.var, iterator.dom)
    for kinds, most in ((_GROWING, _LIMIT // _ROOM), (_OTHERS, _LIMIT)):
        values = [it for kind in kinds for it in find_all(body, kind) if _is_wide(it)]
        for bound in map(analyzer.const_int_bound, values):
            if bound.min_value < -most or bound.max_value >= most:
                return False
    return True


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
    kind = str(target.kind.name)
    for function in module.functions.values():
        if isinstance(function, PrimFunc):
            for reason in _list_reasons(module, function.body, kind, target):
                return reason
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
            if not _is_repeated(place, loop, buffer):
                return (
                    f"block '{place.name}' gathers vectors of {lanes} elements of 16 bits out of "
                    f"'{buffer.name}', where they do not lie side by side"
                )
    return ""


def _is_repeated(place: Place, loop: For, buffer: Any) -> bool:
    """Whether all lanes of a vector read the same element of a buffer."""
    analyzer, lane = bind_ranges(place.loops), loop.loop_var
    for read, indices in get_elements(place.block.body):
        for index in indices if read.same_as(buffer) else ():
            inner = substitute(index, place.values)
            if is_used(lane, inner) and is_used(lane, analyzer.simplify(inner)):
                return False
    return True


def _list_reasons(module: IRModule, body: Any, kind: str, target: Target) -> Iterator[str]:
    # The most threads of a block; the larger of both names that TVM has for it.
    given = [target.attrs.get(name, None) for name in ("max_num_threads", "max_threads_per_block")]
    most, threads = (
        max((int(number) for number in given if number is not None), default=None),
        count_threads(body),
    )
    if most is not None and threads > most:
        yield f"it runs {threads} threads in a block, and the target '{kind}' takes {most}"
    if kind == CUDA:
        arch = str(target.attrs.get("arch", ""))
        if arch and arch != ARCHITECTURE and any("wgmma" in name for name in _list_calls(body)):
            yield f"it uses wgmma, which {arch} has not"
        return
    if name := _find_instruction(module, body):
        yield f"it uses {name}, which GPUs other than NVIDIA's have not"
    allocated = [buffer for block in find_all(body, SBlock) for buffer in block.alloc_buffers]
    dynamic = [str(buffer.name) for buffer in allocated if buffer.scope() == "shared.dyn"]
    if kind == "metal" and dynamic:
        yield f"'{dynamic[0]}' is in scope 'shared.dyn', which TVM's Metal does not know"
    if kind == "webgpu" and any(get_axis(loop) == "blockIdx.z" for loop in find_all(body, For)):
        yield "it runs on blockIdx.z, which TVM's WebGPU keeps for itself"
    if kind in _NARROW and (lanes := _find_lanes(body)) > _NARROW[kind]:
        yield f"it has vectors of {lanes} elements of 16 bits, and {kind} has {_NARROW[kind]}"


def count_threads(body: Any) -> int:
    """The threads of a GPU block, over all axes: the most of any kernel; 1 of a loop on none."""
    kernels: dict[Any, dict[str, int]] = {}
    for place in get_places(body):
        most = kernels.setdefault(place.kernel, {})
        for loop in place.find_bound("threadIdx"):
            axis = str(get_axis(loop))
            most[axis] = max(most.get(axis, 1), constant(loop.extent) or 1)
    return max((math.prod(most.values()) for most in kernels.values()), default=1)


def _list_calls(body: Any) -> Iterator[str]:
    """The names of the operators that a body calls."""
    return (get_op_name(call) for call in find_all(body, Call))


def _find_instruction(module: IRModule, body: Any) -> str:
    for name in _list_calls(body):
        if any(part in name for part in _INSTRUCTIONS):
            return f"the instruction {name.removeprefix('tirx.')}"
    loops, blocks = find_all(body, For), find_all(body, SBlock)
    notes = [name for node in (*loops, *blocks) for name in node.annotations]
    if any("tma" in name for name in notes):
        return "bulk copies (prefetch_by_tma)"
    is_async = get_pass_options(module).get("tirx.use_async_copy", False)
    if is_async and "software_pipeline_async_stages" in notes:
        return "asynchronous copies (prefetch_asynchronously)"
    return ""


def _find_lanes(body: Any) -> int:
    """The most lanes of a vector that is stored to elements of 16 bits."""
    lanes = [
        constant(loop.extent) or 1
        for loop in find_all(body, For)
        if loop.kind == ForKind.VECTORIZED
        and any(str(it.buffer.dtype).endswith("16") for it in find_all(loop.body, BufferStore))
    ]
    return max(lanes, default=1)
