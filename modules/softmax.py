"""Softmax over the rows of a matrix, in two forms."""

from typing import Any

import numpy as np
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners, roundings
from tirstep.modules.dtypes import FLOATS_IN_FLOAT32
from tirstep.modules.kernel import kernel
from tirstep.modules.script import cast_between


def _softmax_of(a: Any, **_: Any) -> Any:
    with np.errstate(invalid="ignore"):  # in a row of nothing but -inf
        powers = np.exp(a - a.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


@kernel(
    reference=_softmax_of,
    error=roundings.softmax,
    corners=(
        corners.high,
        corners.zeros,
        corners.few,
        corners.low,
        corners.masked_in_front,
        corners.last_is_largest,
        corners.one_is_largest,
        corners.masked,
    ),
    flops=lambda m, n, **_: 4 * m * n,
    terms=lambda n, **_: n,
    elements=lambda m, n, **_: m * n,
    accumulators=FLOATS_IN_FLOAT32,
    choices={"online": (False, True)},
)
def softmax(m: int, n: int, *, dtype: str = "float32", online: bool = False) -> tvm.IRModule:
    """B(m, n) = exp(A - its row's maximum) / the row's sum of that, for A(m, n).

    Elements of -inf count as masked: their results are 0, and a row of nothing else has no softmax
    and is NaN throughout.

    Blocks "max", "exp", "sum" and "B"; with `online`, blocks "wide", which is A as float32,
    "statistics", which finds sum and maximum in one pass and scales the sum anew where the maximum
    grows (M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018), and "B".
    What is between is float32; B has the type of A. 4 * m * n operations, an exponential counted as
    one. Raises `KernelError` for bad sizes, dtype or online.
    """
    return _make_online(m, n, dtype) if online else _make_in_passes(m, n, dtype)


def _make_in_passes(m: int, n: int, dtype: str) -> tvm.IRModule:
    M, N, widen, narrow = m, n, cast_between(dtype, "float32"), cast_between("float32", dtype)

    @I.ir_module
    class Softmax:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), B: T.Buffer((M, N), dtype)):
            T.func_attr({"tirx.noalias": True})
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

    return Softmax


def _make_online(m: int, n: int, dtype: str) -> tvm.IRModule:
    M, N, widen, narrow = m, n, cast_between(dtype, "float32"), cast_between("float32", dtype)

    @I.ir_module
    class OnlineSoftmax:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((M, N), dtype), B: T.Buffer((M, N), dtype)):
            T.func_attr({"tirx.noalias": True})
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
                    # exp(0) is the 1 that an element adds: the literal would be folded away, and
                    # TVM would not know the reducer again.
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

    return OnlineSoftmax
