"""A report of two recipes in a file, and a browser that looks at it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from browser import NoBrowserError, open_browser

from tirstep.cli.report.document import Report, render_report
from tirstep.cli.report.jobs import build_report, do_job
from tirstep.cli.request import make_request
from tirstep.cli.screen import Screen
from tirstep.lowering_checks import get_device

SCREEN = {"width": 1280, "height": 900}
NAMES = ("window_sum_bound", "window_sum_shared")


@pytest.fixture(scope="session")
def report() -> Report:
    """Two recipes, judged by the simulator."""
    request = make_request(None, None, None, None, device="simulator")
    parts = [do_job(name, NAMES, request, "cuda", True, Screen()) for name in NAMES]
    return build_report(parts, device=get_device("simulator"), target="cuda")


@pytest.fixture(scope="session", params=["chromium"])
def browser() -> Iterator[Any]:
    """Named by each of its tests: tests/test_ci.py counts them."""
    try:
        with open_browser() as browser:
            yield browser
    except NoBrowserError as missing:
        pytest.skip(str(missing))


@dataclass
class Visit:
    """A page in the browser, and what went wrong there.

    Attributes
    ----------
    address : of the file
    asked : every address that the page asked for
    errors : messages of the console and exceptions
    """

    page: Any
    address: str = ""
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def listen(self) -> None:
        """Note from now on what the page asks for, and its errors."""
        self.page.set_default_timeout(5000)
        self.page.route("**/*", self._let_through)
        self.page.on("console", self._note_message)
        self.page.on("pageerror", self._note_error)

    def _let_through(self, route: Any) -> None:
        self.asked.append(route.request.url)
        route.continue_()

    def _note_message(self, message: Any) -> None:
        self.errors.append(message.text)

    def _note_error(self, error: Any) -> None:
        self.errors.append(str(error))

    def texts(self, selector: str) -> list[str]:
        self.settle()
        return self.page.locator(selector).all_inner_texts()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def settle(self) -> None:
        """Let the page follow its address, which browsers tell it of a moment later."""
        self.page.evaluate("new Promise((done) => setTimeout(() => requestAnimationFrame(done)))")

    @property
    def place(self) -> str:
        """What the address says behind its #."""
        self.settle()
        return self.page.evaluate("location.hash").removeprefix("#")

    @property
    def heading(self) -> str:
        self.settle()
        return self.page.locator("h1").inner_text()


Open = Callable[..., Visit]


@pytest.fixture(scope="session")
def file(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(report), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser: Any, file: Path) -> Iterator[Open]:
    """Open a file at a place; at the end nothing may have been fetched and no error be logged."""
    visits = []

    def open_page(place: str = "", path: Path = file, **options: Any) -> Visit:
        options = {"viewport": SCREEN, "reduced_motion": "reduce", **options}
        visited = Visit(browser.new_context(**options).new_page(), path.as_uri())
        visited.listen()
        visited.page.goto(f"{path.as_uri()}#{place}")
        visited.page.wait_for_selector("h1")
        visits.append((visited, path))
        return visited

    yield open_page
    for visited, path in visits:
        assert visited.errors == []
        assert {address.partition("#")[0] for address in visited.asked} <= {
            path.as_uri(),
            "data:,",
            "about:blank",
        }
        visited.page.context.close()
