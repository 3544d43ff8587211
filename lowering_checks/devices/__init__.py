"""Where a module runs: one interface, one file for each device."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from .cpu import CpuDevice
from .cuda import CudaDevice, is_cuda_available
from .device import Device, DeviceError, Program, Timing, find_unbound_blocks, run
from .fault import Fault
from .host import HostDevice, is_host_available
from .simulator import SimulatorDevice

_MAKERS: dict[str, Callable[[], Device]] = {
    "cpu": CpuDevice,
    "cuda": CudaDevice,
    "simulator": SimulatorDevice,
    "host": HostDevice,
}
DEVICES = ("auto", *_MAKERS)

__all__ = [
    "DEVICES",
    "CpuDevice",
    "CudaDevice",
    "Device",
    "DeviceError",
    "Fault",
    "HostDevice",
    "Program",
    "SimulatorDevice",
    "Timing",
    "find_device",
    "find_unbound_blocks",
    "is_cuda_available",
    "is_host_available",
    "run",
]


_ALIASES = {"gpu": ["cuda"], "nvidia": ["cuda"], "llvm": ["cpu"], "sim": ["simulator"]}
"""What people call devices that have another name here."""


def find_device(name: str = "auto") -> Device:
    """The device of a name; ``"auto"`` is CUDA where there is a GPU, otherwise the simulator.

    The device says in `description` what was taken. Raises `DeviceError` for an unknown name, for
    ``"cuda"`` without a GPU, and for ``"host"`` without a C++ compiler.
    """
    if name == "auto":
        return CudaDevice() if is_cuda_available() else SimulatorDevice()
    if name not in _MAKERS:
        near = _ALIASES.get(name.lower()) or difflib.get_close_matches(name, DEVICES, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(DEVICES)}"
        raise DeviceError(f"there is no device '{name}'; {hint}")
    return _MAKERS[name]()
