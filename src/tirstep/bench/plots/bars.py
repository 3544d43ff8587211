"""Bars for each shape: how much of the machine's ceiling each contender reaches."""

from __future__ import annotations

from collections.abc import Sequence

from ..figures import share
from ..results import BenchRun, Case, Outcome
from ..tables import NAMES, format_rate, format_share, format_time
from .svg import Drawing, find_colours, name_colours

BAR, GAP, BETWEEN = 14, 2, 22
LEFT, TOP, WIDTH, BOTTOM = 250, 64, 560, 40


def draw_bars(run: BenchRun, suite: str, dtype: str) -> str:
    """An SVG of a suite's cases of one dtype, a group of bars for each."""
    cases = [
        case
        for case in run.cases
        if case.suite == suite and case.dtype == dtype and not case.skipped
    ]
    groups = [(case, [one for one in case.outcomes if one.kind != "cpu"]) for case in cases]
    bars = sum(len(outcomes) for _, outcomes in groups)
    height = TOP + bars * (BAR + GAP) + len(groups) * BETWEEN + BOTTOM
    title = f"{suite}, {dtype}, {run.device['name']}: share of the ceiling that binds each shape"
    drawing = Drawing(LEFT + WIDTH + 170, height, title)
    drawing.text(16, 24, title)
    names = dict.fromkeys(one.contender for _, outcomes in groups for one in outcomes)
    recipes = dict.fromkeys(
        one.contender for _, outcomes in groups for one in outcomes if one.kind == "recipe"
    )
    colours = find_colours([*names], [*recipes])
    drawing.legend(16, 46, name_colours(colours))
    _draw_axis(drawing, height)
    y: float = TOP
    for case, outcomes in groups:
        middle = y + len(outcomes) * (BAR + GAP) / 2 + 4
        label = f"{case.kernel} {case.shape_text.replace('x', '×')}"
        drawing.text(LEFT - 10, middle, label, anchor="end")
        y = _draw_group(drawing, y, case, outcomes, run, colours) + BETWEEN
    return drawing.finish()


def _draw_axis(drawing: Drawing, height: float) -> None:
    for percent in range(0, 101, 20):
        x = LEFT + WIDTH * percent / 100
        drawing.line(x, TOP - 6, x, height - BOTTOM)
        drawing.text(x, height - BOTTOM + 18, f"{percent} %", anchor="middle", quiet=True)


def _draw_group(
    drawing: Drawing,
    y: float,
    case: Case,
    outcomes: Sequence[Outcome],
    run: BenchRun,
    colours: dict[str, str],
) -> float:
    for outcome in outcomes:
        reached = share(case, outcome, run.ceilings)
        # Caches can beat the copy bandwidth: such a bar ends at the edge, and its label says more.
        length = WIDTH * min(reached or 0.0, 1.1)
        rate = format_rate(case, outcome, run.ceilings, unit=True)
        name = NAMES.get(outcome.contender, outcome.contender)
        tip = f"{name}: {format_time(outcome)} µs, {rate}"
        drawing.rectangle(LEFT, y, length, BAR, colours[outcome.contender], tip)
        label = outcome.status if reached is None else f"{format_share(reached)}  {rate}"
        drawing.text(LEFT + length + 6, y + BAR - 3, label, quiet=True)
        y += BAR + GAP
    return y
