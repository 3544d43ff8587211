"""From a wheel: the tutorial's files, with a report, and a project of one's own."""

import shutil
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples/first_steps"
SCRIPT = """
import subprocess
import sys

import tirstep
from tirstep.cli import main

def run(line):
    assert main(line.split()) == 0, line


if __name__ == "__main__":
    for name in ("list", "check", "report"):
        run(f"{name} tiled.py")
    run("new mine")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert subprocess.run(words, cwd="mine").returncode == 0
    print(tirstep.__file__)
"""


@pytest.mark.share(4)
def test_commands_take_a_users_programs(installed_wheel, tmp_path: Path):
    folder = tmp_path / "empty"
    shutil.copytree(EXAMPLES, folder)
    (folder / "run.py").write_text(SCRIPT)
    printed = installed_wheel.run(folder / "run.py")
    where = Path(printed.strip().splitlines()[-1])
    assert installed_wheel.folder in where.parents
    assert "2 passed" in printed
