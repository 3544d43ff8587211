"""GPUs by their properties: what a model of time needs to know of one that nobody measured.

The numbers are those of NVIDIA's data sheets and architecture white papers; clocks are the highest.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ..schedule import TransformError


@dataclass(frozen=True)
class Gpu:
    """A GPU, as far as a choice of tiles depends on it.

    Attributes
    ----------
    shared_kib : of a multiprocessor, as far as one block may take them
    gigabytes : that its memory moves in a second
    lanes : float32 products of a multiprocessor in a cycle
    architecture : whose instructions it has
    """

    name: str
    multiprocessors: int
    megahertz: int
    shared_kib: int
    gigabytes: int
    lanes: int = 128
    architecture: str = "sm_90a"

    @property
    def shared_bytes(self) -> int:
        """Of a multiprocessor, as far as one block may take them."""
        return self.shared_kib << 10

    @property
    def lanes_per_us(self) -> float:
        """Float32 products of all multiprocessors in a microsecond."""
        return float(self.multiprocessors * self.lanes * self.megahertz)


H200 = Gpu("NVIDIA H200", 132, 1980, 227, 4800)
GPUS: Mapping[str, Gpu] = MappingProxyType(
    {
        gpu.name: gpu
        for gpu in (
            H200,
            Gpu("NVIDIA H100 80GB HBM3", 132, 1980, 227, 3350),
            Gpu("NVIDIA H100 PCIe", 114, 1755, 227, 2000),
            Gpu("NVIDIA B200", 148, 1965, 227, 8000, architecture="sm_100a"),
            Gpu("NVIDIA A100-SXM4-80GB", 108, 1410, 163, 2039, 64, "sm_80"),
            Gpu("NVIDIA A100-SXM4-40GB", 108, 1410, 163, 1555, 64, "sm_80"),
            Gpu("NVIDIA GeForce RTX 5090", 170, 2407, 99, 1792, architecture="sm_120a"),
            Gpu("NVIDIA GeForce RTX 4090", 128, 2520, 99, 1008, architecture="sm_89"),
            Gpu("NVIDIA GeForce RTX 3090", 82, 1695, 99, 936, architecture="sm_86"),
            Gpu("NVIDIA L40S", 142, 2520, 99, 864, architecture="sm_89"),
            Gpu("NVIDIA L4", 58, 2040, 99, 300, architecture="sm_89"),
            Gpu("NVIDIA A10", 72, 1695, 99, 600, architecture="sm_86"),
        )
    }
)
"""By the name that CUDA gives them."""
_PROPERTIES = ("multiprocessors", "megahertz", "shared_kib", "gigabytes", "lanes", "sm")


def read_gpu(text: str) -> Gpu:
    """The GPU of a name that CUDA gives it, or of a description, "multiprocessors=84
    megahertz=1695 shared_kib=99 gigabytes=936 lanes=128 sm=86", whose shared memory is that of a
    block, and which is as an H200 where nothing is said.

    Raises `TransformError` for an unknown name, and for a word or a number that is none.
    """
    if text in GPUS:
        return GPUS[text]
    if "=" not in text:
        near = difflib.get_close_matches(text, GPUS, n=1)
        hint = f"use '{near[0]}'" if near else f"use one of {', '.join(GPUS)}"
        raise TransformError(
            "read_gpu",
            f"the properties of '{text}' are not known",
            f'{hint}, or describe it: "multiprocessors=84 megahertz=1695 shared_kib=99 '
            'gigabytes=936"',
        )
    found: dict[str, Any] = {}
    for word in re.split(r"[\s,]+", text.strip()):
        name, _, number = word.partition("=")
        if name not in _PROPERTIES or not re.fullmatch(r"[1-9]\d{0,8}", number, re.ASCII):
            raise TransformError(
                "read_gpu",
                f"'{word}' is no property of a GPU",
                f"give {', '.join(f'{known}=N' for known in _PROPERTIES)}, N >= 1",
            )
        found[name] = int(number)
    if sm := found.pop("sm", 0):
        found["architecture"] = f"sm_{sm}{'a' if sm >= 90 else ''}"
    return replace(H200, name=text, **found)
