"""Stores that stray beside a tensor are seen on the CPU and on a GPU, and do no harm there."""

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks import get_device
from tirstep.lowering_checks.devices.guard_zones import (
    ALIGNMENT,
    FILLERS,
    GUARD_BYTES,
    GuardedTensor,
    run_in_guard_zones,
)
from tirstep.modules.dtypes import dtype_facts

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
ON_EACH = pytest.mark.parametrize("device", DEVICES)


def shift(by: int, length: int = 30):
    """One thread for each element; without a GPU the threads are a loop."""

    @I.ir_module
    class Shifted:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((length,), "float32"), B: T.Buffer((length,), "float32")):
            for i in T.thread_binding(length, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(length, i)
                    B[vi + by] = A[vi]

    return Shifted


def run(module, device: str = "cpu", length: int = 30):
    program = get_device(device).compile(module)
    arrays = program([np.ones(length, "float32"), np.full(length, np.nan, "float32")])
    return arrays, program.findings


@ON_EACH
@pytest.mark.parametrize(("by", "first"), [(1, 30), (-2, -2), (7, 30)])
def test_a_stray_store_is_a_fault(by: int, first: int, device: str) -> None:
    _, (finding,) = run(shift(by), device)
    assert finding.kind == "out of bounds"
    assert finding.message == f"store to B[{first}] (B has 30 elements)"
    assert finding.count == abs(by)


@ON_EACH
def test_a_store_inside_is_no_fault(device: str) -> None:
    (_, result), findings = run(shift(0), device)
    assert findings == []
    np.testing.assert_array_equal(result, np.ones(30))


@ON_EACH
def test_a_stray_store_beside_an_input_is_a_fault(device: str) -> None:
    @I.ir_module
    class IntoInput:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
            for i in T.thread_binding(30, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(30, i)
                    B[vi] = A[vi]
                    A[vi + 30] = B[vi]

    _, (finding,) = run(IntoInput, device)
    assert finding.message == "store to A[30] (A has 30 elements)"
    assert finding.count == 30


@ON_EACH
def test_a_guard_zone_copied_from_another_tensor_is_seen(device: str) -> None:
    @I.ir_module
    class OneMore:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
            for i in T.thread_binding(31, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(31, i)
                    B[vi] = A[vi]

    _, (finding,) = run(OneMore, device)
    assert finding.message.startswith("store to B[30]")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32"])
def test_what_guard_zones_hold_is_a_finite_number(dtype: str) -> None:
    for filler in FILLERS:
        (value,) = np.full(np.dtype(dtype).itemsize, filler, np.uint8).view(dtype)
        assert np.isfinite(value)


def test_a_guard_zone_is_as_long_as_a_long_tensor() -> None:
    guarded = GuardedTensor("A", np.zeros((64, 64), "float32"), 0, tvm.cpu())
    assert guarded.tensor.shape == (64, 64)
    assert guarded.zone_bytes >= 64 * 64 * 4 > GUARD_BYTES


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"])
def test_a_tensor_in_guard_zones_is_an_ordinary_one(dtype: str) -> None:
    """Its address is aligned, it holds what it was given, and it keeps its memory alive."""
    array = np.arange(15).reshape(3, 5).astype(dtype_facts(dtype).numpy)
    guarded = GuardedTensor("A", array, 0, tvm.cpu())
    assert str(guarded.tensor.dtype) == dtype
    assert (guarded.tensor.data_ptr() % 64, guarded.zone_bytes % ALIGNMENT) == (0, 0)
    read, findings = guarded.read()
    assert findings == []
    tensor = guarded.tensor
    del guarded
    for array_again in (read, tensor.numpy()):
        np.testing.assert_array_equal(array_again.view(np.uint8), array.view(np.uint8))


def test_each_argument_has_its_own_name_and_filler() -> None:
    def call(*tensors) -> None:
        tensors[1].copyfrom(np.full(3, 7, "int32"))

    arrays, findings = run_in_guard_zones(call, "ABC", [np.zeros(3, "int32")] * 3, tvm.cpu())
    assert [array.tolist() for array in arrays] == [[0, 0, 0], [7, 7, 7], [0, 0, 0]]
    assert findings == []
