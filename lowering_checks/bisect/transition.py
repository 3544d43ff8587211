"""Where a row of states goes from right to wrong, by bisection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

IsRight = Callable[[int], "bool | None"]
SECONDS = 3.0
"""How long the states behind a transition are confirmed to be wrong, too."""


def bisect(count: int, is_right: IsRight, *, seconds: float = SECONDS) -> tuple[int, int]:
    """Two places with a right state, a wrong one, and none between that can be judged.

    The places are 0 to ``count - 1``, and the last of them is wrong. `is_right` is None for a state
    that cannot be judged, and is called once for each place. The first of the two returned is -1
    where no right state was found.

    A wrong state that a right one follows is not what made the last one wrong: the judging device
    may as well have erred. So the states behind the transition are judged, too, near ones first,
    and bisected again behind the last right one. All of them, unless that takes too long.
    """
    known: dict[int, bool | None] = {count - 1: False}

    def judge(place: int) -> bool | None:
        if place not in known:
            known[place] = is_right(place)
        return known[place]

    low = -1
    while True:
        low, high = _narrow(low, count - 1, judge)
        later = _find_right(high, count, judge, time.monotonic() + seconds)
        if later is None:
            return low, high
        low = later


def _narrow(low: int, high: int, judge: IsRight) -> tuple[int, int]:
    """A right place, or -1, and a wrong one, between which no place can be judged."""
    unknown: set[int] = set()
    while places := [place for place in range(low + 1, high) if place not in unknown]:
        middle = places[len(places) // 2]
        verdict = judge(middle)
        if verdict is None:
            unknown.add(middle)
        elif verdict:
            low = middle
        else:
            high = middle
    return low, high


def _find_right(high: int, count: int, judge: IsRight, deadline: float) -> int | None:
    """The last place behind `high` that is found right; None where all are wrong or unknown."""
    found = None
    for place in _gallop(high, count - 1):
        if time.monotonic() > deadline:
            break
        if (found is None or place > found) and judge(place):
            found = place
    return found


def _gallop(low: int, high: int) -> Iterator[int]:
    """The places between two: those at distances of 1, 2, 4, ... first, then the others."""
    first = []
    step = 1
    while low + step < high:
        first.append(low + step)
        step *= 2
    yield from first
    yield from (place for place in range(low + 1, high) if place not in first)
