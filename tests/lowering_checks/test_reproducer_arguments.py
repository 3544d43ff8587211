"""Scripts of kernels and modules with several outputs, in any place, scalars and in-out arguments.

Each script is written for a bug that was put into the program, is run alone, and shows it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from foreign_modules import MODULES
from tvm.script import from_source

from tirstep.lowering_checks import Run, run_recipe
from tirstep.lowering_checks.bisect import (
    bisect_run,
    find_bad_pass,
    run_reproducer,
    write_reproducer,
)
from tirstep.lowering_checks.reference import ModuleKernel
from tirstep.modules.rows import row_argmax
from tirstep.transforms.recipes import Example, recipe


def make_run(kernel: object, blocks: str, shape: dict[str, int]) -> Run:
    @recipe(kernel=kernel, blocks=(blocks,), default_example=Example(shape), golden=Example(shape))
    def nothing(sch):
        """Nothing is done."""
        yield "same"

    return run_recipe(nothing, shape)


def spoil(run: Run, before: str, after: str) -> Run:
    """The same with a last step in which a text was replaced."""
    text = run.steps[-1].module.script()
    assert before in text
    wrong = from_source(text.replace(before, after))
    return replace(run, steps=(run.steps[0], replace(run.steps[-1], module=wrong)))


BUGS = [
    ("OutputFirst", "Y total", "Y[vi] + alpha * X[vi]", "Y[vi] - alpha * X[vi]"),
    ("OutputFirst", "Y total", "vi < n", "vi < n - 1"),
    ("OutputFirst", "Y total", "total[()] + X[vi]", "total[()] + X[vi] * T.float32(2)"),
    ("Argmax", "best", "T.Select(value[vi] >= X[vi, vk], index[vi], vk)", "index[vi]"),
    ("Gather", "rows guarded", "rows[vi, vj] = table[ids[vi], vj]", "rows[vi, vj] = table[0, vj]"),
    ("Half", "acc Z S large", "acc[vi] > T.float32(8.0)", "acc[vi] < T.float32(8.0)"),
    ("Cumsum", "Y", "Y[vi, vj - 1] + X[vi, vj]", "Y[vi, vj - 1] - X[vi, vj]"),
]


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "blocks", "before", "after"), BUGS)
def test_the_script_of_a_module_shows_the_bug(
    tmp_path: Path, name: str, blocks: str, before: str, after: str
) -> None:
    run = spoil(make_run(ModuleKernel(MODULES[name], name), blocks, {}), before, after)
    assert show(run, tmp_path).endswith("elements are wrong")


def test_the_script_of_a_kernel_with_two_outputs_shows_the_bug(tmp_path: Path) -> None:
    run = make_run(row_argmax, "best", {"m": 12, "n": 20})
    wrong = spoil(run, "value[vi] > A[vi, vk] or", "value[vi] < A[vi, vk] or")
    assert show(wrong, tmp_path).endswith("elements are wrong")


def show(run: Run, folder: Path) -> str:
    bad = bisect_run(run, target="llvm").first_bad
    assert (bad.kind, bad.number) == ("step", 1)
    write_reproducer(bad, folder / "why.py")
    shown = run_reproducer(folder / "why.py")
    assert shown.is_shown, shown.text
    return shown.text


def test_the_script_of_a_module_that_is_wrong_itself_says_whose_values_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(ModuleKernel(MODULES["OutputFirst"], "OutputFirst"), "Y total", {})
    first = spoil(run, "Y[vi] + alpha", "Y[vi] - alpha").steps[-1]
    wrong = replace(run, steps=(replace(run.steps[0], module=first.module),))
    bad = bisect_run(wrong, target="llvm").first_bad
    assert bad is not None
    write_reproducer(bad, tmp_path / "why.py")
    shown = run_reproducer(tmp_path / "why.py")
    assert shown.is_shown, shown.text
    assert "by the program in float64." in (tmp_path / "why.py").read_text()


def test_a_pass_that_spoils_what_was_given_is_shown_with_all_outputs(tmp_path: Path) -> None:
    """The last arguments are the outputs; one of them was read, too."""
    text = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(scale: T.int32, A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"),
             C: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = B[vi] + scale * A[vi]
        for i in range(8):
            with T.sblock("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = A[vi]
"""
    right, wrong = from_source(text), from_source(text.replace("+ scale", "- scale"))
    given, before = np.arange(8, dtype="int32"), np.arange(8, dtype="int32") * 10
    arguments = [np.int32(3), given, before, np.zeros(8, "int32")]
    expected = [before + 3 * given, given]
    bad = find_bad_pass(wrong, arguments, expected, "llvm", kernel=right)
    assert bad is not None
    write_reproducer(bad, tmp_path / "why.py")
    shown = run_reproducer(tmp_path / "why.py")
    assert shown.is_shown, shown.text
    assert " of 16 elements are wrong" in shown.text
