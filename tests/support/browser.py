"""Browsers for tests and screenshots: the machine's own, or those that Playwright installed.

Playwright drives the machine's Firefox through WebDriver BiDi, and its own through a patch.
"""

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


FIREFOX_NAMES = ("firefox-esr", "firefox")
BROWSERS = ("chromium", "firefox")
ADVICE = {
    "chromium": "apt-get install chromium-headless-shell, or python -m playwright install chromium",
    "firefox": "apt-get install firefox-esr, or python -m playwright install firefox",
}


@contextmanager
def open_browser(name: str = "chromium") -> Iterator[Any]:
    """A browser of Playwright's. Raises `NoBrowserError` where there is none."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise NoBrowserError(
            "no Playwright: pip install -c constraints.txt -e '.[browser]'"
        ) from None
    with sync_playwright() as playwright:
        try:
            browser = getattr(playwright, name).launch(**_get_options(name))
        except Error as error:
            told = str(error).strip().splitlines()[0]
            raise NoBrowserError(f"no {name.capitalize()} ({told}): {ADVICE[name]}") from None
        yield browser
        browser.close()


def _get_options(name: str) -> dict[str, Any]:
    names = NAMES if name == "chromium" else FIREFOX_NAMES
    path = next(filter(None, map(shutil.which, names)), None)
    if name == "chromium":
        return {"executable_path": path, "args": list(OPTIONS)}
    return {} if path is None else {"executable_path": path, "channel": "moz-firefox"}
