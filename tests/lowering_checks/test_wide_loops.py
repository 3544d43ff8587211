"""Loops are run at once where their iterations are apart, with the same answers and findings."""

from __future__ import annotations

import numpy as np
import pytest
from golden_runs import run_golden
from kernels import parse_kernel

from tirstep.lowering_checks import check_numbers
from tirstep.lowering_checks.devices.simulator.flatten import flatten
from tirstep.lowering_checks.devices.simulator.interpreter import Interpreter
from tirstep.modules.numeric import Array
from tirstep.transforms.recipes import RECIPES

HEADER = "A (16, 8), Y (16, 8)"
APART = {
    "copy": """
    for i, j in T.grid(16, 8):
        Y[i, j] = A[i, j] * T.float32(2)
""",
    "its own sum": """
    for i, j, k in T.grid(16, 8, 3):
        if k == 0:
            Y[i, j] = T.float32(1)
        Y[i, j] = Y[i, j] + A[i, (j + k) % 8]
""",
    "a guard": """
    for i, j in T.grid(16, 8):
        Y[i, j] = T.float32(0)
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for i, j in T.grid(5, 8):
            if i * 4 + t < 16:
                Y[i * 4 + t, j] = T.if_then_else(j < 5, A[i * 4 + t, j + 3], A[0, 0])
""",
    "registers": """
    for t in T.thread_binding(4, thread="threadIdx.x"):
        with T.sblock("body"):
            vt = T.axis.spatial(4, t)
            R = T.sblock_alloc_buffer((4, 8), scope="local")
            for i, j in T.grid(4, 8):
                R[i, j] = A[vt * 4 + i, j]
            for i, j in T.grid(4, 8):
                Y[vt * 4 + i, j] = R[3 - i, 7 - j]
""",
}
TOGETHER = {
    "the element before": """
    for i in range(16):
        Y[i, 0] = A[i, 0]
        for j in range(7):
            Y[i, j + 1] = Y[i, j] + A[i, j + 1]
""",
    "another element is stored": """
    for i, j in T.grid(16, 8):
        Y[i, j] = A[i, j]
    for j in range(8):
        Y[0, j] = Y[0, j] + T.float32(1)
        Y[0, 7 - j] = Y[0, 7 - j] * T.float32(2)
""",
    "cells of two iterations": """
    for i, j in T.grid(16, 8):
        Y[i, j] = A[i, j]
    for i, j in T.grid(8, 2):
        Y[0, i // 2 + j] = Y[0, i // 2 + j] * T.float32(2) + A[i, j]
""",
    "one cell over and over": """
    for i, j in T.grid(16, 8):
        Y[i, j] = T.float32(0)
        for k in range(16):
            Y[i, j] = Y[i, j] * T.float32(2) + A[k, j]
""",
    "strides that overlap": """
    for i, j in T.grid(16, 8):
        Y[i, j] = A[i, j]
    for i, j in T.grid(7, 2):
        Y[0, i + j] = Y[0, i + j] * T.float32(2) + A[i, j]
""",
}
"""Programs with loops whose iterations need one another's stores, or touch the same cells."""


def run(text: str, *, widens: bool) -> tuple[Array, list[str], bool]:
    device = Interpreter(widens=widens)
    program = device.compile(parse_kernel(HEADER + text))
    array = np.random.default_rng(0).integers(-9, 9, (16, 8)).astype("float32")
    _, answer = program([array, np.full((16, 8), np.nan, "float32")])
    return answer, [str(finding) for finding in program.findings], device.has_wide_loops


@pytest.mark.parametrize("text", [*APART.values(), *TOGETHER.values()], ids=[*APART, *TOGETHER])
def test_answers_are_those_of_one_iteration_after_the_other(text: str) -> None:
    answer, findings, _ = run(text, widens=True)
    expected, same, is_wide = run(text, widens=False)
    assert not is_wide
    np.testing.assert_array_equal(answer, expected)
    assert findings == same == []


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_iterations_that_are_apart_run_at_once(text: str) -> None:
    assert run(text, widens=True)[2]


@pytest.mark.parametrize("name", ["matmul_mma", "attention_staged"])
def test_steps_of_recipes_have_the_same_answers_and_findings(name: str) -> None:
    one = run_golden(RECIPES[name])
    module, wide = one.steps[-1].module, Interpreter()
    assert check_numbers(one.problem, module, wide, where=name) == []
    assert wide.has_wide_loops
    flat = flatten(module["main"], in_order=True, widens=False)
    assert not flat.has_wide_loops


OUT_OF_BOUNDS = """
    for t in T.thread_binding(4, thread="threadIdx.x"):
        for i, j in T.grid(5, 8):
            Y[i * 4 + t, j] = A[i * 4 + t, j]
"""


def test_what_is_out_of_bounds_is_found_in_wide_loops() -> None:
    _, findings, is_wide = run(OUT_OF_BOUNDS, widens=True)
    assert is_wide
    assert any("out of bounds" in text or "elements)" in text for text in findings)
    _, same, _ = run(OUT_OF_BOUNDS, widens=False)
    assert len(same) == len(findings)
