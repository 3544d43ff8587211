"""A module as a CPU runs it: without threads, and without what is for a GPU's code generator."""

from __future__ import annotations

import tvm
from tvm.tirx import For, ForKind, PrimFunc
from tvm_ffi import structural_map

from ..rewriting import edit_loop

STRIPPED = ("pragma_", "software_pipeline_")
"""Annotations for a GPU's code generator. LLVM took up to 28 s for unroll pragmas at odd shapes."""


def make_threads_serial(module: tvm.IRModule) -> tvm.IRModule:
    """Replace thread-bound loops by serial ones, and drop annotations for a GPU's code generator.

    A module of Relax keeps all else, so that a whole model runs on a CPU as it is scheduled.

    rewrite: ``for i in T.thread_binding(n, thread="threadIdx.x")`` -> ``for i in range(n)``
    """

    def serial(loop: For) -> For:
        kept = {
            key: value
            for key, value in loop.annotations.items()
            if not str(key).startswith(STRIPPED)
        }
        if loop.kind != ForKind.THREAD_BINDING and len(kept) == len(loop.annotations):
            return loop
        kind = ForKind.SERIAL if loop.kind == ForKind.THREAD_BINDING else loop.kind
        return edit_loop(loop, kind=kind, thread_binding=None, annotations=kept)

    functions = {
        variable: structural_map(function, (For, serial))
        if isinstance(function, PrimFunc)
        else function
        for variable, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)
