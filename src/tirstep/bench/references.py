"""What a problem's output must be by NumPy in float64, worked out while the GPU measures others."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from tirstep.modules import Problem
from tirstep.modules.numeric import Array

AHEAD = 3
"""So many threads, and so many references of problems to come."""

T = TypeVar("T")


@dataclass(frozen=True)
class Reference:
    """Inputs of a problem, and what is expected of them, computed when it is first asked for.

    Attributes
    ----------
    is_exact : for whole numbers, where nothing is tolerated
    """

    problem: Problem
    inputs: Sequence[Array]
    is_exact: bool = False

    @cached_property
    def right(self) -> Array:
        """The output in float64."""
        return np.asarray(self.problem.reference(self.inputs)[0])

    @cached_property
    def bound(self) -> Array:
        """How far from it each element may be."""
        if self.is_exact:
            return np.zeros_like(self.right)
        return np.asarray(self.problem.error_bound(self.inputs)[0])


def look_ahead(
    items: Iterable[T], work_out: Callable[[T], Reference]
) -> Iterator[Callable[[], Reference]]:
    """What returns an item's reference, for each in order; those of later items are begun."""
    with ThreadPoolExecutor(AHEAD) as pool:
        coming: deque[Future[Reference]] = deque()
        try:
            for item in items:
                coming.append(pool.submit(work_out, item))
                if len(coming) > AHEAD:
                    yield coming.popleft().result
            while coming:
                yield coming.popleft().result
        finally:
            for one in coming:
                one.cancel()
