"""Fits the costs of the model of time to measured times, by least squares of their logarithms.

Costs and rates are varied by factors; each is held near where it began, so that what no time tells
apart stays where it was. The steps are those of Levenberg and Marquardt (D. Marquardt, An algorithm
for least-squares estimation of nonlinear parameters, 1963).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tirstep.transforms.recipes.time_model import Costs, Product, TileRate, estimate

VARIED = (
    "sums_bytes_per_us",
    "dram_bytes_per_us",
    "l2_bytes_per_us",
    "fill_us",
    "store_us",
    "crowd",
    "hidden",
    "sums_us",
    "launch_us",
    "step_us",
    "load_flops",
    "begun",
    "sums_step_us",
    "scatter",
)
"""Costs that are fitted; the rate of all multiprocessors is known, and those of tiles are parts of
it."""
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


def fit_costs(costs: Costs, tiles: Sequence[TileRate], times: Sequence[Timed]) -> Fit:
    """The costs and rates that fit times best, begun at others."""
    crowded = [tile.rate if tile.crowded is None else tile.crowded for tile in tiles]
    start = np.array([getattr(costs, name) for name in VARIED], dtype=float)
    count = len(tiles)
    held = np.sqrt([HELD["costs"]] * len(VARIED) + [HELD["rates"]] * 2 * count)

    def make(point: np.ndarray) -> tuple[Costs, list[TileRate]]:
        factors = np.exp(point)
        values: dict[str, Any] = dict(
            zip(VARIED, map(float, start * factors[: len(VARIED)]), strict=True)
        )
        alone, many = factors[len(VARIED) :].reshape(2, count)
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
