"""The device `cpu`: LLVM, with a schedule's thread bindings made serial.

It shows a schedule's semantics: indices, predicates, initializations, tiles. Stores just outside of
a tensor land in a guard zone, and are findings. It says nothing about barriers, races and other
things of a GPU: its threads run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import Call, get_op_name

from ..compile.compiling import MAIN, compile_module, count_iterations, name_main
from .device import (
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    convert_tvm_errors,
    is_scalar,
)
from .guard_zones import run_in_guard_zones

LONG = 2**20
"""Iterations from which LLVM's optimizer is worth its time. Of a golden example it takes 20 to 70
ms, more than half of the compilation, and saves some 2 ns an iteration."""


class CpuDevice(Device):
    """LLVM on this machine's CPU."""

    name = "cpu"
    description = "CPU (LLVM, thread bindings made serial)"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """A type that TVM computes wrongly through LLVM, or an instruction of GPUs."""
        for _, function in module.functions_items():
            for call in find_all(function.body, Call):
                name = get_op_name(call).removeprefix("tirx.")
                if name.startswith("ptx"):
                    return f"a CPU does not have the instruction {name}"
            for buffer in function.params:
                if not is_scalar(buffer) and str(buffer.dtype).startswith("float8"):
                    return (
                        f"TVM's LLVM code reads zeros and small numbers of {buffer.dtype} wrongly"
                    )
        return None

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile with LLVM; see `make_threads_serial`."""
        if (obstacle := self.find_obstacle(module)) is not None:
            raise DeviceError(f'{obstacle}; use the device "simulator" or "cuda"')
        module = name_main(module)
        with convert_tvm_errors("LLVM does not compile the module"):
            serial = make_threads_serial(module)
            executable = compile_module(serial, _choose_target(serial))
        parameters = module[MAIN].params
        names = [str(parameter.name) for parameter in parameters]
        scalars = [is_scalar(parameter) for parameter in parameters]

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[DeviceFinding]]:
            with convert_tvm_errors("the program does not run"):
                return run_in_guard_zones(
                    executable[MAIN], names, arguments, tvm.cpu(), scalars=scalars
                )

        return Program(run, parameters)


def _choose_target(module: tvm.IRModule) -> tvm.target.Target:
    """LLVM, which optimizes what runs long."""
    runs = sum(count_iterations(function.body) for _, function in module.functions_items())
    return tvm.target.Target({"kind": "llvm", **({} if runs >= LONG else {"opt-level": 0})})
