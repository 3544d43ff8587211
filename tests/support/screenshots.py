"""The pictures of the report in docs/images, written anew; other recipes as arguments.

They show the ladder of matmul as the simulator judges it, in Chromium, with the machine's fonts.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browser import NoBrowserError, open_browser

from tirstep.cli import main as tirstep

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
SIZE = {"width": 1280, "height": 640}
STEP = "matmul_prefetched/03_A_in_shared_memory"
LARGEST = 200_000  # bytes of a picture


@dataclass(frozen=True)
class Shot:
    """One picture: where in the report, and in which theme."""

    name: str
    place: str
    theme: str = "light"


SHOTS = (
    Shot("report-ladder", ""),
    Shot("report-diff", f"{STEP}/tir"),
    Shot("report-lines-dark", f"{STEP}/lines?line=26&in=tir", theme="dark"),
    Shot("report-facts", f"{STEP}/facts"),
    Shot("report-pass-dark", f"{STEP}/pass-42", theme="dark"),
)


def take(browser: Any, report: Path, shot: Shot) -> None:
    """Take one picture."""
    context = browser.new_context(viewport=SIZE, color_scheme=shot.theme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{report.as_uri()}#{shot.place}")
    page.wait_for_selector("h1")
    if page.locator("[role=alert]").count():
        raise SystemExit(f"{shot.name}: {page.locator('[role=alert]').inner_text()}")
    path = IMAGES / f"{shot.name}.png"
    page.screenshot(path=path)
    context.close()
    print(f"{path.name}  {path.stat().st_size // 1000} kB")
    if path.stat().st_size > LARGEST:
        raise SystemExit(f"{path.name} has more than {LARGEST} bytes; show less in it")


def main() -> int:
    """Make the report and take all pictures."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        names = sys.argv[1:] or ["matmul"]
        code = tirstep(["report", *names, "--device", "simulator", "-o", str(report)])
        if code:
            return code
        try:
            with open_browser() as browser:
                for shot in SHOTS:
                    take(browser, report, shot)
        except NoBrowserError as missing:
            print(f"no pictures: {missing}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
