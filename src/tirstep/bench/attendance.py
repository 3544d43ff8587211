"""How long the workers of a search had nothing to do."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Waited:
    """The workers of one step, from the first candidate that came to the last that was done.

    Attributes
    ----------
    workers : how many there were, those included that came later or left
    part : of the time that they were there, in which they had nothing to do; 0.25 for a quarter
    """

    step: str
    workers: int
    part: float


class Attendance:
    """Which workers are there since when, and how long they worked; `now` is a clock in seconds.

    A worker that comes late, or leaves, did not wait before and after.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._there: dict[str, tuple[str, float]] = {}
        self._stays: list[tuple[str, float, float]] = []
        self._names: dict[str, set[str]] = {}
        self._worked: defaultdict[str, float] = defaultdict(float)
        self._began: float | None = None
        self._ended = 0.0

    def come(self, name: str, step: str) -> None:
        """A worker is there from now on."""
        self._there[name] = (step, self._now())
        self._names.setdefault(step, set()).add(name)

    def leave(self, name: str) -> None:
        """A worker is not there any more; nothing for one that was not."""
        if name in self._there:
            self._stays.append((*self._there.pop(name), self._now()))

    def work(self, step: str, seconds: float) -> None:
        """One worker of a step had to do for so long."""
        self._worked[step] += seconds

    def mark(self) -> None:
        """Candidates came, or were done: the time that counts goes from the first mark to now."""
        self._ended = self._now()
        if self._began is None:
            self._began = self._ended

    @property
    def seconds(self) -> float:
        """From the first mark to the last."""
        return 0.0 if self._began is None else self._ended - self._began

    @property
    def waited(self) -> list[Waited]:
        """By step."""
        began = self._ended if self._began is None else self._began
        there: defaultdict[str, float] = defaultdict(float)
        now = [(step, since, self._ended) for step, since in self._there.values()]
        for step, since, until in [*self._stays, *now]:
            there[step] += max(0.0, min(until, self._ended) - max(since, began))
        return [
            Waited(step, len(names), max(0.0, 1.0 - self._worked[step] / there[step]))
            for step, names in self._names.items()
            if there[step]
        ]
