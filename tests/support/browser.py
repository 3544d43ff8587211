"""Chromium for tests and screenshots: the machine's own, or the one that Playwright installed.

As a program, this says whether it opens.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
# As root, which CI often is, Chromium has no sandbox; nothing is to be fetched in any case.
OPTIONS = (
    *(("--no-sandbox",) if getattr(os, "geteuid", lambda: 1)() == 0 else ()),
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


class NoBrowserError(Exception):
    """There is no browser here: what is missing, and how to get it."""


ADVICE = "apt-get install chromium-headless-shell, or python -m playwright install chromium"


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser of Playwright's. Raises `NoBrowserError` where there is none."""
    try:
        from playwright.sync_api import Error
    except ImportError:
        raise NoBrowserError(
            "no Playwright: pip install -c constraints.txt -e '.[browser]'"
        ) from None
    told = ""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    for named in [{"executable_path": path}, {}] if path else [{}]:
        try:
            browser = _start_playwright().chromium.launch(args=list(OPTIONS), **named)
        except Error as error:
            told = told or str(error).strip().splitlines()[0]
            continue
        yield browser
        browser.close()
        return
    raise NoBrowserError(f"no Chromium ({told}): {ADVICE}")


@functools.cache
def _start_playwright() -> Any:
    """Playwright, of which a process can have one at a time: it ends with the process."""
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright


def main() -> int:
    """Open a browser and close it; the exit code says whether that could be done."""
    try:
        with open_browser() as browser:
            print(f"chromium {browser.version}")
    except NoBrowserError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
