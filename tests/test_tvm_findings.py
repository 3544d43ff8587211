"""The page of what is wrong in TVM is as generated, and every script on it still shows it."""

import sys

import pytest
import warm_python
from findings_page import PAGE, SCRIPTS, make_page, read_findings

NEEDING = {entry["name"] for entry in read_findings() if entry["needs"]}
SHOWN = {path.stem: path for path in sorted(SCRIPTS.glob("*.py"))}


@pytest.mark.parametrize("name", SHOWN)
def test_a_finding_still_shows_with_tvm_alone(name: str):
    text = SHOWN[name].read_text("utf-8")
    assert "tirstep" not in text
    done = warm_python.run(
        [sys.executable, str(SHOWN[name])], capture_output=True, text=True, check=False
    )
    if name in NEEDING:  # another version than tirstep's, with which it was seen
        assert (done.returncode, done.stderr) == (0, "")
        assert "right: " in done.stdout
        return
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG: " in done.stdout


def test_nothing_of_ours_imports_what_takes_half_a_minute():
    folders = ("modules", "transforms", "lowering_checks", "src")
    sources = [path for name in folders for path in (SCRIPTS.parents[1] / name).rglob("*.py")]
    assert len(sources) > 200
    assert [path for path in sources if "s_tir.tensor_intrin" in path.read_text("utf-8")] == []


def test_the_page_is_as_generated():
    assert PAGE.read_text("utf-8") == make_page()
    assert {entry["name"] for entry in read_findings()} == set(SHOWN)
