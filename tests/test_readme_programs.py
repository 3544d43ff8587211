"""The Python programs of the README, and of the pages that continue it, run as they stand."""

import re
import sys
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/own-programs.md", "docs/reuse.md", "docs/tuning.md")
TEXT = "".join((ROOT / page).read_text() for page in PAGES)
FOUND = re.findall(r"^```python\n(.*?)^```$", TEXT, re.S | re.M)
PROGRAMS = [program for program in FOUND if "my_project" not in program]  # test_pytest_plugin.py


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.split("\n")[-2][:30])
def test_a_program_runs(program: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(program)
    call = [sys.executable, script]
    done = warm_python.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "Finding" not in done.stdout


def test_the_pages_have_programs() -> None:
    assert len(PROGRAMS) >= 4
