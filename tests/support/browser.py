"""Chromium for tests and screenshots: the machine's own, or the one that Playwright installed."""

from __future__ import annotations

import os
import shutil
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


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser of Playwright's. Raises `NoBrowserError` where there is none."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise NoBrowserError(
            "no Playwright: pip install -c constraints.txt -e '.[browser]'"
        ) from None
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        except Error as error:
            told = str(error).strip().splitlines()[0]
            raise NoBrowserError(
                f"no Chromium ({told}): apt-get install chromium-headless-shell, or "
                "python -m playwright install chromium"
            ) from None
        yield browser
        browser.close()
