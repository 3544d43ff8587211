"""``tirstep report --watch``: what it watches, what it serves, and how it ends."""

import itertools
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tirstep.cli import main
from tirstep.cli.report import watch
from tirstep.cli.report.document import Report, render_report
from tirstep.cli.report.watch import (
    PageServer,
    list_named_files,
    make_reloading,
    watch_report,
)
from tirstep.cli.request import make_request, spell_request
from tirstep.files import show_path


@pytest.fixture
def page(report: Report, tmp_path: Path) -> Path:
    path = tmp_path / "watched.html"
    path.write_text(render_report(report), encoding="utf-8")
    return path


@pytest.fixture
def server(page: Path) -> Iterator[PageServer]:
    with PageServer(page) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def test_the_served_page_alone_may_wait_for_the_next(page: Path):
    plain = page.read_text(encoding="utf-8")
    served = make_reloading(plain)
    assert "EventSource" not in plain
    assert served.count("connect-src 'self';") == 1
    assert served.count("new EventSource") == 1
    assert served.endswith("</body>\n</html>\n")


def test_other_names_and_other_paths_are_refused(server: PageServer):
    for path, host, code in [("", "evil.example:80", 403), ("../etc/passwd", None, 404)]:
        request = urllib.request.Request(server.address + path)
        if host:
            request.add_header("Host", host)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code == code


@pytest.mark.xdist_group("browser")
def test_a_browser_shows_the_new_page_at_the_same_place(
    browser, server: PageServer, page: Path, report: Report
):
    opened = browser.new_page()
    place = "#window_sum_shared/03_fetched_cooperatively/facts"
    opened.goto(server.address + place)
    opened.wait_for_selector("h1")
    old = page.read_text(encoding="utf-8")
    page.write_text(old.replace("<title>", "<title>new "), encoding="utf-8")
    opened.evaluate("window.old = true")
    with opened.expect_event("load", timeout=20_000):
        server.number += 1
    assert opened.evaluate("window.old === undefined")
    opened.wait_for_selector("#tab-facts[aria-selected=true]")
    assert opened.url == server.address + place
    opened.close()


def watch_while(
    patch: pytest.MonkeyPatch, source: Path, page: Path, made: Any, edits: dict[int, Any]
) -> tuple[int, list[str]]:
    """The exit code of a watch, and what it says behind its address: pages are made as told, and
    after each look at the files an edit is made; Ctrl-C ends it at the last one.
    """
    codes, looks, said = iter(made), itertools.count(), []

    def look(seconds: float) -> None:
        number = next(looks)
        if number == max(edits):
            raise KeyboardInterrupt
        edits.get(number, int)()

    patch.setattr(watch, "_make", lambda arguments: next(codes))
    patch.setattr(time, "sleep", look)
    code = watch_report([str(source)], page, said.append)
    assert said[0].startswith("http://127.0.0.1:")
    return code, said[1:]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    source = tmp_path / "mine.py"
    source.write_text("1")
    return source


def test_a_change_makes_the_page_again_and_control_c_ends(
    page: Path, source: Path, monkeypatch: pytest.MonkeyPatch
):
    edits = {1: lambda: source.write_text("2"), 3: None}
    code, said = watch_while(monkeypatch, source, page, [(0, set()), (1, set())], edits)
    assert (code, said) == (1, [f"{show_path(source)} changed", ""])


def test_what_a_new_import_brings_is_watched_from_then_on(
    page: Path, source: Path, monkeypatch: pytest.MonkeyPatch
):
    """A first import that fails is mended in the file that it is of."""
    helper = source.with_name("helper.py")
    helper.write_text("N = ")
    edits = {
        1: lambda: source.write_text("import helper"),
        3: lambda: helper.write_text("N = 8"),
        5: None,
    }
    made = [(0, set()), (2, set()), (0, {helper})]
    code, said = watch_while(monkeypatch, source, page, made, edits)
    assert (code, said) == (0, [f"{show_path(it)} changed" for it in (source, helper)] + [""])


OWN = """
import numpy
from tvm.script import ir as I
from tvm.script import tirx as T

import sizes


@I.ir_module
class Twice:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((sizes.N,), "float32"), C: T.Buffer((sizes.N,), "float32")):
        for i in range(sizes.N):
            with T.sblock("C"):
                v = T.axis.spatial(sizes.N, i)
                C[v] = A[v] + A[v]


def bound(sch):
    from later import bind

    bind(sch)
"""
LATER = """
def bind(sch):
    sch.bind(*sch.get_loops(sch.get_sblock("C")), "threadIdx.x")
"""


def test_what_a_file_imports_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Beside it and behind that, at once and while it runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    texts = {"own.py": OWN, "later.py": LATER, "sizes.py": "from inner.number import N"}
    texts |= {"inner/__init__.py": "", "inner/number.py": "N = 8", "idle.py": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    code, files = watch._make(["own.py:bound", "--no-checks", "-o", "page.html"])
    assert code == 0
    own = {str(file.relative_to(tmp_path)) for file in files if tmp_path in file.parents}
    assert own == {*texts} - {"idle.py"}
    assert not any("site-packages" in file.parts for file in files)


def test_what_arguments_name_is_watched(tmp_path: Path):
    folder = tmp_path / "database"
    folder.mkdir()
    for name in ("database_workload.json", "database_tuning_record.json", "log.txt"):
        (folder / name).write_text("")
    named = ["mine.py:recipe", str(tmp_path / "module.json"), f"{folder}/", "--shape", "64"]
    names = {path.name for path in list_named_files(named)}
    assert names == {
        "mine.py",
        "module.json",
        "database_workload.json",
        "database_tuning_record.json",
    }


def test_standard_input_cannot_be_watched(capsys: pytest.CaptureFixture[str]):
    assert main(["report", "-", "--watch"]) == 2
    assert "--watch waits for a file to change; name one instead of" in capsys.readouterr().err


def test_each_page_is_of_what_was_asked_for():
    """All that says what is reported goes to the process that makes the page."""
    request = make_request(
        "8",
        "float16",
        ["a=1"],
        ["b=2"],
        golden_dir=Path("here"),
        device="cpu",
        seed=3,
        function="f",
    )
    words = " ".join(spell_request(replace(request, reference="x.py:r")))
    for word in ("--shape 8", "--option a=1", "--dtype float16", "--set b=2", "--seed 3"):
        assert word in words
    for word in ("--golden-dir here", "--device cpu", "--function f", "--reference x.py:r"):
        assert word in words


def test_a_first_page_that_cannot_be_made_ends_at_once(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watch, "_make", lambda arguments: (2, set()))
    said: list[str] = []
    assert watch_report([], page, said.append) == 2
    assert said == []
