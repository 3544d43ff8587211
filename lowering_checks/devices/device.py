"""The interface of a device, and what all devices share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.s_tir import SBlock
from tvm.tirx import For, Var

from tirstep.modules import Tensor
from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.queries import constant, find_all, find_axis

from .fault import Fault

Arrays = list[np.ndarray[Any, Any]]


class DeviceError(RuntimeError):
    """A device cannot do what was asked: one sentence of what is wrong and what to do."""


def require_arguments(parameters: Sequence[Any], arguments: Arrays) -> None:
    """Raise `DeviceError` for arrays that are not what a function takes; sizes may be open."""
    if len(parameters) != len(arguments):
        names = ", ".join(str(parameter.name) for parameter in parameters)
        raise DeviceError(f"the module takes {names}, and {len(arguments)} arguments are given")
    sizes: dict[Any, int] = {}
    for parameter, array in zip(parameters, arguments, strict=True):
        extents = list(parameter.shape)
        fits = len(extents) == array.ndim and str(parameter.dtype) == str(array.dtype)
        for extent, size in zip(extents, array.shape, strict=False):
            if isinstance(extent, Var):
                sizes.setdefault(extent, size)
            fits = fits and sizes.get(extent, constant(extent)) in (size, None)
        if not fits:
            raise DeviceError(
                f"{parameter.name} is {parameter.dtype} of shape {_show(extents)}, and the "
                f"argument is {array.dtype} of shape {_show(array.shape)}"
            )


def _show(shape: Sequence[Any]) -> str:
    """A shape as NumPy writes it."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


class Program:
    """A compiled module: called with all arguments, outputs too, it returns them after the run.

    `parameters` are the function's, which the arguments must fit; without them, nothing is checked.

    Attributes
    ----------
    faults : what the device saw go wrong in the last run; always empty on devices that only compute
    """

    def __init__(
        self,
        run: Callable[[Arrays], tuple[Arrays, Sequence[Fault]]],
        parameters: Sequence[Any] | None = None,
    ) -> None:
        self._run, self._parameters = run, parameters
        self.faults: Sequence[Fault] = ()

    def __call__(self, arguments: Sequence[np.ndarray[Any, Any]]) -> Arrays:
        given = [np.ascontiguousarray(array) for array in arguments]
        if self._parameters is not None:
            require_arguments(self._parameters, given)
        arrays, self.faults = self._run(given)
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
