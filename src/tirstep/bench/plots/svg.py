"""The few shapes of SVG that the plots are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

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

    def path(self, points: Sequence[tuple[float, float]], stroke: str) -> None:
        """A line through points."""
        through = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self._add("polyline", f'points="{through}" fill="none" stroke="{stroke}" stroke-width="2"')

    def dot(self, x: float, y: float, fill: str, tip: str) -> None:
        """A filled circle."""
        self._add("circle", f'cx="{number(x)}" cy="{number(y)}" r="4.5" fill="{fill}"', tip)

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
