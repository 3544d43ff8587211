"""The file of a search: a line for each trial, and nothing is lost but a line that was cut."""

import os
from pathlib import Path
from typing import Any

import bad_jobs
import pytest

from tirstep import files
from tirstep.experiments import Corpus, ExperimentError
from tirstep.experiments import corpus as trials
from tirstep.experiments.corpus import TrialFile, TrialRecord, hunt

HEAD = {"change": "mine", "seed": 0}


def make(path: Path, *numbers: int) -> TrialFile:
    """A file of some trials."""
    file = TrialFile(path, HEAD)
    for number in numbers:
        file.add(TrialRecord(number, "program", "", "right"))
    return file


def read(path: Path) -> list[int]:
    """The trials of a file."""
    return [*TrialFile(path, HEAD).records]


def test_a_trial_is_added_to_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole is written once, whatever the number of trials."""
    whole: list[Any] = []
    write = files.write_file
    monkeypatch.setattr(files, "write_file", lambda *args: whole.append(args) or write(*args))
    make(tmp_path / "state", 0, 1, 2)
    make(tmp_path / "state", 3)
    assert read(tmp_path / "state") == [0, 1, 2, 3]
    assert len(whole) == 1


@pytest.mark.parametrize("lost", [1, 2, 40, 100])
def test_a_cut_last_line_is_no_trial(tmp_path: Path, lost: int):
    """Wherever it was cut; what is added behind it is a line of its own."""
    path = tmp_path / "state"
    make(path, 0, 1)
    path.write_bytes(path.read_bytes()[:-lost])
    assert read(path) == [0]
    make(path, 7)
    assert read(path) == [0, 7]


@pytest.mark.parametrize("length", [0, 1, 10, 29])
def test_a_cut_head_is_written_anew(tmp_path: Path, length: int):
    path = tmp_path / "state"
    make(path, 0)
    path.write_bytes(path.read_bytes()[:length])
    make(path, 4)
    assert read(path) == [4]


def test_a_file_that_was_removed_has_all_trials_again(tmp_path: Path):
    file = make(tmp_path / "state", 0, 1)
    (tmp_path / "state").unlink()
    file.add(TrialRecord(2, "program", "", "right"))
    assert read(tmp_path / "state") == [0, 1, 2]


@pytest.mark.parametrize("text", ["print()", "print()\n", "[1]\n", "\n\n", "\xff"])
def test_another_file_is_left_as_it_is(tmp_path: Path, text: str):
    path = tmp_path / "state"
    path.write_text(text, "latin-1")
    with pytest.raises(ExperimentError, match="is not a --state file; give another file"):
        TrialFile(path, HEAD)
    assert path.read_text("latin-1") == text


@pytest.mark.parametrize("name", ["/dev/full", "."])
def test_a_device_or_a_folder_is_no_file(name: str):
    with pytest.raises(ExperimentError, match="is not a --state file; give another file"):
        TrialFile(Path(name), HEAD)


def test_a_state_is_of_one_search_and_one_text_of_a_pass(tmp_path: Path):
    """What the pass did before it was changed is no answer."""
    make(tmp_path / "state", 0)
    for head in ({**HEAD, "text": "other"}, {**HEAD, "seed": 1}):
        with pytest.raises(ExperimentError, match="belongs to another search, or to another"):
            TrialFile(tmp_path / "state", head)


def test_a_trial_that_is_known_is_not_made_again(tmp_path: Path):
    corpus, tried = Corpus(0, ("program",)), []

    def attempt(subject: Any) -> dict[str, str]:
        tried.append(subject.label)
        return {"status": "right"}

    for numbers in ([0, 1], [1, 2]):
        found = hunt(corpus, numbers, TrialFile(tmp_path / "state", HEAD), attempt)
        assert [each.status for each in found] == ["right", "right"]
    assert tried == [f"program {number} of seed 0" for number in range(3)]


@pytest.mark.share(3)
def test_several_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch):
    """One that TVM ends has its trial made here again."""
    corpus = Corpus(0, ("program",))

    def find(fewest: int) -> list[TrialRecord]:
        monkeypatch.setattr(trials, "FEWEST", fewest)
        monkeypatch.setattr(trials, "count_cores", lambda: 2)
        return [*hunt(corpus, range(6), TrialFile(None, HEAD), bad_jobs.attempt_or_crash)]

    assert find(1) == find(100)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Half of a line is written before there is no place left."""
    file, write = make(tmp_path / "state", 0), os.write

    def fill(descriptor: int, data: bytes) -> int:
        if len(data) < 5:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left on device"):
        file.add(TrialRecord(1, "program", "", "right"))
    monkeypatch.undo()
    assert (tmp_path / "state").read_bytes().endswith(b"\n")
    assert read(tmp_path / "state") == [0]
