"""Stores that stray beside a tensor are seen on the CPU, and do no harm there."""

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import find_device
from tirstep.lowering_checks.devices.rims import FILLERS, RIM_BYTES, RimmedTensor

CPU = find_device("cpu")


def shift(by: int, length: int = 30):
    @I.ir_module
    class Shifted:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((length,), "float32"), B: T.Buffer((length,), "float32")):
            for i in range(length):
                with T.sblock("B"):
                    vi = T.axis.spatial(length, i)
                    B[vi + by] = A[vi]

    return Shifted


def run(module, length: int = 30):
    program = CPU.compile(module)
    arrays = program([np.ones(length, "float32"), np.full(length, np.nan, "float32")])
    return arrays, program.faults


@pytest.mark.parametrize(("by", "first"), [(1, 30), (-2, -2), (7, 30)])
def test_a_stray_store_is_a_fault(by: int, first: int) -> None:
    _, (fault,) = run(shift(by))
    assert fault.kind == "out of bounds"
    assert fault.text == f"somebody writes B[{first}], which has 30 elements"
    assert fault.count == abs(by)


def test_a_store_inside_is_no_fault() -> None:
    (_, result), faults = run(shift(0))
    assert faults == []
    np.testing.assert_array_equal(result, np.ones(30))


def test_a_rim_copied_from_another_tensor_is_seen() -> None:
    @I.ir_module
    class OneMore:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
            for i in range(31):
                with T.sblock("B"):
                    vi = T.axis.spatial(31, i)
                    B[vi] = A[vi]

    _, (fault,) = run(OneMore)
    assert fault.text.startswith("somebody writes B[30]")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32"])
def test_what_rims_hold_is_a_finite_number(dtype: str) -> None:
    for filler in FILLERS:
        (value,) = np.full(np.dtype(dtype).itemsize, filler, np.uint8).view(dtype)
        assert np.isfinite(value)


def test_a_rim_is_as_long_as_a_long_tensor() -> None:
    one = RimmedTensor("A", np.zeros((64, 64), "float32"), 0)
    assert one.tensor.shape == (64, 64)
    assert min(one._before.size, one._behind.size) >= 64 * 64 * 4 > RIM_BYTES
