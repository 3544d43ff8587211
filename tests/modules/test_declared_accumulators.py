"""A kernel that computes in a narrower type than it declares has wrong numbers."""

from __future__ import annotations

import dataclasses

import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import check_numbers, get_device
from tirstep.lowering_checks.steps import Finding
from tirstep.modules import Kernel, kernel
from tirstep.modules.dtypes import SUMS_OF_FEW
from tirstep.modules.kernel import cast_between
from tirstep.transforms import tile_block

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
declare = kernel(
    reference=lambda a, b, **_: a * b + a,
    flops=lambda n, **_: 2 * n,
    elements=lambda n, **_: n,
    accumulators=SUMS_OF_FEW,
)


def make(n: int, dtype: str, acc: str) -> tvm.IRModule:
    """C = A * B + A in the type acc, stored as dtype."""
    widen, narrow = cast_between(dtype, acc), cast_between(acc, dtype)

    @I.ir_module
    class MultiplyAdd:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((n,), dtype), B: T.Buffer((n,), dtype), C: T.Buffer((n,), dtype)):
            for i in range(n):
                with T.sblock("C"):
                    vi = T.axis.spatial(n, i)
                    C[vi] = narrow(widen(A[vi]) * widen(B[vi]) + widen(A[vi]))

    return MultiplyAdd


@declare
def multiply_add(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    return make(n, dtype, dtype)


@declare
def multiply_add_wide(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    return make(n, dtype, SUMS_OF_FEW[dtype][0])


def check(tested: Kernel, dtype: str, seed: int) -> list[Finding]:
    problem = tested.problem(100, dtype=dtype)
    sch = Schedule(problem.module)
    tile_block(sch, sch.get_sblock("C"), threads=(32,), tail="guard")
    return check_numbers(problem, sch.mod, get_device("simulator"), where="tiled", seed=seed)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_products_of_float8_that_are_said_to_be_float32_are_wrong(dtype: str) -> None:
    finding, *_ = check(multiply_add, dtype, 0)
    assert finding.message.endswith("elements are wrong (integers, seed 0)")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", SUMS_OF_FEW)
def test_what_is_cast_first_is_right_and_so_is_what_is_declared(dtype: str, seed: int) -> None:
    """Sums that are no float8 are rounded when they are stored, by the module and by NumPy."""
    assert check(multiply_add_wide, dtype, seed) == []
    meaning = dataclasses.replace(multiply_add.meaning, accumulators={dtype: (dtype,)})
    assert check(Kernel(multiply_add.factory, meaning), dtype, seed) == []
