"""``tirstep report``: what it writes, what it refuses, and its exit code."""

import json
from pathlib import Path

import pytest
from report_data import unpack_document

from tirstep.transforms.recipes import LADDERS

from .conftest import Command
from .test_why import BOUND

pytestmark = pytest.mark.usefixtures("report_in_this_process")


def read(path: Path) -> dict:
    return unpack_document(path.read_text(encoding="utf-8"))


def test_a_recipe_and_a_ladder_in_one_page(command: Command, tmp_path: Path):
    path = tmp_path / "two.html"
    result = command("report", "vector_add_bound", "window_sum", "-o", path, "--no-checks")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{path}  3 recipes, 7 steps")
    document = read(path)
    names = [recipe["name"] for recipe in document["recipes"]]
    assert names == ["vector_add_bound", "window_sum_bound", "window_sum_shared"]
    assert "device" not in document
    assert all("checks" not in step for recipe in document["recipes"] for step in recipe["steps"])


def test_a_recipe_that_has_its_ladder_s_name_can_be_asked_for(command: Command, tmp_path: Path):
    path = tmp_path / "one.html"
    call = ("report", "attention_causal", "--no-checks", "-o", path)
    assert command(*call).out.startswith(f"{path}  1 recipe, ")
    names = [recipe["name"] for recipe in read(path)["recipes"]]
    assert names == ["attention_causal"]
    assert command(*call, "--ladder").code == 0
    names = [recipe["name"] for recipe in read(path)["recipes"]]
    assert names == [recipe.name for recipe in LADDERS["attention_causal"]]
    assert len(names) > 1


def test_a_report_of_ours_is_replaced(command: Command, tmp_path: Path):
    path = tmp_path / "again.html"
    arguments = ("report", "vector_add_bound", "-o", path, "--no-checks", "--shape")
    assert command(*arguments, "1024").code == 0
    assert command(*arguments, "2048").code == 0
    assert read(path)["title"] == "vector_add 2048 float32"


@pytest.mark.share(2)
def test_processes_make_the_same_as_one(command: Command, tmp_path: Path, monkeypatch):
    def steps(path: Path) -> str:
        recipes = read(path)["recipes"]
        for recipe in recipes:
            for step in recipe["steps"]:
                for entry in step["passes"]:
                    del entry["milliseconds"]
        return json.dumps(recipes)

    arguments = ("report", "vector_add_bound", "window_sum_bound", "--no-checks", "-o")
    monkeypatch.setattr("tirstep.cli.report.jobs.MOST_PROCESSES", 2)
    monkeypatch.setattr("tirstep.cli.report.jobs.count_cores", lambda: 2)
    assert command(*arguments, tmp_path / "two.html").code == 0
    monkeypatch.setattr("tirstep.cli.report.jobs.MOST_PROCESSES", 1)
    assert command(*arguments, tmp_path / "one.html").code == 0
    assert steps(tmp_path / "one.html") == steps(tmp_path / "two.html")


@pytest.mark.usefixtures("wrong_vector_add")
def test_a_failed_check_is_told_and_shown(command: Command, tmp_path: Path):
    path = tmp_path / "wrong.html"
    result = command("report", "vector_add_bound", "-o", path, "--device", "cpu")
    assert (result.code, result.err) == (1, "")
    assert "vector_add_bound 00_input: " in result.out
    (recipe,) = read(path)["recipes"]
    assert recipe["status"] == "wrong"
    assert recipe["steps"][0]["checks"]["numbers"] == "wrong"
    found = {finding["check"] for finding in recipe["steps"][0]["checks"]["findings"]}
    assert found == {"golden", "numbers"}


@pytest.mark.usefixtures("clock_device")
def test_times_are_in_the_page(command: Command, tmp_path: Path):
    path = tmp_path / "timed.html"
    assert command("report", "vector_add_bound", "-o", path, "--shape", "1024").code == 0
    *_, last = read(path)["recipes"][0]["steps"]
    assert last["time"]["median"] == pytest.approx(2000)
    assert last["time"]["gflops"] == pytest.approx(1024 / 2e-3 / 1e9)
    assert "counts" not in last


def test_a_recipe_that_refuses_is_skipped_unless_all_do(command: Command, tmp_path: Path):
    path = tmp_path / "skipped.html"
    arguments = ("-o", path, "--no-checks", "--shape", "10x12x14")
    result = command("report", "matmul_naive", "matmul_shared", *arguments)
    assert result.code == 0
    assert "\nmatmul_shared skipped: " in result.out
    naive, shared = read(path)["recipes"]
    assert (naive.get("status"), shared["status"]) == (None, "not judged")
    assert "steps" in naive
    assert "divide" in shared["refusal"]
    alone = command("report", "matmul_shared", *arguments)
    assert (alone.code, alone.out) == (2, "")
    assert alone.err.startswith("tirstep: no recipe accepts this; matmul_shared says: ")


def test_wrong_use(command: Command, tmp_path: Path):
    result = command("report", "matmull")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "there is no kernel, ladder or recipe 'matmull'; did you mean matmul" in result.err
    result = command("report", "vector_add_bound", "-o", tmp_path / "r.html", "--target", "cudaa")
    assert (result.code, "there is no target 'cudaa'" in result.err) == (2, True)
    assert command("report").code == 2


@pytest.mark.parametrize("place", ["", "elsewhere"])
def test_a_page_has_no_path_of_the_machine(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    (tmp_path / "bound.py").write_text(BOUND)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / place)
    result = command("report", f"{tmp_path}/bound.py:own", "-o", "page.html")
    text = json.dumps(read(Path("page.html")))
    assert result.code == 1
    assert f"[{'../' * bool(place)}bound.py:17]" in text
    assert str(tmp_path) not in text
    assert str(Path(__file__).parents[2]) not in text
