"""What a problem's outputs must be in float64, worked out while the GPU measures others, and
whether a candidate's are that, within the kernel's own bound.

The same code checks arrays of NumPy and tensors of PyTorch: `xp` is the module they belong to.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tirstep.lowering_checks.numeric import describe_wrong, find_wrong
from tirstep.modules import Problem
from tirstep.modules.numeric import Array, bound_storing, round_end

AHEAD = 3
"""So many threads, and so many references of problems to come."""

T = TypeVar("T")


@dataclass(frozen=True)
class Reference:
    """Inputs of a problem, and what is expected of them, computed when it is first asked for.

    Attributes
    ----------
    is_exact : for whole numbers, where nothing is tolerated but the rounding of a narrow output
    """

    problem: Problem
    inputs: Sequence[Array]
    is_exact: bool = False

    @cached_property
    def right(self) -> tuple[Array, ...]:
        """The outputs in float64; of whole numbers, as their types store them."""
        right = map(np.asarray, self.problem.reference(self.inputs))
        if not self.is_exact:
            return tuple(right)
        pairs = zip(right, self.problem.outputs, strict=True)
        return tuple(round_end(values, output.dtype, 1) for values, output in pairs)

    @cached_property
    def bound(self) -> tuple[Array, ...]:
        """How far from them each element may be."""
        if self.is_exact:
            return tuple(map(np.zeros_like, self.right))
        return tuple(map(np.asarray, self.problem.error_bound(self.inputs)))


def look_ahead(
    items: Iterable[T], work_out: Callable[[T], Reference]
) -> Iterator[Callable[[], Reference]]:
    """What returns an item's reference, for each in order; those of later items are begun."""
    coming: deque[Future[Reference]] = deque()
    for item in items:
        coming.append(_begin(work_out, item))
        if len(coming) > AHEAD:
            yield coming.popleft().result
    while coming:
        yield coming.popleft().result


def _begin(work_out: Callable[[T], Reference], item: T) -> Future[Reference]:
    """Work a reference out in a thread that nobody waits for at the end: Ctrl-C ends a run at once,
    and NumPy may be minutes from it.
    """
    future: Future[Reference] = Future()

    def run() -> None:
        try:
            future.set_result(work_out(item))
        except BaseException as error:  # whoever asks for the result gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


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
