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
WIDE, PHONE = (1280, 800), (390, 844)
STEP = "matmul_prefetched/03_A_in_shared_memory"
LINE = "tr:nth-child(20) .ln"
LARGEST = 200_000  # bytes of a picture


@dataclass(frozen=True)
class Shot:
    """One picture: where in the report, how wide, in which theme, and what to do before.

    Attributes
    ----------
    keys : that are pressed
    hover : a selector of what the mouse rests on
    """

    name: str
    place: str
    size: tuple[int, int] = WIDE
    theme: str = "light"
    keys: tuple[str, ...] = ()
    hover: str | None = None


SHOTS = (
    Shot("report-ladder", ""),
    Shot("report-diff", f"{STEP}/tir"),
    Shot("report-diff-dark", f"{STEP}/tir", theme="dark"),
    Shot("report-blame-dark", f"{STEP}/tir", theme="dark", keys=("d", "b"), hover=LINE),
    Shot("report-loops", f"{STEP}/loops"),
    Shot("report-facts", f"{STEP}/facts"),
    Shot("report-pass-dark", f"{STEP}/pass-42", theme="dark"),
    Shot("report-phone", f"{STEP}/tir", size=PHONE),
)


def take(browser: Any, report: Path, shot: Shot) -> None:
    """Take one picture."""
    width, height = shot.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=shot.theme,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{report.as_uri()}#{shot.place}")
    page.wait_for_selector("h1")
    if page.locator("[role=alert]").count():
        raise SystemExit(f"{shot.name}: {page.locator('[role=alert]').inner_text()}")
    for key in shot.keys:
        page.keyboard.press(key)
    if shot.hover is not None:
        page.hover(shot.hover)
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
