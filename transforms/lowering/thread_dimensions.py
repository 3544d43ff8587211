"""A pass that takes a thread's own dimension out of its registers.

Registers that several blocks share, one after the other, have a dimension for the thread, of which
each thread uses its own element alone: ``A_local[j, threadIdx.x, v]``. TVM keeps the dimension
where a reduction over threads stands between the blocks, and the CUDA compiler then keeps the
array in memory, since its index is not known. The pass drops the dimension.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.ir import TensorLoad
from tvm.sym import Analyzer
from tvm.tirx import AllocBuffer, AttrStmt, BufferLoad, BufferStore, decl_buffer
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass

from ..queries import constant, find_all, find_elements
from .slots import Variables


@prim_func_pass(opt_level=0, name="tirstep.DropThreadDimensions")
def DropThreadDimensions(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Drop each dimension of a "local" buffer whose index is the same thread index everywhere.

    It runs where blocks are gone and buffers still have dimensions, before FlattenBuffer.

    rewrite: ``A = alloc((4, 256, 4)); A[j, threadIdx.x, v]`` ->
        ``A = alloc((4, 1, 4)); A[j, 0, v]``
    """
    analyzer, threads = _bind_loops(function)
    allocated = [
        node.buffer
        for node in find_all(function.body, AllocBuffer)
        if str(node.buffer.scope()) == "local"
    ]
    accesses = find_elements(function.body)
    smaller: dict[Any, tuple[Any, list[int]]] = {}
    for buffer in allocated:
        uses = [indices for used, indices in accesses if used.same_as(buffer)]
        dimensions = _find_thread_dimensions(buffer, uses, analyzer, threads)
        if dimensions:
            shape = [1 if at in dimensions else size for at, size in enumerate(buffer.shape)]
            made = decl_buffer(shape, buffer.dtype, str(buffer.name), scope="local")
            smaller[buffer] = (made, dimensions)
    return function.with_body(_replace(function.body, smaller)) if smaller else function


def _bind_loops(function: Any) -> tuple[Analyzer, list[Any]]:
    """An analyzer that knows the ranges of all loops, and the variables of thread axes."""
    analyzer = Analyzer()
    for variable, extent in Variables.of(function).ranges.items():
        analyzer.bind(variable, extent)
    attributes = find_all(function.body, AttrStmt)
    return analyzer, [node.node.var for node in attributes if node.attr_key == "thread_extent"]


def _find_thread_dimensions(
    buffer: Any, uses: list[Any], analyzer: Analyzer, threads: list[Any]
) -> list[int]:
    found = []
    for at, size in enumerate(buffer.shape):
        if constant(size) == 1 or not uses:
            continue
        indices = [analyzer.simplify(indices[at]) for indices in uses]
        used = undefined_vars(indices[0])
        of_thread = used and all(any(var.same_as(one) for one in threads) for var in used)
        if of_thread and all(tvm_ffi.structural_equal(index, indices[0]) for index in indices):
            found.append(at)
    return found


def _replace(body: Any, smaller: dict[Any, tuple[Any, list[int]]]) -> Any:
    def at(indices: Any, dimensions: list[int]) -> list[Any]:
        return [0 if place in dimensions else index for place, index in enumerate(indices)]

    def allocate(node: Any) -> Any:
        if node.buffer not in smaller:
            return node
        return AllocBuffer(smaller[node.buffer][0], node.annotations)

    def load(node: Any) -> Any:
        if node.source not in smaller:
            return node
        made, dimensions = smaller[node.source]
        return BufferLoad(made, at(node.indices, dimensions))

    def store(node: Any) -> Any:
        if node.buffer not in smaller:
            return node
        made, dimensions = smaller[node.buffer]
        return BufferStore(made, node.value, at(node.indices, dimensions))

    callbacks = [(AllocBuffer, allocate), (TensorLoad, load), (BufferStore, store)]
    return tvm_ffi.structural_map(body, callbacks, order="pre")
