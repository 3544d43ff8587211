"""A report of two recipes in a file, and a browser that looks at it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from browser import BROWSERS, NoBrowserError, open_browser

from tirstep.cli.report.build import build_report
from tirstep.cli.report.jobs import RecipeJob, do_job
from tirstep.cli.report.model import Report
from tirstep.cli.report.render import render_report
from tirstep.cli.request import make_request
from tirstep.cli.screen import Screen
from tirstep.lowering_checks import get_device

SCREEN = {"width": 1280, "height": 900}
MEDIA = ("color_scheme", "contrast", "forced_colors", "reduced_motion")
NAMES = ("window_sum_bound", "window_sum_shared")


@pytest.fixture(scope="session")
def report() -> Report:
    """Two recipes, judged by the simulator."""
    request = make_request(None, None, None, None, device="simulator")
    parts = [
        do_job(RecipeJob(name, NAMES, request, "cuda", checks=True), Screen()).part
        for name in NAMES
    ]
    return build_report(parts, device=get_device("simulator"), target="cuda")


@pytest.fixture(scope="session", params=BROWSERS)
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    try:
        with open_browser(request.param) as browser:
            yield browser
    except NoBrowserError as missing:
        pytest.skip(str(missing))


def is_firefox(browser: Any) -> bool:
    return bool(browser.browser_type.name == "firefox")


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

    def leave(self) -> None:
        """Have the page be as a new one."""
        self.page.evaluate("localStorage.clear(); sessionStorage.clear();")
        self.page.remove_listener("console", self._note_message)
        self.page.remove_listener("pageerror", self._note_error)
        self.page.unroute_all()
        self.page.goto("about:blank")

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


@pytest.fixture(scope="session")
def spare(browser: Any) -> list[Any]:
    """Pages of Firefox that a test has left: a context of its own costs it half a second."""
    return []


@pytest.fixture
def visit(browser: Any, spare: list[Any], file: Path) -> Iterator[Open]:
    """Open a file at a place; at the end nothing may have been fetched and no error be logged."""
    visits = []

    def open_page(place: str = "", path: Path = file, **options: Any) -> Visit:
        options = {"viewport": SCREEN, "reduced_motion": "reduce", **options}
        if is_firefox(browser):  # its protocol sets no media features
            options |= dict.fromkeys(MEDIA, "null")
        if spare and options.keys() == {"viewport", *MEDIA}:
            visited = Visit(spare.pop(), path.as_uri())
            visited.page.set_viewport_size(options["viewport"])
            visited.page.bring_to_front()  # keys go to no other one
        else:
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
        if is_firefox(browser):
            visited.leave()
            spare.append(visited.page)
        else:
            visited.page.context.close()
