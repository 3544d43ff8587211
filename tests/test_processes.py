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
    script = "import only_there, sys; sys.exit(f'{only_there.value} {sys.argv[1:]}')"
    assert run_alone(script, "a", "b c") == "7 ['a', 'b c']"
    assert run_alone("import only_there") == ""
    assert "No module named 'only_here'" in run_alone("import only_here")
    assert run_alone("import sys; sys.exit(3)") == "no reason given"


def test_what_a_library_writes_past_python_is_not_shown(capfd: pytest.CaptureFixture[str]):
    with silenced_stderr():
        os.write(STDERR, b"attempt 1\n")
    os.write(STDERR, b"the sentence\n")
    assert capfd.readouterr().err == "the sentence\n"
