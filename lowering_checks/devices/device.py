"""The interface of a device, and what all devices share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.s_tir import SBlock
from tvm.tirx import For

from tirstep.modules import Tensor
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.queries import find_all, find_axis

from .fault import Fault

Arrays = list[np.ndarray[Any, Any]]


class DeviceError(RuntimeError):
    """A device cannot do what was asked: one sentence of what is wrong and what to do."""


class Program:
    """A compiled module: called with all arguments, outputs too, it returns them after the run.

    Attributes
    ----------
    faults : what the device saw go wrong in the last run; always empty on devices that only compute
    """

    def __init__(self, run: Callable[[Arrays], tuple[Arrays, Sequence[Fault]]]) -> None:
        self._run = run
        self.faults: Sequence[Fault] = ()

    def __call__(self, arguments: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        arrays, self.faults = self._run([np.ascontiguousarray(array) for array in arguments])
        return arrays


@dataclass(frozen=True)
class Timing:
    """Times of one kernel call in seconds: the median of `repeats`, and the quartiles."""

    median: float
    lower: float
    upper: float
    repeats: int


class Device(Protocol):
    """Where modules run."""

    @property
    def name(self) -> str:
        """The short name, as for ``--device``."""

    @property
    def description(self) -> str:
        """What it is, for people: the GPU's name, say."""

    @property
    def has_clock(self) -> bool:
        """Whether `time` says something about a GPU."""

    def find_obstacle(self, module: tvm.IRModule) -> str | None:
        """Why this device cannot run a module, in a few words; None if it can."""

    def compile(self, module: tvm.IRModule) -> Program:
        """Compile a module; raises `DeviceError` where the compiler or the device refuses."""

    def time(self, module: tvm.IRModule, arguments: Sequence[np.ndarray[Any, Any]]) -> Timing:
        """Time a module's ``main``; raises `DeviceError` on a device without a clock."""


def run(program: Program, inputs: Arrays, outputs: Sequence[Tensor]) -> Arrays:
    """Run a program on inputs, with outputs filled with NaN (integers: the smallest value)."""
    blanks = [blank(tensor) for tensor in outputs]
    return program([*inputs, *blanks])[len(inputs) :]


def blank(tensor: Tensor) -> np.ndarray[Any, Any]:
    """An output before the run: every element is one that no kernel of ours computes."""
    facts = dtype_facts(tensor.dtype)
    filler = np.nan if facts.is_float else facts.smallest
    return np.full(tensor.shape, filler, dtype=facts.numpy)


def find_unbound_blocks(module: tvm.IRModule) -> list[str]:
    """The blocks of a module that no loop binds to a GPU: it cannot be launched with them."""
    unbound = []
    for _, function in module.functions_items():
        bound: list[Any] = []
        for loop in find_all(function.body, For):
            if "Idx" in (find_axis(loop) or ""):  # a virtual thread alone launches nothing
                bound.extend(find_all(loop, SBlock))
        for block in find_all(function.body, SBlock):
            if block.name_hint != "root" and not any(block.same_as(one) for one in bound):
                unbound.append(str(block.name_hint))
    return unbound
