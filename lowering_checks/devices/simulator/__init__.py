"""The device `simulator`: a GPU's semantics on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.ir.instrument import pass_instrument

from ...compiling import pass_context
from ..cpu import last_line
from ..device import Arrays, DeviceError, Program, Timing, find_unbound_blocks
from ..fault import Fault
from .counts import Counts
from .expressions import UnsupportedError
from .faults import FaultLog
from .machine import Machine, find_written, run_function

TARGET = "nvidia/nvidia-h100"
LAST_PASS = "s_tir.LowerThreadAllreduce"


@dataclass(frozen=True)
class Simulation:
    """What came of a run: the arguments afterwards, faults, and counts of the first GPU block."""

    arguments: Arrays
    faults: list[Fault]
    counts: Counts


class SimulatorDevice:
    """A GPU's threads, barriers, registers and shared memory, in NumPy; it needs no GPU."""

    name = "simulator"
    has_clock = False
    description = "simulator of a GPU (NumPy)"

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """Blocks without a thread binding cannot be launched."""
        unbound = find_unbound_blocks(module)
        return f"not bound yet: {', '.join(unbound)}" if unbound else None

    def compile(self, module: tvm.IRModule) -> Program:
        """Lower a module with TVM's own passes; the program's `faults` are those of its run."""
        obstacle = self.find_obstacle(module)
        if obstacle is not None:
            raise DeviceError(f"the module cannot run on a GPU: {obstacle}; bind its loops first")
        try:
            lowered = lower(module)
        except (tvm.error.InternalError, RuntimeError) as error:
            raise DeviceError(f"TVM does not lower the module: {last_line(error)}") from error

        def run(arguments: Arrays) -> tuple[Arrays, Sequence[Fault]]:
            try:
                simulation = simulate_lowered(lowered, arguments)
            except UnsupportedError as error:
                raise DeviceError(f"{error}; choose another device") from error
            return simulation.arguments, simulation.faults

        return Program(run)

    def time(self, module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Timing:
        """Refused: what the simulator takes says nothing about a GPU."""
        raise DeviceError(
            'times on the device "simulator" say nothing about a GPU; use a machine with CUDA'
        )


def simulate(module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Simulation:
    """Run a scheduled module's ``main`` on copies of its arguments, with all checks."""
    return simulate_lowered(lower(module), arguments)


def simulate_lowered(
    lowered: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]
) -> Simulation:
    """The same for a module that `lower` made, or that somebody changed after that."""
    function = lowered["main"]
    log = FaultLog()
    machine = Machine(log)
    written = find_written(function.body)
    copies = [np.array(array).reshape(-1) for array in arguments]
    for buffer, data in zip(function.params, copies, strict=True):
        names = {str(buffer.name), f"{buffer.name}_1"}
        machine.add_global(buffer, data, is_input=not (names & written))
    with np.errstate(all="ignore"):
        run_function(machine, function.body)
    shaped = [data.reshape(array.shape) for data, array in zip(copies, arguments, strict=True)]
    return Simulation(shaped, log.faults(), machine.counts)


def lower(module: tvm.IRModule, target: str = TARGET) -> tvm.IRModule:
    """The module behind TVM's last pass that orders threads, before host and device part."""
    seen: list[tvm.IRModule] = []

    @pass_instrument
    class Watch:
        def run_after_pass(self, lowered: tvm.IRModule, info: Any) -> None:
            if str(info.name) == LAST_PASS:
                seen.append(lowered)

    with pass_context(module, [Watch()]):
        tvm.compile(module, target=target)
    return seen[-1]
