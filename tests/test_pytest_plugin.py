"""The plugin for pytest, in projects that are made for a test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tvm.script import ir as I
from tvm.script import tirx as T

pytest_plugins = ["pytester"]

HEAD = """
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.s_tir import Schedule
import tirstep.pytest_plugin

@I.ir_module
class Double:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32")):
        for i in range(24):
            with T.sblock("B"):
                v = T.axis.spatial(24, i)
                B[v] = A[v] * T.float32(2)

def split(factor=4):
    sch = Schedule(Double)
    sch.split(sch.get_loops(sch.get_sblock("B"))[0], [None, factor])
    return sch
"""
GOLDEN = "def test_split(tir_golden):\n    tir_golden(split())\n"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with nothing in it, outside of CI."""
    monkeypatch.delenv("CI", raising=False)
    return pytester


def run(project: pytest.Pytester, *args: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *args)


def test_the_example_of_the_page(project: pytest.Pytester):
    page = (Path(__file__).resolve().parents[1] / "docs/own-programs.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (example,) = (program for program in programs if "tir_check" in program)
    double = HEAD.partition("\ndef split")[0].replace("class Double", "class Matmul")
    tile = "def tile(sch):\n    sch.split(sch.get_loops(sch.get_sblock('B'))[0], [None, 4])\n"
    project.makepyfile(my_project=double + tile, test_tiling=example)
    (project.path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    run(project, "--update-golden").assert_outcomes(passed=1)
    run(project).assert_outcomes(passed=1)
    (told,) = re.findall(r"The file is `(golden/.*?)`", page)
    assert (project.path / told).is_file()


def test_a_golden_is_missing_written_kept_and_changed(project: pytest.Pytester):
    project.makepyfile(test_own=HEAD + GOLDEN)
    missing = run(project)
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*the golden test_own/split.tir.py is missing; *--update-gol*"])
    file = project.path / "golden" / "test_own" / "split.tir.py"
    assert not file.exists()

    written = run(project, "--update-golden")
    written.assert_outcomes(passed=1)
    assert "T.grid(6, 4)" in file.read_text()
    run(project).assert_outcomes(passed=1)

    file.write_text(file.read_text().replace("T.grid(6, 4)", "T.grid(3, 8)"))
    changed = run(project)
    changed.assert_outcomes(failed=1)
    changed.stdout.fnmatch_lines(
        [
            "*split: the program changed; if that is meant, run pytest --update-golden*",
            "-*T.grid(3, 8)*",
            "+*T.grid(6, 4)*",
        ]
    )
    changed.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_goldens_are_not_written_under_ci(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    project.makepyfile(test_own=HEAD + GOLDEN)
    monkeypatch.setenv("CI", "true")
    refused = run(project, "--update-golden")
    refused.assert_outcomes(errors=1)
    refused.stdout.fnmatch_lines(["*goldens are not rewritten under CI*"])
    assert not (project.path / "golden").exists()


def test_each_program_has_a_golden_of_its_own(project: pytest.Pytester):
    tests = """
import pytest

@pytest.mark.parametrize("factor", [4, 8])
def test_factors(tir_golden, factor):
    tir_golden(split(factor))
    tir_golden(Double["main"], "before")

class TestOther:
    @pytest.mark.parametrize("text", ["a/b", "a b"])
    def test_alike(self, tir_golden, text):
        tir_golden(Double)

def test_twice(tir_golden):
    tir_golden(Double)
    tir_golden(Double)
"""
    project.makepyfile(test_own=HEAD + tests)
    result = run(project, "--update-golden")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        ["*belongs to another program already; give this one its own name*"]
    )
    names = sorted(path.name for path in (project.path / "golden" / "test_own").iterdir())
    assert names == [
        "TestOther-alike-a-b.tir.py",
        "factors-4-before.tir.py",
        "factors-4.tir.py",
        "factors-8-before.tir.py",
        "factors-8.tir.py",
        "twice.tir.py",
    ]


NUMBERS = """
def forget(module):
    text = module.script().replace("T.float32(2.0)", "T.float32(2.5)")
    return tvm.script.from_source(text)

def bind(sch):
    loops = sch.get_loops(sch.get_sblock("B"))
    for loop, axis in zip(loops, ("blockIdx.x", "threadIdx.x")):
        sch.bind(loop, axis)
    return sch

def test_right(tir_check):
    assert tir_check(split()) == ["cpu"]
    assert tir_check(bind(split()), Double)[:2] == ["cpu", "simulator"]
    assert tir_check(bind(split()), Double["main"], devices=["simulator"]) == ["simulator"]

def test_wrong(tir_check):
    tir_check(forget(split().mod), Double)

def test_no_device(tir_check):
    tir_check(split(), Double, devices=["gpu"])

def test_other_arguments(tir_check):
    from tvm.script import from_source
    tir_check(split(), from_source(Double.script().replace("24", "12")))

def test_run(tir_check, tir_golden):
    from tirstep.lowering_checks import run_golden
    from tirstep.transforms.recipes import RECIPES
    run = run_golden(RECIPES["vector_add_vectors"])
    assert "simulator" in tir_check(run)
    tir_golden(run)
"""


def test_numbers_on_every_device_that_can_run_it(project: pytest.Pytester):
    project.makepyfile(test_own=HEAD + NUMBERS)
    result = run(project, "--update-golden")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["on cpu: *B[[]*", "there is no device 'gpu'; use cuda"])
    result.stdout.fnmatch_lines(["the program takes A *, and its reference A *; compare programs*"])
    goldens = project.path / "golden" / "test_own"
    assert "run-00_input.tir.py" in {path.name for path in goldens.iterdir()}


OPEN = """
from tirstep.modules import matmul

def test_named(tir_check):
    module = matmul(64, 48, 32, symbolic=("m", "n"))
    assert tir_check(module, sizes={"n": 7, "m": 5}) == ["cpu"]

def test_unnamed(tir_check):
    tir_check(matmul(64, 48, 32, symbolic=("m", "n")), sizes={"m": 5})
"""


def test_sizes_that_a_module_leaves_open_are_given(project: pytest.Pytester):
    project.makepyfile(test_own=OPEN)
    result = run(project)
    result.assert_outcomes(passed=1, failed=1)
    told = "the program has symbolic sizes, n; give tir_check(..., sizes={'n': 64})"
    result.stdout.fnmatch_lines([told.replace("[", "[[]").replace("'", '"')])


def test_the_plugin_alone_does_not_import_tvm(tmp_path: Path):
    """A project beside tirstep pays nothing for the plugin."""
    test = tmp_path / "test_none.py"
    test.write_text("import sys\ndef test_none(): assert 'tvm' not in sys.modules\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    environment = {key: value for key, value in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


@I.ir_module
class Private:
    """As Relax makes functions: private, and under a name of its own."""

    @T.prim_func(private=True, s_tir=True)
    def fused_add(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + T.float32(1)


def test_a_private_function_is_checked(tir_check):
    assert tir_check(Private) == ["cpu"]
    assert tir_check(Private["fused_add"], Private) == ["cpu"]
