"""The simulator's counts of a step's launches, as the report shows them."""

from __future__ import annotations

from tirstep.lowering_checks import Counts, Device, Verdict
from tirstep.lowering_checks.devices import SimulatorDevice
from tirstep.lowering_checks.devices.simulator.access_counts import AccessCounts

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


def counts_part(counts: Counts) -> CountsPart:
    """The counts of a module's launches, for the page."""
    far = counts.scopes.get("global", AccessCounts())
    near = counts.scopes.get("shared", AccessCounts())
    return CountsPart(
        blocks=counts.blocks,
        barriers=counts.barriers,
        requests=far.requests,
        sectors=far.sectors,
        bytes=far.bytes,
        traffic=counts.traffic,
        shared_requests=near.requests,
        bank_conflicts=near.bank_conflicts,
    )
