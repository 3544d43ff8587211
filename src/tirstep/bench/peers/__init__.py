"""The peers: what else computes a kernel, as baselines.

`PEERS` is the one table of them: suites, tables, plots, the versions in a document and what is
compiled ahead read it. A new peer is a module here and a row there. One for a single run needs
neither: `Peer("torch_mine", "mine", functions=wrap_function(lambda a, b: a @ b))`, with a function
of tensors, is a peer as those here are.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import tvm
from tvm.s_tir import dlight

from tirstep.modules import Problem

from .. import BenchError, PeerMissing

Prepare = Callable[[Sequence[Any], Any, Problem], Callable[[], Any]]
"""From inputs, output and problem to a launch, which returns a result if it is not the output.

Of several outputs a tuple is given, and one returned.
"""
Schedule = Callable[[tvm.IRModule, Any], tvm.IRModule]
"""From a module and a target of TVM to a bound module."""


@dataclass(frozen=True)
class Peer:
    """Who computes kernels on the GPU, in turns with the recipes: by functions of PyTorch's
    tensors, or by a schedule of its own.

    Attributes
    ----------
    name : in documents; no recipe's and no other peer's
    title : for people
    package : which must be installed, by the name that imports it; it is PyPI's name, too
    functions : one for all kernels, or the module here whose ``FUNCTIONS`` has them by kernel
    schedule : in place of functions: TVM compiles what it makes of the kernel
    is_in_suites : whether every suite has it that names no peers

    Raises `BenchError` for a peer that has both functions and schedule, or neither.
    """

    name: str
    title: str
    package: str | None = None
    functions: str | Prepare | None = field(default=None, repr=False)
    schedule: Schedule | None = field(default=None, repr=False)
    is_in_suites: bool = True

    def __post_init__(self) -> None:
        if (self.functions is None) == (self.schedule is None):
            raise BenchError(f"the peer '{self.name}' needs functions or a schedule, one of them")

    def get_function(self, kernel: str) -> Prepare:
        """What prepares a kernel; raises `PeerMissing` where there is none."""
        if self.package and importlib.util.find_spec(self.package) is None:
            raise PeerMissing(f"{self.title} is not installed")
        if callable(self.functions):
            return self.functions
        module = importlib.import_module(f".{self.functions}", __name__)
        if kernel not in module.FUNCTIONS:
            raise PeerMissing(f"the benchmark has no {self.title} function for {kernel}")
        found: Prepare = module.FUNCTIONS[kernel]
        return found


def wrap_function(function: Callable[..., Any]) -> Prepare:
    """The `Peer.functions` of one function, from a kernel's inputs in order to its output.

    Of several outputs it returns a tuple, in their order.
    """
    return lambda inputs, out, problem: lambda: function(*inputs)


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
        # dlight writes what it schedules into the module that it is given, too.
        return dlight.ApplyDefaultSchedule(*rules)(tvm.IRModule(dict(module.functions_items())))


def get_plain_target(target: Any) -> Any:
    """A target with an architecture that dlight knows.

    It does not understand one such as sm_90a, and then leaves the tensor cores out without a word;
    it gets the same one without the letter.
    """
    attributes = dict(target.attrs)
    attributes["arch"] = str(attributes["arch"]).rstrip("af")
    return tvm.target.Target({"kind": "cuda", **attributes})


def use_backend(name: str) -> Prepare:
    """What prepares attention by a backend of `torch.nn.attention.SDPBackend`, by its name; PyTorch
    does not choose.

    Raises `PeerMissing` for another kernel, and where the backend does not take the problem.
    """

    def prepare(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        from .torch_functions import FUNCTIONS

        kernel = problem.kernel.name
        if kernel not in ("attention", "decode_attention"):
            raise PeerMissing(f"{name} computes only attention")
        attend = FUNCTIONS[kernel](inputs, out, problem)

        def launch() -> Any:
            with sdpa_kernel(SDPBackend.__members__[name]):
                return attend()

        try:
            launch()
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise PeerMissing(f"{name} does not take this problem: {reason}") from None
        return launch

    return prepare


_ROWS = (
    Peer("torch", "PyTorch", package="torch", functions="torch_functions"),
    Peer("triton", "Triton", package="triton", functions="triton_kernels"),
    Peer("dlight", "dlight", schedule=schedule_by_default),
    *(
        Peer(name, title, package="torch", functions=use_backend(backend), is_in_suites=False)
        for name, title, backend in (
            ("cudnn", "cuDNN", "CUDNN_ATTENTION"),
            ("flash_attention", "FlashAttention 2", "FLASH_ATTENTION"),
        )
    ),
)
PEERS: Mapping[str, Peer] = MappingProxyType({peer.name: peer for peer in _ROWS})
SUITE_PEERS = tuple(peer for peer in _ROWS if peer.is_in_suites)
"""Those of the suites that name none."""
FORMER = MappingProxyType({"numpy": "NumPy (CPU)", "torch_cpu": "PyTorch (CPU)"})
"""Peers of stored runs that newer runs do not have."""


def show_name(candidate: str) -> str:
    """A candidate's name for people: a peer's title, and a recipe's own name."""
    return PEERS[candidate].title if candidate in PEERS else FORMER.get(candidate, candidate)
