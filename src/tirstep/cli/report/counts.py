"""The simulator's counts of a step's launch, as the report shows them."""

from __future__ import annotations

import math

import tvm
from tvm.tirx import For

from tirstep.lowering_checks import Counts, Device, Verdict
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.devices.simulator.counts import AccessCounts
from tirstep.transforms.queries import constant, find_all, find_axis

from .model import CountsPart


def read_counts(device: Device, verdict: Verdict) -> Counts | None:
    """The counts of the run that gave a verdict, asked at once: a device keeps its last run's.

    None for other devices, and for a step that is wrong or that the simulator did not run.
    """
    if not isinstance(device, SimulatorDevice) or device.counts is None or verdict.numbers:
        return None
    if not verdict.checked_on.startswith(f"{device.name} "):
        return None
    return device.counts


def counts_part(counts: Counts, module: tvm.IRModule) -> CountsPart:
    """The counts of a module's launch, for the page."""
    far = counts.scopes.get("global", AccessCounts())
    near = counts.scopes.get("shared", AccessCounts())
    return CountsPart(
        blocks=_count_blocks(module),
        barriers=counts.barriers,
        requests=far.requests,
        sectors=far.sectors,
        bytes=far.bytes,
        shared_requests=near.requests,
        bank_conflicts=near.bank_conflicts,
    )


def _count_blocks(module: tvm.IRModule) -> int | None:
    """The GPU blocks of the launch; None where its grid is symbolic."""
    extents: dict[str, int | None] = {}
    for _, function in module.functions_items():
        for loop in find_all(function.body, For):
            axis = find_axis(loop) or ""
            if axis.startswith("blockIdx"):
                extents[axis] = constant(loop.extent)
    known = [extent for extent in extents.values() if extent is not None]
    return math.prod(known) if len(known) == len(extents) else None
