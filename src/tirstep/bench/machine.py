"""What outputs are held against, on whatever machine, and in which turns candidates run.

The same code checks arrays of NumPy and tensors of PyTorch: `xp` is the module they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tirstep.lowering_checks.numeric import describe_wrong, find_wrong
from tirstep.modules import Problem
from tirstep.modules.numeric import Array, bound_storing, round_end

from . import BenchError, shorten

if TYPE_CHECKING:
    from .torch_machine import TorchMachine as Machine

Launch = Callable[[], Any]
"""Computes once, into the output that it was made for, or into one that it returns."""


@dataclass(frozen=True)
class Replay:
    """A launch as it is timed.

    Attributes
    ----------
    run : computes once; returns None where the results are in `outputs`
    outputs : the tensors that `run` writes, or wrote the first time
    launched : ``"graph"`` for a recorded CUDA graph, ``"call"`` where recording failed
    kept : what must live as long as the replay
    """

    run: Callable[[], object]
    outputs: tuple[Any, ...]
    launched: str
    kept: object = field(default=None, repr=False)


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


def take_results(result: Any, outputs: Sequence[Any]) -> tuple[Any, ...]:
    """What a launch computed: what it returned, one result or several, or else `outputs`."""
    if result is None:
        return tuple(outputs)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def require_alive(machine: Machine, candidate: str, error: Exception) -> None:
    """Raise `BenchError` if the error of a candidate ended the device's context, for all after it.

    A fault inside of a kernel does so.
    """
    try:
        machine.clear()
        machine.free_bytes()
    except Exception as gone:
        raise BenchError(
            f"{candidate} left the device unusable ({shorten(error)}); leave it out, or find what "
            "is wrong with tirstep check, and begin again"
        ) from gone


def plan_repeats(seconds: Sequence[float], rounds: int, budget: float) -> list[int]:
    """How often each is to run, from one time of each: `rounds`, fewer where that takes too long.

    What is slow gets as many runs as fit into `budget` seconds, three at least, and one if a
    single run takes longer than that.
    """
    return [
        1 if once > budget else max(min(3, rounds), min(rounds, int(budget / max(once, 1e-9))))
        for once in seconds
    ]


def order_turns(repeats: Sequence[int]) -> Iterator[int]:
    """Whose turn it is: rounds of all that have runs left, each beginning with another one.

    So the drift of the clock touches all of them alike, and none always follows the same other.
    """
    left = list(repeats)
    for number in range(max(left, default=0)):
        for place in range(len(left)):
            turn = (place + number) % len(left)
            if left[turn] > 0:
                left[turn] -= 1
                yield turn
