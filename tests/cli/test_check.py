"""``tirstep check``: good recipes pass, and every kind of failure is told and exits with 1."""

import dataclasses
import re
import shutil
from pathlib import Path

import pytest
import tvm
from tvm.script import from_source

from tirstep.lowering_checks import print_module
from tirstep.modules import vector_add
from tirstep.transforms.recipes import Example, find_recipe

from .conftest import ROOT, Command

CPU = ("--device", "cpu")
RECIPE_KEYS = {
    "base",
    "delta",
    *(
        "recipe",
        "program",
        "summary",
        "status",
        "reason",
        "shape",
        "options",
        "config",
        "golden",
        "numbers",
    ),
    *("checked_on", "added", "removed", "time_us", "time_us_lower", "time_us_upper", "repeats"),
    *("gflops", "speedup", "findings", "steps"),
}
STEP_KEYS = {
    *("number", "name", "source", "golden", "numbers", "part", "reason", "checked_on", "left_open"),
    *("added", "removed"),
    *("time_us", "time_us_lower", "time_us_upper", "repeats", "gflops", "findings"),
}


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    """A copy of the goldens, to be damaged."""
    return Path(shutil.copytree(ROOT / "tests" / "golden", tmp_path / "golden"))


@pytest.mark.share(2)
def test_good_recipes(command: Command):
    result = command("check", "vector_add_bound", "matmul_naive", *CPU)
    assert (result.code, result.err) == (0, "")
    assert "device  CPU (LLVM, thread bindings made serial)\ngolden  tests/golden\n" in result.out
    assert "\nmatmul_naive  64x48x32\n" in result.out
    assert "\n  01_bound   golden ok       numbers right on cpu 64x48x32\n" in result.out
    assert result.out.endswith("2 recipes, 5 modules: all good\n")


@pytest.mark.share(2)
def test_all_recipes_and_orphans(command: Command, goldens: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "tirstep.transforms.recipes.RECIPES", {"vector_add_bound": find_recipe("vector_add_bound")}
    )
    (goldens / "vector_add_bound" / "03_more.py").write_text("")
    result = command("check", "--all", "--golden-dir", goldens, *CPU)
    assert result.code == 1
    orphan = "vector_add_bound/03_more.py: no step of any recipe makes this file; delete it, or"
    assert orphan in result.out
    assert "matmul_naive/01_bound.py: no step" in result.out
    # By name, a recipe is all that is looked at.
    assert command("check", "vector_add_bound", "--golden-dir", goldens, *CPU).code == 0


def test_changed_golden_shows_its_diff(command: Command, goldens: Path):
    file = goldens / "matmul_naive" / "01_bound.py"
    file.write_text(file.read_text().replace("T.thread_binding(64", "T.thread_binding(32"))
    result = command("check", "matmul_naive", "--golden-dir", goldens, *CPU)
    assert result.code == 1
    assert "  01_bound   golden failed   numbers right on cpu 64x48x32\n" in result.out
    place = r"matmul_naive 01_bound \[transforms/recipes/matmul_tutorials\.py:\d+\]"
    sentence = place + ": the program changed; if that is meant,"
    assert re.search(sentence, result.out)
    assert '\n-        for i in T.thread_binding(32, thread="blockIdx.y"):\n' in result.out
    assert '\n+        for i in T.thread_binding(64, thread="blockIdx.y"):\n' in result.out
    assert result.out.endswith("1 recipe, 2 modules: 1 finding\n")


