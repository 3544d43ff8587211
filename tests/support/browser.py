"""Browsers for tests and screenshots: the machine's own, or those that Playwright installed.

Playwright drives the machine's Firefox through WebDriver BiDi, which older ones know in part only,
and its own through a patch. As a program, this says whether a browser opens:

    python tests/support/browser.py NAME
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
        from playwright.sync_api import Error
    except ImportError:
        raise NoBrowserError(
            "no Playwright: pip install -c constraints.txt -e '.[browser]'"
        ) from None
    told = ""
    for options in _list_options(name):
        try:
            browser = getattr(_start_playwright(), name).launch(**options)
        except Error as error:
            told = told or str(error).strip().splitlines()[0]
            continue
        yield browser
        browser.close()
        return
    raise NoBrowserError(f"no {name.capitalize()} ({told}): {ADVICE[name]}")


@functools.cache
def _start_playwright() -> Any:
    """Playwright, of which a process can have one at a time: it ends with the process."""
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    atexit.register(playwright.stop)
    return playwright


def _list_options(name: str) -> list[dict[str, Any]]:
    """How to open a browser: the machine's own first, if it has one."""
    is_chromium = name == "chromium"
    options: dict[str, Any] = {"args": list(OPTIONS)} if is_chromium else {}
    path = next(filter(None, map(shutil.which, NAMES if is_chromium else FIREFOX_NAMES)), None)
    if path is None:
        return [options]
    channel = {} if is_chromium else {"channel": "moz-firefox"}
    return [{**options, **channel, "executable_path": path}, options]


def main(name: str) -> int:
    """Open a browser and close it; the exit code says whether that could be done."""
    try:
        with open_browser(name) as browser:
            print(f"{name} {browser.version}")
    except NoBrowserError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
