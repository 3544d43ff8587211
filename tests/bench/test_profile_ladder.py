"""docs/build/profile_ladders.py: what it is asked for, its files, and the tails on a page."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fake_machine import FakeMachine
from ladder_pages import GoldenPrograms, MeasuredLadder, write_page
from ncu_table import make_table
from profile_ladders import ProfileRun, RecipeProfile, read_profile, read_table

from tirstep.bench.cases import PlannedCase
from tirstep.bench.results import Case, Outcome, Time
from tirstep.transforms.recipes import LADDERS, Ladder, find_recipe

from .test_results import make_run

ROOT = Path(__file__).resolve().parents[2]


def make_profile(kernel: str, shape: dict[str, int], **durations: str) -> ProfileRun:
    """A profile of recipes, each with a duration in ns."""
    recipes = tuple(
        RecipeProfile(
            name.replace("__", " tail="),
            tuple(
                read_table(make_table({"Kernel Name": "main_kernel", "gpu__time_duration.sum": ns}))
            ),
        )
        for name, ns in durations.items()
    )
    machine = FakeMachine()
    return ProfileRun(
        kernel, shape, {"dtype": "float32"}, machine.device, machine.versions, "2026", {}, recipes
    )


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script on a machine without a profiler and without results."""
    spec = importlib.util.spec_from_file_location(
        "profile_ladders", ROOT / "docs/build/profile_ladders.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setenv("PATH", "")
    return module


def test_a_ladder_is_profiled_at_the_shape_of_its_page(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def profile_case(planned: PlannedCase, *_: Any) -> ProfileRun:
        problem, names = planned.problem, [recipe.name for recipe in planned.recipes]
        return make_profile(
            problem.kernel.name, dict(problem.shape), **dict.fromkeys(names, "1000")
        )

    monkeypatch.setattr(script, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(script, "make_machine", lambda command: FakeMachine())
    monkeypatch.setattr(script, "profile_case", profile_case)
    assert script.main(["matmul", "--save", str(tmp_path / "saved")]) == 0
    (file,) = (tmp_path / "saved").iterdir()
    assert file.name == "profile-matmul-test-gpu.json"
    run = read_profile(file)
    assert run.shape["m"] == 4096
    assert [it.recipe for it in run.recipes] == [recipe.name for recipe in LADDERS["matmul"]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "has measured a ladder, so none has a page; name a ladder, or measure them"),
        (["matmul"], "NVIDIA's profiler ncu (Nsight Compute) is not in PATH"),
    ],
)
def test_a_wish_that_cannot_be_met(
    script: ModuleType, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
):
    assert script.main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines()), sentence in err) == ("", 1, True)


def test_a_page_shows_the_counters_of_the_tail_that_it_shows():
    """Of the fastest in the case, however fast another one is under the profiler."""
    recipe, shape = find_recipe("matmul_shared"), {"m": 7, "n": 5, "k": 3}
    outcomes = tuple(
        Outcome(f"matmul_shared tail={tail}", "recipe", "ok", time=Time(us, us, us, 5))
        for tail, us in (("guard", 30.0), ("pad", 20.0))
    )
    case = Case("matmul", "matmul", shape, {"dtype": "float32"}, 210, 284, outcomes)
    both = make_profile("matmul", shape, matmul_shared__guard="1000", matmul_shared__pad="2000")
    goldens = {recipe.name: GoldenPrograms(("bound",), "01_bound", "a\n", "b\n")}
    ladder = Ladder("small", "matmul", "of one recipe", (recipe,), shape)
    page = write_page(MeasuredLadder(ladder, make_run(case), case, both), goldens)
    assert "short_scoreboard 38 %, barrier 19 % | 2.0 |" in page
    guarded = make_profile("matmul", shape, matmul_shared__guard="1000")
    page = write_page(MeasuredLadder(ladder, make_run(case), case, guarded), goldens)
    assert "Profiler: –, not profiled in this run." in page
