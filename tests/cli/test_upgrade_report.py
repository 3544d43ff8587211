"""``tirstep record`` and ``upgrade-report``: a record edited by hand stands for the older TVM."""

import json
import re
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tvm

from tirstep.cli import upgrade_report
from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.upgrades import RECORD, record_recipe, write_record
from tirstep.transforms.recipes import RECIPES, find_recipe

from .conftest import Command

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAME, STEP = "vector_add_bound", "02_bound"
BLOCK = "T.axis.spatial(1024, i_0 * 128 + i_1)"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of one recipe under this TVM."""
    folder = tmp_path_factory.mktemp("record") / "new"
    folder.mkdir()
    recipe = record_recipe(find_recipe(NAME), get_device("simulator"))
    write_record(folder, [(NAME, recipe)])
    return folder


@pytest.fixture
def new(recorded: Path, tmp_path: Path) -> Path:
    """A copy of it, which a test may edit."""
    return Path(shutil.copytree(recorded, tmp_path / "new"))


@pytest.fixture
def old(recorded: Path, tmp_path: Path) -> Path:
    """Another one, of an older TVM."""
    folder = Path(shutil.copytree(recorded, tmp_path / "old"))
    edit_record(folder, lambda document: document.update(tvm="0.1"))
    return folder


def edit_record(folder: Path, change: Callable[[dict], object]) -> None:
    document = json.loads((folder / RECORD).read_text())
    change(document)
    (folder / RECORD).write_text(json.dumps(document))


def edit_step(folder: Path, before: str, after: str) -> None:
    file = folder / NAME / f"{STEP}.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def find_changes(command: Command, old: Path, new: Path) -> list[tuple[str, str, list[str]]]:
    result = command("upgrade-report", old, new, "--json")
    changes = result.document["changes"]
    assert result.code == any(change["kind"] == "behaviour" for change in changes)
    assert result.document["recipes"] == 1
    assert all(change["recipe"] == NAME for change in changes)
    return [(change["step"], change["kind"], change["details"]) for change in changes]


def test_nothing_changed(command: Command, old: Path, new: Path):
    result = command("upgrade-report", old, new)
    sentence = f"TVM 0.1 to {tvm.__version__}  3 steps: all the same\n"
    assert (result.code, result.out, result.err) == (0, sentence, "")


def test_another_name_is_spelling(command: Command, old: Path, new: Path):
    edit_step(old, "i_0", "outer")
    assert find_changes(command, old, new) == [(STEP, "spelling", ["prints otherwise"])]


def test_a_name_that_tvm_moved_is_spelling(command: Command, old: Path, new: Path):
    """Of a tensorized step; the rest of such a text is not what this is about."""
    old_load, new_load = (
        f'T.evaluate({name}("float16", T.bool(False), 4, ".b16", A.data, 0, B.data, 0))'
        for name in ("T.ptx.ldmatrix_legacy", "T.ptx_legacy.ldmatrix")
    )
    text = (new / NAME / f"{STEP}.py").read_text()
    (line,) = [line for line in text.splitlines() if "C[vi] = " in line]
    indent = " " * (len(line) - len(line.lstrip()))
    edit_step(old, line, f"{indent}{old_load}\n{line}")
    edit_step(new, line, f"{indent}{new_load}\n{line}")
    expected = ["T.ptx.ldmatrix_legacy is now T.ptx_legacy.ldmatrix"]
    assert find_changes(command, old, new) == [(STEP, "spelling", expected)]


def test_an_index_that_simplifies_to_the_same_is_normalisation(
    command: Command, old: Path, new: Path
):
    edit_step(old, BLOCK, "T.axis.spatial(1024, i_1 + i_0 * 128)")
    ((step, kind, _),) = find_changes(command, old, new)
    assert (step, kind) == (STEP, "normalisation")


def test_another_program_is_structure(command: Command, old: Path, new: Path):
    edit_step(old, BLOCK, "T.axis.spatial(1024, i_0 * 128 + (127 - i_1))")
    assert find_changes(command, old, new) == [(STEP, "structure", ["another program"])]


def test_text_that_is_not_read_any_more_is_structure(command: Command, old: Path, new: Path):
    edit_step(old, "T.thread_binding", "T.bound_thread")
    ((_, kind, (detail,)),) = find_changes(command, old, new)
    assert kind == "structure"
    assert detail.startswith("the older text is not read any more: ")
    assert "bound_thread" in detail


def test_a_step_more_is_structure(command: Command, old: Path, new: Path):
    edit_record(old, lambda document: document["recipes"][NAME]["steps"].pop())
    assert find_changes(command, old, new) == [(STEP, "structure", ["is a new step"])]


def test_another_number_of_barriers_is_behaviour(command: Command, old: Path, new: Path):
    def add_barrier(document: dict) -> None:
        document["recipes"][NAME]["steps"][-1]["facts"]["instructions: barriers"] = 1

    edit_step(old, "i_0", "outer")  # which matters less
    edit_record(old, add_barrier)
    expected = (STEP, "behaviour", ["instructions: barriers: 1 -> 0"])
    assert find_changes(command, old, new) == [expected]


@pytest.mark.parametrize(
    ("keys", "detail"),
    [
        ({"bits": "0"}, "results on simulator differ in bits"),
        ({"wrong": ["numbers: C is wrong"]}, "numbers on simulator are right; were wrong,"),
        ({"checked_on": "cpu"}, "runs on simulator, and ran on cpu"),
    ],
)
def test_other_numbers_are_behaviour(
    command: Command, old: Path, new: Path, keys: dict, detail: str
):
    edit_record(old, lambda document: document["recipes"][NAME].update(keys))
    ((step, kind, details),) = find_changes(command, old, new)
    assert (step, kind) == ("", "behaviour")
    assert detail in details[-1]


def test_what_the_newer_refuses_is_behaviour_and_what_the_older_refused_is_new(
    command: Command, old: Path, new: Path
):
    place = " [recipe mine, after step 'bound', mine.py:7; kernel /home/me/mine.py:4]"
    refuse = {"refusal": f"no such thing{place}", "steps": []}
    edit_record(new, lambda document: document["recipes"][NAME].update(refuse))
    expected = ("", "behaviour", ["is refused: no such thing"])
    assert find_changes(command, old, new) == [expected]
    edit_record(new, lambda document: document.update(tvm="0.1"))
    edit_record(old, lambda document: document.update(tvm=tvm.__version__))
    assert find_changes(command, new, old) == [("", "new", ["was refused: no such thing"])]


def test_the_table_and_its_last_line(command: Command, old: Path, new: Path):
    edit_step(old, "i_0", "outer")
    result = command("upgrade-report", old, new)
    assert result.code == 0
    header, row, _, last = result.out.splitlines()
    assert header.split() == ["kind", "what", "recipes", "and", "their", "steps"]
    assert row.split() == ["spelling", "prints", "otherwise", NAME, STEP]
    assert last == f"TVM 0.1 to {tvm.__version__}  3 steps: 1 spelling"


def test_what_is_told_of_several_steps_is_told_once(command: Command, old: Path, new: Path):
    for folder in (old, new):
        for name in ("second", "third"):
            shutil.copytree(folder / NAME, folder / name)
        edit_record(
            folder,
            lambda document: document["recipes"].update(
                dict.fromkeys(("second", "third"), document["recipes"][NAME])
            ),
        )
    for name in (NAME, "third"):
        for file in (old / name).glob("*.py"):
            file.write_text(re.sub(r"\bi\b|\bi_0\b", "outer", file.read_text()))
    result = command("upgrade-report", old, new)
    assert result.code == 0
    assert result.out.count("prints otherwise") == 1
    for recipe in (NAME, "third"):
        assert f"{recipe} 00_input, 01_split, {STEP}" in " ".join(result.out.split())
    assert "second" not in result.out


def test_the_newer_record_must_be_of_this_tvm(command: Command, old: Path, new: Path):
    result = command("upgrade-report", new, old)
    assert result.code == 2
    assert "NEW is of TVM 0.1, and this is TVM" in result.err


def test_a_record_that_was_not_finished_is_told(command: Command, old: Path, new: Path):
    (old / RECORD).unlink()
    result = command("upgrade-report", old, new)
    assert result.code == 2
    assert "has no record.json: no record, or one that was not finished" in result.err


def test_a_record_with_a_file_missing_is_told(command: Command, old: Path, new: Path):
    (old / NAME / f"{STEP}.py").unlink()
    result = command("upgrade-report", old, new)
    assert result.code == 2
    assert "is no whole record" in result.err


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 'one line' >&2; echo 'No module named tirstep' >&2; exit 1", "No module named tir"),
        ("kill -9 $$", "was ended by signal 9; run it again"),
    ],
)
def test_a_side_that_fails_is_one_sentence(
    command: Command, tmp_path: Path, new: Path, script: str, sentence: str
):
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    result = command("upgrade-report", tmp_path / "environment", new)
    assert result.code == 2
    assert "OLD: " in result.err
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1


def test_recipes_are_named_where_a_record_is_written(command: Command, old: Path, new: Path):
    result = command("upgrade-report", old, new, NAME)
    assert result.code == 2
    assert "is a record; name recipes where it is written" in result.err


def test_a_python_records_what_the_other_side_has(
    command: Command, old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
):
    told = []

    def record(side: str, python: Path, room: Path, words: list[str]) -> None:
        told.append((side, words))
        shutil.copytree(new, room)

    monkeypatch.setattr(upgrade_report, "_run_record", record)
    assert command("upgrade-report", old, sys.executable).code == 0
    assert told == [("NEW", [NAME])]
    edit_record(old, lambda document: document.update(recipes={"mine": {"steps": [], "wrong": []}}))
    result = command("upgrade-report", old, sys.executable)
    assert result.code == 2
    assert "the record has mine, which is no recipe of tirstep's; write a record" in result.err


def test_a_program_of_ones_own_is_recorded(command: Command, tmp_path: Path, new: Path):
    file = tmp_path / "mine.py"
    file.write_text((new / NAME / f"{STEP}.py").read_text())
    result = command("record", tmp_path / "mine", file)
    assert (result.code, result.out) == (0, f"{tmp_path / 'mine'}  1 recipe\n")
    result = command("upgrade-report", tmp_path / "mine", tmp_path / "mine")
    assert result.out.endswith("1 step: all the same\n")


def test_programs_of_one_name_are_not_lost(command: Command, tmp_path: Path, new: Path):
    """A record, goldens and a report have one place for a name."""
    files = [tmp_path / "first.py", tmp_path / "second.py"]
    for file in files:
        file.write_text((new / NAME / f"{STEP}.py").read_text())
    result = command("record", tmp_path / "mine", *files)
    assert result.code == 2
    assert "have one name, under which one of them would be lost; give one at" in result.err
    assert not (tmp_path / "mine").exists()
    assert command("record", tmp_path / "mine", files[0], files[0]).code == 0


def test_no_folder_of_other_things_is_written_to(command: Command, tmp_path: Path):
    (tmp_path / "letters.txt").write_text("dear\n")
    result = command("record", tmp_path, NAME)
    assert result.code == 2
    assert "has other files; give a new folder, or one of a record" in result.err


@pytest.mark.parametrize("name", [".git", "mine"])
def test_a_new_record_takes_no_folder_of_others_away(command: Command, tmp_path: Path, name: str):
    """It takes the place of the whole folder, in which its user may have put something."""
    (tmp_path / "record.json").write_text('{"recipes": {"mine": {}}}')
    other = tmp_path / name
    other.mkdir()
    (other / "HEAD").write_text("ref")
    result = command("record", tmp_path, NAME)
    assert result.code == 2
    assert f"{other} is no part of the record there; move it" in result.err
    assert (other / "HEAD").read_text() == "ref"


def test_the_page_of_versions_names_recipes_that_there_are():
    document = json.loads((DOCS / "upgrades" / "0.26-to-0.27.json").read_text("utf-8"))
    assert {change["recipe"] for change in document["changes"]} <= {*RECIPES}
    numbers = f"{document['steps']} steps of {document['recipes']} recipes"
    page = (DOCS / "versions.md").read_text("utf-8")
    assert numbers in page
    assert " [" not in "".join(change["details"][0] for change in document["changes"])
