"""A recipe whose compilation would not end is refused."""

import dataclasses
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
