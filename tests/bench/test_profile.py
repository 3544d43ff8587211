"""The profiler's counters: its table, its process, and the file of it."""

import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import profile_ladders
import pytest
from fake_machine import FakeMachine
from ncu_table import METRICS, make_table
from profile_ladders import (
    assign,
    find_kernel_names,
    find_ncu,
    launch_all,
    profile_recipes,
    read_profile,
    read_table,
    write_profile,
)

from tirstep.bench import BenchError
from tirstep.bench.cases import PlannedCase
from tirstep.bench.session import list_candidates
from tirstep.lowering_checks.devices import CpuDevice
from tirstep.modules import get_kernel
from tirstep.transforms.recipes import LADDERS, find_recipe

SIGNATURE = "main_kernel(float*, float*, float*)"
SOURCE = """
extern "C" __global__ void __launch_bounds__(128) main_kernel(float* A);
extern "C" __global__ void main_kernel_1(float* A);
extern "C" __global__ void __launch_bounds__(128) main_kernel(float* A) {
}
extern "C" __global__ void main_kernel_1(float* A) {
}
"""
# What stands in for ncu: it runs what it is given with the log that the test wrote.
FAKE_NCU = """#!{python}
import pathlib, shutil, sys
if "--version" in sys.argv:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.0.0 (build 1)")
    raise SystemExit
folder = pathlib.Path(__file__).parent
log = pathlib.Path(sys.argv[sys.argv.index("--log-file") + 1])
(folder / "arguments").write_text("\\n".join(sys.argv))
(folder / "request").write_text(pathlib.Path(sys.argv[-2]).read_text())
shutil.copy(folder / "log", log)
if (folder / "answer").exists():
    shutil.copy(folder / "answer", sys.argv[-1])
else:
    print("==ERROR== The application returned an error code (1).")
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


def test_launches_go_to_the_recipes_that_made_them():
    launches = read_table(
        make_table(*({"Kernel Name": name} for name in ("main_kernel", "main_kernel_1") * 2))
    )
    first = {"recipe": "a", "kernels": ["main_kernel_1", "main_kernel"], "note": ""}
    failed = {"recipe": "b", "kernels": [], "note": "does not fit"}
    profiles = assign(launches, [first, failed, {**first, "recipe": "c"}])
    assert [(profile.recipe, len(profile.kernels)) for profile in profiles] == [
        ("a", 2),
        ("b", 0),
        ("c", 2),
    ]
    assert profiles[1].note == "does not fit"
    with pytest.raises(BenchError, match="2 launches more than the recipes have kernels"):
        assign(launches, [first])
    with pytest.raises(BenchError, match="a has the kernels main_kernel, and ncu counted none"):
        assign([], [{**first, "kernels": ["main_kernel"]}])


class Tensor:
    """What a launch has of a tensor on a device."""

    def __init__(self, array: Any) -> None:
        self.array = np.array(array)

    def numpy(self) -> Any:
        return self.array


def test_every_recipe_is_launched_once():
    """One that does not write its output, and one that does not compile, have notes."""
    calls: list[str] = []

    def compile_(module: Any) -> Any:
        program = CpuDevice().compile(module)
        number = calls.count("compiled")
        calls.append("compiled")
        if number == 2:
            raise RuntimeError("ptxas failed")

        def launch(*tensors: Tensor) -> None:
            calls.append("launched")
            if number != 1:
                tensors[-1].array[...] = program([tensor.array for tensor in tensors])[-1]

        part = SimpleNamespace(inspect_source=lambda: SOURCE)
        executable = {"main": launch}
        return type("Executable", (dict,), {"mod": SimpleNamespace(imports=[part])})(executable)

    name = "vector_add_bound"
    candidates = [f"{name} tail=guard", f"{name} tail=pad", name]
    request = {
        "kernel": "vector_add",
        "shape": {"n": 256},
        "options": {"dtype": "float32"},
        "recipes": [
            {"candidate": candidate, "recipe": name, "config": {}} for candidate in candidates
        ],
        "seed": 0,
    }
    good, unwritten, failed = launch_all(request, compile_, Tensor, lambda: None)
    assert (good.kernels, good.note) == (("main_kernel", "main_kernel_1"), "")
    # It was launched, so the profiler has counted it.
    assert unwritten.kernels == good.kernels
    assert unwritten.note.startswith("256 elements of the output were not written")
    assert (failed.kernels, failed.note) == ((), "RuntimeError: ptxas failed")
    assert [outcome.recipe for outcome in (good, unwritten, failed)] == candidates
    assert calls.count("launched") == 2
    assert find_kernel_names("") == ()


@pytest.fixture
def ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an ncu that prints the file ``log`` and whose process writes ``answer``."""
    file = tmp_path / "ncu"
    file.write_text(FAKE_NCU.format(python=sys.executable))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(profile_ladders, "compile_all", lambda jobs, *_, **__: [""] * len(jobs))
    return tmp_path


