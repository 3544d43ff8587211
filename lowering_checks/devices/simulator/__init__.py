"""The device `simulator`: a GPU's semantics on the CPU.

It runs what TVM hands to its CUDA code generator: threads in batches, in step, with barriers,
registers, shared memory that buffers may share, shuffles, asynchronous copies whose data arrives at
the wait (cp.async), and the matrices that a warp holds together (ldmatrix, mma). A function of
one's own, as ``T.cuda.func_call`` calls it, brings its meaning with `register_meaning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.ir.instrument import pass_instrument

from ...compiling import compile_module
from ...entry import name_main
from ..device import Arrays, DeviceError, Program, Timing, find_unbound_blocks
from ..fault import Fault
from ..refusals import refusals_as
from .counts import Counts
from .faults import FaultLog, UnknownFunctionError, UnsupportedError
from .layout import find_origins
from .machine import Machine, run_function
from .meanings import Pointer, Threads, register_meaning
from .statements import Execute
from .written import find_written

__all__ = [
    "TARGET",
    "Counts",
    "Pointer",
    "Simulation",
    "SimulatorDevice",
    "Threads",
    "lower",
    "merge_shared_memory",
    "register_meaning",
    "simulate",
    "simulate_lowered",
]

TARGET = "nvidia/nvidia-h100"
NEXT_PASS = "s_tir.MergeSharedMemoryAllocations"


@dataclass(frozen=True)
class Simulation:
    """What came of a run: the arguments afterwards, faults, and counts of the first GPU block."""

    arguments: Arrays
    faults: list[Fault]
    counts: Counts


class SimulatorDevice:
    """A GPU's threads, barriers, registers and shared memory, in NumPy; it needs no GPU.

    Attributes
    ----------
    counts : of the last run of any program that it compiled; None before
    """

    name = "simulator"
    has_clock = False
    description = "simulator of a GPU (NumPy)"

    def __init__(self) -> None:
        self.counts: Counts | None = None

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """Blocks without a thread binding cannot be launched."""
        unbound = find_unbound_blocks(module)
        return f"not bound yet: {', '.join(unbound)}" if unbound else None

    def compile(self, module: tvm.IRModule) -> Program:
        """Lower a module with TVM's own passes; the program's `faults` are those of its run."""
        obstacle = self.find_obstacle(module)
        if obstacle is not None:
            raise DeviceError(f"the module cannot run on a GPU: {obstacle}; bind its loops first")
        module = name_main(module)
        with refusals_as("TVM does not lower the module"):
            prepared = _Prepared(lower(module))

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            with refusals_as("the simulator does not run the module"):
                try:
                    simulation = prepared.run(arguments)
                except UnknownFunctionError as error:
                    raise DeviceError(str(error)) from error
                except UnsupportedError as error:
                    raise DeviceError(f"{error}; choose another device") from error
            self.counts = simulation.counts
            return simulation.arguments, simulation.faults

        return Program(run, module["main"].params)

    def time(self, module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Timing:
        """Refused: what the simulator takes says nothing about a GPU."""
        raise DeviceError(
            'times on the device "simulator" say nothing about a GPU; use a machine with CUDA'
        )


def simulate(module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Simulation:
    """Run a scheduled module's ``main`` on copies of its arguments, with all checks."""
    return simulate_lowered(lower(module), arguments)


def simulate_lowered(
    lowered: tvm.IRModule,
    arguments: Sequence[np.ndarray[Any, Any]],
    *,
    first_only: bool = False,
) -> Simulation:
    """The same for a module that `lower` made, or that somebody changed after that.

    What runs is `merge_shared_memory` of it, which is what the GPU gets. With `first_only`, each
    launch is its first GPU block alone: enough for counts, at any shape.
    """
    return _Prepared(lowered).run(arguments, first_only=first_only)


class _Prepared:
    """A lowered module with what all its runs need."""

    def __init__(self, lowered: tvm.IRModule) -> None:
        self._function = merge_shared_memory(lowered)["main"]
        self._written = find_written(self._function.body)
        self._origins = find_origins(lowered["main"].body)
        self._kernels: dict[Any, Execute] = {}

    def run(
        self, arguments: Sequence[np.ndarray[Any, Any]], *, first_only: bool = False
    ) -> Simulation:
        """Run it on copies of its arguments."""
        machine = Machine(FaultLog(), first_only=first_only)
        machine.origins, machine.kernels = self._origins, self._kernels
        copies = [np.array(array).reshape(-1) for array in arguments]
        parameters = self._function.params
        for buffer, data in zip(parameters, copies, strict=True):
            machine.add_global(buffer, data, is_input=buffer not in self._written)
        machine.bind_sizes(parameters, [array.shape for array in arguments])
        with np.errstate(all="ignore"):
            run_function(machine, self._function.body)
        shaped = [data.reshape(array.shape) for data, array in zip(copies, arguments, strict=True)]
        return Simulation(shaped, machine.now.log.faults(), machine.counts)


def lower(module: tvm.IRModule, target: str = TARGET) -> tvm.IRModule:
    """The module behind TVM's passes that order threads and make copies asynchronous."""
    seen: list[tvm.IRModule] = []

    @pass_instrument
    class Watch:
        def run_before_pass(self, lowered: tvm.IRModule, info: Any) -> None:
            if str(info.name) == NEXT_PASS:
                seen.append(lowered)

    compile_module(module, target, instruments=[Watch()])
    return seen[-1]


def merge_shared_memory(lowered: tvm.IRModule) -> tvm.IRModule:
    """The module after TVM's next pass: dynamic shared memory is one allocation of bytes.

    Buffers may share their place there. A module that is merged already stays as it is.
    """
    return tvm.s_tir.transform.MergeSharedMemoryAllocations()(lowered)
