"""Products of matrices: of two, of batches of them, and with a bias and a function behind."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import (
    FLOATS_IN_FLOAT32,
    SUMS_OF_PRODUCTS,
    SUMS_ON_TENSOR_CORES,
    get_storage,
)
from tirstep.modules.elementwise import apply_gelu, compute_gelu
from tirstep.modules.kernel import DTypes, cast_between, kernel, swapped_if, zero_of
from tirstep.precision_annotations import OPERANDS, SUMS

Sizes: TypeAlias = tuple[int, int, int, int]
Function: TypeAlias = Callable[[Any], Any]


@kernel(
    reference=lambda a, b, *, transpose_b, **_: a @ (b.T if transpose_b else b),
    flops=lambda m, n, k, **_: 2 * m * n * k,
    elements=lambda m, n, k, **_: max(m * k, k * n, m * n),
    accumulators=SUMS_ON_TENSOR_CORES,
    choices={"transpose_b": (False, True)},
    corners=corners.SUMMED,
)
def matmul(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
    transpose_b: bool = False,
) -> tvm.IRModule:
    """C(m, n) = A(m, k) times B(k, n), or B(n, k) with transpose_b: block "C", loops i, j, k.

    Sums in `acc`: float32 for float32, float16 (which may also be summed in float16), bfloat16,
    float8_e4m3fn and float8_e5m2; int32 for int8 and int32. C has type `out`, which is acc or, for
    floats, dtype, and for float8 bfloat16 or float16, too; where it is not acc, block "C" sums into
    the buffer C_acc and block "C_cast" converts that into C.

    Two names allow tensor cores to keep less of a float32, and are annotations of block "C" that
    change nothing else: with dtype tf32, operands lie in memory as float32, and their last 13 bits
    may be left out of products; with acc fp22, sums of float8 lie in memory as float32, and 14 bits
    of each may be kept.

    2 * m * n * k operations. Raises `KernelError` for bad sizes, dtype, acc, out or transpose_b.
    Source: the MLC course (1024, 1024, 1024) and the GEMM tutorial (1024, 512, 2048).
    """
    stored = get_storage(dtype), get_storage(str(acc)), out
    attributes = {}
    if dtype == "tf32":
        attributes[OPERANDS] = dtype
    if acc == "fp22":
        attributes[SUMS] = acc
    return _matmul(m, n, k, stored, transpose_b, attributes)


def _matmul(M: int, N: int, K: int, dtypes: DTypes, transpose_b: bool, notes: Any) -> tvm.IRModule:
    dtype, acc, out = dtypes
    zero, widen, at = zero_of(acc), cast_between(dtype, acc), swapped_if(transpose_b)

    @I.ir_module
    class Matmul:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M, K), dtype), B: T.Buffer(at(K, N), dtype), C: T.Buffer((M, N), out)
        ):
            T.func_attr({"tirx.noalias": True})
            C_acc = T.meta_var(C) if out == acc else T.sblock_alloc_buffer((M, N), acc)
            for i, j, k in T.grid(M, N, K):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.sblock_attr(notes)
                    with T.init():
                        C_acc[vi, vj] = zero
                    C_acc[vi, vj] = C_acc[vi, vj] + widen(A[vi, vk]) * widen(B[at(vk, vj)])
            if out != acc:
                for i, j in T.grid(M, N):
                    with T.sblock("C_cast"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = T.Cast(out, C_acc[vi, vj])

    return Matmul


@kernel(
    reference=lambda a, b, *, transpose_b, **_: a @ (b.swapaxes(1, 2) if transpose_b else b),
    flops=lambda batch, m, n, k, **_: 2 * batch * m * n * k,
    elements=lambda batch, m, n, k, **_: batch * max(m * k, k * n, m * n),
    accumulators=SUMS_OF_PRODUCTS,
    choices={"transpose_b": (False, True)},
    corners=corners.SUMMED,
    has_matrices=True,
)
def batched_matmul(
    batch: int,
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
    transpose_b: bool = False,
) -> tvm.IRModule:
    """C(batch, m, n) = A(batch, m, k) times B(batch, k, n), or B(batch, n, k) with transpose_b.

    One product for each index of the batch: block "C", loops b, i, j, k. `dtype`, `acc` and `out`
    are as for `matmul`: where C is not of type acc, block "C" sums into the buffer C_acc and block
    "C_cast" converts that into C.

    2 * batch * m * n * k operations. Raises `KernelError` for bad sizes, dtype, acc, out or
    transpose_b.
    """
    return _batched((batch, m, n, k), (dtype, acc, out), transpose_b)


def _batched(sizes: Sizes, dtypes: DTypes, transpose_b: bool) -> tvm.IRModule:
    (S, M, N, K), (dtype, acc, out) = sizes, dtypes
    zero, widen, swap = zero_of(acc), cast_between(dtype, acc), swapped_if(transpose_b)

    def at(each: Any, row: Any, column: Any) -> tuple[Any, ...]:
        return (each, *swap(row, column))

    @I.ir_module
    class BatchedMatmul:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((S, M, K), dtype),
            B: T.Buffer(at(S, K, N), dtype),
            C: T.Buffer((S, M, N), out),
        ):
            T.func_attr({"tirx.noalias": True})
            C_acc = T.meta_var(C) if out == acc else T.sblock_alloc_buffer((S, M, N), acc)
            for b, i, j, k in T.grid(S, M, N, K):
                with T.sblock("C"):
                    vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                    with T.init():
                        C_acc[vb, vi, vj] = zero
                    C_acc[vb, vi, vj] = C_acc[vb, vi, vj] + widen(A[vb, vi, vk]) * widen(
                        B[at(vb, vk, vj)]
                    )
            if out != acc:
                for b, i, j in T.grid(S, M, N):
                    with T.sblock("C_cast"):
                        vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                        C[vb, vi, vj] = T.Cast(out, C_acc[vb, vi, vj])

    return BatchedMatmul


@kernel(
    reference=lambda a, b, bias, **_: np.maximum(a @ b + bias, 0.0),
    flops=lambda m, n, k, **_: 2 * m * n * k + 2 * m * n,
    elements=lambda m, n, k, **_: max(m * k, k * n, m * n),
    accumulators=SUMS_OF_PRODUCTS,
    corners=corners.SUMMED,
)
def matmul_bias_relu(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
) -> tvm.IRModule:
    """D(m, n) = max(A(m, k) times B(k, n) + bias(n), 0).

    Block "C" sums the product into the buffer C within the function, block "D" does the rest. That
    buffer and the argument bias have type `acc`, so that a result is rounded to `out` once, at the
    end. `dtype`, `acc` and `out` are as for `matmul`.

    2 * m * n * k + 2 * m * n operations. Raises `KernelError` for bad sizes, dtype, acc or out.
    """
    zero = zero_of(acc)
    return _with_bias(m, n, k, (dtype, acc, out), lambda x: T.max(x, zero))


@kernel(
    reference=lambda a, b, bias, **_: compute_gelu(a @ b + bias),
    flops=lambda m, n, k, **_: 2 * m * n * k + 9 * m * n,
    elements=lambda m, n, k, **_: max(m * k, k * n, m * n),
    accumulators=FLOATS_IN_FLOAT32,
    choices={"approximate": ("tanh",)},
    corners=("zeros", "few terms", "of all magnitudes"),
)
def matmul_bias_gelu(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
    approximate: str = "tanh",
) -> tvm.IRModule:
    """D(m, n) = gelu(A(m, k) times B(k, n) + bias(n)), with the `gelu` of that kernel.

    The blocks are those of `matmul_bias_relu`; sums, bias and gelu are float32, and a result is
    rounded to `out`, which is float32 or dtype, once, at the end.

    2 * m * n * k + 9 * m * n operations, an exponential counted as one. Raises `KernelError` for
    bad sizes, dtype, acc or out.
    """
    return _with_bias(m, n, k, (dtype, acc, out), apply_gelu)


def _with_bias(M: int, N: int, K: int, dtypes: DTypes, function: Function) -> tvm.IRModule:
    dtype, acc, out = dtypes
    zero, widen, narrow = zero_of(acc), cast_between(dtype, acc), cast_between(acc, out)

    @I.ir_module
    class MatmulWithBias:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M, K), dtype),
            B: T.Buffer((K, N), dtype),
            bias: T.Buffer((N,), acc),
            D: T.Buffer((M, N), out),
        ):
            T.func_attr({"tirx.noalias": True})
            C = T.sblock_alloc_buffer((M, N), acc)
            for i, j, k in T.grid(M, N, K):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = zero
                    C[vi, vj] = C[vi, vj] + widen(A[vi, vk]) * widen(B[vk, vj])
            for i, j in T.grid(M, N):
                with T.sblock("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = narrow(function(C[vi, vj] + bias[vj]))

    return MatmulWithBias
