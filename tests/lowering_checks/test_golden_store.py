"""The goldens' own checks: what is planted is found, with the right sentence."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import tvm
from golden_runs import run_golden
from tvm.script import from_source

from tirstep.lowering_checks import CheckError, Finding, GoldenStore, Run, run_recipe
from tirstep.lowering_checks.golden import STEPS_FILE, get_input_name
from tirstep.lowering_checks.steps import make_golden_problem
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
    assert files == ["01_rows_tiled.py", "02_bound.py"]
    assert [path.name for path in (store.root / "inputs").iterdir()] == ["matmul_64x48x32.py"]


def test_a_golden_parses_back_to_its_step(store: GoldenStore, run: Run) -> None:
    for step, file in zip(run.steps, store.get_files(run), strict=True):
        tvm.ir.assert_structural_equal(from_source(file.read_text()), step.module)


def test_recipes_of_one_kernel_share_its_golden(store: GoldenStore, run: Run) -> None:
    other = run_golden(RECIPES["matmul_naive"])
    changed = store.write([other], environment=MINE)
    assert [path.name for path in changed] == ["01_bound.py"]
    kernel = store.root / "inputs" / "matmul_64x48x32.py"
    kernel.write_text("stale\n")
    for shared in (run, other):
        (finding,) = findings(store, shared)
        assert finding.where == f"{shared.recipe.name} 00_input"
    assert store.write([other], environment=MINE) == [kernel]


def test_the_forms_of_a_kernel_have_files_of_their_own() -> None:
    names = {
        recipe: get_input_name(make_golden_problem(RECIPES[recipe]))
        for recipe in ("conv1d_naive", "softmax_naive", "softmax_online")
    }
    assert names == {
        "conv1d_naive": "conv1d_100x32_over_output.py",
        "softmax_naive": "softmax_6x64.py",
        "softmax_online": "softmax_6x64_online.py",
    }


def test_a_kernel_that_no_recipe_starts_from_is_deleted_with_all_recipes(
    store: GoldenStore, run: Run
) -> None:
    old = store.root / "inputs" / "matmul_1x2x3.py"
    old.write_text("old\n")
    other = run_golden(RECIPES["vector_add_bound"])
    store.write([other], environment=MINE)
    assert old.exists()  # a recipe that is not written now may start from it
    (finding,) = store.find_orphans([run, other])
    assert finding.where == "inputs/matmul_1x2x3.py"
    assert "tirstep check --write-goldens" in finding.message
    assert store.write([run, other], environment=MINE) == [old]
    assert not old.exists()


def test_a_deleted_golden_is_missing(store: GoldenStore, run: Run) -> None:
    (store.root / RECIPE.name / "01_rows_tiled.py").unlink()
    (finding,) = findings(store, run)
    assert finding.where == "matmul_threads_1d 01_rows_tiled"
    assert "the golden matmul_threads_1d/01_rows_tiled.py is missing" in finding.message
    assert "tirstep check --write-goldens" in finding.message


@pytest.mark.parametrize("name", ["matmul_threads_1d/03_more.py", "gone/01_bound.py", "notes.txt"])
def test_an_orphan_is_found(store: GoldenStore, run: Run, name: str) -> None:
    orphan = store.root / name
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_text("x = 1\n")
    (finding,) = store.find_orphans([run])
    assert finding.where == name
    assert "no step of any recipe makes this file; delete " in finding.message
    # What `tirstep check --write-goldens` would remove is its own.
    is_own = name.startswith("matmul_threads_1d/")
    assert ("tirstep check --write-goldens" in finding.message) == is_own


def test_a_changed_extent_is_a_changed_program_with_a_short_diff(
    store: GoldenStore, run: Run
) -> None:
    sizes = {**RECIPE.golden.config, "threads": 8}
    changed = run_recipe(RECIPE, RECIPE.golden.shape, config=sizes)
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
    text = run.steps[-1].module.script().replace('T.sblock("C_update")', 'T.sblock("product")')
    (finding,) = findings(store, replace_last(run, from_source(text)))
    assert "the same program, named or printed differently" in finding.message
    assert '+                        with T.sblock("product"):' in finding.detail


def test_a_golden_that_does_not_parse_is_a_changed_program(store: GoldenStore, run: Run) -> None:
    file = store.root / RECIPE.name / "02_bound.py"
    file.write_text(file.read_text() + "<<<<<<< a merge gone wrong\n")
    (finding,) = findings(store, run)
    assert "the program changed" in finding.message
    assert "-<<<<<<< a merge gone wrong" in finding.detail


def test_goldens_of_two_steps_that_are_swapped_are_two_changed_programs(
    store: GoldenStore, run: Run
) -> None:
    files = store.get_files(run)[1:]
    texts = [file.read_text() for file in files]
    for file, text in zip(files, reversed(texts), strict=True):
        file.write_text(text)
    assert ["the program changed" in found.message for found in findings(store, run)] == [True] * 2


def test_goldens_of_another_tvm_are_told_apart_first(store: GoldenStore) -> None:
    (store.root / "TVM_VERSION").write_text("0.25.0\n")
    (finding,) = store.check_version()
    assert f"written by TVM 0.25.0, and TVM {tvm.__version__} is installed" in finding.message


def test_a_missing_version_is_found(store: GoldenStore) -> None:
    (store.root / "TVM_VERSION").unlink()
    (finding,) = store.check_version()
    assert "TVM_VERSION is missing" in finding.message


@pytest.mark.parametrize("value", ["true", "1"])
def test_under_ci_nothing_is_written(store: GoldenStore, run: Run, value: str) -> None:
    file = store.root / RECIPE.name / "02_bound.py"
    file.write_text("stale\n")
    with pytest.raises(CheckError, match=r"not rewritten under CI.*tirstep check --write-goldens"):
        store.write([run], environment={"CI": value})
    assert file.read_text() == "stale\n"


def test_writing_fixes_everything_and_says_what_changed(store: GoldenStore, run: Run) -> None:
    folder = store.root / RECIPE.name
    (folder / "01_rows_tiled.py").unlink()
    (folder / "02_bound.py").write_text("stale\n")
    (folder / "03_more.py").write_text("old\n")
    (folder / ".tirstep-0123456789abcdef.partial").write_text("x = ")
    changed = store.write([run], environment=MINE)
    names = sorted(path.relative_to(store.root).as_posix() for path in changed)
    assert names == [
        "matmul_threads_1d/.tirstep-0123456789abcdef.partial",
        "matmul_threads_1d/01_rows_tiled.py",
        "matmul_threads_1d/02_bound.py",
        "matmul_threads_1d/03_more.py",
    ]
    assert findings(store, run) == []
    assert store.find_orphans([run]) == []
    assert store.write([run], environment=MINE) == []


OF_OTHERS = (
    "thesis.tex",
    "gone/01_bound.py",
    "gone/deep/notes.md",
    "inputs/notes.py",
    "matmul_threads_1d/notes.md",
)


def test_writing_leaves_the_files_of_others(store: GoldenStore, run: Run) -> None:
    (store.root / RECIPE.name / "02_bound.py").write_text("stale\n")
    for name in OF_OTHERS:
        (store.root / name).parent.mkdir(parents=True, exist_ok=True)
        (store.root / name).write_text("years")
    (store.root / "empty").mkdir()
    changed = store.write([run], environment=MINE)
    assert [path.name for path in changed] == ["02_bound.py"]
    assert {(store.root / name).read_text() for name in OF_OTHERS} == {"years"}
    assert (store.root / "empty").is_dir()
    assert [orphan.where for orphan in store.find_orphans([run])] == sorted(OF_OTHERS)


def test_one_recipe_of_several_is_written(store: GoldenStore, run: Run) -> None:
    other = run_golden(RECIPES["vector_add_bound"])
    store.write([other], environment=MINE)
    assert store.find_recipes() == ["matmul_threads_1d", "vector_add_bound"]
    stale = store.root / RECIPE.name / "02_bound.py"
    stale.write_text("stale\n")
    assert store.write([other], environment=MINE) == []
    assert stale.read_text() == "stale\n"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("0.25.0\n", "TVM 0.25.0 wrote the goldens of matmul_threads_1d"),
        (None, "an unknown version of TVM wrote"),
    ],
)
def test_goldens_of_two_versions_of_tvm_never_lie_together(
    store: GoldenStore, run: Run, version: str | None, said: str
) -> None:
    file = store.root / "TVM_VERSION"
    file.unlink()
    if version is not None:
        file.write_text(version)
    other = run_golden(RECIPES["vector_add_bound"])
    with pytest.raises(CheckError, match=f"{said}.*; write all recipes at once"):
        store.write([other], environment=MINE)
    assert not (store.root / "vector_add_bound").exists()
    changed = store.write([run, other], environment=MINE)
    assert changed[-1] == file
    assert store.check_version() == []


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"\r", b"\r\n", b"\x00", b"\xe2\x80\xa8"])
def test_bytes_that_are_no_golden_s_are_found(store: GoldenStore, run: Run, damage: bytes) -> None:
    file = store.root / RECIPE.name / "02_bound.py"
    file.write_bytes(file.read_bytes() + damage)
    (finding,) = findings(store, run)
    assert "rewrite the goldens" in finding.message


# Forked after TVM was imported, since one import takes longer than all of this.
KILLED = """
import os, shutil, signal, sys
from pathlib import Path
import tvm
from tirstep.lowering_checks import GoldenStore, run_golden
from tirstep.transforms.recipes import RECIPES

