"""Mistakes in a `@kernel` are sentences; kernels with several outputs, and without a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from kernels import parse_kernel
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.lowering_checks.devices import CpuDevice
from tirstep.lowering_checks.numeric import check_numbers
from tirstep.modules import Kernel, KernelError, kernel, row_argmax


def minmax(n: int) -> tvm.IRModule:
    """The smaller and the larger of two vectors, scaled."""
    N = n

    @I.ir_module
    class MinMax:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((N,), "float32"),
            B: T.Buffer((N,), "float32"),
            s: T.float32,
            low: T.Buffer((N,), "float32"),
            high: T.Buffer((N,), "float32"),
        ):
            for i in range(N):
                with T.sblock("low"):
                    vi = T.axis.spatial(N, i)
                    low[vi] = T.min(A[vi], B[vi]) * s
            for i in range(N):
                with T.sblock("high"):
                    vi = T.axis.spatial(N, i)
                    high[vi] = T.max(A[vi], B[vi]) * s

    return MinMax


def make(**changes: Any) -> Kernel:
    """`minmax` as a kernel without a dtype, with changes of what is said of it."""
    rules: dict[str, Any] = {
        "reference": lambda a, b, s, **_: (np.minimum(a, b) * s, np.maximum(a, b) * s),
        "outputs": 2,
        "flops": lambda n, **_: 4 * n,
        "elements": lambda n, **_: n,
    }
    return kernel(**{**rules, **changes})(minmax)


def test_two_outputs_a_number_and_no_dtype() -> None:
    problem = make().problem(17)
    assert [each.name for each in problem.outputs] == ["low", "high"]
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")
    text = problem.module.script().replace("T.max(A", "T.min(A")
    wrong = tvm.script.from_source(text)
    findings = check_numbers(problem, wrong, CpuDevice(), where="")
    assert [finding.message.split("[")[0] for finding in findings] == ["high"]


def test_the_index_of_the_largest_is_checked_as_well() -> None:
    problem = row_argmax.problem(5, 33)
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")
    wrong = tvm.script.from_source(problem.module.script().replace("index[vi] < vk", "vk < 0"))
    findings = check_numbers(problem, wrong, CpuDevice(), where="")
    assert [finding.message.split("[")[0] for finding in findings] == ["index"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"reference": lambda a, b, s: (a, b)},
            r"^minmax: its reference does not take 3 inputs and n \(.*\); let it end with \*\*_",
        ),
        ({"elements": lambda: 1}, r"^minmax: its elements does not take n \(.*\); let it end with"),
        (
            {"reference": lambda a, b, s, **_: a},
            r"^minmax\(n=17\): its reference returns 1 array, and it has 2 outputs; return a",
        ),
        (
            {"reference": lambda a, b, s, **_: (a, b[1:])},
            r"^minmax\(n=17\): its reference of high has the shape \(16,\), and the module's has",
        ),
        (
            {"outputs": 1},
            r"^minmax: it stores to low, high, and its outputs are high; put outputs last, and say",
        ),
        ({"error": lambda a, b, s, **_: a}, r"^minmax\(n=17\): its error returns 1 array,"),
        ({"error": lambda a, b, s, **_: (a, None)}, r"^minmax.* its error of high is None; return"),
        ({"elements": lambda **_: None}, "^minmax: its elements are None; return an integer >= 0$"),
        (
            {"accumulators": {"float32": "float32"}},
            r"^kernel: accumulators=\{'float32': 'float32'\} is not a tuple of data types; give \{",
        ),
        ({"accumulators": {"float33": ("float32",)}}, "'float33' is not a data type known here"),
        ({"outputs": 9}, "^minmax: it has outputs=9, and main takes A, B, s, low, high; say how"),
        ({"outputs": 0}, "^kernel: outputs=0: must be an integer >= 1$"),
    ],
)
def test_a_mistake_in_a_kernel(changes: dict[str, Any], sentence: str) -> None:
    def use() -> None:
        problem = make(**changes).problem(17)
        problem.error_bound(problem.float_inputs(0))

    with pytest.raises(KernelError, match=sentence):
        use()


def test_a_dtype_without_accumulators() -> None:
    with pytest.raises(KernelError, match=r"^minmax: give both an option dtype and accumulators,"):
        make(accumulators={"float32": ("float32",)})


def test_a_dtype_that_is_no_option() -> None:
    """It may be given by place then, as a size."""

    def plus(n: int, dtype: str = "float32") -> tvm.IRModule:
        return minmax(n)

    with pytest.raises(KernelError, match=r"^plus: dtype is not a size; write plus\(n, \*, dt"):
        make().meaning(plus)


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        (lambda n: None, "it returns NoneType; return the class under @I.ir_module$"),
        (lambda n: minmax(n)["main"], "it returns a PrimFunc; return the class"),
        (
            lambda n: tvm.IRModule({"f": minmax(n)["main"], "g": minmax(n)["main"]}),
            "its module has f, g; call the function",
        ),
    ],
)
def test_a_factory_returns_a_module_with_a_main(factory: Any, sentence: str) -> None:
    rules = make().meaning
    with pytest.raises(KernelError, match=f"^<lambda>: {sentence}"):
        rules(factory)(17)


def highest(m: int, n: int) -> tvm.IRModule:
    """The largest element of each row; the function has a name of its own."""

    text = f"""
        A ({m}, {n}), C ({m},)
        i:{m} k:{n}  C[i] = T.min_value("float32") -> T.max(C[i], A[i, k])
    """
    return tvm.IRModule(
        {"highest": parse_kernel(text)["main"].with_attr("global_symbol", "highest")}
    )


HIGHEST = kernel(
    reference=lambda a, **_: a.max(axis=1),
    flops=lambda m, n, **_: m * n,
    elements=lambda m, n, **_: m * n,
)(highest)


def test_a_kernels_only_function_may_have_any_name() -> None:
    problem = HIGHEST.problem(2, 500)
    assert [str(each.name_hint) for each in problem.module.get_global_vars()] == ["main"]
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")


def test_a_maximum_without_its_last_column_is_found() -> None:
    problem = HIGHEST.problem(2, 500)
    text = problem.module.script()
    assert "T.grid(2, 500)" in text
    wrong = tvm.script.from_source(text.replace("T.grid(2, 500)", "T.grid(2, 499)"))
    assert check_numbers(problem, wrong, CpuDevice(), where="")


def difference(n: int) -> tvm.IRModule:
    """A - B * B."""
    return parse_kernel(f"A ({n},), B ({n},), C ({n},)\ni:{n}  C[i] = A[i] - B[i] * B[i]")


def test_a_difference_is_no_sum_of_magnitudes() -> None:
    """The reference of magnitudes would be near 0 where it cancels, and nothing be allowed."""
    rules = make(reference=lambda a, b, **_: a - b * b, outputs=1).meaning
    problem = rules(difference).problem(257)
    (bound,) = problem.error_bound(problem.float_inputs(0))
    assert not problem.is_exact
    assert (bound > 0).all()
    assert not check_numbers(problem, problem.module, CpuDevice(), where="")
    unknown = make(reference=lambda a, b, **_: a - np.sort(b * b), outputs=1).meaning
    with pytest.raises(
        KernelError, match=r"^difference\(n=257\): its reference uses sort of NumPy"
    ):
        unknown(difference).problem(257).error_bound(problem.float_inputs(0))
