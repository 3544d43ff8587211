"""Plots of runs as SVG; README shows one.

Bars say how much of the machine's ceiling each candidate reaches.
"""

from __future__ import annotations

import itertools
from html import escape
from pathlib import Path

from tirstep.bench.cases import PRODUCT_SHAPES, ROW_SHAPES
from tirstep.bench.metrics import (
    format_rate,
    format_share,
    format_time,
    get_fastest_recipe,
    share,
)
from tirstep.bench.peers import PEERS, show_name
from tirstep.bench.results import BenchRun

FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
INK, QUIET, RULE, PAPER = "#1f2328", "#59636e", "#d1d9e0", "#ffffff"
FASTEST, OTHERS = "fastest recipe", "other recipes"
PEER_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#e69f00", "#56b4e9", "#000000", "#f0e442")
COLOURS = {FASTEST: "#5b2a48", OTHERS: "#cc79a7"}
COLOURS |= dict(zip([it.title for it in PEERS.values()], itertools.cycle(PEER_COLOURS)))
"""From Okabe and Ito's palette, which colour-blind people can tell apart; recipes share a hue. It
ends after seven peers, and begins again.
"""
BAR, GAP, HEAD = 13, 2, 28
LEFT, TOP, WIDTH, RIGHT, BOTTOM = 240, 60, 560, 200, 40


def draw_bars(run: BenchRun, suite: str, dtype: str) -> str:
    """An SVG of a suite's cases of one dtype, a group of bars for each, on white paper, so that it
    reads the same on a dark page; sizes in pixels.
    """
    groups = []
    for case in run.cases:
        if case.suite == suite and case.dtype == dtype and not case.skipped:
            best, shown = get_fastest_recipe(case), []
            for it in case.outcomes:
                ours = FASTEST if it is best else OTHERS
                if it.kind != "cpu":
                    shown.append((ours if it.kind == "recipe" else show_name(it.candidate), it))
            groups.append((case, shown))
    parts = {part for _, shown in groups for part, _ in shown}
    bars = sum(HEAD + len(shown) * (BAR + GAP) for _, shown in groups)
    width, height = LEFT + WIDTH + RIGHT, TOP + bars + BOTTOM
    title = f"{suite}, {dtype}, {run.device['name']}: percent of what memory or arithmetic allows"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="{FONT}" role="img">',
        f"<title>{escape(title)}</title>",
        # Around letters, so that lines after them do not cross them.
        f"<style>text{{paint-order:stroke;stroke:{PAPER};stroke-width:3px}}</style>",
        draw_rectangle(0, 0, width, height, PAPER),
        draw_text(16, 24, title),
    ]
    x = 16
    for name, colour in [it for it in COLOURS.items() if it[0] in parts]:
        lines += [draw_rectangle(x, 36, 12, 12, colour), draw_text(x + 18, 46, name)]
        x += 40 + 7 * len(name)
    end = height - BOTTOM
    for percent in range(0, 101, 20):
        at = LEFT + WIDTH * percent // 100
        ends = f'x1="{at}" y1="{TOP}" x2="{at}" y2="{end + 4}"'
        lines.append(f'<line {ends} stroke="{RULE}" stroke-width="1"/>')
        lines.append(draw_text(at, end + 20, f"{percent} %", anchor="middle", colour=QUIET))
    y = TOP
    for case, shown in groups:
        words = (case.kernel, case.shape_text.replace("x", "×"), case.form)
        lines.append(draw_text(16, y + HEAD - 8, " ".join(filter(None, words))))
        y += HEAD
        for part, outcome in shown:
            reached = share(case, outcome, run.ceilings)
            # Caches can beat the copy bandwidth: such a bar ends at the edge, its label says more.
            length = WIDTH * min(reached or 0.0, 1.1)
            rate = format_rate(case, outcome, run.ceilings, unit=True)
            name, failed = show_name(outcome.candidate), outcome.status
            told = f"{format_time(outcome)} µs, {rate}" if outcome.time else failed
            label = failed if reached is None else f"{format_share(reached)}  {rate}"
            base = y + BAR - 3
            lines += [
                draw_text(LEFT - 8, base, name, anchor="end", colour=QUIET),
                draw_rectangle(LEFT, y, length, BAR, COLOURS[part], f"{name}: {told}"),
                draw_text(LEFT + length + 6, base, label, colour=QUIET),
            ]
            y += BAR + GAP
    return "\n".join([*lines, "</svg>", ""])


def draw_rectangle(
    x: float, y: float, width: float, height: float, colour: str, tip: str = ""
) -> str:
    """A filled rectangle; `tip` shows under the pointer."""
    place = f'x="{spell(x)}" y="{spell(y)}" width="{spell(width)}" height="{spell(height)}"'
    end = f"><title>{escape(tip)}</title></rect>" if tip else "/>"
    return f'<rect {place} fill="{colour}"{end}'


def draw_text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = INK) -> str:
    """A line of text; `anchor` is ``"start"``, ``"middle"`` or ``"end"``."""
    style = f'text-anchor="{anchor}" font-size="12" fill="{colour}"'
    return f'<text x="{spell(x)}" y="{spell(y)}" {style}>{escape(words)}</text>'


def spell(value: float) -> str:
    """A coordinate with one digit at most: the same text on every machine."""
    return f"{value:.1f}".removesuffix(".0")


def find_runs(folder: Path) -> list[Path]:
    """The files of runs in a folder, without those of ``--quick``, whose times are rough, and
    without those of random products and rows, which docs/shapes.md sums up.
    """
    files = sorted(folder.glob("bench-*.json"))
    left = ("-quick", f"-{PRODUCT_SHAPES}", f"-{ROW_SHAPES}")
    return [file for file in files if not file.stem.endswith(left)]
