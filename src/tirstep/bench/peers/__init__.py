"""The peers: who else computes a kernel, by name.

A module of a peer's framework is imported when the peer is asked for, and not before.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tvm
from tvm.s_tir import dlight

from tirstep.modules import Problem

from .. import PeerMissing

Prepare = Callable[[Sequence[Any], Any, Problem], Callable[[], Any]]
"""From inputs, output and problem to a launch, which returns a tensor if it is not the output."""

PACKAGES: Mapping[str, tuple[str, str, tuple[str, ...]]] = MappingProxyType(
    {
        "torch": ("torch", "PyTorch", ("torch_functions",)),
        "torch_cpu": ("torch", "PyTorch", ("torch_functions",)),
        "triton": ("triton", "Triton", ("triton_kernels",)),
    }
)
"""By peer: the package, its name for people, and the modules here with the functions of kernels."""


def get_function(peer: str, kernel: str) -> Prepare:
    """What prepares a peer's kernel; raises `PeerMissing` where there is none."""
    package, name, modules = PACKAGES[peer]
    if importlib.util.find_spec(package) is None:
        raise PeerMissing(f"{name} is not installed")
    for module in modules:
        functions: Mapping[str, Prepare] = importlib.import_module(f".{module}", __name__).FUNCTIONS
        if kernel in functions:
            return functions[kernel]
    raise PeerMissing(f"the benchmark has no {name} function for {kernel}")


def schedule_by_default(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Schedule a module with the first rule that fits it, and dlight's fallback where none does."""
    gpu = dlight.gpu
    rules = (
        gpu.Matmul(),
        gpu.GEMV(),
        gpu.Reduction(),
        gpu.GeneralReduction(),
        gpu.Transpose(),
        gpu.Fallback(),
    )
    with get_plain_target(target):
        return dlight.ApplyDefaultSchedule(*rules)(module)


def get_plain_target(target: Any) -> Any:
    """A target with an architecture that dlight knows.

    It does not understand one such as sm_90a, and then leaves the tensor cores out without a word;
    it gets the same one without the letter.
    """
    attributes = dict(target.attrs)
    attributes["arch"] = str(attributes["arch"]).rstrip("af")
    return tvm.target.Target({"kind": "cuda", **attributes})
