"""The trials of a run on the disk."""

from pathlib import Path

import pytest

from tirstep.bench import BenchError
from tirstep.bench.search import Trials
from tirstep.bench.workers import Trial

ABOUT = {"recipe": "mine", "shape": {"n": 64}, "options": {}, "target": "llvm"}
RIGHT = Trial({"inner": 2, "pair": [4, 8]}, (1e-6, 2e-6), program="ab")
WRONG = Trial({"inner": 4, "pair": None}, (), "wrong: C[0] is 1, not 2", "cd")


def write(folder: Path) -> Trials:
    trials = Trials(folder, ABOUT)
    trials.add(RIGHT)
    trials.add(WRONG)
    return trials


def test_trials_are_read_again(tmp_path: Path) -> None:
    write(tmp_path)
    assert Trials(tmp_path, ABOUT).known == [RIGHT, WRONG]


def test_another_problem_has_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path)
    assert Trials(tmp_path, {**ABOUT, "shape": {"n": 65}}).known == []
    assert Trials(tmp_path, ABOUT).known == [RIGHT, WRONG]


def test_a_damaged_line_in_the_middle_is_no_trial(tmp_path: Path) -> None:
    file = write(tmp_path).file
    head, first, second = file.read_text().splitlines()
    file.write_text(f"{head}\n{first[:20]}\n{second}\n")
    assert Trials(tmp_path, ABOUT).known == [WRONG]


def test_a_file_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path).file
    file.write_text('{"format": 99}\n')
    with pytest.raises(BenchError, match="does not hold trials of this run; move it away"):
        Trials(tmp_path, ABOUT)
    assert file.read_text() == '{"format": 99}\n'