runs = [run_golden(RECIPES[name]) for name in ("relu_bound", "vector_add_bound")]
root = Path(sys.argv[1])
fresh = GoldenStore(root / "fresh")
fresh.write(runs, environment={})
right = {path.relative_to(fresh.root): path.read_bytes() for path in fresh.root.rglob("*.py")}

def write(store, deadly):
    calls, replace = 0, os.replace
    def die(*arguments):
        nonlocal calls
        calls += 1
        if calls == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments)
    os.replace = die
    store.write(runs, environment={})

def fork(store, deadly):
    child = os.fork()
    if not child:
        try:
            write(store, deadly)
            os._exit(0)
        finally:
            os._exit(1)
    return child

for deadly in range(1, 99):
    store = GoldenStore(root / str(deadly))
    for name in right:
        (store.root / name).parent.mkdir(parents=True, exist_ok=True)
        (store.root / name).write_bytes(b"old")
    (store.root / "TVM_VERSION").write_text("0.26.0")
    status = os.waitpid(fork(store, deadly), 0)[1]
    for name, text in right.items():
        assert (store.root / name).read_bytes() in (b"old", text), (deadly, name)
    version = (store.root / "TVM_VERSION").read_text()
    is_new = all((store.root / name).read_bytes() == text for name, text in right.items())
    assert version == "0.26.0" or is_new, deadly
    assert store.write(runs, environment={}) or not status
    assert store.find_orphans(runs) == [] and store.check_version() == []
    if not status:
        break
