"""A recipe whose compilation would not end: refused, ended between passes, or with the command."""

import dataclasses
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tvm.s_tir import Schedule

from tirstep.transforms.recipes import Recipe, find_recipe

from .conftest import Command


@pytest.fixture
def unrolled_recipe(monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """matmul_naive with a second step that unrolls 64×48×32 copies."""

    def body(sch: Schedule) -> Iterator[str]:
        for loop in sch.get_loops(sch.get_sblock("C")):
            sch.unroll(loop)
        yield "unrolled"

    recipe = dataclasses.replace(find_recipe("matmul_naive"), name="matmul_unrolled", body=body)
    monkeypatch.setattr("tirstep.cli.check.pick_each", lambda name, request: [recipe])
    return recipe


def test_thousands_of_copies_are_a_finding(
    command: Command, unrolled_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where there are no goldens
    result = command("check", "matmul_unrolled", "--device", "cpu")
    assert (result.code, result.err) == (1, "")
    assert "numbers ok on cpu 64x48x32" in result.out  # of the step before
    sentence = (
        "function 'main' would have 196608 statements once TVM has copied them, one of them 98304 "
        "times by the loops i=64 * j=48 * k=32, and more than 2048 take minutes to compile"
    )
    assert sentence in result.out
    assert "matmul_unrolled 01_unrolled" in result.out
    assert "Traceback" not in result.out


@pytest.mark.usefixtures("warm_commands")
def test_a_pass_that_does_not_end_ends_the_command(tmp_path: Path) -> None:
    """LLVM would take minutes for a vector of 1024 lanes, and nothing interrupts it."""
    script = """
        import dataclasses, os
        os.environ["TIRSTEP_COMPILE_SECONDS"] = "1"
        from tirstep.cli import main
        from tirstep.cli import check
        from tirstep.lowering_checks.compile import compiling, instruments
        from tirstep.lowering_checks.devices import cpu
        from tirstep.transforms.recipes import Example, find_recipe

        def body(sch):
            i, j, k = sch.get_loops(sch.get_sblock("C"))
            sch.reorder(k, i, j)
            sch.vectorize(sch.fuse(i, j))
            yield "vectorized"

        cpu.LONG = 0  # LLVM optimizes it
        compiling.MAX_LANES, instruments.GRACE = 4096, 1.0
        example = Example({"m": 32, "n": 32, "k": 64})
        wide = dataclasses.replace(
            find_recipe("matmul_naive"), name="matmul_wide", body=body, golden=example
        )
        check.pick_each = lambda name, request: [wide]
        main(["check", "matmul_wide", "--device", "cpu"])
        print("not reached")
    """
    file = tmp_path / "planted.py"
    file.write_text(textwrap.dedent(script))
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == (
        "tirstep: matmul_wide 01_vectorized: compiling took more than 2 s, TVM's code generation "
        "does not end and cannot be interrupted, so this process was ended; make its loops "
        "smaller, or raise the limit with the environment variable TIRSTEP_COMPILE_SECONDS\n"
    )
    assert "numbers ok on cpu 32x32x64" in done.stdout
    assert "not reached" not in done.stdout
