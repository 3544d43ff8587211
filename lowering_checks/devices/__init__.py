"""Where a module runs: one interface, one file or folder for each device."""

from __future__ import annotations

from collections.abc import Callable

from ..finding import suggest
from .cpu import CpuDevice
from .cuda import CudaDevice, is_cuda_available
from .device import (
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    Timing,
    find_unbound_sblocks,
    run,
)
from .host import HostDevice, is_host_available
from .simulator import SimulatorDevice

_MAKERS: dict[str, Callable[[], Device]] = {
    "cpu": CpuDevice,
    "cuda": CudaDevice,
    "simulator": SimulatorDevice,
    "host": HostDevice,
}
DEVICES = ("auto", *_MAKERS)
_ALIASES = {"gpu": "cuda", "nvidia": "cuda", "llvm": "cpu", "sim": "simulator"}
"""What people call devices that have another name here."""

__all__ = [
    "DEVICES",
    "CpuDevice",
    "CudaDevice",
    "Device",
    "DeviceError",
    "DeviceFinding",
    "HostDevice",
    "Program",
    "SimulatorDevice",
    "Timing",
    "find_unbound_sblocks",
    "get_device",
    "is_cuda_available",
    "is_host_available",
    "run",
]


def get_device(name: str = "auto") -> Device:
    """The device of a name; ``"auto"`` is CUDA where there is a GPU, otherwise the simulator.

    The device says in `description` what was chosen. Raises `DeviceError` for an unknown name, for
    ``"cuda"`` without a GPU, and for ``"host"`` without a C++ compiler.
    """
    if name == "auto":
        return CudaDevice() if is_cuda_available() else SimulatorDevice()
    if name not in _MAKERS:
        alias = _ALIASES.get(name.lower())
        hint = suggest(name, DEVICES, f"use one of {', '.join(DEVICES)}")
        raise DeviceError(f"there is no device '{name}'; {f'use {alias}' if alias else hint}")
    return _MAKERS[name]()
