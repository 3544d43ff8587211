"""The trials of a run on the disk: a line for each, and nothing is lost but a line that was cut."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tirstep.bench import BenchError, search
from tirstep.bench.search import Trials
from tirstep.bench.workers import Trial

ABOUT = {"recipe": "mine", "shape": {"n": 64}, "options": {}, "target": "llvm"}
RIGHT = Trial({"inner": 2, "pair": [4, 8]}, (1e-6, 2e-6), program="ab")
WRONG = Trial({"inner": 4, "pair": None}, (), "wrong: C[0] is 1, not 2", "cd")
OTHER = replace(RIGHT, program="ef")


def write(folder: Path, *new: Trial) -> Trials:
    trials = Trials(folder, ABOUT)
    for each in new or (RIGHT, WRONG):
        trials.add(each)
    return trials


def read(folder: Path) -> list[Trial]:
    return Trials(folder, ABOUT).known


def test_trials_are_read_again_and_others_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole is written once, whatever the number of trials."""
    whole: list[Any] = []
    write_file = search.write_file
    monkeypatch.setattr(search, "write_file", lambda *it: whole.append(it) or write_file(*it))
    write(tmp_path)
    assert read(tmp_path) == [RIGHT, WRONG]
    write(tmp_path, OTHER)
    assert read(tmp_path) == [RIGHT, WRONG, OTHER]
    assert len(whole) == 1


def test_another_problem_has_a_file_of_its_own(tmp_path: Path) -> None:
    write(tmp_path)
    assert Trials(tmp_path, {**ABOUT, "shape": {"n": 65}}).known == []
    assert read(tmp_path) == [RIGHT, WRONG]


@pytest.mark.parametrize("lost", [1, 2, 30])
def test_a_cut_last_line_is_no_trial(tmp_path: Path, lost: int) -> None:
    """Wherever it was cut; what is added after it is a line of its own."""
    file = write(tmp_path).file
    file.write_bytes(file.read_bytes()[:-lost])
    assert read(tmp_path) == [RIGHT]
    write(tmp_path, OTHER)
    assert read(tmp_path) == [RIGHT, OTHER]


@pytest.mark.parametrize("length", [0, 1, 10, 29])
def test_a_cut_head_is_written_anew(tmp_path: Path, length: int) -> None:
    file = write(tmp_path).file
    file.write_bytes(file.read_bytes()[:length])
    write(tmp_path, OTHER)
    assert read(tmp_path) == [OTHER]


def test_a_file_that_was_removed_has_all_trials_again(tmp_path: Path) -> None:
    trials = write(tmp_path)
    trials.file.unlink()
    trials.add(OTHER)
    assert read(tmp_path) == [RIGHT, WRONG, OTHER]


def test_a_damaged_line_in_the_middle_is_no_trial(tmp_path: Path) -> None:
    file = write(tmp_path).file
    head, first, second = file.read_text().splitlines()
    file.write_text(f"{head}\n{first[:20]}\n[]\n1\n{{}}\n{second}\n")
    assert read(tmp_path) == [WRONG]


@pytest.mark.parametrize("text", ['{"format": 99}\n', "print()", "[1]\n", "\n\n", "\xff"])
def test_a_file_of_something_else_stays_as_it_is(tmp_path: Path, text: str) -> None:
    file = write(tmp_path).file
    file.write_text(text, "latin-1")
    with pytest.raises(BenchError, match="does not hold trials of this run; move it away"):
        read(tmp_path)
    assert file.read_text("latin-1") == text


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a line is written before there is no place left."""
    trials, real = write(tmp_path), os.write

    def fill(descriptor: int, data: bytes) -> int:
        if len(data) < 5:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left on device"):
        trials.add(OTHER)
    monkeypatch.undo()
    assert trials.file.read_bytes().endswith(b"\n")
    assert read(tmp_path) == [RIGHT, WRONG]
