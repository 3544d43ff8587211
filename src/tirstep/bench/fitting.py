"""Fits the costs of the model of time to measured times, by least squares of their logarithms.

Costs and rates are varied by factors; each is held near where it began, so that what no time tells
apart stays where it was. The steps are those of Levenberg and Marquardt (D. Marquardt, An algorithm
for least-squares estimation of nonlinear parameters, 1963).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tirstep.transforms.recipes.time_model import Costs, Product, TileRate, estimate

BEGIN = {
    "sums_bytes_per_us": 6e6,
    "dram_bytes_per_us": 3e6,
    "l2_bytes_per_us": 8e6,
    "fill_us": 0.5,
    "store_us": 1e-4,
    "crowd": 0.1,
    "hidden": 0.1,
    "sums_us": 2.5,
    "launch_us": 3.0,
    "step_us": 0.6,
    "load_flops": 16.0,
    "begun": 1.0,
    "sums_step_us": 0.2,
    "scatter": 4.0,
}
"""Costs that are fitted, and where they begin: as measured before, roughly. The rate of all
multiprocessors is known, and those of tiles are parts of it."""
HELD = {"costs": 0.05, "rates": 0.3}
"""How much a factor weighs against an error of the same factor in one time, squared."""
_STEP = 1e-4
_ROUNDS = 60


class Timed(NamedTuple):
    """A product that was timed with a tile, by its place in a list, and slices of k."""

    product: Product
    tile: int
    parts: int
    us: float


class Fit(NamedTuple):
    """Costs and tiles, and how far the times are from what they say: factors minus one."""

    costs: Costs
    tiles: tuple[TileRate, ...]
    typical: float
    worst: float


def guess_rates(tile: TileRate) -> TileRate:
    """The rates that a tile's begin with: more results of a thread take fewer loads for each, and
    few warps alone leave a multiprocessor waiting.
    """
    each = tile.tile[0] * tile.tile[1] / tile.threads
    crowded = 0.75 * (each / 64) ** 0.25 * min(1.0, (min(tile.tile) / 16) ** 0.5)
    alone = min(1.0, (tile.threads / 256) ** 0.6)
    return tile._replace(rate=alone * crowded, crowded=crowded)


def fit_costs(costs: Costs, tiles: Sequence[TileRate], times: Sequence[Timed]) -> Fit:
    """The costs and rates that fit times best; costs that are not in `BEGIN` stay as they are."""
    tiles = [guess_rates(tile) for tile in tiles]
    crowded = [tile.crowded or tile.rate for tile in tiles]
    start = np.array([*BEGIN.values()])
    count = len(tiles)
    held = np.sqrt([HELD["costs"]] * len(BEGIN) + [HELD["rates"]] * 2 * count)

    def make(point: np.ndarray) -> tuple[Costs, list[TileRate]]:
        factors = np.exp(point)
        values: dict[str, Any] = dict(
            zip(BEGIN, map(float, start * factors[: len(BEGIN)]), strict=True)
        )
        alone, many = factors[len(BEGIN) :].reshape(2, count)
        made = [
            tile._replace(rate=tile.rate * float(a), crowded=full * float(b))
            for tile, full, a, b in zip(tiles, crowded, alone, many, strict=True)
        ]
        return replace(costs, **values), made

    def miss(point: np.ndarray) -> np.ndarray:
        fitted, rates = make(point)
        errors = [
            math.log(estimate(it.product, rates[it.tile], it.parts, fitted).us / it.us)
            for it in times
        ]
        return np.concatenate([errors, held * point])

    point = _minimize(miss, np.zeros(len(held)))
    fitted, rates = make(point)
    errors = np.abs(miss(point)[: len(times)])
    typical = math.exp(float(np.sqrt(np.mean(errors**2)))) - 1
    return Fit(fitted, tuple(rates), typical, math.exp(float(errors.max())) - 1)


def predict_left_out(
    costs: Costs, tiles: Sequence[TileRate], times: Sequence[Timed], folds: int = 8
) -> list[float]:
    """What each product would be expected to take by a fit without it and other products."""
    products = list(dict.fromkeys(it.product for it in times))
    predicted = {}
    for fold in range(folds):
        left_out = set(products[fold::folds])
        kept = [it for it in times if it.product not in left_out]
        fit = fit_costs(costs, tiles, kept)
        for place, it in enumerate(times):
            if it.product in left_out:
                rate = fit.tiles[it.tile]
                predicted[place] = estimate(it.product, rate, it.parts, fit.costs).us
    return [predicted[place] for place in range(len(times))]


def measure_error(pairs: Sequence[tuple[float, float]]) -> float:
    """How far pairs of times are apart: the root of the mean square of their logarithms' distance,
    as a factor minus one.
    """
    squares = [math.log(a / b) ** 2 for a, b in pairs]
    return math.exp(math.sqrt(sum(squares) / len(squares))) - 1


def measure_loss(times: Sequence[Timed], predicted: Sequence[float]) -> float:
    """How much longer the configs take that are expected to be fastest than those that are: the
    geometric mean over the products, as a factor minus one.
    """
    products = dict.fromkeys(it.product for it in times)
    logarithms = []
    for product in products:
        pairs = [
            (us, it.us) for it, us in zip(times, predicted, strict=True) if it.product == product
        ]
        logarithms.append(math.log(min(pairs)[1] / min(us for _, us in pairs)))
    return math.exp(sum(logarithms) / len(logarithms)) - 1


def _minimize(miss: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> np.ndarray:
    """The point where the squares of what a function misses are least, by damped steps."""
    found, damping = miss(point), 1.0
    for _ in range(_ROUNDS):
        slopes = np.stack(
            [(miss(point + move) - found) / _STEP for move in np.eye(len(point)) * _STEP]
        )
        square = slopes @ slopes.T
        while damping < 1e6:
            other = point - np.linalg.solve(square + damping * np.eye(len(point)), slopes @ found)
            missed = miss(other)
            if missed @ missed < found @ found:
                break
            damping *= 4
        else:
            return point
        gain = 1 - (missed @ missed) / (found @ found)
        point, found, damping = other, missed, damping / 4
        if gain < 1e-5:
            return point
    return point
