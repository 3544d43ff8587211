"""Kernels over one-dimensional neighbourhoods."""

from typing import Any

import numpy as np
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import SUMS_OF_FEW, SUMS_OF_PRODUCTS
from tirstep.modules.kernel import kernel
from tirstep.modules.script import cast_between, zero_of

CONV1D_TILE = 1024
"""The elements of a tile of over="padded"."""


def _round(m: int, n: int) -> tuple[int, int, int]:
    """Of over="padded": the sums, the padded signal, and the zeros in front of it."""
    rim, rest = (n + 30) // 32 * 32, CONV1D_TILE - 1
    sums = (m + n - 1 + rest) // CONV1D_TILE * CONV1D_TILE
    return sums, (sums + rim + rest) // CONV1D_TILE * CONV1D_TILE, rim


@kernel(
    reference=lambda a, *, n, width, **_: sliding_window_view(a, width)[:n].sum(axis=1),
    flops=lambda n, width, **_: n * (width - 1),
    terms=lambda width, **_: width - 1,
    elements=lambda n, width, **_: n + width,
    accumulators=SUMS_OF_FEW,
    choices={"width": range(1, 65)},
    # A window; not the only one.
    zeros=lambda n, width, **_: (np.s_[n // 2 : n // 2 + width if n > 1 else 0],),
    corners=corners.SUMMED_ALONG,
)
def window_sum(n: int, *, width: int = 3, dtype: str = "float32") -> tvm.IRModule:
    """B[i] = A[i] + A[i + 1] + ... + A[i + width - 1] for A of n + width elements, B of n.

    Block "C", loop i; the window is written out as one expression, so there is no reduction axis.
    The last element of A is not read: the course declares 1027 elements for n = 1024 and width 3,
    one more than 1026, and the notes made of it print modules that way. B has the type of A; for
    the float8 types it is float32.

    n * (width - 1) operations. Raises `KernelError` for a bad size or dtype, and for a width out
    of 1 to 64. Source: the MLC course, "GPU and Hardware Acceleration".
    """
    N, acc = n, SUMS_OF_FEW[dtype][0]
    widen = cast_between(dtype, acc)

    def window(A: Any, i: Any) -> Any:
        total = widen(A[i])
        for offset in range(1, width):
            total = total + widen(A[i + offset])
        return total

    @I.ir_module
    class WindowSum:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((N + width,), dtype), B: T.Buffer((N,), acc)):
            T.func_attr({"tirx.noalias": True})
            for i in T.grid(N):
                with T.sblock("C"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = window(A, vi)

    return WindowSum


@kernel(
    reference=lambda a, w, **_: np.convolve(a, w),
    flops=lambda m, n, **_: 2 * m * n,
    # The other terms of a sum are zeros, which add without rounding.
    terms=lambda m, n, **_: min(m, n),
    elements=lambda m, n, over="filter", **_: _round(m, n)[1] if over == "padded" else m + n - 1,
    accumulators=SUMS_OF_PRODUCTS,
    choices={"over": ("filter", "output", "padded")},
    # The first output has one product alone.
    zeros=lambda **_: (np.s_[:1],),
    corners=corners.SUMMED_ALONG,
)
def conv1d(
    m: int, n: int, *, dtype: str = "float32", acc: str | None = None, over: str = "filter"
) -> tvm.IRModule:
    """B = the full convolution of a signal A of m elements and a filter W of n: m + n - 1 elements.

    Block "B" in two textbook forms. over="filter": loops i, r; each output sums over the n taps of
    the filter. over="output": loops i, k; each output sums over all m + n - 1 positions, most of
    them zeros, which is where the tutorial's ladder begins.

    over="padded" is "filter" in whole tiles of `CONV1D_TILE` elements. Block "padded" writes the
    signal between zeros, of which n - 1 or more stand in front, a multiple of 32; block "sums",
    loops i, r, sums without asking where the signal ends; block "B" copies m + n - 1 of the sums.

    2 * m * n operations in each form: each product of the m * n once, zeros not counted. Raises
    `KernelError` for bad sizes, dtype, acc or over. Source: the 1D convolution tutorial, at
    m = 16384, n = 32.
    """
    forms = {
        "filter": _conv1d_over_filter,
        "output": _conv1d_over_output,
        "padded": _conv1d_over_padded,
    }
    return forms[over](m, n, dtype, acc)


def _conv1d_over_filter(M: int, N: int, dtype: str, acc: str | None) -> tvm.IRModule:
    zero, widen = zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class Conv1D:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M,), dtype), W: T.Buffer((N,), dtype), B: T.Buffer((M + N - 1,), acc)
        ):
            T.func_attr({"tirx.noalias": True})
            for i, r in T.grid(M + N - 1, N):
                with T.sblock("B"):
                    vi, vr = T.axis.remap("SR", [i, r])
                    with T.init():
                        B[vi] = zero
                    B[vi] = B[vi] + T.if_then_else(
                        vi - vr >= 0 and vi - vr < M, widen(A[vi - vr]), zero
                    ) * widen(W[vr])

    return Conv1D


def _conv1d_over_output(M: int, N: int, dtype: str, acc: str | None) -> tvm.IRModule:
    zero, widen = zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class Conv1D:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M,), dtype), W: T.Buffer((N,), dtype), B: T.Buffer((M + N - 1,), acc)
        ):
            T.func_attr({"tirx.noalias": True})
            for i, k in T.grid(M + N - 1, M + N - 1):
                with T.sblock("B"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[vi] = zero
                    B[vi] = B[vi] + T.if_then_else(
                        vk >= M or vi - vk < 0 or vi - vk >= N,
                        zero,
                        widen(A[vk]) * widen(W[vi - vk]),
                    )

    return Conv1D


def _conv1d_over_padded(M: int, N: int, dtype: str, acc: str | None) -> tvm.IRModule:
    zero, widen, blank = zero_of(acc), cast_between(dtype, acc), zero_of(dtype)
    SUMS, PADDED, RIM = _round(M, N)

    @I.ir_module
    class Conv1D:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M,), dtype), W: T.Buffer((N,), dtype), B: T.Buffer((M + N - 1,), acc)
        ):
            T.func_attr({"tirx.noalias": True})
            padded = T.sblock_alloc_buffer((PADDED,), dtype)
            sums = T.sblock_alloc_buffer((SUMS,), acc)
            for x in T.grid(PADDED):
                with T.sblock("padded"):
                    vx = T.axis.remap("S", [x])
                    padded[vx] = T.if_then_else(vx >= RIM and vx < M + RIM, A[vx - RIM], blank)
            for i, r in T.grid(SUMS, N):
                with T.sblock("sums"):
                    vi, vr = T.axis.remap("SR", [i, r])
                    with T.init():
                        sums[vi] = zero
                    sums[vi] = sums[vi] + widen(padded[vi + RIM - vr]) * widen(W[vr])
            for i in T.grid(M + N - 1):
                with T.sblock("B"):
                    vi = T.axis.remap("S", [i])
                    B[vi] = sums[vi]

    return Conv1D
