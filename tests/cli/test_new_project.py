"""``tirstep new``: a project that passes its own tests, and what it refuses."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tirstep.cli import main
from tirstep.cli import new as projects
from tirstep.cli.new import NAME, make_project
from tirstep.files import write_file


def call(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: it for name, it in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        words, cwd=folder, env={**environment, **variables}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new") / "Fast-Kernels"
    assert main(["new", str(folder)]) == 0
    return folder


@pytest.mark.usefixtures("warm_commands")
def test_it_passes_its_own_tests(project: Path):
    done = call("make", "test", f"PYTHON={sys.executable}", folder=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_its_package_has_the_name_of_the_folder(project: Path):
    files = [path for path in project.rglob("*") if path.is_file() and "cache" not in str(path)]
    assert (project / "fast_kernels" / "recipes.py").is_file()
    assert os.access(project / ".ci" / "run", os.X_OK)
    assert (project / ".gitignore").is_file()
    for path in files:
        assert NAME not in path.read_text()
    assert 'name = "fast_kernels"' in (project / "pyproject.toml").read_text()


@pytest.mark.share(2)
@pytest.mark.usefixtures("warm_commands")
def test_its_makefile_checks_and_reports(project: Path):
    done = call("make", "check", "report", f"PYTHON={sys.executable}", folder=project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 program, 2 modules: all good" in done.stdout
    assert (project / "report.html").is_file()


@pytest.mark.share(2)
@pytest.mark.usefixtures("warm_commands")
def test_a_changed_recipe_fails_until_its_golden_is_written(project: Path, tmp_path: Path):
    copy = tmp_path / project.name
    shutil.copytree(project, copy)
    recipes = copy / "fast_kernels" / "recipes.py"
    recipes.write_text(
        recipes.read_text().replace('config={"threads": 32}', 'config={"threads": 48}')
    )
    words = (f"PYTHON={sys.executable}",)
    assert call("make", "test", *words, folder=copy).returncode != 0
    under_ci = call("make", "golden", *words, folder=copy, CI="true")
    assert "not rewritten under CI" in under_ci.stderr
    assert call("make", "golden", *words, folder=copy, CI="").returncode == 0
    assert call("make", "test", *words, folder=copy).returncode == 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("full", "is not empty"),
        ("file", "is not a folder"),
        ("none/deep", "there is no folder"),
        ("json", "there is a package 'json' already"),
        ("tirstep", "there is a package 'tirstep' already"),
        ("tests", "there is a package 'tests' already"),
        ("7", "cannot name a Python package; begin DIR's name with a letter"),
        ("class", "cannot name a Python package; begin DIR's name with a letter"),
    ],
)
def test_what_it_refuses(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, told: str):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert main(["new", str(tmp_path / name)]) == 2
    error = capfd.readouterr().err
    assert len(error.splitlines()) == 1
    assert told in error
    assert sorted(tmp_path.rglob("*")) == before


def test_what_to_type_next_is_quoted_for_the_shell(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    assert main(["new", str(tmp_path / "my own")]) == 0
    assert f"next: cd '{tmp_path}/my own' && make test" in capfd.readouterr().out


def test_an_empty_folder_is_taken(tmp_path: Path):
    folder = tmp_path / "mine_own"
    folder.mkdir()
    files = make_project(folder)
    assert files == len([path for path in folder.rglob("*") if path.is_file()]) > 10


@pytest.mark.parametrize("is_there", [False, True])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_there
):
    folder = tmp_path / "mine_own"
    if is_there:
        folder.mkdir()

    def fill(file: Path, *content: object, **named: object) -> None:
        if file.name == "pyproject.toml":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        write_file(file, *content, **named)

    monkeypatch.setattr(projects, "write_file", fill)
    assert main(["new", str(folder)]) == 2
    assert capfd.readouterr().err.endswith("pyproject.toml: No space left on device\n")
    assert list(tmp_path.rglob("*")) == [folder] * is_there
    monkeypatch.undo()
    assert make_project(folder)


def test_make_test_works_without_pytest(tmp_path: Path):
    """Goldens and numbers are checked all the same, and what is left out is said."""
    folder, python = tmp_path / "mine_own", tmp_path / "python"
    make_project(folder)
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *pytest*) exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    done = subprocess.run(
        ["make", "-C", folder, "test", f"PYTHON={python}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "01_bound   golden ok" in done.stdout
    assert f"tests/ was skipped, since it needs pytest: {python} -m pip install" in done.stdout