def test_no_goldens_are_told_once(command: Command, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = command("check", "vector_add_bound", "matmul_naive", *CPU)
    assert result.code == 0
    assert result.out.count("golden  no tests/golden here; ") == 1


def test_wrong_kernel(command: Command, wrong_vector_add: None):
    result = command("check", "vector_add_bound", *CPU)
    assert result.code == 1
    assert "golden failed   numbers wrong on cpu 1024" in result.out
    assert "\n+                C[vi] = A[vi] - B[vi]\n" in result.out
    assert re.search(r" 01_split \[transforms/recipes/element_ladders\.py:\d+\]: C\[", result.out)
    assert "elements are wrong (integers, seed 0)" in result.out


@pytest.mark.share(2)
@pytest.mark.usefixtures("wrong_vector_add")
def test_wrong_numbers_name_the_command_that_finds_who_is_at_fault(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # tirstep why writes its script there
    wish = "--shape 2048 --dtype float16 --set threads=64 --seed 3"
    result = command("check", "vector_add_bound", *wish.split(), *CPU)
    assert result.out.endswith(f"find where it goes wrong:  tirstep why vector_add_bound {wish}\n")
    _, *words = result.out.splitlines()[-1].partition("tirstep ")[2].split()
    why = command("why", *words)
    assert (why.code, why.err) == (1, "")
    assert why.out.startswith("vector_add_bound  2048, seed 3: step 0 input\n")


@pytest.fixture
def wrong_at_odd_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel is right wherever two divides its length."""
    right = vector_add.factory

    def subtract(n: int, **options: object) -> tvm.IRModule:
        text = print_module(right(n, **options))
        is_odd = isinstance(n, int) and n % 2
        return from_source(text.replace("A[vi] + B[vi]", "A[vi] - B[vi]") if is_odd else text)

    monkeypatch.setattr(vector_add, "factory", subtract)


@pytest.mark.usefixtures("wrong_at_odd_lengths")
def test_what_only_an_odd_shape_shows_is_found(command: Command, tmp_path: Path, monkeypatch):
    result = command("check", "vector_add_bound", "--runs", 1, *CPU)
    assert result.code == 1
    assert "  02_bound   golden ok       numbers right on cpu 1024\n" in result.out
    assert "\n  at an odd shape            numbers wrong on cpu 1025 tail=guard\n" in result.out
    assert result.out.count("elements are wrong (integers, seed 0)") == 1
    words = "tirstep why vector_add_bound --shape 1025 --set tail=guard"
    again = "tirstep check vector_add_bound --shape 1025 --set tail=guard --device cpu --runs 0"
    assert f"\nto repeat it:  {again}\n" in result.out
    assert result.out.endswith(f"1 finding\nfind where it goes wrong:  {words}\n")
    monkeypatch.chdir(tmp_path)
    assert command(*words.split()[1:]).code == 1
    assert "numbers wrong on cpu 1025" in command(*again.split()[1:]).out

    document = command("check", "vector_add_bound", "--runs", 1, "--json", *CPU).document
    (recipe,) = document["recipes"]
    assert (document["ok"], recipe["status"], recipe["numbers"]) == (False, "wrong", "right")
    (odd,) = recipe["other_runs"]
    assert odd == {
        "about": "at an odd shape",
        "recipe": "vector_add_bound",
        "shape": {"n": 1025},
        "options": {"dtype": "float32"},
        "config": {"threads": 128, "tail": "guard"},
        "symbolic": [],
        "numbers": "wrong",
        "part": "",
        "reason": "",
        "checked_on": "cpu 1025 tail=guard",
        "repeat": again,
    }
    (finding,) = recipe["findings"]
    assert finding["where"] == "vector_add_bound 02_bound"


@pytest.mark.share(2)
@pytest.mark.usefixtures("wrong_at_odd_lengths")
def test_every_wrong_run_is_told_with_what_repeats_it(command: Command):
    asked = ("check", "vector_add_bound", "--seed", 3, "--runs", 5, *CPU)
    result, (recipe,) = command(*asked), command(*asked, "--json").document["recipes"]
    others = recipe["other_runs"]
    assert len(others) == 5
    wrong = [other for other in others if other["numbers"] == "wrong"]
    assert len(recipe["findings"]) == len(wrong) >= 3
    for other in others:
        is_wrong = other["shape"]["n"] % 2 == 1 and not other["symbolic"]
        assert (other in wrong) == is_wrong, other
        assert (f"to repeat it:  {other['repeat']}\n" in result.out) == is_wrong
        if other["symbolic"]:
            assert other["repeat"].endswith("--seed 3 --device cpu --runs 10")
        else:
            assert command(*other["repeat"].split()[1:]).code == is_wrong


def test_other_runs_are_near_the_golden_shape_and_keep_what_was_wished(command: Command):
    wish = ("--shape", 2048, "--dtype", "float16", "--set", "threads=64", "--set", "tail=refuse")
    (recipe,) = command("check", "vector_add_bound", *wish, "--json", *CPU).document["recipes"]
    assert recipe["status"] == "right"
    assert all(other["config"]["tail"] == "refuse" for other in recipe["other_runs"])
    (recipe,) = command(
        "check", "vector_add_bound", *wish[:-2], "--runs", 4, "--json", *CPU
    ).document["recipes"]
    assert recipe["other_runs"][0]["shape"] == {"n": 1025}
    assert len(recipe["other_runs"]) > 3
    for other in recipe["other_runs"]:
        assert (other["config"]["threads"], other["options"]["dtype"]) == (64, "float16")


def test_a_step_that_is_wrong_already_is_not_asked_again(command: Command, wrong_vector_add: None):
    (recipe,) = command("check", "vector_add_bound", "--json", *CPU).document["recipes"]
    assert recipe["other_runs"] == []


def test_recipe_that_refuses_its_own_example(command: Command, monkeypatch: pytest.MonkeyPatch):
    wrong = dataclasses.replace(find_recipe("vector_add_bound"), golden=Example({"n": 100}))
    monkeypatch.setattr("tirstep.transforms.recipes.RECIPES", {"vector_add_bound": wrong})
    result = command("check", "vector_add_bound", *CPU)
    assert result.code == 1
    assert "vector_add_bound: the recipe rejects its own example: split_loop: " in result.out


def test_device_that_fails_is_a_finding(command: Command, broken_device: None):
    result = command("check", "vector_add_bound")
    assert result.code == 1
    assert "]: there is no compiler; install one" in result.out


def test_what_does_not_fit_into_the_time_is_said(command: Command, monkeypatch):
    monkeypatch.setattr("tirstep.cli.check.SECONDS", 0.0)
    result = command("check", "vector_add_bound", *CPU)
    assert "  --runs 10 makes up to 9 more, for which 0 s were not enough\n" in result.out
    assert "--runs" not in command("check", "vector_add_bound", "--runs", 1, *CPU).out


def test_check_as_json(command: Command, goldens: Path):
    (goldens / "vector_add_bound" / "01_split.py").unlink()
    result = command("check", "vector_add_bound", "--golden-dir", goldens, "--json", *CPU)
    document = result.document
    assert (result.code, result.err, document["ok"]) == (1, "", False)
    assert set(document) == {
        *("command", "versions", "device", "golden_dir", "seed", "ok", "findings", "recipes"),
    }
    assert document["device"]["name"] == "cpu"
    (recipe,) = document["recipes"]
    assert set(recipe) == RECIPE_KEYS | {"other_runs"}
    assert (recipe["status"], recipe["golden"], recipe["numbers"]) == ("wrong", "failed", "right")
    assert [step["golden"] for step in recipe["steps"]] == ["ok", "failed", "ok"]
    for step in recipe["steps"]:
        assert set(step) == STEP_KEYS
    (finding,) = recipe["findings"]
    assert set(finding) == {"check", "where", "source", "message", "detail"}
    assert finding["where"] == "vector_add_bound 01_split"
    assert re.fullmatch(r"transforms/recipes/element_ladders\.py:\d+", finding["source"])


QUOTIENTS = """
from tvm.script import tirx as T
from tirstep.transforms import split_loop


@T.prim_func(s_tir=True)
def main(A: T.Buffer((32,), "float32"), Y: T.Buffer((32,), "float32")):
    for i in range(32):
        with T.sblock("Y"):
            vi = T.axis.spatial(32, i)
            Y[vi] = A[(31 - vi) // 4 + 8]


def halves(sch):
    split_loop(sch, sch.get_loops(sch.get_sblock("Y"))[0], inner=8)
    yield "split"
"""


def test_a_program_that_tvm_gets_wrong_is_told_at_its_input_and_not_at_a_step(
    command: Command, tmp_path: Path
):
    """A transform answers for what it brings about: here it mends what was wrong before."""
    file = tmp_path / "quotients.py"
    file.write_text(QUOTIENTS)
    result = command("check", f"{file}:halves")
    assert result.code == 1
    assert "  00_input   golden none     numbers wrong on cpu\n" in result.out
    assert "  01_split   golden none     numbers right on cpu\n" in result.out
    found = command("why", f"{file}:halves", "-o", tmp_path / "why.py")
    assert "tirx.FlattenBuffer" in found.out.splitlines()[0]
    assert "00_input is right as scheduled, and wrong after this pass of TVM" in found.out


def test_without_a_gpu_the_simulator_is_advised(command: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tirstep.lowering_checks.devices.cuda.is_cuda_available", lambda: False)
    result = command("check", "vector_add_bound", "--device", "cuda")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "tirstep: this machine has no CUDA device that TVM can use; choose the device "
        '"simulator", which runs the same threads without a GPU, or "auto"\n'
    )
