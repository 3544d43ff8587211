"""Kernels of single elements: sums, functions as neural networks apply them, a transpose."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules.dtypes import ANY_TYPE, FLOATS_IN_FLOAT32, IN_OWN_TYPE, SUMS_OF_FEW
from tirstep.modules.kernel import cast_between, kernel, zero_of


@kernel(
    reference=lambda a, b, **_: a + b,
    flops=lambda n, **_: n,
    elements=lambda n, **_: n,
    accumulators=SUMS_OF_FEW,
    corners=("edges",),
)
def vector_add(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """C = A + B for vectors A, B, C of n elements: block "C", loop i.

    C has the type of A and B; for the float8 types it is float32.

    n operations. Raises `KernelError` for a bad size or dtype. Source: the MLC course, "GPU and
    Hardware Acceleration", which computes it at n = 1024.
    """
    N, acc = n, SUMS_OF_FEW[dtype][0]
    widen = cast_between(dtype, acc)

    @I.ir_module
    class VectorAdd:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N,), dtype), B: T.Buffer((N,), dtype), C: T.Buffer((N,), acc)):
            T.func_attr({"tirx.noalias": True})
            for i in T.grid(N):
                with T.sblock("C"):
                    vi = T.axis.remap("S", [i])
                    C[vi] = widen(A[vi]) + widen(B[vi])

    return VectorAdd


@kernel(
    # Not np.maximum: of two zeros it returns either.
    reference=lambda a, **_: np.where(a > 0, a, 0.0),
    flops=lambda n, **_: n,
    elements=lambda n, **_: n,
    accumulators=IN_OWN_TYPE,
    corners=("edges",),
    has_signed_zeros=True,
)
def relu(n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B = max(A, 0) for vectors of n elements: block "B", loop i.

    No zero of B has a sign, and infinities are numbers like others. What a NaN becomes is not said:
    a GPU's maximum drops it. n operations. Raises `KernelError` for a bad size or dtype.
    """
    return _apply(n, dtype, lambda x: T.max(x, zero_of(dtype)))


def _apply(N: int, dtype: str, function: Callable[[Any], Any]) -> tvm.IRModule:
    @I.ir_module
    class Apply:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N,), dtype), B: T.Buffer((N,), dtype)):
            T.func_attr({"tirx.noalias": True})
            for i in T.grid(N):
                with T.sblock("B"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = function(A[vi])

    return Apply


def compute_gelu(a: Any, **_: Any) -> Any:
    """gelu in NumPy, as the kernel has it: 1 + tanh(z) cancels where z is far below 0."""
    with np.errstate(over="ignore"):
        return a / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))


def apply_gelu(x: Any) -> Any:
    """gelu of an expression of float32."""
    slope = T.float32(-2 * np.sqrt(2 / np.pi))
    return x / (T.float32(1) + T.exp(slope * (x + T.float32(0.044715) * x * x * x)))


@kernel(
    reference=compute_gelu,
    corners=("along the curve",),
    flops=lambda n, **_: 8 * n,
    elements=lambda n, **_: n,
    accumulators=FLOATS_IN_FLOAT32,
    choices={"approximate": ("tanh",)},
)
def gelu(n: int, *, dtype: str = "float32", approximate: str = "tanh") -> tvm.IRModule:
    """B = x / (1 + exp(-2 z)) with z = sqrt(2 / pi) (x + 0.044715 x^3), for x in A of n elements.

    This is 0.5 x (1 + tanh(z)), the approximation of D. Hendrycks and K. Gimpel (Gaussian error
    linear units, 2016), which frameworks call gelu with approximate="tanh". Block "B", loop i; the
    arithmetic is float32, B has the type of A, and all of it is finite. 8 * n operations, an
    exponential counted as one. Raises `KernelError` for a bad size or dtype.
    """
    widen, narrow = cast_between(dtype, "float32"), cast_between("float32", dtype)
    return _apply(n, dtype, lambda x: narrow(apply_gelu(widen(x))))


@kernel(
    reference=lambda a, **_: a.T,
    flops=lambda **_: 0,
    is_bitwise=True,
    elements=lambda m, n, **_: m * n,
    accumulators=ANY_TYPE,
)
def transpose(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B(n, m) = the transpose of A(m, n): block "B", loops i over the rows of B and j.

    Every bit stays as it is, also those of NaNs, infinities, subnormal numbers and negative zeros.
    No operations. Raises `KernelError` for bad sizes or dtype.
    """
    M, N = m, n

    @I.ir_module
    class Transpose:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), B: T.Buffer((N, M), dtype)):
            T.func_attr({"tirx.noalias": True})
            for i, j in T.grid(N, M):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vj, vi]

    return Transpose
