"""``tirstep golden``: says what would change, and writes it."""

import shutil
from pathlib import Path

import pytest

from tirstep.transforms.recipes import find_recipe

from .conftest import ROOT, Command

NAME = "vector_add_bound"


@pytest.fixture
def goldens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The goldens of the only recipe that there is, in tests/golden of a folder of its own."""
    monkeypatch.setattr("tirstep.cli.golden.RECIPES", {NAME: find_recipe(NAME)})
    root = tmp_path / "tests" / "golden"
    shutil.copytree(ROOT / "tests" / "golden" / NAME, root / NAME)
    shutil.copy(ROOT / "tests" / "golden" / "TVM_VERSION", root)
    monkeypatch.chdir(tmp_path)
    return root


def test_goldens_as_the_recipes_make_them(command: Command, goldens: Path):
    result = command("golden")
    sentence = "3 goldens in tests/golden: as the recipes make them\n"
    assert (result.code, result.out, result.err) == (0, sentence, "")
    assert command("golden", "--write").out == "nothing changed in tests/golden\n"


def test_what_differs_is_told_and_then_written(command: Command, goldens: Path):
    before = {path.name: path.read_text() for path in (goldens / NAME).iterdir()}
    (goldens / NAME / "01_split.py").unlink()
    bound = goldens / NAME / "02_bound.py"
    bound.write_text(bound.read_text().replace("128", "64"))
    (goldens / "orphan.py").write_text("")
    result = command("golden")
    assert result.code == 1
    assert f"{NAME} 01_split: the golden {NAME}/01_split.py is missing;" in result.out
    assert f"{NAME} 02_bound: the program changed;" in result.out
    assert "\n+++ got\n" in result.out
    assert "orphan.py: no step of any recipe makes this file;" in result.out
    assert result.out.endswith(
        "3 goldens: 3 differences in tests/golden; --write makes them anew\n"
    )
    assert (goldens / "orphan.py").exists()

    result = command("golden", "--write")
    assert result.code == 0
    assert result.out.splitlines() == [
        f"wrote   tests/golden/{NAME}/01_split.py",
        f"wrote   tests/golden/{NAME}/02_bound.py",
        "deleted tests/golden/orphan.py",
        "3 files changed in tests/golden; read them in git",
    ]
    assert {path.name: path.read_text() for path in (goldens / NAME).iterdir()} == before
    assert command("golden").code == 0


def test_the_first_goldens(command: Command, goldens: Path):
    shutil.rmtree(goldens)
    result = command("golden", "--write", "--json")
    assert result.code == 0
    assert set(result.document) == {
        *("command", "versions", "golden_dir", "written", "ok", "changed", "findings"),
    }
    assert len(result.document["changed"]) == 4
    assert command("golden", "--json").document["ok"]


def test_a_folder_of_other_things_is_left_alone(command: Command, goldens: Path):
    (goldens / "TVM_VERSION").rename(goldens / "notes.txt")
    result = command("golden", "--write")
    assert (result.code, result.out) == (2, "")
    assert "tests/golden has files but no TVM_VERSION, so it may be no folder of gold" in result.err
    assert (goldens / "notes.txt").exists()
