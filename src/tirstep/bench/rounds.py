"""A search in rounds, of which the next is under way while one ends: then nobody has to wait.

What comes next is chosen by what was measured in rounds that have ended. Which rounds these are
does not hang on who was fast, so a search that goes on from what was kept chooses the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from .workers import KeptCandidates, Screened, Sizes, Workers

AHEAD = 1
"""Rounds that begin before the one in front of them has ended."""


@dataclass
class Round:
    """Candidates that were chosen together.

    Attributes
    ----------
    left : how many of them are not done
    times : of those that ran and are right, in microseconds
    """

    size: int
    left: int
    times: list[tuple[Sizes, float]] = field(default_factory=list)

    def count(self, one: Screened) -> None:
        """One of them is done."""
        self.left -= 1
        if one.us is not None:
            self.times.append((one.config, one.us))


class Rounds:
    """Rounds over the workers of a search; they end in the order in which they began."""

    def __init__(
        self, workers: Workers, kept: KeptCandidates | None = None, ahead: int | None = None
    ) -> None:
        self._workers, self._kept = workers, kept
        self._ahead = AHEAD if ahead is None else ahead
        self._open: deque[Round] = deque()
        self._round_of: dict[tuple[object, ...], Round] = {}
        self._known: list[Screened] = []

    def run(
        self, take: Callable[[], Sequence[Sizes]]
    ) -> Iterator[tuple[Sequence[Screened], Round | None]]:
        """What became of candidates, as it comes; and, alone, each round that has ended.

        `take` gives the candidates of the next round, none for no more. It is asked after each
        round that ends, once the caller has learnt from it: round n is chosen by what came of the
        rounds up to n - 1 - `AHEAD`.
        """
        while True:
            while len(self._open) <= self._ahead and (configs := take()):
                self._begin(configs)
            if not self._open:
                return
            if self._open[0].left:
                yield self._collect(), None
            else:
                yield (), self._open.popleft()

    def _begin(self, configs: Sequence[Sizes]) -> None:
        """Of what is known nothing runs again."""
        begun = Round(len(configs), len(configs))
        self._open.append(begun)
        self._round_of.update((_spell(config), begun) for config in configs)
        left = []
        for config in configs:
            known = None if self._kept is None else self._kept.find(config)
            if known is None:
                left.append(config)
            else:
                self._known.append(known)
        if left:
            self._workers.submit(left)

    def _collect(self) -> Sequence[Screened]:
        """What is known first, then the others as they come."""
        part, self._known = self._known, []
        if not part:
            part = [*self._workers.collect()]
            if self._kept is not None:
                for one in part:
                    self._kept.add(one)
        for one in part:
            self._round_of.pop(_spell(one.config)).count(one)
        return part


def _spell(config: Sizes) -> tuple[object, ...]:
    return tuple(config.items())
