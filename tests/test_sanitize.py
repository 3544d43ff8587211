"""`tests/sanitize.py` says of each tool what all of its processes found; the tool is a stand-in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sanitize.py")
NAMES = ["relu_bound", "matmul_naive", "row_sum_naive"]
STAND_IN = """\
import sys
tool, names = sys.argv[2], sys.argv[sys.argv.index("--run") + 1 :]
for name in names:
    print(f"{name}: {'wrong numbers' if name in sys.argv[0] else 'right'}")
sys.exit(86 if tool in sys.argv[0] else 0)
"""
pytestmark = pytest.mark.usefixtures("warm_commands")


def sanitize(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run the script; what the stand-in is called decides what it says."""
    script = folder / f"{program}.py"
    script.write_text(STAND_IN, encoding="utf-8")
    tool = folder / "compute-sanitizer"
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
    tool.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, SCRIPT, "--jobs", "2", *NAMES],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
    )


def test_every_tool_runs_every_recipe_in_several_processes(tmp_path: Path):
    done = sanitize(tmp_path, "silent")
    assert done.stdout.splitlines() == [
        f"{tool}: exit code 0; 3 of 3 recipes ran right"
        for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
    ]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("racecheck", "racecheck: exit code 86; 3 of 3 recipes ran right"),
        ("matmul_naive", "initcheck: exit code 0; 2 of 3 recipes ran right"),
    ],
)
def test_a_report_and_a_wrong_recipe_fail(tmp_path: Path, program: str, said: str):
    done = sanitize(tmp_path, program)
    assert said in done.stdout
    assert done.returncode == 1
