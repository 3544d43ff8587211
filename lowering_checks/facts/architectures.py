"""NVIDIA's architectures: what a streaming multiprocessor (SM) holds, and what fits on it.

The limits are those of the table "Technical Specifications per Compute Capability" in the CUDA C++
Programming Guide; how registers and shared memory are handed out (granularities, the reserved
kilobyte) is what NVIDIA's occupancy calculator does, whose header cuda_occupancy.h is part of CUDA.
The tests ask the compiler which architectures there are and how many threads an SM has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tirstep.transforms.gpu_limits import MAX_SHARED_BYTES, MAX_THREADS, WARP
from tirstep.transforms.hopper.cluster_launch import get_capability

from ..steps import CheckError, suggest
from .model import KernelFacts

KIB = 1024
MAX_STATIC_SHARED = MAX_SHARED_BYTES["shared"]
REGISTERS = 64 * KIB
"""Registers per SM, and at most per thread block: the same on all of these architectures."""
REGISTER_UNIT = 256
"""A warp gets its registers in such pieces."""
PARTITIONS = 4
"""Partitions of an SM; a warp stays in one."""


@dataclass(frozen=True)
class Architecture:
    """Limits of one architecture; sizes in bytes.

    Attributes
    ----------
    warps, blocks : on one SM at once
    shared : of one SM, at its largest
    shared_per_block : static and dynamic, of one thread block that requests more than 48 KiB
    shared_unit : a thread block gets its shared memory in such pieces
    shared_reserved : of each thread block, for the system
    """

    name: str
    warps: int
    blocks: int
    shared: int
    shared_per_block: int
    shared_unit: int = 128
    shared_reserved: int = KIB

    @property
    def capability(self) -> int:
        """90 for ``sm_90a``."""
        return get_capability(self.name)


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        architecture.name: architecture
        for architecture in (
            Architecture("sm_75", 32, 16, 64 * KIB, 64 * KIB, 256, 0),
            Architecture("sm_80", 64, 32, 164 * KIB, 163 * KIB),
            Architecture("sm_86", 48, 16, 100 * KIB, 99 * KIB),
            Architecture("sm_87", 48, 16, 164 * KIB, 163 * KIB),
            Architecture("sm_88", 48, 16, 100 * KIB, 99 * KIB),
            Architecture("sm_89", 48, 24, 100 * KIB, 99 * KIB),
            Architecture("sm_90a", 64, 32, 228 * KIB, 227 * KIB),
            Architecture("sm_100a", 64, 32, 228 * KIB, 227 * KIB),
            Architecture("sm_103a", 64, 32, 228 * KIB, 227 * KIB),
            Architecture("sm_110a", 48, 24, 228 * KIB, 227 * KIB),
            Architecture("sm_120a", 48, 24, 100 * KIB, 99 * KIB),
            Architecture("sm_121a", 48, 24, 100 * KIB, 99 * KIB),
        )
    }
)


@dataclass(frozen=True)
class Occupancy:
    """How many thread blocks and warps of a kernel an SM holds at once, and what limits that.

    Attributes
    ----------
    limit : ``"warps"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``
    """

    blocks: int
    warps: int
    fraction: float
    limit: str


def get_architecture(name: str) -> Architecture:
    """The architecture of a name; raises `CheckError` with the nearest names.

    ``sm_90`` has the limits of ``sm_90a``, and lacks its instructions of its own (wgmma).
    """
    if name not in ARCHITECTURES:
        for alike in ARCHITECTURES.values():
            if re.fullmatch(rf"sm_{alike.capability}[af]?", name):
                return replace(alike, name=name)
        hint = suggest(name, ARCHITECTURES, f"there are {', '.join(ARCHITECTURES)}")
        raise CheckError(f"there is no architecture '{name}'; {hint}")
    return ARCHITECTURES[name]


def compute_occupancy(
    architecture: Architecture, *, threads: int, registers: int, shared_bytes: int
) -> Occupancy:
    """The occupancy of a kernel of so many threads a block and registers a thread.

    The SM is taken to be set to its largest shared memory. `shared_bytes` are static and dynamic.
    """
    warps = _round_up(threads, WARP) // WARP
    of_warp = _round_up(registers * WARP, REGISTER_UNIT)
    warps_by_registers = REGISTERS // PARTITIONS // max(of_warp, 1) * PARTITIONS
    fits_block = of_warp * _round_up(warps, PARTITIONS) <= REGISTERS
    taken = _round_up(shared_bytes + architecture.shared_reserved, architecture.shared_unit)
    limits = {
        "warps": architecture.warps // warps if threads <= MAX_THREADS else 0,
        "blocks": architecture.blocks,
        "registers": warps_by_registers // warps if fits_block else 0,
        "shared memory": architecture.shared // taken if taken else architecture.blocks,
    }
    if shared_bytes > architecture.shared_per_block:
        limits["shared memory"] = 0
    limit = min(limits, key=lambda name: limits[name])
    resident = limits[limit] * warps
    return Occupancy(limits[limit], resident, resident / architecture.warps, limit)


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def find_refusal(limits: Architecture, kernels: Sequence[KernelFacts]) -> str | None:
    """Why an architecture cannot run kernels, as far as their lowering shows; None if it can.

    The compiler cannot tell: it does not see dynamic shared memory, and for sm_90 it accepts
    static shared memory that no launch gets.
    """
    for kernel in kernels:
        static, shared = kernel.static_shared_bytes or 0, kernel.shared_bytes or 0
        threads = kernel.threads or 1
        reasons = {
            f"a thread block has {threads} threads, and may have {MAX_THREADS}": threads
            > MAX_THREADS,
            f"static shared memory is {_kib(static)}, and may be {_kib(MAX_STATIC_SHARED)}": (
                static > MAX_STATIC_SHARED
            ),
            f"shared memory is {_kib(shared)}, and may be {_kib(limits.shared_per_block)}": (
                shared > limits.shared_per_block
            ),
            "cp.async needs sm_80 or later": bool(kernel.copies) and limits.capability < 80,
            "wgmma runs only on sm_90a": bool(kernel.wgmma) and limits.name != "sm_90a",
        }
        for reason, holds in reasons.items():
            if holds:
                return f"{limits.name} cannot run {kernel.name}: {reason}"
    return None


def _kib(size: int) -> str:
    return f"{size / KIB:g} KiB"
