"""The device `cpu`: LLVM, with a schedule's thread bindings made serial.

It shows what a schedule means: indices, predicates, initializations, tiles. Stores just outside of
a tensor end in a rim around it, and are a fault. It says nothing about barriers, races and other
things of a GPU: its threads run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.tirx import For, ForKind

from ..compiling import compile_module
from ..entry import MAIN, name_main
from .device import Arrays, DeviceError, Program, Timing
from .fault import Fault
from .refusals import refusals_as
from .rims import run_in_rims

STRIPPED = ("pragma_", "software_pipeline_")
"""Annotations for a GPU's code generator. LLVM took up to 28 s for unroll pragmas at odd shapes."""


class CpuDevice:
    """LLVM on this machine's CPU."""

    name = "cpu"
    has_clock = False
    description = "CPU (LLVM, thread bindings made serial)"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """A type that TVM computes wrongly through LLVM; everything else runs."""
        for _, function in module.functions_items():
            for buffer in function.params:
                if str(buffer.dtype).startswith("float8"):
                    return (
                        f"TVM's LLVM code reads zeros and small numbers of {buffer.dtype} wrongly"
                    )
        return None

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile with LLVM; see `make_threads_serial`."""
        obstacle = self.find_obstacle(module)
        if obstacle is not None:
            raise DeviceError(f'{obstacle}; use the device "simulator" or "cuda"')
        module = name_main(module)
        with refusals_as("LLVM does not compile the module"):
            executable = compile_module(make_threads_serial(module), "llvm")

        parameters = module[MAIN].params
        names = [str(parameter.name) for parameter in parameters]

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            with refusals_as("the program does not run"):
                return run_in_rims(executable[MAIN], names, arguments, tvm.cpu())

        return Program(run, parameters)

    def time(self, module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Timing:
        """Refused: serial threads take no time that says anything about a GPU."""
        raise DeviceError(
            'times on the device "cpu" say nothing about a GPU; use a machine with CUDA'
        )


def make_threads_serial(module: tvm.IRModule) -> tvm.IRModule:
    """Replace thread-bound loops by serial ones, and drop annotations for a GPU's code generator.

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
        return For(loop.loop_var, loop.min, loop.extent, kind, loop.body, None, kept, loop.step)

    functions = {
        variable.name_hint: tvm_ffi.structural_map(function, (For, serial))
        for variable, function in module.functions_items()
    }
    return tvm.IRModule(functions)
