"""`tests/sanitize.py` says of each tool what all of its processes found; the tool is a stand-in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sanitize.py")
NAMES = ["relu_bound", "matmul_naive", "row_sum_naive"]
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
STAND_IN = """\
import sys
tool, names = sys.argv[2], sys.argv[sys.argv.index("--run") + 1 :]
for name in names:
    print(f"{name}: {'wrong numbers' if name in sys.argv[0] else 'right'}")
sys.exit(86 if tool in sys.argv[0] else 0)
"""
pytestmark = pytest.mark.usefixtures("warm_commands")


@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("silent", 0, {}),
        ("racecheck", 1, {"racecheck": "exit code 86; 3 of 3 recipes ran right"}),
        ("matmul_naive", 1, dict.fromkeys(TOOLS, "exit code 0; 2 of 3 recipes ran right")),
    ],
)
def test_every_tool_runs_every_recipe_and_a_report_or_a_wrong_recipe_fails(
    tmp_path: Path, program: str, code: int, told: dict[str, str]
):
    """What the stand-in is called decides what it says."""
    script, tool = tmp_path / f"{program}.py", tmp_path / "compute-sanitizer"
    script.write_text(STAND_IN, encoding="utf-8")
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
    tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, SCRIPT, "--jobs", "2", *NAMES],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )
    right = "exit code 0; 3 of 3 recipes ran right"
    lines = [f"{tool}: {told.get(tool, right)}" for tool in TOOLS]
    assert [line for line in done.stdout.splitlines() if "recipes ran" in line] == lines
    assert done.returncode == code
