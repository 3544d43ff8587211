"""The pictures of the report in docs/images, written anew; other recipes as arguments.

They show the ladder of matmul as the simulator judges it, and functions of a model whose build was
traced, in Chromium, with the machine's fonts.
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


BLOCK = IMAGES.parents[1] / "examples" / "transformer_block" / "block.py"
TRACED = ("softmax_2", "rms_norm_2", "softmax", "fused_matmul1_multiply_add")


def main() -> int:
    """Make the reports and take all pictures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "traced")
        if code := tirstep(["trace", str(folder), "--", sys.executable, str(BLOCK)]):
            return code
        traced = [f"{folder}/:{name}" for name in TRACED]
        reports = ((sys.argv[1:] or ["matmul"], PLACES), (traced, {"report-trace": ""}))
        try:
            with open_browser() as browser:
                for names, places in reports:
                    report = Path(scratch, "report.html")
                    options = ["--device", "simulator", "-o", str(report)]
                    if code := tirstep(["report", *names, *options]):
                        return code
                    for name, place in places.items():
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
