"""The HTML report: `build` makes its data from runs and verdicts, `render` makes the page of it.

The page is the files of the folder `page`, put together as they are: no build step, no network.
"""

from __future__ import annotations

from .build import build_recipe, build_report
from .model import Report
from .render import render_report

__all__ = ["Report", "build_recipe", "build_report", "render_report"]
