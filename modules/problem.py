"""What every check asks of a problem: of a kernel's, and of a module's that has no kernel."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import tvm

from tirstep.modules.error_bounds import bound_storing, round_end
from tirstep.modules.inputs import Array

_T = TypeVar("_T")
"""An array, or what stands for one on a device."""


@dataclass(frozen=True)
class Tensor:
    """One argument of a function; a scalar parameter is one of shape ()."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_scalar: bool = False


class AnyProblem(ABC):
    """A module with its inputs and what it must compute of them.

    Attributes
    ----------
    kernel : what it is a problem of: its `name`, its `meaning`
    shape, options : the sizes and options that were settled, by name
    """

    kernel: Any
    shape: Mapping[str, int]
    options: Mapping[str, Any]
    reference_name: ClassVar[str] = "NumPy"  # whose numbers `reference` has, for sentences
    symbolic: tuple[str, ...] = ()  # the sizes that the module takes from its arguments

    @property
    @abstractmethod
    def module(self) -> tvm.IRModule:
        """The module, whose function is called ``main``."""

    @property
    @abstractmethod
    def arguments(self) -> tuple[Tensor, ...]:
        """All arguments, in the function's order."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments that are read, in their order."""

    @property
    @abstractmethod
    def outputs(self) -> tuple[Tensor, ...]:
        """The arguments that are written, in their order; one also read is an input too."""

    @property
    @abstractmethod
    def accumulator(self) -> str:
        """The data type that sums are formed in."""

    @property
    @abstractmethod
    def is_exact(self) -> bool:
        """Whether any legal schedule gives the same bits on `integer_inputs`."""

    @property
    @abstractmethod
    def flops(self) -> int:
        """The operations."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """The least bytes to move: every input read once, every output written once."""

    @abstractmethod
    def integer_rounds(self, seed: int) -> list[list[Array]]:
        """Whole numbers, as few lists of inputs as show every term."""

    @abstractmethod
    def float_inputs(self, seed: int) -> list[Array]:
        """Random floats; for an integer type integers that overflow nothing."""

    @abstractmethod
    def planted_inputs(self, seed: int) -> list[list[Array]]:
        """`float_inputs`, with corner cases in them."""

    @abstractmethod
    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed and left in float64; raises `KernelError` for misshapen inputs."""

    @abstractmethod
    def compute(self, inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
        """Each output in float64, and how far off its elements may be before they are stored."""

    def corner_inputs(self, seed: int) -> list[tuple[tuple[str, ...], list[Array]]]:
        """Inputs of corner cases, each with what the rows of its first input are; mostly none."""
        return []

    def error_bound(self, inputs: Sequence[Array]) -> list[Array]:
        """How far from `reference` each element of an output may be, in absolute numbers."""
        return [
            bound_storing(exact, error, tensor.dtype)
            for tensor, (exact, error) in zip(self.outputs, self.compute(inputs), strict=True)
        ]

    def error_interval(self, inputs: Sequence[Array]) -> list[tuple[Array, Array]]:
        """The least and the largest value that each element of an output may have, in float64.

        Rounding keeps an order, so that what is stored lies between the two ends of what may have
        been computed, each rounded to the output's type: in a narrow type they mostly are one
        number, and an error far below half a unit in its last place shows where they are not.
        """
        intervals = []
        for tensor, (exact, error) in zip(self.outputs, self.compute(inputs), strict=True):
            with np.errstate(invalid="ignore"):  # an infinity less an infinite bound
                low, high = (
                    round_end(
                        np.where(np.isinf(exact), exact, exact + sign * error), tensor.dtype, sign
                    )
                    for sign in (-1, 1)
                )
            intervals.append((low, high))
        return intervals

    @property
    def in_out(self) -> tuple[int, ...]:
        """The places of the arguments that are inputs and outputs."""
        places = enumerate(self.arguments)
        return tuple(
            place for place, each in places if each in self.inputs and each in self.outputs
        )

    def find_refusal(self) -> str | None:
        """Why it cannot be judged, as a sentence; None where it can be."""
        return None

    @property
    def shape_text(self) -> str:
        """The sizes, ``64x48x32``; "" of what has none."""
        return "x".join(map(str, self.shape.values()))

    def integer_inputs(self, seed: int) -> list[Array]:
        """The first of `integer_rounds`."""
        return self.integer_rounds(seed)[0]

    def make_arguments(self, inputs: Sequence[_T], outputs: Sequence[_T]) -> list[_T]:
        """All arguments, in the function's order; of one that is both, the input."""
        found = _by_name(self.outputs, outputs) | _by_name(self.inputs, inputs)
        return [found[tensor.name] for tensor in self.arguments]

    def take_inputs(self, arguments: Sequence[_T]) -> list[_T]:
        """The inputs among all arguments."""
        found = _by_name(self.arguments, arguments)
        return [found[tensor.name] for tensor in self.inputs]

    def take_outputs(self, arguments: Sequence[_T]) -> list[_T]:
        """The outputs among all arguments."""
        found = _by_name(self.arguments, arguments)
        return [found[tensor.name] for tensor in self.outputs]


def _by_name(tensors: Sequence[Tensor], arrays: Sequence[_T]) -> dict[str, _T]:
    return {tensor.name: array for tensor, array in zip(tensors, arrays, strict=True)}
