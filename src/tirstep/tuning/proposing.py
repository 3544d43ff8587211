"""Which configs of a recipe are tried next: the recipe's own, those that are known to be fast, some
at random, and neighbours of the fastest.

MetaSchedule's evolutionary search needs 50 candidates that nobody has measured for its first
generation, and replays without an end where most configs are refused; a recipe's choices have a
dozen configs or a million.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

Decisions = dict[str, int]
RANDOM_FIRST = 12
"""Configs at random before neighbours of the fastest come in."""
PARENTS = 5
"""The fastest, whose neighbours are tried."""
RANDOM_SHARE = 0.3
"""Of those behind the first: at random, for what no neighbour leads to."""
LISTED = 20000
"""Of more configs than these, none are listed in advance."""
DRAWS = 2000
"""Draws in turn of what was proposed before, after which nothing more is proposed."""


class Proposals:
    """Each config once.

    `sizes` are how many values each choice has, `seed` makes it repeatable, and `promising` come
    behind the recipe's own config, before all others.
    """

    def __init__(
        self, sizes: dict[str, int], seed: int, promising: Sequence[Decisions] = ()
    ) -> None:
        self._sizes = sizes
        self._promising = [{name: each[name] for name in sizes} for each in promising]
        self._rng = random.Random(seed)
        self._seen: set[tuple[int, ...]] = set()
        self._ranked: list[tuple[float, Decisions]] = []
        self._listed: list[tuple[int, ...]] | None = None
        if self.total <= LISTED:
            self._listed = list(_enumerate([*sizes.values()]))
            self._rng.shuffle(self._listed)

    @property
    def total(self) -> int:
        """How many configs there are."""
        return math.prod(self._sizes.values())

    def learn(self, decisions: Decisions, seconds: float) -> None:
        """Take in what a config came to; infinite where it is out."""
        self._seen.add(tuple(decisions.values()))
        if math.isfinite(seconds):
            self._ranked.append((seconds, dict(decisions)))
            self._ranked.sort(key=lambda pair: pair[0])

    def propose(self) -> Decisions | None:
        """The next config; None where all were proposed, or nothing new is found any more."""
        own = dict.fromkeys(self._sizes, 0)
        if tuple(own.values()) not in self._seen:
            return self._take(own)
        while self._promising:
            known = self._promising.pop(0)
            if tuple(known.values()) not in self._seen:
                return self._take(known)
        is_late = len(self._seen) > RANDOM_FIRST and self._ranked
        if is_late and self._rng.random() >= RANDOM_SHARE:
            neighbour = self._find_neighbour()
            if neighbour is not None:
                return self._take(neighbour)
        return self._draw()

    def _find_neighbour(self) -> Decisions | None:
        """One of the fastest with another value for one of its choices, that is not seen yet."""
        parents = self._ranked[:PARENTS]
        new = [
            (weight, {**parent, name: value})
            for weight, (_, parent) in zip(range(len(parents), 0, -1), parents, strict=True)
            for name, size in self._sizes.items()
            for value in range(size)
            if (*{**parent, name: value}.values(),) not in self._seen
        ]
        if not new:
            return None
        (picked,) = self._rng.choices(new, [weight for weight, _ in new])
        return picked[1]

    def _draw(self) -> Decisions | None:
        if self._listed is not None:
            while self._listed:
                places = self._listed.pop()
                if places not in self._seen:
                    return self._take(dict(zip(self._sizes, places, strict=True)))
            return None
        for _ in range(DRAWS):
            drawn = {name: self._rng.randrange(size) for name, size in self._sizes.items()}
            if tuple(drawn.values()) not in self._seen:
                return self._take(drawn)
        return None

    def _take(self, decisions: Decisions) -> Decisions:
        self._seen.add(tuple(decisions.values()))
        return decisions


def _enumerate(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not sizes:
        yield ()
        return
    for place in range(sizes[0]):
        for rest in _enumerate(sizes[1:]):
            yield (place, *rest)
