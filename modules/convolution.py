"""Windows over neighbouring elements: the window sum, conv1d, depthwise_conv2d."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import SUMS_OF_FEW, SUMS_OF_PRODUCTS
from tirstep.modules.kernel import kernel
from tirstep.modules.tvmscript import cast_between, zero_of

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


def _depthwise(x: npt.NDArray[Any], f: npt.NDArray[Any], *, k: int, **_: Any) -> npt.NDArray[Any]:
    rim = (k // 2, k // 2)
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), rim, rim)), (k, k), axis=(2, 3))
    return np.einsum("bchwyx,cyx->bchw", windows, f[:, 0])


def _refuse_even(k: int, **_: Any) -> str | None:
    if k % 2:
        return None
    return f"k={k} is even, and the padding is the same on both sides; choose an odd k"


@kernel(
    reference=_depthwise,
    flops=lambda b, c, h, w, k, **_: 2 * b * c * h * w * k * k,
    terms=lambda k, **_: k * k,
    # Of the padded image, and of the filters.
    elements=lambda b, c, h, w, k, **_: max(b * c * (h + k - 1) * (w + k - 1), c * k * k),
    accumulators=SUMS_OF_PRODUCTS,
    refuse=_refuse_even,
    # What the corner of one image sums.
    zeros=lambda k, **_: (np.s_[0, 0, : k // 2 + 1, : k // 2 + 1],),
    corners=corners.SUMMED_ALONG,
)
def depthwise_conv2d(
    b: int, c: int, h: int, w: int, k: int, *, dtype: str = "float32", acc: str | None = None
) -> tvm.IRModule:
    """Y(b, c, h, w) = each channel of X(b, c, h, w) with its own filter of F(c, 1, k, k).

    Stride 1, zeros around the image so that Y has the size of X; k is odd. Block "padded" writes
    the image with its rim into the buffer padded(b, c, h + k - 1, w + k - 1); block "Y", loops
    b, c, h, w, ry, rx, sums the products in `acc` (as for `matmul`), which is the type of Y.
    It correlates, as convolutions of neural networks do: the filter is not turned round.

    2 * b * c * h * w * k * k operations: products with the rim are counted, as is usual. Raises
    `KernelError` for bad sizes, an even k, and a bad dtype or acc. Source: the depthwise
    convolution tutorial, at b = 3, c = 4, h = 16, w = 32, k = 7.
    """
    return _program(b, c, h, w, k, dtype, acc)


def _program(B: int, C: int, H: int, W: int, K: int, dtype: str, acc: str | None) -> tvm.IRModule:
    R = K // 2
    rim, zero, widen = zero_of(dtype), zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class DepthwiseConv2D:
        @T.prim_func(s_tir=True)
        def main(
            X: T.Buffer((B, C, H, W), dtype),
            F: T.Buffer((C, 1, K, K), dtype),
            Y: T.Buffer((B, C, H, W), acc),
        ):
            T.func_attr({"tirx.noalias": True})
            padded = T.sblock_alloc_buffer((B, C, H + K - 1, W + K - 1), dtype)
            for b, c, y, x in T.grid(B, C, H + K - 1, W + K - 1):
                with T.sblock("padded"):
                    vb, vc, vy, vx = T.axis.remap("SSSS", [b, c, y, x])
                    padded[vb, vc, vy, vx] = T.if_then_else(
                        vy >= R and vy < H + R and vx >= R and vx < W + R,
                        X[vb, vc, vy - R, vx - R],
                        rim,
                    )
            for b, c, h, w, ry, rx in T.grid(B, C, H, W, K, K):
                with T.sblock("Y"):
                    vb, vc, vh, vw, vy, vx = T.axis.remap("SSSSRR", [b, c, h, w, ry, rx])
                    with T.init():
                        Y[vb, vc, vh, vw] = zero
                    Y[vb, vc, vh, vw] = Y[vb, vc, vh, vw] + widen(
                        padded[vb, vc, vh + vy, vw + vx]
                    ) * widen(F[vc, 0, vy, vx])

    return DepthwiseConv2D
