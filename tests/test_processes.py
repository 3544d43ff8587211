"""A process with this one's packages and nothing else, and what is written past Python."""

import os
import sys
from pathlib import Path

import pytest

from tirstep.printing import STDERR, silenced_stderr
from tirstep.processes import run_alone


def test_what_this_process_can_import_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    elsewhere, here = tmp_path / "packages", tmp_path / "here"
    for folder, name in ((elsewhere, "only_there"), (here, "only_here")):
        folder.mkdir()
        (folder / f"{name}.py").write_text("value = 7\n")
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", str(here), str(elsewhere), *sys.path])
    done = run_alone("import only_there, sys; print(only_there.value, *sys.argv[1:])", "a", "b c")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7 a b c\n", "")
    done = run_alone("import only_here")
    assert done.returncode == 1
    assert "No module named 'only_here'" in done.stderr


def test_what_a_library_writes_past_python_is_not_shown(capfd: pytest.CaptureFixture[str]):
    with silenced_stderr():
        os.write(STDERR, b"attempt 1\n")
    os.write(STDERR, b"the sentence\n")
    assert capfd.readouterr().err == "the sentence\n"
