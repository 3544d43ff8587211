"""``tirstep tune``: from a recipe to a database that TVM alone applies."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from inline_workers import InlineWorkers
from tvm.s_tir.meta_schedule.database import JSONDatabase

from tirstep.bench.search import FOLDER
from tirstep.files import locked
from tirstep.tuning import candidates, database

from .conftest import Command

SUPPORT = Path(__file__).parents[1] / "support"
OWN = f"{SUPPORT / 'tuned_programs.py'}"
SMALL = ("--shape", "n=64", "--target", "llvm", "--jobs", "1")


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without processes that compile, run and verify, which take seconds to start."""
    monkeypatch.setattr(candidates, "WorkerProcesses", InlineWorkers)
    monkeypatch.setattr(database, "_verify", lambda *_: None)


def count_records(folder: Path) -> int:
    return len(JSONDatabase(work_dir=str(folder), allow_missing=False))


@pytest.mark.usefixtures("inline")
def test_a_recipe_of_a_users_file_in_half_precision(command: Command, tmp_path: Path) -> None:
    """tests/test_examples.py does this with processes, and replays what comes of it."""
    folder = tmp_path / "db"
    arguments = (f"{OWN}:folded", "--dtype", "float16", "--set", "inner=2,4", "--trials", "4")
    result = command("tune", *arguments, *SMALL, "-o", folder)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[:2] == ["folded at 64, float16", "tried 4 candidates of 4"]
    assert any(line.startswith("      2 wrong  C[") for line in lines)
    assert any(line.startswith("knobs    --set inner=") and "fold=1" in line for line in lines)
    assert lines[-1] == f"wrote {folder}  replayed with only TVM"
    assert count_records(folder) == 1


@pytest.mark.share(2)
@pytest.mark.usefixtures("inline")
def test_the_same_command_again_goes_on(command: Command, tmp_path: Path) -> None:
    line = ("tune", "matmul_tiled", "--shape", "32x48x16", "--target", "llvm", "-o", tmp_path)
    first = command(*line, "--trials", "2")
    assert first.code == 0
    assert "GPU threads ran one after the other: these times say nothing about a GPU" in first.out
    again = command(*line, "--trials", "4")
    assert "tried 4 candidates of 24, 2 of them by an earlier run" in again.out
    assert "refused by tile_block  " in again.out
    (file,) = (tmp_path / FOLDER).glob("*.jsonl")
    assert len(file.read_text().splitlines()) == 1 + 4
    assert count_records(tmp_path) == 2


@pytest.mark.usefixtures("inline")
def test_a_recipe_that_fits_nowhere_says_why_and_writes_no_record(
    command: Command, tmp_path: Path
) -> None:
    result = command("tune", f"{OWN}:never_fits", *SMALL, "-o", tmp_path)
    assert (result.code, result.err) == (1, "")
    assert "no candidate ran with exact results" in result.out
    assert "4 of 4, such as split_loop: loop 'i' runs 64 times" in result.out
    assert not (tmp_path / "database_tuning_record.json").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {support!r})
from inline_workers import InlineWorkers
from tirstep.cli import main
from tirstep.bench import search
from tirstep.tuning import candidates

candidates.WorkerProcesses = InlineWorkers
add, left = search.Trials.add, [3]


def adding(self, trial):
    left[0] -= 1
    if not left[0]:  # in the middle of a line
        with open(self.file, "ab") as stream:
            stream.write(b'{{"config": {{"inner"')
            stream.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    add(self, trial)


search.Trials.add = adding
sys.argv = ["tirstep", *sys.argv[1:]]
sys.exit(main())
"""


@pytest.mark.usefixtures("inline", "warm_commands")
def test_a_run_that_is_killed_loses_nothing(command: Command, tmp_path: Path) -> None:
    line = ["tune", f"{OWN}:folded", *SMALL, "--set", "fold=1", "-o", str(tmp_path)]
    script = KILLED.format(support=str(SUPPORT))
    done = subprocess.run(
        [sys.executable, "-c", script, *line], capture_output=True, check=False, cwd=tmp_path
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    again = command(*line)
    assert (again.code, again.err) == (0, "")
    assert "tried 3 candidates of 4, 2 of them by an earlier run" in again.out
    assert count_records(tmp_path) == 1


@pytest.mark.usefixtures("inline")
def test_two_runs_of_one_recipe_do_not_mix(command: Command, tmp_path: Path) -> None:
    line = ("tune", f"{OWN}:folded", *SMALL, "--trials", "1", "-o", tmp_path)
    assert command(*line).code == 0
    (file,) = (tmp_path / FOLDER).glob("*.jsonl")
    with locked(file):
        result = command(*line)
    assert result.code == 2
    assert f"another process is tuning this into {tmp_path}; wait until it has" in result.err
    other = command("tune", f"{OWN}:folded", "--shape", "n=32", *SMALL[2:], "-o", tmp_path)
    assert other.code == 0
    assert count_records(tmp_path) == 2


def test_a_target_without_a_device_is_refused(command: Command, tmp_path: Path) -> None:
    if tvm.device("opencl").exist:  # on no machine of ours
        pytest.fail("this test needs a machine without OpenCL")
    result = command("tune", f"{OWN}:folded", "--target", "opencl", "-o", tmp_path / "db")
    assert result.code == 2
    assert "there is no device for --target opencl here" in result.err
    assert not (tmp_path / "db").exists()
