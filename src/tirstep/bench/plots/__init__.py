"""Plots of a run as SVG: text that can be read in a diff, and kept under version control."""

from .bars import draw_bars
from .roofline import draw_roofline

__all__ = ["draw_bars", "draw_roofline"]
