"""The goldens' own checks: what is planted is found, with the right sentence."""

import dataclasses
import inspect
from pathlib import Path

import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source

from tirstep.lowering_checks import CheckError, Finding, GoldenStore, Run, run_golden, run_recipe
from tirstep.transforms.recipes import RECIPES

RECIPE = RECIPES["matmul_threads_1d"]
MINE: dict[str, str] = {}  # no CI


@pytest.fixture
def run() -> Run:
    return run_golden(RECIPE)


@pytest.fixture
def store(tmp_path: Path, run: Run) -> GoldenStore:
    store = GoldenStore(tmp_path / "golden")
    store.root.mkdir()
    store.write([run], environment=MINE)
    return store


def findings(store: GoldenStore, run: Run) -> list[Finding]:
    return [finding for step in store.check(run) for finding in step]


def replace_last(run: Run, module: tvm.IRModule) -> Run:
    last = dataclasses.replace(run.steps[-1], module=module)
    return dataclasses.replace(run, steps=(*run.steps[:-1], last))


def test_what_was_written_is_accepted(store: GoldenStore, run: Run) -> None:
    assert store.check_version() == []
    assert findings(store, run) == []
    assert store.find_orphans([run]) == []
    files = sorted(path.name for path in (store.root / RECIPE.name).iterdir())
    assert files == ["00_input.py", "01_rows_tiled.py", "02_bound.py"]


def test_a_golden_parses_back_to_its_step(store: GoldenStore, run: Run) -> None:
    for step in run.steps:
        text = (store.root / RECIPE.name / f"{step.index:02d}_{step.name}.py").read_text()
        tvm.ir.assert_structural_equal(from_source(text), step.module)


def test_a_deleted_golden_is_missing(store: GoldenStore, run: Run) -> None:
    (store.root / RECIPE.name / "01_rows_tiled.py").unlink()
    (finding,) = findings(store, run)
    assert finding.where == "matmul_threads_1d 01_rows_tiled"
    assert "the golden matmul_threads_1d/01_rows_tiled.py is missing" in finding.message
    assert "make golden" in finding.message


@pytest.mark.parametrize("name", ["matmul_threads_1d/03_more.py", "gone/00_input.py", "notes.txt"])
def test_an_orphan_is_found(store: GoldenStore, run: Run, name: str) -> None:
    orphan = store.root / name
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_text("x = 1\n")
    (finding,) = store.find_orphans([run])
    assert finding.where == name
    assert "no step of any recipe makes this file" in finding.message


def test_a_changed_extent_is_a_changed_program_with_a_short_diff(
    store: GoldenStore, run: Run
) -> None:
    sizes = {**RECIPE.golden.sizes, "threads": 8}
    changed = run_recipe(RECIPE, RECIPE.golden.shape, sizes=sizes)
    first, second = findings(store, changed)
    assert first.where == "matmul_threads_1d 01_rows_tiled"
    assert "the program changed" in first.message
    diff = first.detail.splitlines()
    assert diff[:2] == ["--- golden", "+++ got"]
    assert "-        for i_0, j, i_1, k in T.grid(4, 48, 16, 32):" in diff
    assert "+        for i_0, j, i_1, k in T.grid(8, 48, 8, 32):" in diff
    assert len(diff) < len(changed.steps[1].module.script().splitlines())
    assert second.where.endswith("02_bound")


def test_a_renamed_block_is_the_same_program(store: GoldenStore, run: Run) -> None:
    text = run.steps[-1].module.script().replace('T.sblock("C")', 'T.sblock("product")')
    (finding,) = findings(store, replace_last(run, from_source(text)))
    assert "same program, other names or printing" in finding.message
    assert '+                        with T.sblock("product"):' in finding.detail


def test_a_golden_that_does_not_parse_is_a_changed_program(store: GoldenStore, run: Run) -> None:
    file = store.root / RECIPE.name / "02_bound.py"
    file.write_text(file.read_text() + "<<<<<<< a merge gone wrong\n")
    (finding,) = findings(store, run)
    assert "the program changed" in finding.message
    assert "-<<<<<<< a merge gone wrong" in finding.detail


def test_goldens_of_another_tvm_are_told_apart_first(store: GoldenStore) -> None:
    (store.root / "TVM_VERSION").write_text("0.26.0\n")
    (finding,) = store.check_version()
    assert f"written by TVM 0.26.0, and TVM {tvm.__version__} is installed" in finding.message


def test_a_missing_version_is_found(store: GoldenStore) -> None:
    (store.root / "TVM_VERSION").unlink()
    (finding,) = store.check_version()
    assert "TVM_VERSION is missing" in finding.message


@pytest.mark.parametrize("value", ["true", "1"])
def test_under_ci_nothing_is_written(store: GoldenStore, run: Run, value: str) -> None:
    file = store.root / RECIPE.name / "02_bound.py"
    file.write_text("stale\n")
    with pytest.raises(CheckError, match=r"not rewritten under CI.*make golden"):
        store.write([run], environment={"CI": value})
    assert file.read_text() == "stale\n"


def test_writing_mends_everything_and_says_what_changed(store: GoldenStore, run: Run) -> None:
    folder = store.root / RECIPE.name
    (folder / "01_rows_tiled.py").unlink()
    (folder / "02_bound.py").write_text("stale\n")
    (store.root / "gone").mkdir()
    (store.root / "gone" / "00_input.py").write_text("old\n")
    changed = store.write([run], environment=MINE)
    names = sorted(path.relative_to(store.root).as_posix() for path in changed)
    assert names == [
        "gone/00_input.py",
        "matmul_threads_1d/01_rows_tiled.py",
        "matmul_threads_1d/02_bound.py",
    ]
    assert not (store.root / "gone").exists()
    assert findings(store, run) == []
    assert store.write([run], environment=MINE) == []


def test_a_changed_extent_in_the_recipe_itself_is_found(store: GoldenStore, run: Run) -> None:
    """The recipe's own text with one number changed, as somebody would edit it."""
    source = inspect.getsource(RECIPE.body).split("\n", 1)[1]
    text = source[source.index("def ") :].replace("inner=threads", "inner=threads // 2")
    assert text != source[source.index("def ") :]
    names = dict(vars(inspect.getmodule(RECIPE.body)))
    exec("from __future__ import annotations\n" + text, names)
    edited = dataclasses.replace(RECIPE, body=names[RECIPE.name])
    steps = edited.run(Schedule(run.problem.module), **RECIPE.golden.sizes)
    changed = dataclasses.replace(run, steps=(run.steps[0], *steps))
    assert ["the program changed" in one.message for one in findings(store, changed)] == [True] * 2
