"""Which candidates of a search come next, and what is to be gained from those that are left.

A model of time says what each candidate should take. What was measured corrects it: by the median
ratio of the candidates of the same tile, or of all. So the order of those that are left changes as
the search goes on.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tirstep.transforms.recipes.forecast import Forecast

Sizes = dict[str, object]

AT_RANDOM = 4
"""One candidate of so many is drawn where a limit leaves others out: the model may be wrong."""
OWN = 8
"""Configs of the model's own that are candidates, whether the recipe's choices have them or not."""
DECILES = 10
"""A tenth of the candidates beat their corrected forecast by more than is hoped for."""


class SearchOrder:
    """The candidates of a search that are left; with a forecast, the most promising come first.

    The first candidate stays first: it is the config that the recipe has by itself.
    """

    def __init__(self, candidates: Sequence[Sizes], forecast: Forecast | None = None) -> None:
        self._forecast = forecast
        self._left = list(candidates)
        self._expected: dict[int, tuple[float, object]] = {}
        self._ratios: dict[object, list[float]] = defaultdict(list)
        self._factors: dict[object, float] = {}
        self._factor = 1.0
        if forecast is not None:
            self._expected = {
                id(config): (forecast.predict(config), forecast.get_tile(config))
                for config in self._left
            }
            self._left[1:] = sorted(self._left[1:], key=self._correct)

    @property
    def left(self) -> int:
        """How many candidates were not taken yet."""
        return len(self._left)

    def take(self, count: int) -> list[Sizes]:
        """The next candidates, so many at most."""
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def learn(self, times: Sequence[tuple[Sizes, float]]) -> None:
        """Correct the forecast by what configs were measured to take, in microseconds."""
        if self._forecast is None:
            return
        for config, us in times:
            expected = self._forecast.predict(config)
            if expected != float("inf"):
                self._ratios[self._forecast.get_tile(config)].append(us / expected)
        if self._ratios:
            self._factors = {tile: statistics.median(it) for tile, it in self._ratios.items()}
            self._factor = statistics.median(itertools.chain(*self._ratios.values()))
        self._left.sort(key=self._correct)

    def expect_gain(self, best_us: float) -> float | None:
        """By which part the best of those that are left may at best be faster than `best_us`.

        0.03 for three percent, 0 for none. None without a forecast, or with nothing learnt.
        """
        if self._forecast is None or not self._ratios:
            return None
        if not self._left:
            return 0.0
        spread = [
            ratio / self._factors[tile] for tile, each in self._ratios.items() for ratio in each
        ]
        deciles = statistics.quantiles(spread, n=DECILES, method="inclusive") if spread[1:] else []
        luck = min([1.0, *deciles[:1]])
        hoped = self._correct(self._left[0]) * luck
        return max(0.0, best_us / hoped - 1.0)

    def _correct(self, config: Sizes) -> float:
        """What a candidate should take, by what was measured."""
        expected, tile = self._expected[id(config)]
        return expected * self._factors.get(tile, self._factor)


def choose_promising(
    candidates: Sequence[Sizes], forecast: Forecast, limit: int, seed: int
) -> list[Sizes]:
    """So many candidates: the first one, the most promising, and one of `AT_RANDOM` drawn."""
    first, rest = candidates[0], sorted(candidates[1:], key=forecast.predict)
    drawn = min((limit - 1) // AT_RANDOM, max(0, len(rest) - (limit - 1)))
    promising, others = rest[: limit - 1 - drawn], rest[limit - 1 - drawn :]
    return [first, *promising, *random.Random(seed).sample(others, drawn)]


def list_own(
    forecast: Forecast, fixed: Mapping[str, object], among: Mapping[str, Sequence[Any]]
) -> list[Sizes]:
    """The model's own configs that have all `fixed` knobs, and values of others that are searched
    among some alone.
    """
    return [
        config
        for config in forecast.list_best(OWN)
        if all(config[name] == value for name, value in fixed.items())
        and all(config[name] in values for name, values in among.items())
    ]
