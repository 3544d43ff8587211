"""Bars for each shape: how much of the machine's ceiling each contender reaches."""

from __future__ import annotations

from collections.abc import Sequence

from ..figures import share
from ..results import BenchRun, Case, Outcome
from ..tables import NAMES, format_rate, format_share, format_time
from .shown import COLOURS, find_shown, make_legend
from .svg import Drawing

BAR, GAP, HEAD = 13, 2, 28
LEFT, TOP, WIDTH, RIGHT, BOTTOM = 240, 60, 560, 200, 40

Shown = Sequence[tuple[str, Outcome]]


def draw_bars(run: BenchRun, suite: str, dtype: str, *, all_recipes: bool) -> str:
    """An SVG of a suite's cases of one dtype, a group of bars for each.

    A group has the peers, and all recipes or the fastest alone.
    """
    groups = [
        (case, find_shown(case, all_recipes=all_recipes))
        for case in run.cases
        if case.suite == suite and case.dtype == dtype and not case.skipped
    ]
    height = TOP + sum(HEAD + len(shown) * (BAR + GAP) for _, shown in groups) + BOTTOM
    title = f"{suite}, {dtype}, {run.device['name']}: share of the ceiling that binds each shape"
    drawing = Drawing(LEFT + WIDTH + RIGHT, height, title)
    drawing.text(16, 24, title)
    drawing.legend(16, 46, make_legend(part for _, shown in groups for part, _ in shown))
    _draw_axis(drawing, height)
    y: float = TOP
    for case, shown in groups:
        drawing.text(16, y + HEAD - 8, f"{case.kernel} {case.shape_text.replace('x', '×')}")
        y = _draw_group(drawing, y + HEAD, case, shown, run)
    return drawing.finish()


def _draw_axis(drawing: Drawing, height: float) -> None:
    for percent in range(0, 101, 20):
        x = LEFT + WIDTH * percent / 100
        drawing.line(x, TOP, x, height - BOTTOM + 4)
        drawing.text(x, height - BOTTOM + 20, f"{percent} %", anchor="middle", quiet=True)


def _draw_group(drawing: Drawing, y: float, case: Case, shown: Shown, run: BenchRun) -> float:
    for part, outcome in shown:
        reached = share(case, outcome, run.ceilings)
        # Caches can beat the copy bandwidth: such a bar ends at the edge, and its label says more.
        length = WIDTH * min(reached or 0.0, 1.1)
        rate = format_rate(case, outcome, run.ceilings, unit=True)
        name = NAMES.get(outcome.contender, outcome.contender)
        told = outcome.status if outcome.time is None else f"{format_time(outcome)} µs, {rate}"
        drawing.text(LEFT - 8, y + BAR - 3, name, anchor="end", quiet=True)
        drawing.rectangle(LEFT, y, length, BAR, COLOURS[part], f"{name}: {told}")
        label = outcome.status if reached is None else f"{format_share(reached)}  {rate}"
        drawing.text(LEFT + length + 6, y + BAR - 3, label, quiet=True)
        y += BAR + GAP
    return y
