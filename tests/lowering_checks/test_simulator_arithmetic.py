"""The simulator computes what the generated CUDA C++ computes, and not what TIR or NumPy say."""

import ml_dtypes
import numpy as np
import pytest
from lowered import find_kinds, run_kernel

from tirstep.lowering_checks.devices.simulator.operators import convert


def blank(dtype: str, size: int = 32) -> np.ndarray:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.full(size, np.nan if kind.kind in "fV" else np.iinfo(kind).min, kind)


def compute(expression: str, dtype: str, **inputs: np.ndarray) -> np.ndarray:
    """An expression of A, B, ... on the simulator, without findings."""
    simulation = run_kernel({**inputs, "R": blank(dtype)}, f"R[tx] = {expression}")
    assert simulation.findings == []
    return simulation.arguments[-1]


def test_vectors_of_narrow_integers_are_cut_off_at_each_operation() -> None:
    hundred = np.full(128, 100, "int8")
    vector = "T.Ramp(tx * 4, 1, 4)"
    got = run_kernel(
        {"A": hundred, "R": blank("int32", 128)},
        f'R[{vector}] = T.Cast("int32x4", A[{vector}] * A[{vector}])',
    )
    assert set(got.arguments[1]) == {16}


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("R[tx] = tx // n[0]", "division by zero", "divides 0 by zero"),
        ("R[tx] = tx % n[0]", "division by zero", "divides 0 by zero"),
        ("for k in range(1):\n    R[tx] = 7 // k", "division by zero", "divides 7 by zero"),
        ("R[tx] = T.truncdiv(n[1], n[2])", "undefined operation", "divides -2147483648 by -1"),
        ("R[tx] = T.shift_left(tx, n[3])", "undefined operation", "shifts 0 by 32 bits"),
        ("R[tx] = T.shift_right(tx, n[2])", "undefined operation", "shifts 0 by -1 bits"),
    ],
)
def test_operations_without_a_result_are_findings(body: str, kind: str, text: str) -> None:
    numbers = np.array([0, -(2**31), -1, 32], "int32")
    finding = run_kernel({"n": numbers, "R": blank("int32")}, body).findings[0]
    assert (finding.kind, text in finding.message, finding.count) == (kind, True, 32)


@pytest.mark.parametrize(
    ("source", "target", "given", "want"),
    [
        ("float32", "int32", [3e9, -3e9, np.nan, np.inf, 1.9, -1.9], [2**31 - 1, -(2**31), 0]),
        ("float32", "uint32", [-3, 5e9, np.nan, 3.5], [0, 2**32 - 1, 0, 3]),
        ("float32", "int64", [1e30, -1e30, np.nan], [2**63 - 1, -(2**63), -(2**63)]),
        ("float64", "int32", [1e300, np.nan], [2**31 - 1, -(2**31)]),
        ("float64", "uint32", [1e300, np.nan, -1], [2**32 - 1, 2**31, 0]),
        ("float32", "uint64", [1e30, np.nan, -1], [2**64 - 1, 2**63, 0]),
        ("float16", "int32", [np.inf, 65504], [2**31 - 1, 65504]),
        ("float32", "float8_e4m3fn", [1000, -1000, np.inf], [448, -448, 448]),
        ("float32", "float8_e5m2", [1e6, -np.inf], [57344, -57344]),
        ("int32", "int8", [300, -129], [44, 127]),
        ("uint8", "int8", [200], [-56]),
        ("int8", "uint32", [-1], [2**32 - 1]),
    ],
)
def test_casts_are_those_of_ptx(source: str, target: str, given: list, want: list) -> None:
    """PTX ISA, "cvt": floats saturate, NaN is 0, or in 64 bits the smallest; integers wrap."""
    cast = convert(source, target)
    got = [np.asarray(cast(np.array([one], source))).ravel()[0] for one in given[: len(want)]]
    assert [float(one) for one in got] == [float(one) for one in want]


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_floats_leave_nan_out_as_cuda_does(name: str) -> None:
    """fmaxf takes the number; TVM's own maximum of float16 is a comparison, so it is not even."""
    numbers = np.resize(np.array([np.nan, 1, -1, 2], "float32"), 32)
    others = np.resize(np.array([3, np.nan, 0, np.nan], "float32"), 32)
    single = compute(f"T.{name}(A[tx], B[tx])", "float32", A=numbers, B=others)
    assert list(single[[0, 1, 3]]) == [3, 1, 2]
    inputs = {"A": numbers.astype("float16"), "B": others.astype("float16")}
    half = compute(f"T.{name}(A[tx], B[tx])", "float16", **inputs)
    assert half[0] == 3
    assert np.isnan(half[[1, 3]]).all()


def test_a_product_and_a_sum_at_once_are_rounded_once() -> None:
    number = np.full(32, 1 + 2**-12, "float32")
    expression = "T.fma(A[tx], A[tx], T.float32(-1.00048828125))"
    result = run_kernel({"A": number, "R": blank("float32")}, f"R[tx] = {expression}")
    assert set(result.arguments[1]) == {np.float32(2**-24)}


def test_both_arms_of_a_vector_select_are_computed() -> None:
    """As the generated source does: the arm that is not wanted is loaded all the same."""
    short = np.arange(30, dtype="float32")
    vector = "T.Ramp(tx * 4, 1, 4)"
    zeros = "T.Broadcast(T.float32(0), 4)"
    body = f"R[{vector}] = T.Select({vector} < T.Broadcast(30, 4), A[{vector}], {zeros})"
    result = run_kernel({"A": short, "R": blank("float32")}, body, threads=8)
    assert find_kinds(result) == ["out of bounds"]
