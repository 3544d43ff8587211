"""What the wheel and the sdist carry, and that the wheel works without the repo."""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tirstep

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


ROOT = Path(__file__).resolve().parents[1]
LARGEST_WHEEL = 1_098_000
METADATA = f"tirstep-{tirstep.__version__}.dist-info"
# Where each top package lies in the repo.
FOLDERS = {
    "tirstep": "src/tirstep",
    "tirstep/modules": "modules",
    "tirstep/transforms": "transforms",
    "tirstep/lowering_checks": "lowering_checks",
}


def files_on_disk(suffix: str) -> dict[str, str]:
    """Every file of the packages: its path in the repo, and as the wheel should have it."""
    return {
        path.relative_to(ROOT).as_posix(): f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob(f"*{suffix}")
    }


def page_on_disk() -> dict[str, str]:
    """The same for what the report's page is put together from."""
    found = {
        key: path for end in (".js", ".css", ".html") for key, path in files_on_disk(end).items()
    }
    assert "src/tirstep/cli/report/page/page.html" in found
    return found


def test_wheel_carries_every_module(installed_wheel):
    with zipfile.ZipFile(installed_wheel.wheel) as archive:
        names = set(archive.namelist())
    # Each .py file and not only each __init__.py: a folder without one is dropped silently.
    assert set(files_on_disk(".py").values()) - names == set()
    assert "tirstep/py.typed" in names  # of all packages within, too (PEP 561)
    assert set(page_on_disk().values()) - names == set()


def test_wheel_carries_nothing_else(installed_wheel):
    with zipfile.ZipFile(installed_wheel.wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        license_text = archive.read(f"{METADATA}/licenses/LICENSE").decode()
    assert tops == {"tirstep", METADATA}
    assert "Apache License" in license_text


def test_sdist_carries_the_source_and_what_make_test_needs(installed_wheel):
    with tarfile.open(installed_wheel.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(files_on_disk(".py")) - names == set()
    assert set(page_on_disk()) - names == set()
    assert "src/tirstep/py.typed" in names
    assert {"Makefile", "constraints.txt", "pyproject.toml", "setup.py", "LICENSE"} <= names
    for folder in ("tests", "examples", "docs", "benchmarks"):
        files = {path.relative_to(ROOT) for path in ROOT.glob(f"{folder}/**/*.*") if path.is_file()}
        carried = {path.as_posix() for path in files if not {"__pycache__", "out"} & {*path.parts}}
        assert carried - names == set(), folder


@pytest.mark.parametrize("name", ["modules", "transforms", "lowering_checks"])
def test_folder_refuses_to_be_imported_by_its_own_name(name):
    # From the repo's root the folder is importable; a second copy of it would have classes
    # (TransformError, Kernel) that are not those of tirstep's own.
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert f"import it as tirstep.{name}" in done.stderr


def test_the_version_stands_in_one_place(installed_wheel):
    assert "version" not in read_project()
    with zipfile.ZipFile(installed_wheel.wheel) as archive:
        metadata = archive.read(f"{METADATA}/METADATA").decode()
    assert f"\nVersion: {tirstep.__version__}\n" in metadata


def test_an_index_would_take_the_files(installed_wheel):
    files = [str(installed_wheel.sdist), str(installed_wheel.wheel)]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.count(": PASSED")) == (0, 2), done.stdout + done.stderr


def test_the_wheel_is_small(installed_wheel):
    assert installed_wheel.wheel.stat().st_size < LARGEST_WHEEL


def test_root_is_cheap_to_import():
    code = "import sys, tirstep.__main__; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "tirstep" in loaded
    assert loaded & {"tvm", "tvm_ffi", "numpy", "ml_dtypes", "rich", "typer"} == set()


def test_constraints_pin_every_dependency():
    """Every package that pyproject.toml names has an exact version."""
    project = read_project()
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["browser"], *extras["docs"]]
    pins = (ROOT / "constraints.txt").read_text()
    pinned = {normal(name) for name in re.findall(r"^([\w-]+)==", pins, re.MULTILINE)}
    assert {normal(re.match(r"[\w-]+", line)[0]) for line in wanted} - pinned == set()


def read_project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    """A package's name as package indexes compare it."""
    return name.lower().replace("_", "-")


def test_the_lowest_versions_are_those_that_pyproject_allows():
    """Each requirement's lower bound is what `make test-lowest` installs, and it runs in CI."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lowest = dict(
        re.findall(r"^([\w-]+)>=([\w.]+?)(?:[,;]|$)", "\n".join(wanted), flags=re.MULTILINE)
    )
    text = (ROOT / "constraints-lowest.txt").read_text()
    pins = dict(re.findall(r"^([\w-]+)==([\w.]+)$", text, flags=re.MULTILINE))
    assert set(pins) >= {dependency.partition(">")[0] for dependency in project["dependencies"]}
    assert set(pins) <= set(lowest)
    for name, pin in pins.items():
        # apache-tvm 0.27 has no 0.27.0, only 0.27.0.post1.
        assert re.fullmatch(rf"{re.escape(lowest[name])}(\.\d+|\.post1)*", pin), name
        assert not re.search(r"[1-9]", pin.removeprefix(lowest[name]).replace("post1", "")), name
    assert "make test-lowest" in (ROOT / ".ci/run").read_text()
