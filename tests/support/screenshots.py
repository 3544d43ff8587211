"""The pictures of the report in docs/images, written anew; other recipes as arguments.

They show the ladder of matmul as the simulator judges it, in Chromium, with the machine's fonts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from browser import NoBrowserError, open_browser

from tirstep.cli import main as tirstep

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
STEP = "matmul_prefetched/03_A_in_shared_memory"
PLACES = {
    "report-ladder": "",
    "report-diff": f"{STEP}/tir",
    "report-lines-dark": f"{STEP}/lines?line=26&in=tir",
    "report-facts": f"{STEP}/facts",
    "report-pass-dark": f"{STEP}/pass-42",
}


def main() -> int:
    """Make the report and take all pictures."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        names = sys.argv[1:] or ["matmul"]
        if code := tirstep(["report", *names, "--device", "simulator", "-o", str(report)]):
            return code
        try:
            with open_browser() as browser:
                for name, place in PLACES.items():
                    theme = "dark" if name.endswith("dark") else "light"
                    size = {"width": 1280, "height": 640}
                    page = browser.new_page(
                        viewport=size, color_scheme=theme, reduced_motion="reduce"
                    )
                    page.goto(f"{report.as_uri()}#{place}")
                    page.wait_for_selector("h1")
                    page.screenshot(path=IMAGES / f"{name}.png")
                    page.close()
        except NoBrowserError as missing:
            print(f"no pictures: {missing}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
