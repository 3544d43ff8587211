"""Kernels that reduce the rows of a matrix: sums, normalizations, softmax, matrix times vector."""

from typing import Any

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import FLOATS_IN_FLOAT32, SUMS_OF_PRODUCTS
from tirstep.modules.error_bounds import rescaled
from tirstep.modules.kernel import cast_between, kernel, zero_of

EPSILON = 1e-5
"""The epsilon that normalizations add to a mean square, against a division by zero."""


@kernel(
    reference=lambda a, **_: a.sum(axis=1),
    flops=lambda m, n, **_: m * n,
    elements=lambda m, n, **_: m * n,
    accumulators=SUMS_OF_PRODUCTS,
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
    corners=(*corners.NORMALIZED, "equal", "balanced"),
    flops=lambda m, n, **_: 8 * m * n,
    elements=lambda m, n, **_: m * n,
    accumulators=FLOATS_IN_FLOAT32,
)
def layer_norm(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B(m, n) = (A - mean) / sqrt(variance + 1e-5) * gain(n) + shift(n), row by row of A(m, n).

    Blocks "mean", "variance" (a sum of squared differences, which loses nothing where the mean is
    far from 0) and "B". Sums are float32; all else has the type of A. 8 * m * n operations. Raises
    `KernelError` for bad sizes or dtype.
    """
    M, N, widen, narrow = m, n, cast_between(dtype, "float32"), cast_between("float32", dtype)

    def center(value: Any, total: Any) -> Any:
        return widen(value) - total / T.float32(n)

    def scale(total: Any) -> Any:
        return T.rsqrt(total / T.float32(n) + T.float32(EPSILON))

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


@kernel(
    reference=lambda a, gain, **_: (
        a / np.sqrt((a * a).mean(axis=1, keepdims=True) + EPSILON) * gain
    ),
    corners=corners.NORMALIZED,
    flops=lambda m, n, **_: 4 * m * n,
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


def _softmax_of(a: Any, *, online: bool = False, **_: Any) -> Any:
    with np.errstate(invalid="ignore"):  # in a row of nothing but -inf
        shifted = a - a.max(axis=1, keepdims=True)
        powers = np.exp(shifted)
        terms = rescaled(powers, shifted) if online else powers
        return powers / terms.sum(axis=1, keepdims=True)


@kernel(
    reference=_softmax_of,
    corners=(
        "zeros",
        "few",
        "few",  # once more, since chance has a part in it
        "of all magnitudes",
        "one is largest",
        "last is largest",
        "masked",
        "masked in front",
    ),
    flops=lambda m, n, **_: 4 * m * n,
    elements=lambda m, n, **_: m * n,
    accumulators=FLOATS_IN_FLOAT32,
    choices={"online": (False, True)},
)
def softmax(m: int, n: int, *, dtype: str = "float32", online: bool = False) -> tvm.IRModule:
    """B(m, n) = exp(A - its row's maximum) / the row's sum of that, for A(m, n).

    Elements of -inf count as masked: their results are 0, and a row of nothing else has no softmax
    and is NaN throughout.

    Blocks "max", "exp", "sum" and "B"; with `online`, blocks "wide", which is A as float32,
    "statistics", which finds sum and maximum in one pass and rescales the sum where the maximum
    grows (M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018), and "B".
    What is between is float32; B has the type of A. 4 * m * n operations, an exponential counted as
    one. Raises `KernelError` for bad sizes, dtype or online.
    """
    M, N, widen, narrow = m, n, cast_between(dtype, "float32"), cast_between("float32", dtype)

    @I.ir_module
    class Softmax:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), B: T.Buffer((M, N), dtype)):
            T.func_attr({"tirx.noalias": True})
            if not online:
                largest = T.sblock_alloc_buffer((M,))
                power = T.sblock_alloc_buffer((M, N))
                total = T.sblock_alloc_buffer((M,))
                for i, k in T.grid(M, N):
                    with T.sblock("max"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            largest[vi] = T.min_value("float32")
                        largest[vi] = T.max(largest[vi], widen(A[vi, vk]))
                for i, k in T.grid(M, N):
                    with T.sblock("exp"):
                        vi, vk = T.axis.remap("SS", [i, k])
                        power[vi, vk] = T.exp(widen(A[vi, vk]) - largest[vi])
                for i, k in T.grid(M, N):
                    with T.sblock("sum"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            total[vi] = T.float32(0)
                        total[vi] = total[vi] + power[vi, vk]
                for i, k in T.grid(M, N):
                    with T.sblock("B"):
                        vi, vk = T.axis.remap("SS", [i, k])
                        B[vi, vk] = narrow(power[vi, vk] / total[vi])
            else:
                W = T.sblock_alloc_buffer((M, N))
                total = T.sblock_alloc_buffer((M,))
                top = T.sblock_alloc_buffer((M,))
                # A block of its own: TVM forgets to lower bfloat16 in what T.let binds.
                for i, k in T.grid(M, N):
                    with T.sblock("wide"):
                        vi, vk = T.axis.remap("SS", [i, k])
                        W[vi, vk] = widen(A[vi, vk])
                for i, k in T.grid(M, N):
                    with T.sblock("statistics"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            total[vi] = T.float32(0)
                            top[vi] = T.min_value("float32")
                        # exp(0) is the 1 that an element adds: the literal would be folded away,
                        # and TVM would not know the reducer again.
                        new_total: T.let[T.float32] = total[vi] * T.exp(
                            top[vi] - T.max(top[vi], W[vi, vk])
                        ) + T.exp(T.float32(0)) * T.exp(W[vi, vk] - T.max(top[vi], W[vi, vk]))
                        new_top: T.let[T.float32] = T.max(top[vi], W[vi, vk])
                        total[vi] = new_total
                        top[vi] = new_top
                for i, k in T.grid(M, N):
                    with T.sblock("B"):
                        vi, vk = T.axis.remap("SS", [i, k])
                        B[vi, vk] = narrow(T.exp(W[vi, vk] - top[vi]) / total[vi])

    return Softmax


@kernel(
    reference=lambda a, x, **_: a @ x,
    flops=lambda m, n, **_: 2 * m * n,
    elements=lambda m, n, **_: m * n,
    accumulators=SUMS_OF_PRODUCTS,
    corners=corners.SUMMED,
)
def matvec(m: int, n: int, *, dtype: str = "float32", acc: str | None = None) -> tvm.IRModule:
    """y(m) = A(m, n) times x(n): block "y", loops i, k.

    y has type `acc`, as for `matmul`. 2 * m * n operations. Raises `KernelError` for bad sizes,
    dtype or acc.
    """
    M, N, zero, widen = m, n, zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class MatVec:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), x: T.Buffer((N,), dtype), y: T.Buffer((M,), acc)):
            T.func_attr({"tirx.noalias": True})
            for i, k in T.grid(M, N):
                with T.sblock("y"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        y[vi] = zero
                    y[vi] = y[vi] + widen(A[vi, vk]) * widen(x[vk])

    return MatVec


@kernel(
    reference=lambda a, **_: (a.max(axis=1), a.argmax(axis=1)),
    outputs=2,
    corners=("zeros", "masked", "masked in front", "one is largest", "last is largest"),
    flops=lambda m, n, **_: m * n,
    elements=lambda m, n, **_: m * n,
    # Not bfloat16: TVM forgets to lower it in what T.let binds.
    accumulators={"float32": ("float32",), "float16": ("float16",)},
)
def row_argmax(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """value(m), index(m): the largest element of each row of A(m, n), and where it is first.

    Block "best", loops i, k; a reduction of pairs. value has the type of A, index is int32.
    m * n operations. Raises `KernelError` for bad sizes or dtype.
    """
    M, N, DTYPE = m, n, getattr(T, dtype)
    least = DTYPE(-np.inf)  # and not T.min_value: a row may be all masked

    @I.ir_module
    class RowArgmax:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M, N), dtype), value: T.Buffer((M,), dtype), index: T.Buffer((M,), "int32")
        ):
            T.func_attr({"tirx.noalias": True})
            for i, k in T.grid(M, N):
                with T.sblock("best"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        index[vi] = T.int32(0)
                        value[vi] = least
                    new_index: T.let[T.int32] = T.Select(
                        value[vi] > A[vi, vk]
                        or (value[vi] == A[vi, vk] and index[vi] < T.cast(vk, "int32")),
                        index[vi],
                        T.cast(vk, "int32"),
                    )
                    new_value: T.let[DTYPE] = T.Select(value[vi] > A[vi, vk], value[vi], A[vi, vk])
                    index[vi] = new_index
                    value[vi] = new_value

    return RowArgmax
