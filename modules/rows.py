"""Kernels over the rows of a matrix: sums and normalizations."""

from typing import Any

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners, roundings
from tirstep.modules.dtypes import FLOATS_IN_FLOAT32, SUMS_OF_PRODUCTS
from tirstep.modules.kernel import kernel
from tirstep.modules.roundings import EPSILON
from tirstep.modules.script import cast_between, zero_of


@kernel(
    reference=lambda a, **_: a.sum(axis=1),
    flops=lambda m, n, **_: m * n,
    terms=lambda n, **_: n,
    elements=lambda m, n, **_: m * n,
    accumulators=SUMS_OF_PRODUCTS,
    zeros=lambda m, **_: (np.s_[m // 2],),
    corners=corners.SUMMED,
)
def row_sum(m: int, n: int, *, dtype: str = "float32", acc: str | None = None) -> tvm.IRModule:
    """B(m) = the sums of the rows of A(m, n): block "B", loops i, k.

    B has type `acc`, as for `matmul`. m * n operations. Raises `KernelError` for bad sizes, dtype
    or acc.
    """
    M, N, zero, widen = m, n, zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class RowSum:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), B: T.Buffer((M,), acc)):
            T.func_attr({"tirx.noalias": True})
            for i, k in T.grid(M, N):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = zero
                    B[vi] = B[vi] + widen(A[vi, vk])

    return RowSum


def _layer_norm_of(a: Any, gain: Any, shift: Any, **_: Any) -> Any:
    centered = a - a.mean(axis=1, keepdims=True)
    variance = (centered * centered).mean(axis=1, keepdims=True)
    return centered / np.sqrt(variance + EPSILON) * gain + shift


@kernel(
    reference=_layer_norm_of,
    error=roundings.layer_norm,
    corners=(
        corners.offset,
        corners.equal,
        corners.balanced,
        corners.zeros,
        corners.small,
        corners.large,
        corners.sparse,
        corners.subnormal,
    ),
    flops=lambda m, n, **_: 8 * m * n,
    terms=lambda n, **_: n,
    elements=lambda m, n, **_: m * n,
    accumulators=FLOATS_IN_FLOAT32,
)
def layer_norm(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B(m, n) = (A - mean) / sqrt(variance + 1e-5) * gain(n) + shift(n), row by row of A(m, n).

    Blocks "mean", "variance" (a sum of squared differences, which loses nothing where the mean is
    far from 0) and "B". Sums are float32; all else has the type of A. 8 * m * n operations. Raises
    `KernelError` for bad sizes or dtype.
    """
    widen = cast_between(dtype, "float32")

    def center(value: Any, total: Any) -> Any:
        return widen(value) - total / T.float32(n)

    def scale(total: Any) -> Any:
        return T.rsqrt(total / T.float32(n) + T.float32(EPSILON))

    return _layer_norm((m, n), dtype, center, scale)


def _layer_norm(shape: tuple[int, int], dtype: str, center: Any, scale: Any) -> tvm.IRModule:
    (M, N), widen, narrow = shape, cast_between(dtype, "float32"), cast_between("float32", dtype)

    @I.ir_module
    class LayerNorm:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M, N), dtype),
            gain: T.Buffer((N,), dtype),
            shift: T.Buffer((N,), dtype),
            B: T.Buffer((M, N), dtype),
        ):
            T.func_attr({"tirx.noalias": True})
            sums = T.sblock_alloc_buffer((M,))
            squares = T.sblock_alloc_buffer((M,))
            for i, k in T.grid(M, N):
                with T.sblock("mean"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        sums[vi] = T.float32(0)
                    sums[vi] = sums[vi] + widen(A[vi, vk])
            for i, k in T.grid(M, N):
                with T.sblock("variance"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        squares[vi] = T.float32(0)
                    squares[vi] = squares[vi] + center(A[vi, vk], sums[vi]) * center(
                        A[vi, vk], sums[vi]
                    )
            for i, k in T.grid(M, N):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = narrow(
                        center(A[vi, vk], sums[vi]) * scale(squares[vi]) * widen(gain[vk])
                        + widen(shift[vk])
                    )

    return LayerNorm


def _rms_norm_of(a: Any, gain: Any, **_: Any) -> Any:
    return a / np.sqrt((a * a).mean(axis=1, keepdims=True) + EPSILON) * gain


@kernel(
    reference=_rms_norm_of,
    error=roundings.rms_norm,
    corners=(
        corners.zeros,
        corners.small,
        corners.large,
        corners.sparse,
        corners.high_offset,
        corners.subnormal,
    ),
    flops=lambda m, n, **_: 4 * m * n,
    terms=lambda n, **_: n,
    elements=lambda m, n, **_: m * n,
    accumulators=FLOATS_IN_FLOAT32,
)
def rms_norm(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B(m, n) = A / sqrt(the mean of A * A + 1e-5) * gain(n), row by row of A(m, n).

    Blocks "sum" and "B". Sums are float32; all else has the type of A. 4 * m * n operations. Raises
    `KernelError` for bad sizes or dtype.
    """
    M, N, widen, narrow = m, n, cast_between(dtype, "float32"), cast_between("float32", dtype)

    @I.ir_module
    class RmsNorm:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M, N), dtype), gain: T.Buffer((N,), dtype), B: T.Buffer((M, N), dtype)
        ):
            T.func_attr({"tirx.noalias": True})
            squares = T.sblock_alloc_buffer((M,))
            for i, k in T.grid(M, N):
                with T.sblock("sum"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        squares[vi] = T.float32(0)
                    squares[vi] = squares[vi] + widen(A[vi, vk]) * widen(A[vi, vk])
            for i, k in T.grid(M, N):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = narrow(
                        widen(A[vi, vk])
                        * T.rsqrt(squares[vi] / T.float32(N) + T.float32(EPSILON))
                        * widen(gain[vk])
                    )

    return RmsNorm
