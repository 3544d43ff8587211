"""What a launch's memory accesses cost, counted on the simulator. Needs no GPU."""

from __future__ import annotations

import tvm

from tirstep.modules import Problem

from .devices.device import DeviceError, blank, require_arguments
from .devices.refusals import refusals_as
from .devices.simulator import SimulatorDevice, lower, simulate_lowered
from .devices.simulator.counts import AccessCounts, Counts
from .devices.simulator.faults import UnsupportedError

__all__ = ["AccessCounts", "Counts", "count_accesses"]


def count_accesses(problem: Problem, module: tvm.IRModule) -> Counts:
    """Count barriers, requests, bytes, sectors and bank conflicts of the first GPU block.

    `module` is a step of the kernel that `problem` poses; no other block runs, so that large shapes
    take no longer than the loops of one block. It reads the problem's own inputs.
    Raises `DeviceError` for a module that cannot be launched, or that the simulator does not know.
    """
    obstacle = SimulatorDevice().find_obstacle(module)
    if obstacle is not None:
        raise DeviceError(f"there is no launch to count: {obstacle}; bind its loops first")
    arguments = [*problem.integer_inputs(0), *map(blank, problem.outputs)]
    with refusals_as("TVM does not lower the module"):
        lowered = lower(module)
    require_arguments(module["main"].params, arguments)
    try:
        return simulate_lowered(lowered, arguments, first_only=True).counts
    except UnsupportedError as error:
        raise DeviceError(f"{error}; there are no counts of it") from error
