"""Plots of runs as SVG: ``python docs/build/plots.py`` writes those of all stored runs and a page
of them into build/plots, and ``make docs`` takes them into the site.

Bars say how much of the machine's ceiling each candidate reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from html import escape
from pathlib import Path

from tirstep.bench.cases import LADDER_SUITES
from tirstep.bench.peers import PEERS, show_name
from tirstep.bench.results import BenchRun, Case, Outcome, read_run
from tirstep.bench.tables import (
    format_rate,
    format_share,
    format_time,
    get_fastest_recipe,
    share,
)
from tirstep.files import write_file

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


def find_shown(case: Case, *, all_recipes: bool) -> list[tuple[str, Outcome]]:
    """Who ran on the GPU, with their parts: peers, and all recipes or the fastest alone.

    Where no recipe has a time, all of them are shown, with what is wrong.
    """
    best = get_fastest_recipe(case)
    shown = []
    for outcome in case.outcomes:
        part = show_name(outcome.candidate)
        if outcome.kind == "recipe":
            part = FASTEST if outcome is best else OTHERS
        if outcome.kind != "cpu" and (all_recipes or best is None or part != OTHERS):
            shown.append((part, outcome))
    return shown


def make_legend(parts: Iterable[str]) -> dict[str, str]:
    """The colours of the parts that there are."""
    there = set(parts)
    return {part: colour for part, colour in COLOURS.items() if part in there}


def draw_bars(run: BenchRun, suite: str, dtype: str, *, all_recipes: bool) -> str:
    """An SVG of a suite's cases of one dtype, a group of bars for each, on white paper, so that it
    reads the same on a dark page; sizes in pixels.

    A group has the peers, and all recipes or the fastest alone.
    """
    groups = [
        (case, find_shown(case, all_recipes=all_recipes))
        for case in run.cases
        if case.suite == suite and case.dtype == dtype and not case.skipped
    ]
    bars = sum(HEAD + len(shown) * (BAR + GAP) for _, shown in groups)
    width, height = LEFT + WIDTH + RIGHT, TOP + bars + BOTTOM
    title = f"{suite}, {dtype}, {run.device['name']}: share of the ceiling that binds each shape"
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
    for name, colour in make_legend(part for _, shown in groups for part, _ in shown).items():
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


DOCS = Path(__file__).resolve().parents[1]


def find_runs(folder: Path) -> list[Path]:
    """The files of runs in a folder, without those of ``--quick``, whose times are rough, and
    without those of drawn shapes, which docs/shapes.md sums up.
    """
    files = sorted(folder.glob("bench-*.json"))
    return [file for file in files if not file.stem.endswith(("-quick", "-shapes"))]


def make_plots(results: Path) -> dict[str, str]:
    """The plots of every suite and type of the runs in a folder, by name."""
    plots = {}
    for file in find_runs(results):
        run = read_run(file)
        pairs = dict.fromkeys((it.suite, it.dtype) for it in run.cases if not it.skipped)
        for suite, dtype in pairs:
            text = draw_bars(run, suite, dtype, all_recipes=suite in LADDER_SUITES)
            plots[f"{file.stem}-{suite}-{dtype}.svg"] = text
    return plots


def main() -> None:
    """Write the plots and their page, which Sphinx copies into the site."""
    plots, folder = make_plots(DOCS.parent / "benchmarks/results"), DOCS.parent / "build/plots"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plots.items():
        write_file(folder / name, text)
    images = "\n".join(f'<p><img src="{name}" alt="{name}"></p>' for name in plots)
    page = f"<!doctype html>\n<meta charset=utf-8>\n<title>Plots of all runs</title>\n{images}\n"
    write_file(folder / "plots.html", page)


if __name__ == "__main__":
    main()
