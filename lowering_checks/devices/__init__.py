"""Where a module runs: one interface, one file or folder for each device."""

from __future__ import annotations

from collections.abc import Callable

from ..device import (
    Device,
    DeviceError,
    DeviceFinding,
    Program,
    Timing,
    find_unbound_sblocks,
    run,
)
from ..steps import suggest
from .cpu import CpuDevice
from .cuda import CudaDevice, is_cuda_available
from .rpc import SCHEME, SPELLING, RpcDevice
from .simulator import SimulatorDevice

_MAKERS: dict[str, Callable[[], Device]] = {
    "cpu": CpuDevice,
    "cuda": CudaDevice,
    "simulator": SimulatorDevice,
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
    "Program",
    "RpcDevice",
    "SimulatorDevice",
    "Timing",
    "find_unbound_sblocks",
    "get_device",
    "is_cuda_available",
    "register_device",
    "run",
]


def register_device(name: str, make: Callable[[], Device]) -> None:
    """Let `get_device`, and so ``--device``, know a device of your own by a name.

    `make` is called without arguments each time the device is requested; it raises `DeviceError` if
    it cannot provide it. Raises `DeviceError` for a name that is taken.
    """
    if not name or name in DEVICES or "://" in name:
        raise DeviceError(f"a device cannot be called '{name}'; choose another name")
    _MAKERS[name] = make


def get_device(name: str = "auto") -> Device:
    """The device of a name; ``"auto"`` is CUDA where there is a GPU, otherwise the simulator.

    ``"rpc://HOST:PORT/KEY"`` is one of another machine. The device says in `description` what was
    chosen. Raises `DeviceError` for an unknown name, for ``"cuda"`` without a GPU, and for a server
    that does not answer.
    """
    if name == "auto":
        return CudaDevice() if is_cuda_available() else SimulatorDevice()
    if name.startswith(SCHEME):
        return RpcDevice(name)
    if name not in _MAKERS:
        alias = _ALIASES.get(name.lower())
        known = ["auto", *_MAKERS, SPELLING]
        hint = suggest(name, known, f"use one of {', '.join(known)}")
        raise DeviceError(f"there is no device '{name}'; {f'use {alias}' if alias else hint}")
    return _MAKERS[name]()
