"""Fixtures that several test files share."""

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import faster_tvm
import pytest
import shares
import warm_python
from groups import pytest_handlecrashitem, pytest_xdist_make_scheduler  # noqa: F401
from hypothesis import HealthCheck, Phase, settings
from shares import (  # noqa: F401
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_testnodedown,
)

from tirstep.transforms.recipes import LADDERS, RECIPES, Recipe

ROOT = Path(__file__).resolve().parents[1]

# Compiling an example takes a tenth of a second, so health is not a matter of speed here. Examples
# follow from the test's name: a failure on one machine is a failure on all.
settings.register_profile(
    "quick",
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    # A failure is told as it was drawn: `make test-deep` makes it smaller, which takes minutes.
    phases=[Phase.explicit, Phase.generate],
)
settings.register_profile(
    "thorough", settings.get_profile("quick"), max_examples=300, phases=tuple(Phase)
)
# Over all recipes more than 2000.
settings.register_profile("gpu", settings.get_profile("quick"), max_examples=32)
settings.load_profile(os.environ.get("TIRSTEP_HYPOTHESIS", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    # Known also where xdist is not loaded (-p no:xdist).
    config.addinivalue_line("markers", "xdist_group: tests that one process runs in turn")


# A shell's background jobs ignore Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
faster_tvm.install()
warm_python.install()
# Collect garbage less often: most of what imports and collection make stays, and looks are dear.
gc.set_threshold(50_000, 20, 100)


LADDER_OF = {recipe.name: ladder.name for ladder in LADDERS.values() for recipe in ladder}


def pytest_collection_finish() -> None:
    """What lives now lives to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give the tests that need the wheel to one process, so that it is built once, and those of a
    recipe, so that it is run once; on a GPU those of a ladder, whose first steps take much of its
    memory. Of long tests the day's share is kept.
    """
    shares.pytest_collection_modifyitems(config, items)
    for item in items:
        if "installed_wheel" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("wheel"))
        elif item.get_closest_marker("xdist_group") is None and (recipe := _find_recipe(item)):
            is_on_gpu = item.get_closest_marker("gpu") is not None
            item.add_marker(pytest.mark.xdist_group(LADDER_OF[recipe] if is_on_gpu else recipe))


def _find_recipe(item: pytest.Item) -> str:
    """The name of the recipe that a test is given, itself or by name; empty without one."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    given = next((each for each in parameters.values() if isinstance(each, Recipe)), None)
    name = given.name if given is not None else parameters.get("recipe", parameters.get("name"))
    return name if isinstance(name, str) and name in RECIPES else ""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked gpu where there is none; under TIRSTEP_REQUIRE_GPU it fails instead."""
    if item.get_closest_marker("gpu") is not None:
        from tirstep.lowering_checks.devices import is_cuda_available

        if not is_cuda_available():
            if os.environ.get("TIRSTEP_REQUIRE_GPU"):
                pytest.fail(
                    "there is no CUDA device that TVM can use; see nvidia-smi", pytrace=False
                )
            pytest.skip("no CUDA device (with TIRSTEP_REQUIRE_GPU=1 this fails)")


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of CUDA, as where the extra cuda is not installed and nvcc is not."""
    for find in ("_find_nvrtc", "_find_nvcc"):
        monkeypatch.setattr(f"tirstep.lowering_checks.facts.cuda_compilers.{find}", lambda: None)


@pytest.fixture
def report_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process more takes seconds to import TVM."""
    monkeypatch.setattr("tirstep.cli.report.jobs.MOST_PROCESSES", 1)


@pytest.fixture
def warm_commands() -> Iterator[None]:
    """What a test starts as `sys.executable`, or as ``tirstep``, begins with tirstep imported."""
    folder = warm_python.find_launchers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(folder / "python"))
        patch.setenv("PATH", str(folder), prepend=os.pathsep)
        yield


@dataclass(frozen=True)
class InstalledWheel:
    """tirstep as a user gets it: the built files, and the wheel installed into a folder."""

    sdist: Path
    wheel: Path
    folder: Path

    def run(self, script: Path) -> str:
        """Run a script as its user would, with this copy of tirstep; return what it prints.

        The other packages come from the test run's own environment. That has tirstep too, as an
        editable install: a script shows by ``__file__`` that it got this copy.
        """
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=script.parent,
            env=_environment(PYTHONPATH=str(self.folder)),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, f"{script.name} failed:\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def installed_wheel(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    """The sdist, the wheel made from that sdist, and the wheel installed. Needs no network."""
    top = tmp_path_factory.mktemp("wheel")
    source, built, folder = top / "source", top / "built", top / "installed"
    _copy_source(source)
    _call("build", "--no-isolation", "--outdir", str(built), str(source))
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    _call("pip", "install", "--no-index", "--no-deps", "--target", str(folder), str(wheel))
    return InstalledWheel(sdist, wheel, folder)


def _copy_source(target: Path) -> None:
    """Copy the repo without what .gitignore names: a clone's files, without asking git."""
    lines = (ROOT / ".gitignore").read_text().splitlines()
    ignored = [line.rstrip("/") for line in lines if line and not line.startswith("#")]
    anywhere = shutil.ignore_patterns(".git", *(name for name in ignored if name[0] != "/"))
    at_the_top = shutil.ignore_patterns(*(name[1:] for name in ignored if name[0] == "/"))

    def choose(folder: str, names: list[str]) -> set[str]:
        top = at_the_top(folder, names) if Path(folder) == ROOT else set()
        return {*anywhere(folder, names), *top}

    shutil.copytree(ROOT, target, ignore=choose)


def _call(module: str, *args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{module} failed:\n{done.stdout}{done.stderr}"


def _environment(**changes: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, **changes}
