"""examples/adoption: schedules of other projects, by hand and with tirstep, both right."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from tirstep.cli import main

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "adoption"
LINES: dict[str, Any] = runpy.run_path(str(FOLDER / "lines.py"))


def test_every_example_is_counted() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - {"lines"} == {*LINES["NAMES"]}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", LINES["NAMES"])
def test_both_schedules_are_right_and_ours_is_shorter(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER)
    code = main(["check", f"{name}.py"])
    printed = capfd.readouterr()
    assert (code, printed.err) == (0, "")
    assert "2 programs, 4 modules: all good" in printed.out
    for schedule in ("by_hand", "with_tirstep"):
        assert re.search(rf"01_{schedule} .*numbers right on simulator", printed.out)
    by_hand, with_tirstep = LINES["count"](name)
    assert with_tirstep < by_hand


def test_the_table_of_lines_is_as_counted() -> None:
    page = (ROOT / "docs" / "reuse.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\.py` \|.*\| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert [(name, (int(hand), int(ours))) for name, hand, ours in rows] == [
        (name, LINES["count"](name)) for name in LINES["NAMES"]
    ]
