"""Whether a contender's output is right: float64 decides, within the kernel's own bound.

The same code judges arrays of NumPy and tensors of PyTorch: `xp` is the module they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tirstep.lowering_checks.numeric import describe_wrong, find_wrong
from tirstep.modules.numeric import bound_storing


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
        bound = bound_storing(self.expected, self.bound, dtype, self.xp)
        return replace(self, dtype=dtype, bound=bound)

    def find_error(self, output: Any) -> str | None:
        """One sentence of what is wrong with an output in float64; None if it is right.

        A NaN is wrong: it is what outputs are filled with, and stays where nothing is written.
        """
        if tuple(output.shape) != tuple(self.expected.shape):
            return f"the shape is {tuple(output.shape)}, not {tuple(self.expected.shape)}"
        ends = (self.expected - self.bound, self.expected + self.bound)
        wrong = find_wrong(output, self.expected, ends, self.xp)
        if not wrong.any():
            return None
        right = self.expected
        return describe_wrong(
            self.name, output, right, ends, wrong, reference="float64", xp=self.xp
        )
