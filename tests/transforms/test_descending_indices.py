"""TVM takes quotients of n - i wrong, where it lays a buffer out anew and where it lowers one."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import parse_kernel
from pairs import run_on_cpu
from tvm.s_tir import Schedule

from tirstep.transforms import TransformError, cache_read_at, split_loop

ROWS = """
    A (8, 4), Y (8, 4)
    for i in range(32):
        with T.sblock("Y"):
            vi = T.axis.spatial(8, (31 - i) // 4)
            vj = T.axis.spatial(4, (31 - i) % 4)
            Y[vi, vj] = A[vi, vj]
"""
QUOTIENT = """
    A (32,), Y (32,)
    for i in range(32):
        with T.sblock("Y"):
            vi = T.axis.spatial(32, i)
            Y[vi] = A[(31 - vi) // 4]
"""
NUMBERS = np.arange(32, dtype="float32")


def start(text: str) -> Schedule:
    return Schedule(parse_kernel(text))


def test_tvm_takes_the_wrong_elements_of_a_program_as_it_is() -> None:
    """No transform is to blame for that one; where TVM mends it, the refusals below can go."""
    got = run_on_cpu(start(QUOTIENT).mod, NUMBERS, output=(32,), dtype="float32")
    assert not np.array_equal(got, NUMBERS[(31 - np.arange(32)) // 4])


def test_a_tile_that_is_read_backwards_is_not_cached() -> None:
    sch = start(ROWS)
    rows = NUMBERS.reshape(8, 4)
    outer = split_loop(sch, sch.get_loops(sch.get_sblock("Y"))[0], inner=8).outer
    assert np.array_equal(run_on_cpu(sch.mod, rows, output=(8, 4), dtype="float32"), rows)
    by_hand = sch.copy()
    block = by_hand.get_sblock("Y")
    by_hand.compute_at(by_hand.cache_read(block, 0, "shared"), by_hand.get_loops(block)[0])
    wrong = run_on_cpu(by_hand.mod, rows, output=(8, 4), dtype="float32")
    assert not np.array_equal(wrong, rows)
    with pytest.raises(TransformError, match="cache_read_at: TVM would use other elements"):
        cache_read_at(sch, sch.get_sblock("Y"), outer, operand=0)
