"""Plots of runs as SVG: ``python docs/build/plots.py`` writes those of all stored runs and a page
of them into build/plots, and ``make docs`` takes them into the site.

Bars say how much of the machine's ceiling each candidate reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType

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
HALO = f"text{{paint-order:stroke;stroke:{PAPER};stroke-width:3px}}"
"""Around letters, so that lines behind them do not cross them."""


class Drawing:
    """Shapes on white paper, so that it reads the same on a dark page; sizes in pixels."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} '
            f'{number(height)}" width="{number(width)}" height="{number(height)}" '
            f'font-family="{FONT}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{HALO}</style>",
        ]
        self.rectangle(0, 0, width, height, PAPER)

    def rectangle(
        self, x: float, y: float, width: float, height: float, fill: str, tip: str = ""
    ) -> None:
        """A filled rectangle; `tip` shows under the pointer."""
        place = f'x="{number(x)}" y="{number(y)}"'
        size = f'width="{number(width)}" height="{number(height)}"'
        self._add("rect", f'{place} {size} fill="{fill}"', tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = RULE) -> None:
        """A thin line."""
        ends = " ".join(
            f'{name}="{number(value)}"'
            for name, value in (("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2))
        )
        self._add("line", f'{ends} stroke="{stroke}" stroke-width="1"')

    def text(
        self, x: float, y: float, words: str, *, anchor: str = "start", quiet: bool = False
    ) -> None:
        """A line of text; `anchor` is ``"start"``, ``"middle"`` or ``"end"``."""
        style = f'text-anchor="{anchor}" font-size="12" fill="{QUIET if quiet else INK}"'
        place = f'x="{number(x)}" y="{number(y)}"'
        self._lines.append(f"<text {place} {style}>{escape(words)}</text>")

    def legend(self, x: float, y: float, names: Mapping[str, str]) -> None:
        """Colours with their names, in one row."""
        for name, colour in names.items():
            self.rectangle(x, y - 10, 12, 12, colour)
            self.text(x + 18, y, name)
            x += 40 + 7 * len(name)

    def finish(self) -> str:
        """The file's text."""
        return "\n".join([*self._lines, "</svg>", ""])

    def _add(self, tag: str, attributes: str, tip: str = "") -> None:
        inside = f"><title>{escape(tip)}</title></{tag}>" if tip else "/>"
        self._lines.append(f"<{tag} {attributes}{inside}")


def number(value: float) -> str:
    """A coordinate with one digit at most: the same text on every machine."""
    return f"{value:.1f}".removesuffix(".0")


FASTEST, OTHERS = "fastest recipe", "other recipes"
PEER_TITLES = tuple(peer.title for peer in PEERS.values())
PEER_COLOURS = ("#d55e00", "#0072b2", "#009e73", "#e69f00", "#56b4e9", "#000000", "#f0e442")
COLOURS: Mapping[str, str] = MappingProxyType(
    {
        FASTEST: "#5b2a48",
        OTHERS: "#cc79a7",
        **dict(zip(PEER_TITLES, itertools.cycle(PEER_COLOURS), strict=False)),
    }
)
"""From Okabe and Ito's palette, which colour-blind people can tell apart; recipes share a hue. It
ends after seven peers, and begins again.
"""


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


BAR, GAP, HEAD = 13, 2, 28
BARS_LEFT, BARS_TOP, BARS_WIDTH, BARS_RIGHT, BARS_BOTTOM = 240, 60, 560, 200, 40

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
    height = BARS_TOP + sum(HEAD + len(shown) * (BAR + GAP) for _, shown in groups) + BARS_BOTTOM
    title = f"{suite}, {dtype}, {run.device['name']}: share of the ceiling that binds each shape"
    drawing = Drawing(BARS_LEFT + BARS_WIDTH + BARS_RIGHT, height, title)
    drawing.text(16, 24, title)
    drawing.legend(16, 46, make_legend(part for _, shown in groups for part, _ in shown))
    _draw_percents(drawing, height)
    y: float = BARS_TOP
    for case, shown in groups:
        words = (case.kernel, case.shape_text.replace("x", "×"), case.form)
        drawing.text(16, y + HEAD - 8, " ".join(filter(None, words)))
        y = _draw_group(drawing, y + HEAD, case, shown, run)
    return drawing.finish()


def _draw_percents(drawing: Drawing, height: float) -> None:
    for percent in range(0, 101, 20):
        x = BARS_LEFT + BARS_WIDTH * percent / 100
        drawing.line(x, BARS_TOP, x, height - BARS_BOTTOM + 4)
        drawing.text(x, height - BARS_BOTTOM + 20, f"{percent} %", anchor="middle", quiet=True)


def _draw_group(drawing: Drawing, y: float, case: Case, shown: Shown, run: BenchRun) -> float:
    for part, outcome in shown:
        reached = share(case, outcome, run.ceilings)
        # Caches can beat the copy bandwidth: such a bar ends at the edge, and its label says more.
        length = BARS_WIDTH * min(reached or 0.0, 1.1)
        rate = format_rate(case, outcome, run.ceilings, unit=True)
        name = show_name(outcome.candidate)
        told = outcome.status if outcome.time is None else f"{format_time(outcome)} µs, {rate}"
        drawing.text(BARS_LEFT - 8, y + BAR - 3, name, anchor="end", quiet=True)
        drawing.rectangle(BARS_LEFT, y, length, BAR, COLOURS[part], f"{name}: {told}")
        label = outcome.status if reached is None else f"{format_share(reached)}  {rate}"
        drawing.text(BARS_LEFT + length + 6, y + BAR - 3, label, quiet=True)
        y += BAR + GAP
    return y


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
        for suite, dtype in dict.fromkeys(
            (it.suite, it.dtype) for it in run.cases if not it.skipped
        ):
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
