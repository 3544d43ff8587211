"""Rows of JSON in a file: a line for each, and nothing is lost but a line that was cut."""

import os
from pathlib import Path
from typing import Any

import pytest

from tirstep import files
from tirstep.files import KeptRows

HEAD = {"change": "mine", "seed": 0}


def make(path: Path, *numbers: int) -> KeptRows:
    """A file of some rows."""
    kept = KeptRows(path, HEAD)
    for number in numbers:
        kept.add({"trial": number, "status": "right"})
    return kept


def read(path: Path) -> list[int]:
    """The numbers of a file's rows."""
    return [row["trial"] for row in KeptRows(path, HEAD).rows]


def test_a_row_is_added_to_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The whole is written once, whatever the number of rows."""
    whole: list[Any] = []
    write = files.write_file
    monkeypatch.setattr(files, "write_file", lambda *args: whole.append(args) or write(*args))
    make(tmp_path / "state", 0, 1, 2)
    make(tmp_path / "state", 3)
    assert read(tmp_path / "state") == [0, 1, 2, 3]
    assert len(whole) == 1


@pytest.mark.parametrize("lost", [1, 2, 30])
def test_a_cut_last_line_is_no_row(tmp_path: Path, lost: int):
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


def test_a_file_that_was_removed_has_all_rows_again(tmp_path: Path):
    kept = make(tmp_path / "state", 0, 1)
    (tmp_path / "state").unlink()
    kept.add({"trial": 2})
    assert read(tmp_path / "state") == [0, 1, 2]


@pytest.mark.parametrize("text", ["print()", "print()\n", "[1]\n", "\n\n", "\xff"])
def test_another_file_is_left_as_it_is(tmp_path: Path, text: str):
    path = tmp_path / "state"
    path.write_text(text, "latin-1")
    with pytest.raises(ValueError, match=r"Expecting value|says nothing|decode"):
        KeptRows(path, HEAD)
    assert path.read_text("latin-1") == text


@pytest.mark.parametrize("name", ["/dev/full", "."])
def test_a_device_or_a_folder_is_no_file(name: str):
    with pytest.raises(ValueError, match="a folder or a device"):
        KeptRows(Path(name), HEAD)


def test_rows_of_something_else_are_told(tmp_path: Path):
    make(tmp_path / "state", 0)
    assert not KeptRows(tmp_path / "state", HEAD).is_other
    assert KeptRows(tmp_path / "state", {**HEAD, "seed": 1}).is_other


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Half of a line is written before there is no place left."""
    kept, write = make(tmp_path / "state", 0), os.write

    def fill(descriptor: int, data: bytes) -> int:
        if len(data) < 5:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left on device"):
        kept.add({"trial": 1})
    monkeypatch.undo()
    assert (tmp_path / "state").read_bytes().endswith(b"\n")
    assert read(tmp_path / "state") == [0]
