"""The device `cpu`: LLVM, with a schedule's thread bindings made serial.

It shows a schedule's semantics: indices, predicates, initializations, tiles. Stores just outside of
a tensor land in a guard zone, and are findings. It says nothing about barriers, races and other
things of a GPU: its threads run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm.ir import Call, TensorLoad

from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import find_all, find_axes, list_functions

from ..compile.compiling import MAIN, UNOPTIMIZED, compile_module, count_iterations, name_main
from ..device import (
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    NotRunError,
    Program,
    convert_tvm_errors,
    is_scalar,
)
from ..reference.conditions import EXCHANGES, get_call_name, name_exchange
from ..reference.index_ranges import find_exchange
from .guard_zones import run_in_guard_zones

SECONDS_EACH, SECONDS_EACH_CONVERTED = 1e-9, 2e-8
"""Seconds per innermost statement, from 3e-10 in cache to 3e-9 with a cache line per load; and for
types whose arithmetic LLVM does by a function call per number."""
CONVERTED = ("float16", "bfloat16")
LONG = 2**20
"""Iterations from which LLVM's optimizer is worth its time. Of a golden example it takes 20 to 70
ms, more than half of the compilation, and saves some 2 ns an iteration."""
IN_TURN = "on a CPU they run one after the other"


class CpuDevice(Device):
    """LLVM on this machine's CPU."""

    name = "cpu"
    description = "CPU (LLVM, thread bindings made serial)"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """What a CPU does not do: some types, instructions of GPUs, an exchange of threads."""
        for function in list_functions(module):
            for call in find_all(function.body, Call):
                name = get_call_name(call)
                if name.startswith(("ptx", "cuda.")) and name_exchange(call) is None:
                    return f"a CPU does not have the instruction {name}"
                if (exchange := name_exchange(call)) is not None:
                    return f"'{exchange}' {EXCHANGES}, and {IN_TURN}"
            if find_axes(function.body):
                return f"its threads are those of T.launch_thread, and {IN_TURN}"
            for buffer in function.params:
                if not is_scalar(buffer) and str(buffer.dtype).startswith("float8"):
                    return (
                        f"TVM's LLVM code reads zeros and small numbers of {buffer.dtype} wrongly"
                    )
            try:
                with convert_tvm_errors("TVM cannot analyze the module"):
                    shared = find_exchange(function.body)
            except DeviceError as error:
                return str(error)
            if shared is not None:
                return f"threads exchange elements of '{shared}' in shared memory, and {IN_TURN}"
        return None

    def estimate(self, module: tvm.IRModule) -> float:
        """By its loops; 0 where an extent depends on data."""
        seconds = 0.0
        for _, function in module.functions_items():
            loaded = {str(load.source.dtype) for load in find_all(function.body, TensorLoad)}
            each = SECONDS_EACH if loaded.isdisjoint(CONVERTED) else SECONDS_EACH_CONVERTED
            seconds += count_iterations(function.body, open_extent=0) * each
        return seconds

    def make_serial(self, module: tvm.IRModule) -> tvm.IRModule:
        """The module with serial threads; raises `DeviceError` for what a CPU cannot run."""
        if (obstacle := self.find_obstacle(module)) is not None:
            raise NotRunError(f'{obstacle}; use the device "simulator" or "cuda"')
        with convert_tvm_errors("LLVM does not compile the module"):
            return make_threads_serial(module)

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile with LLVM; see `make_threads_serial`."""
        module = name_main(module)
        serial = self.make_serial(module)
        with convert_tvm_errors("LLVM does not compile the module"):
            executable = compile_module(serial, _choose_target(serial))
        return load_program(executable, module[MAIN].params)


def load_program(executable: Any, parameters: Sequence[Any]) -> Program:
    """A program that LLVM has compiled, run between guard zones, which show stray stores."""
    names = [None if is_scalar(it) else str(it.name) for it in parameters]

    def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
        with convert_tvm_errors("the program does not run"):
            return run_in_guard_zones(executable[MAIN], names, arguments, tvm.cpu())

    return Program(run, parameters)


def _choose_target(module: tvm.IRModule) -> tvm.target.Target:
    """LLVM, which optimizes what runs long."""
    runs = sum(count_iterations(function.body) for _, function in module.functions_items())
    return tvm.target.Target("llvm" if runs >= LONG else UNOPTIMIZED)