def run_profile(
    folder: Path, names: Sequence[str] = ("matmul_naive", "matmul_shared"), size: int = 64
) -> Any:
    recipes = [find_recipe(name) for name in names]
    problem = get_kernel("matmul").problem(size, size, size)
    return profile_recipes(
        problem, recipes, FakeMachine(), cache=folder / "cache", tell=lambda line: None
    )


def test_a_ladder_is_profiled(ncu: Path):
    names = ["matmul_naive", "matmul_shared"]
    answer = [{"recipe": name, "kernels": ["main_kernel"], "note": ""} for name in names]
    (ncu / "answer").write_text(json.dumps({"launched": answer}))
    launch = {"Kernel Name": SIGNATURE}
    (ncu / "log").write_text(make_table(launch, {**launch, "gpu__time_duration.sum": "1000"}))
    run = run_profile(ncu)
    assert [recipe.kernels[0].duration_us for recipe in run.recipes] == [pytest.approx(57.6), 1.0]
    assert (run.kernel, run.dtype, run.versions["ncu"]) == ("matmul", "float32", "2025.3.0.0")

    arguments = (ncu / "arguments").read_text().splitlines()
    assert arguments[arguments.index("--clock-control") + 1] == "none"
    request = json.loads((ncu / "request").read_text())
    assert [entry["candidate"] for entry in request["recipes"]] == names
    assert request["shape"] == {"m": 64, "n": 64, "k": 64}

    file = ncu / "results" / "profile-matmul-test.json"
    write_profile(run, file)
    assert read_profile(file) == run
    file.write_text(file.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(BenchError, match="is no profile of tirstep in form 1; write it again"):
        read_profile(file)


def test_every_tail_is_profiled_under_the_name_that_it_has_in_a_benchmark(ncu: Path):
    """Only a benchmark says which of them is the fastest."""
    problem = get_kernel("matmul").problem(65, 65, 65)
    planned = PlannedCase(
        "matmul", problem, (find_recipe("matmul_naive"), find_recipe("matmul_shared")), ()
    )
    candidates = list(list_candidates(planned, {}))
    names = [candidate.name for candidate in candidates]
    assert names[1:3] == ["matmul_shared tail=guard", "matmul_shared tail=pad"]
    answer = [{"recipe": name, "kernels": ["main_kernel"], "note": ""} for name in names]
    (ncu / "answer").write_text(json.dumps({"launched": answer}))
    (ncu / "log").write_text(make_table(*[{"Kernel Name": SIGNATURE}] * len(names)))
    run = run_profile(ncu, ("matmul_naive", "matmul_shared"), 65)
    asked = json.loads((ncu / "request").read_text())["recipes"]
    assert [(entry["candidate"], entry["config"]) for entry in asked] == [
        (candidate.name, candidate.config) for candidate in candidates
    ]
    assert all(run.find(name) is not None for name in names)


def test_a_profiler_that_cannot(ncu: Path, monkeypatch: pytest.MonkeyPatch):
    (ncu / "log").write_text("==ERROR== ERR_NVGPUCTRPERM - The user has no permission")
    with pytest.raises(BenchError, match="may not read this GPU's counters"):
        run_profile(ncu)
    (ncu / "log").write_text("")
    with pytest.raises(BenchError, match="ended before its last kernel: ==ERROR== The application"):
        run_profile(ncu)
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
