"""Whether a contender's output is right: float64 decides, within the kernel's own bound.

The same code judges arrays of NumPy and tensors of PyTorch: `xp` is the module they belong to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tirstep.modules import Problem
from tirstep.modules.dtypes import dtype_facts


@dataclass(frozen=True)
class Expectation:
    """What an output must be, in float64, and how far from it each element may be.

    Attributes
    ----------
    name, dtype : of the output
    """

    name: str
    dtype: str
    expected: Any
    bound: Any
    xp: Any

    def stored_in(self, dtype: str) -> Expectation:
        """The expectation for a peer whose result is of another type: it may round once more."""
        if dtype == self.dtype:
            return self
        facts = dtype_facts(dtype)
        rounding = facts.unit_roundoff * (self.xp.abs(self.expected) + self.bound)
        return replace(self, dtype=dtype, bound=self.bound + rounding + facts.underflow)

    def find_error(self, output: Any) -> str | None:
        """One sentence of what is wrong with an output in float64; None if it is right.

        A NaN is wrong: it is what outputs are filled with, and stays where nothing is written.
        """
        if tuple(output.shape) != tuple(self.expected.shape):
            return f"the shape is {tuple(output.shape)}, not {tuple(self.expected.shape)}"
        wrong = ~(self.xp.abs(output - self.expected) <= self.bound)
        count = int(wrong.sum())
        if not count:
            return None
        flat = int((wrong.reshape(-1) * 1).argmax())
        got, right, allowed = (
            float(one.reshape(-1)[flat]) for one in (output, self.expected, self.bound)
        )
        place = ", ".join(map(str, _unravel(flat, tuple(wrong.shape))))
        return (
            f"{self.name}[{place}] is {got:.7g}, and float64 has {right:.7g} with an error of at "
            f"most {allowed:.3g}; {count} of {math.prod(wrong.shape)} elements are wrong"
        )


def bound_sums(problem: Problem, expected: Any, magnitudes: Any, xp: Any) -> Any:
    """`Problem.error_bound` of a kernel that sums products, for any array module.

    `magnitudes` is the reference of the inputs' absolute values.
    """
    acc, out = dtype_facts(problem.accumulator), dtype_facts(problem.outputs[0].dtype)
    if not acc.is_float:
        return 0.0 * magnitudes
    roundings = problem.terms * acc.unit_roundoff
    gamma = roundings / (1 - roundings) if roundings < 1 else math.inf
    # A sum without a single term is exact, whatever gamma (0 times infinity is no number).
    summing = xp.where(magnitudes > 0, gamma * magnitudes, 0.0 * magnitudes)
    summing = summing + max(problem.terms, 1) * acc.underflow
    return summing + out.unit_roundoff * (xp.abs(expected) + summing) + out.underflow


def _unravel(flat: int, shape: tuple[int, ...]) -> list[int]:
    index = []
    for extent in reversed(shape):
        flat, rest = divmod(flat, extent)
        index.append(rest)
    return index[::-1]
