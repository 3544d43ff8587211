"""Operands behind the first have a range, too: what passes through float16 on its way is seen."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.script import from_source

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.modules import get_kernel

CASES = [
    ("matvec", {"m": 12, "n": 40}, "x[vk]"),
    ("matmul", {"m": 12, "n": 9, "k": 20}, "B[vk, vj]"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "shape", "load"), CASES)
def test_a_bfloat16_that_passes_through_float16_is_seen(
    name: str, shape: dict[str, int], load: str, seed: int
) -> None:
    problem = get_kernel(name).problem(**shape, dtype="bfloat16")
    text, wide = problem.module.script(), f'T.Cast("float32", {load})'
    assert wide in text
    narrow = text.replace(wide, f'T.Cast("float32", T.Cast("float16", {load}))')
    device = get_device("cpu")
    assert check_numbers(problem, problem.module, device, where="right", seed=seed) == []
    finding, *_ = check_numbers(problem, from_source(narrow), device, where="narrow", seed=seed)
    assert "elements are wrong (random floats" in finding.message


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "int8"])
def test_only_types_with_more_range_than_float16_are_drawn_far(dtype: str) -> None:
    problem = get_kernel("matvec").problem(8, 24, dtype=dtype)
    drawn = problem.planted_inputs(0)
    largest = max(np.abs(x.astype(np.float64)).max() for _, (_, x) in drawn)
    assert (largest > 2**18) == (dtype == "bfloat16")
    if dtype == "bfloat16":
        assert all(np.isfinite(array).all() for array in problem.reference(drawn[-1][1]))
