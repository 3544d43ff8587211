"""Shapes drawn at random: of products, and of rows.

Of products one set is to calibrate a model of time with, and one to judge it: each size is drawn
between 1 and 16384, evenly by its logarithm; of every two shapes one has multiples of 64 alone. The
same seed draws the same shapes, and no shape is in both sets.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

Sizes = tuple[int, int, int]
"""m, n and k of a product of (m, k) by (k, n)."""
LARGEST = 16384
MOST_PRODUCTS = 2**36
UNIT = 64
SEED = 16
CALIBRATION, TEST = 52, 60
MORE: tuple[Sizes, ...] = (
    (3000, 3000, 3000),
    (2048, 8192, 2048),
    (5120, 1280, 2560),
    (640, 640, 640),
    (16, 16, 16384),
    (1536, 2304, 640),
    (1835, 4542, 10),
    (6778, 274, 14),
    (1212, 11093, 307),
    (3433, 590, 50),
    (11939, 1473, 9),
    (274, 8287, 220),
    (3037, 93, 1476),
    (5164, 10762, 52),
    (9105, 110, 73),
    (256, 7771, 3),
    (1068, 7365, 1),
    (463, 943, 2076),
    (2591, 6374, 7),
    (1478, 2921, 46),
    (2696, 1491, 6839),
    (11486, 9761, 11),
)
"""Shapes to calibrate with beside the drawn ones: six by hand, and sixteen with odd rows of many
results, of which those have few."""


class ShapeSets(NamedTuple):
    """Shapes to calibrate with, and others to test with."""

    calibration: tuple[Sizes, ...]
    test: tuple[Sizes, ...]


def draw_sets(seed: int = SEED) -> ShapeSets:
    """The two sets of a seed."""
    shapes = draw_shapes(seed)
    test = tuple(islice(shapes, TEST))
    return ShapeSets((*islice(shapes, CALIBRATION), *MORE), test)


def draw_shapes(seed: int) -> Iterator[Sizes]:
    """Shapes without an end, all different, by turns of multiples of 64 and of any size."""
    dice, seen = random.Random(seed), set[Sizes]()
    while True:
        for unit in (UNIT, 1):
            shape = _draw(dice, unit)
            while shape in seen or math.prod(shape) > MOST_PRODUCTS:
                shape = _draw(dice, unit)
            seen.add(shape)
            yield shape


def _draw(dice: random.Random, unit: int) -> Sizes:
    m, n, k = (unit * round(math.exp(dice.uniform(0, math.log(LARGEST / unit)))) for _ in "mnk")
    return m, n, k


Plane = tuple[int, int]
"""Rows and their length."""
PLANES, PLANES_SEED = 40, 17
SHORTEST_ROW, LONGEST_ROW, MOST_ROWS = 128, 2**20, 10**6
MOST_ELEMENTS = 2**25


def draw_planes(seed: int = PLANES_SEED, count: int = PLANES) -> tuple[Plane, ...]:
    """Rows from 128 to 2^20 elements long and up to 10^6 of them, evenly by their logarithms.

    At most 2^25 elements; the lengths of every other plane are multiples of 64.
    """
    dice = random.Random(seed)
    found: list[Plane] = []
    while len(found) < count:
        unit = 1 if len(found) % 2 else UNIT
        rows = round(math.exp(dice.uniform(0, math.log(MOST_ROWS))))
        length = math.exp(dice.uniform(math.log(SHORTEST_ROW), math.log(LONGEST_ROW)))
        plane = rows, unit * round(length / unit)
        if math.prod(plane) <= MOST_ELEMENTS and plane not in found:
            found.append(plane)
    return tuple(found)