assert deadly == len(right) + 2, deadly

for _ in range(5):  # two at once
    store = GoldenStore(root / "both")
    shutil.rmtree(store.root, ignore_errors=True)
    children = [fork(store, 0) for _ in range(3)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
    assert store.find_orphans(runs) == [] and store.check_version() == []
    assert {name: (store.root / name).read_bytes() for name in right} == right
print("all kept")
"""


def test_a_killed_process_or_two_at_once_leave_whole_goldens(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, timeout=200
    )
    assert (done.stdout, done.returncode) == ("all kept\n", 0), done.stderr


def test_a_rung_keeps_the_text_of_what_is_new_and_hashes_of_the_rest(tmp_path: Path) -> None:
    """Written alone or together, and held as the whole text is."""
    store, names = GoldenStore(tmp_path / "golden"), ("matmul_shared_blocking", "matmul_swizzled")
    runs = [run_golden(RECIPES[name]) for name in names]
    store.write(reversed(runs), environment={})
    rung, files = runs[1], store.get_files(runs[1])
    hashed = store.read_hashed(rung.recipe.name)
    assert hashed
    assert {file.stem for file in files[1:] if not file.is_file()} == {*hashed}
    assert files[-1].is_file()
    assert all((store.root / place).is_file() for _, place in hashed.values())
    assert [*store.read_digests(rung.recipe.name)] == [file.stem for file in files[1:]]
    assert findings(store, rung) == store.find_orphans(runs) == []
    assert store.write([rung], environment={}) == store.write(runs, environment={}) == []

    table = files[1].parent / STEPS_FILE
    text = table.read_text()
    label, (digest, place) = next(iter(hashed.items()))
    table.write_text(text.replace(digest, "0" * 16))
    (finding,) = findings(store, rung)
    assert finding.message.startswith(f"the text changed, and STEPS has its hash (see {place})")
    table.write_text(text.replace(label, "77_gone"))
    assert "no step of the recipe is this line of STEPS" in store.find_orphans(runs)[0].message
    (finding,) = findings(store, rung)
    assert finding.message.startswith(f"the golden {rung.recipe.name}/{label}.py is missing")
    assert store.write([rung], environment={}) == [table]
    assert table.read_text() == text
