"""GPUs by their properties: what a model of time needs to know of one that nobody measured.

The numbers are those of NVIDIA's data sheets and architecture white papers; clocks are the highest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from ..errors import TransformError

KIB = 1024


@dataclass(frozen=True)
class Gpu:
    """A GPU, as far as a choice of tiles depends on it.

    Attributes
    ----------
    shared_bytes : of a multiprocessor, as far as one block may take them
    gigabytes : that its memory moves in a second
    lanes : float32 products of a multiprocessor in a cycle
    """

    name: str
    multiprocessors: int
    megahertz: int
    shared_bytes: int
    gigabytes: int
    lanes: int = 128

    @property
    def bytes_per_us(self) -> float:
        """Of its memory."""
        return self.gigabytes * 1e3

    @property
    def lanes_per_us(self) -> float:
        """Float32 products of all multiprocessors in a microsecond."""
        return float(self.multiprocessors * self.lanes * self.megahertz)


H200 = Gpu("NVIDIA H200", 132, 1980, 227 * KIB, 4800)
GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            H200,
            Gpu("NVIDIA H100 80GB HBM3", 132, 1980, 227 * KIB, 3350),
            Gpu("NVIDIA H100 PCIe", 114, 1755, 227 * KIB, 2000),
            Gpu("NVIDIA B200", 148, 1965, 227 * KIB, 8000),
            Gpu("NVIDIA A100-SXM4-80GB", 108, 1410, 163 * KIB, 2039, 64),
            Gpu("NVIDIA A100-SXM4-40GB", 108, 1410, 163 * KIB, 1555, 64),
            Gpu("NVIDIA GeForce RTX 5090", 170, 2407, 99 * KIB, 1792),
            Gpu("NVIDIA GeForce RTX 4090", 128, 2520, 99 * KIB, 1008),
            Gpu("NVIDIA GeForce RTX 3090", 82, 1695, 99 * KIB, 936),
            Gpu("NVIDIA L40S", 142, 2520, 99 * KIB, 864),
            Gpu("NVIDIA L4", 58, 2040, 99 * KIB, 300),
            Gpu("NVIDIA A10", 72, 1695, 99 * KIB, 600),
        )
    }
)
"""By the name that CUDA gives them."""
