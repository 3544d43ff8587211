"""The device `cpu`: LLVM, with a schedule's thread bindings made serial.

It shows a schedule's semantics: indices, predicates, initializations, tiles. Stores just outside of
a tensor land in a guard zone, and are findings. It says nothing about barriers, races and other
things of a GPU: its threads run one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm.ir import Call
from tvm.s_tir import SBlock
from tvm.tirx import For, PrimFunc

from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import cached_by_module, find_all, get_axis
from tirstep.tvm_compat import get_op_name

from ..compile.compiling import MAIN, compile_module, count_iterations, name_main
from ..device import (
    Arrays,
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    convert_tvm_errors,
    is_scalar,
)
from ..legality.reads import find_lost_reads
from .guard_zones import run_in_guard_zones

LONG = 2**20
"""Iterations from which LLVM's optimizer is worth its time. Of a golden example it takes 20 to 70
ms, more than half of the compilation, and saves some 2 ns an iteration."""


@cached_by_module(2)  # asked for before a step is run, and when it is compiled
def _find_exchanged(module: tvm.IRModule) -> str | None:
    """A shared buffer of which a thread reads what threads behind it write; None for none.

    What a thread fetches together with the others in a loop of its own it fetches alone here.
    """
    loops = [
        loop
        for _, function in module.functions_items()
        if isinstance(function, PrimFunc)
        for loop in find_all(function.body, For)
    ]
    if not any((get_axis(loop) or "").startswith("threadIdx") for loop in loops):
        return None
    lost = find_lost_reads(make_threads_serial(module))
    if not lost:
        return None
    wrong = find_lost_reads(module)  # on a GPU, too
    shared = {
        str(buffer.name)
        for loop in loops
        for block in find_all(loop, SBlock)
        for buffer in (region.source for region in block.writes)
        if str(buffer.scope()).startswith("shared")
    }
    new = (read.buffer for key, read in lost.items() if key not in wrong)
    return next((buffer for buffer in new if buffer in shared), None)


class CpuDevice(Device):
    """LLVM on this machine's CPU."""

    name = "cpu"
    description = "CPU (LLVM, thread bindings made serial)"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """What a CPU does not do: some types, instructions of GPUs, an exchange of threads."""
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
        try:
            with convert_tvm_errors("TVM cannot analyze the module"):
                buffer = _find_exchanged(module)
        except DeviceError as error:
            return str(error)
        if buffer is not None:
            return (
                f"threads exchange elements of '{buffer}' in shared memory, and on a CPU they run "
                "one after the other"
            )
        return None

    def make_serial(self, module: tvm.IRModule) -> tvm.IRModule:
        """The module with serial threads; raises `DeviceError` for what a CPU cannot run."""
        if (obstacle := self.find_obstacle(module)) is not None:
            raise DeviceError(f'{obstacle}; use the device "simulator" or "cuda"')
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
