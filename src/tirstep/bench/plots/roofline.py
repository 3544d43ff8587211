"""The roofline: the rate that each intensity allows, and what was reached under it.

Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for
multicore architectures", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..results import BenchRun, Case, Outcome
from ..tables import NAMES
from .shown import COLOURS, FASTEST, OTHERS, find_shown, make_legend
from .svg import Drawing

LEFT, TOP, WIDTH, HEIGHT, BOTTOM = 70, 84, 760, 380, 60

FRONT = (OTHERS, "dlight", "Triton", "PyTorch", FASTEST)
"""Where dots lie on each other, the later is on top."""

Point = tuple[str, Case, Outcome, float, float]


class _Scale:
    """Logarithmic axes from the smallest to the largest power of ten that there is."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.x = (math.floor(math.log10(min(xs))), math.ceil(math.log10(max(xs))))
        self.y = (math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))))

    def place(self, x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + WIDTH * _within(math.log10(x), self.x),
            TOP + HEIGHT * (1 - _within(math.log10(y), self.y)),
        )


def draw_roofline(run: BenchRun, suite: str, dtype: str, *, all_recipes: bool) -> str:
    """An SVG of a suite's cases of one dtype; empty where its peak was not measured.

    A case has dots of the peers, and of all recipes or the fastest alone.
    """
    peak = run.ceilings.flops.get(dtype)
    points = _find_points(run, suite, dtype, all_recipes)
    if peak is None or not points:
        return ""
    ridge = peak / run.ceilings.copy
    xs = [ridge / 10, ridge * 10, *(x for *_, x, _ in points)]
    scale = _Scale(xs, [peak, *(y for *_, y in points)])
    title = f"{suite}, {dtype}, {run.device['name']}: operations per second over intensity"
    drawing = Drawing(LEFT + WIDTH + 40, TOP + HEIGHT + BOTTOM, title)
    drawing.text(16, 24, title)
    _draw_axes(drawing, scale)
    _draw_roof(drawing, scale, run.ceilings.copy, peak)
    drawing.legend(16, 46, make_legend(part for part, *_ in points))
    for part, case, outcome, intensity, rate in sorted(points, key=lambda one: FRONT.index(one[0])):
        name = NAMES.get(outcome.contender, outcome.contender)
        tip = f"{case.title}: {name}, {rate / 1e12:.2f} TFLOP/s"
        drawing.dot(*scale.place(intensity, rate), COLOURS[part], tip)
    return drawing.finish()


def _find_points(run: BenchRun, suite: str, dtype: str, all_recipes: bool) -> list[Point]:
    return [
        (part, case, outcome, case.flops / case.bytes, 1e6 * case.flops / outcome.time.median_us)
        for case in run.cases
        if case.suite == suite and case.dtype == dtype and case.flops
        for part, outcome in find_shown(case, all_recipes=all_recipes)
        if outcome.time is not None
    ]


def _draw_roof(drawing: Drawing, scale: _Scale, copy: float, peak: float) -> None:
    """The memory's slope and the arithmetic's level, their numbers above, where no dot is."""
    left, right = 10.0 ** scale.x[0], 10.0 ** scale.x[1]
    low = max(left, 10.0 ** scale.y[0] / copy)
    roof = [scale.place(x, y) for x, y in ((low, low * copy), (peak / copy, peak), (right, peak))]
    drawing.path(roof, "#1f2328")
    drawing.text(roof[1][0] - 6, roof[1][1] - 6, f"{copy / 1e12:.2f} TB/s", anchor="end")
    drawing.text(roof[2][0] - 6, roof[2][1] - 6, f"{peak / 1e12:.1f} TFLOP/s", anchor="end")


def _draw_axes(drawing: Drawing, scale: _Scale) -> None:
    bottom, right = TOP + HEIGHT, LEFT + WIDTH
    for power in range(scale.x[0], scale.x[1] + 1):
        x, _ = scale.place(10.0**power, 10.0 ** scale.y[0])
        drawing.line(x, TOP, x, bottom)
        drawing.text(x, bottom + 18, f"{10.0**power:g}", anchor="middle", quiet=True)
    for power in range(scale.y[0], scale.y[1] + 1):
        _, y = scale.place(10.0 ** scale.x[0], 10.0**power)
        drawing.line(LEFT, y, right, y)
        drawing.text(LEFT - 8, y + 4, f"{10.0 ** (power - 12):g}", anchor="end", quiet=True)
    drawing.text(LEFT + WIDTH / 2, bottom + 40, "operations for each byte", anchor="middle")
    drawing.text(16, TOP - 12, "TFLOP/s", quiet=True)


def _within(value: float, ends: tuple[int, int]) -> float:
    return (value - ends[0]) / max(ends[1] - ends[0], 1)
