"""The peers: who else computes a kernel, by name.

A module of a peer's framework is imported when the peer is asked for, and not before.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tirstep.modules import Problem

from ..errors import PeerMissing

Prepare = Callable[[Sequence[Any], Any, Problem], Callable[[], Any]]
"""From inputs, output and problem to a launch, which returns a tensor if it is not the output."""

PACKAGES: Mapping[str, tuple[str, str, tuple[str, ...]]] = MappingProxyType(
    {
        "torch": ("torch", "PyTorch", ("torch_functions",)),
        "torch_cpu": ("torch", "PyTorch", ("torch_functions",)),
        "triton": (
            "triton",
            "Triton",
            ("triton_matmul", "triton_rows", "triton_maps", "triton_convolutions"),
        ),
    }
)
"""By peer: the package, its name for people, and the modules here with the functions of kernels."""


def find_function(peer: str, kernel: str) -> Prepare:
    """What prepares a peer's kernel; raises `PeerMissing` where there is none."""
    package, name, modules = PACKAGES[peer]
    if importlib.util.find_spec(package) is None:
        raise PeerMissing(f"{name} is not installed")
    for module in modules:
        functions: Mapping[str, Prepare] = importlib.import_module(f".{module}", __name__).FUNCTIONS
        if kernel in functions:
            return functions[kernel]
    raise PeerMissing(f"the benchmark has no {name} function for {kernel}")
