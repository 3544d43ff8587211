"""``tirstep check --write-goldens``: writes the goldens of what is named, and nothing else."""

import shutil
from pathlib import Path

import pytest

from tirstep.transforms.recipes import find_recipe

from .conftest import ROOT, Command

NAME, KERNEL = "vector_add_bound", "inputs/vector_add_1024.py"
WRITE = ("check", "--write-goldens")


@pytest.fixture
def goldens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The goldens of the only recipe that there is, in tests/golden of a folder of its own."""
    monkeypatch.setattr("tirstep.transforms.recipes.RECIPES", {NAME: find_recipe(NAME)})
    root = tmp_path / "tests" / "golden"
    shutil.copytree(ROOT / "tests" / "golden" / NAME, root / NAME)
    shutil.copy(ROOT / "tests" / "golden" / "TVM_VERSION", root)
    (root / "inputs").mkdir()
    shutil.copy(ROOT / "tests" / "golden" / KERNEL, root / KERNEL)
    monkeypatch.chdir(tmp_path)
    return root


def test_what_differs_is_written(command: Command, goldens: Path):
    assert command(*WRITE, "--all").out == "nothing changed in tests/golden\n"
    before = {path.name: path.read_text() for path in (goldens / NAME).iterdir()}
    (goldens / NAME / "01_split.py").unlink()
    bound = goldens / NAME / "02_bound.py"
    bound.write_text(bound.read_text().replace("128", "64"))
    (goldens / NAME / "03_more.py").write_text(bound.read_text())
    (goldens / "orphan.py").write_text("")
    result = command(*WRITE, "--all")
    assert result.code == 1
    assert result.out.splitlines() == [
        f"wrote   tests/golden/{NAME}/01_split.py",
        f"wrote   tests/golden/{NAME}/02_bound.py",
        f"deleted tests/golden/{NAME}/03_more.py",
        "3 files changed in tests/golden; read them in git",
        "orphan.py: no step of any recipe makes this file; delete or move it",
    ]
    (goldens / "orphan.py").unlink()
    assert {path.name: path.read_text() for path in (goldens / NAME).iterdir()} == before
    assert command(*WRITE, NAME).out == "nothing changed in tests/golden\n"


def test_the_first_goldens(command: Command, goldens: Path):
    shutil.rmtree(goldens)
    document = command(*WRITE, "--json", "--all").document
    keys = {"command", "versions", "golden_dir", "ok", "changed", "findings"}
    assert (set(document), document["ok"], len(document["changed"])) == (keys, True, 4)


def test_a_folder_of_other_things_is_left_alone(command: Command, goldens: Path):
    (goldens / "TVM_VERSION").rename(goldens / "notes.txt")
    result = command(*WRITE, "--all")
    assert (result.code, result.out) == (2, "")
    assert "tests/golden has files but no TVM_VERSION, so it may not be a folder of" in result.err
    assert (goldens / "notes.txt").exists()


def test_the_recipes_that_are_named_are_written_and_no_others(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """In somebody's project, whose folder of goldens has other things, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tests").mkdir()
    assert command(*WRITE, "relu_bound").code == 0
    root = tmp_path / "tests" / "golden"
    assert sorted(path.name for path in root.iterdir()) == ["TVM_VERSION", "inputs", "relu_bound"]
    (root / "theirs.txt").write_text("years")
    assert command(*WRITE, "vector_add").code == 0  # a kernel: its ladder
    assert (root / "vector_add_vectors").is_dir()
    assert not (root / "matmul_naive").exists()
    assert (root / "theirs.txt").read_text() == "years"
    result = command(*WRITE, "relu_bond")
    assert (result.code, "did you mean relu_bound" in result.err) == (2, True)


def test_goldens_whose_first_writing_was_ended_are_written(command: Command, goldens: Path):
    (goldens / "TVM_VERSION").unlink()
    (goldens / NAME / "02_bound.py").unlink()
    (goldens / ".tirstep-00.partial").write_text("")
    (goldens / ".TVM_VERSION.lock").write_text("")
    command(*WRITE, "--all")
    assert (goldens / "TVM_VERSION").exists()
    assert (goldens / NAME / "02_bound.py").exists()


def test_two_programs_of_one_name_have_one_place(command: Command, tmp_path: Path):
    files = [tmp_path / "first.py", tmp_path / "second.py"]
    for file in files:
        file.write_text((ROOT / "tests/golden" / NAME / "02_bound.py").read_text())
    write = (*WRITE, "--golden-dir", tmp_path / "mine")
    result = command(*write, *files)
    assert result.code == 2
    assert "have the same name, and the output would keep one of them; give one at a" in result.err
    assert not (tmp_path / "mine").exists()
    assert command(*write, files[0], files[0]).code == 0
