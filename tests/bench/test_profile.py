"""The profiler's counters: its table, its process, and the file of it."""

import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fake_machine import FakeMachine
from ncu_table import METRICS, make_table
from profile_ladders import (
    find_ncu,
    profile_case,
    read_profile,
    read_table,
    write_profile,
)

from tirstep.bench import BenchError
from tirstep.bench.cases import PlannedCase
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import LADDERS, find_recipe

SIGNATURE = "main_kernel(float*, float*, float*)"
# What stands in for ncu: it runs nothing, and has the log that the test wrote.
FAKE_NCU = """#!{python}
import pathlib, shutil, sys
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.0.0 (build 1)")
    raise SystemExit
folder = pathlib.Path(__file__).parent
log = pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1])
(folder / "arguments").write_text("\\n".join(sys.argv))
shutil.copy(folder / "log", log)
code, _, said = (folder / "end").read_text().partition(" ")
print(said)
sys.exit(int(code))
"""


def test_a_table_is_read():
    (kernel,) = read_table(make_table({"Kernel Name": SIGNATURE}))
    assert (kernel.name, kernel.grid, kernel.block) == ("main_kernel", "(16, 4, 1)", "(256, 1, 1)")
    assert kernel.duration_us == pytest.approx(57.6)
    assert kernel.counters["sm_pct"] == 71.25
    assert kernel.counters["registers"] == 128
    assert kernel.counters["fma_pct"] == 60.7  # the first metric is n/a here
    assert kernel.counters["bank_conflicts"] == 1100
    assert kernel.stalls["short_scoreboard"] == pytest.approx(1.5 / 4)
    assert sum(kernel.stalls.values()) == pytest.approx(1)


def test_what_a_gpu_does_not_have_is_left_out():
    gone = dict.fromkeys(METRICS, "n/a") | {"gpu__time_duration.sum": "3"}
    first, second = read_table(
        make_table({"Kernel Name": "main_kernel", **gone}, {"Kernel Name": "main_kernel_1"})
    )
    assert (dict(first.counters), dict(first.stalls)) == ({}, {})
    assert second.counters["dram_pct"] == 12.5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("==PROF== no kernels were profiled", "ncu printed no table of metrics"),
        ('"ID","Kernel Name"\n"0","main_kernel"\n', "no line of units"),
        (
            make_table({"Kernel Name": "main_kernel", "gpu__time_duration.sum": "n/a"}),
            r"ncu counted no gpu__time_duration.sum of main_kernel \(its unit is 'ns'\)",
        ),
        (make_table({"Kernel Name": "x"}).replace('"ns"', '"weeks"'), "its unit is 'weeks'"),
    ],
)
def test_a_table_that_is_none(text: str, sentence: str):
    with pytest.raises(BenchError, match=sentence):
        read_table(text)


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an ncu that prints the file ``log``, and ends as the file ``end`` says."""
    file = tmp_path / "ncu"
    file.write_text(FAKE_NCU.format(python=sys.executable))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "end").write_text("0")
    (tmp_path / "log").write_text(make_table({"Kernel Name": SIGNATURE}))
    return tmp_path


def run_profile(names: Sequence[str] = ("matmul_naive", "matmul_shared"), size: int = 64) -> Any:
    recipes = tuple(find_recipe(name) for name in names)
    problem = get_kernel("matmul").problem(size, size, size)
    case = PlannedCase("matmul", problem, recipes, ())
    return profile_case(case, FakeMachine(), lambda line: None)


def test_a_ladder_is_profiled(ncu: Path):
    run = run_profile()
    assert [it.recipe for it in run.recipes] == ["matmul_naive", "matmul_shared"]
    assert run.recipes[0].kernels[0].duration_us == pytest.approx(57.6)
    assert (run.kernel, run.dtype, run.versions["ncu"]) == ("matmul", "float32", "2025.3.0.0")
    arguments = (ncu / "arguments").read_text().splitlines()
    assert arguments[arguments.index("--clock-control") + 1] == "none"
    asked = json.loads(arguments[-1])
    assert (asked["recipe"], asked["shape"]) == ("matmul_shared", {"m": 64, "n": 64, "k": 64})

    file = ncu / "results" / "profile-matmul-test.json"
    write_profile(run, file)
    assert read_profile(file) == run
    file.write_text(file.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(BenchError, match="is no profile of tirstep in form 1; write it again"):
        read_profile(file)


def test_a_profiler_that_cannot(ncu: Path, monkeypatch: pytest.MonkeyPatch):
    (ncu / "log").write_text("==ERROR== ERR_NVGPUCTRPERM - The user has no permission")
    with pytest.raises(BenchError, match="may not read this GPU's counters"):
        run_profile()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(BenchError, match=r"ncu \(Nsight Compute\) is not in PATH"):
        find_ncu()


def test_every_ladder_can_be_asked_for():
    """The launching process builds its problem from JSON: names and values, nothing else."""
    for ladder in LADDERS.values():
        kernel, example = get_kernel(ladder.kernel), ladder[0].golden
        problem = kernel.problem(**example.shape, **example.options)
        carried = json.loads(json.dumps({**problem.shape, **problem.options}))
        assert kernel.problem(**carried) == problem
