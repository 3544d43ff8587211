"""Windows over neighbouring elements: the window sum, conv1d, depthwise_conv2d, conv2d."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import SUMS_OF_FEW, SUMS_OF_PRODUCTS
from tirstep.modules.kernel import DTypes, cast_between, kernel, zero_of

CONV1D_TILE = 1024
"""The elements of a tile of over="padded"."""


def _round(m: int, n: int) -> tuple[int, int, int]:
    """For over="padded": the number of sums, the padded length, and the zeros in front."""
    rim, rest = (n + 30) // 32 * 32, CONV1D_TILE - 1
    sums = (m + n - 1 + rest) // CONV1D_TILE * CONV1D_TILE
    return sums, (sums + rim + rest) // CONV1D_TILE * CONV1D_TILE, rim


@kernel(
    reference=lambda a, *, n, width, **_: sliding_window_view(a, width)[:n].sum(axis=1),
    flops=lambda n, width, **_: n * (width - 1),
    elements=lambda n, width, **_: n + width,
    accumulators=SUMS_OF_FEW,
    choices={"width": range(1, 65)},
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
    elements=lambda m, n, over="filter", **_: _round(m, n)[1] if over == "padded" else m + n - 1,
    accumulators=SUMS_OF_PRODUCTS,
    choices={"over": ("filter", "output", "padded")},
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
    loops i, r, sums without a bounds check; block "B" copies m + n - 1 of the sums.

    2 * m * n operations in each form: each product of the m * n once, zeros not counted. Raises
    `KernelError` for bad sizes, dtype, acc or over. Source: the 1D convolution tutorial, at
    m = 16384, n = 32.
    """
    return _conv1d(m, n, dtype, acc, over)


def _conv1d(M: int, N: int, dtype: str, acc: str | None, over: str) -> tvm.IRModule:
    zero, widen, blank = zero_of(acc), cast_between(dtype, acc), zero_of(dtype)
    SUMS, PADDED, RIM = _round(M, N)

    @I.ir_module
    class Conv1D:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((M,), dtype), W: T.Buffer((N,), dtype), B: T.Buffer((M + N - 1,), acc)
        ):
            T.func_attr({"tirx.noalias": True})
            if over == "filter":
                for i, r in T.grid(M + N - 1, N):
                    with T.sblock("B"):
                        vi, vr = T.axis.remap("SR", [i, r])
                        with T.init():
                            B[vi] = zero
                        B[vi] = B[vi] + T.if_then_else(
                            vi - vr >= 0 and vi - vr < M, widen(A[vi - vr]), zero
                        ) * widen(W[vr])
            if over == "output":
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
            if over == "padded":
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


@kernel(
    reference=_depthwise,
    flops=lambda b, c, h, w, k, **_: 2 * b * c * h * w * k * k,
    # Of the padded image, and of the filters.
    elements=lambda b, c, h, w, k, **_: max(b * c * (h + k - 1) * (w + k - 1), c * k * k),
    accumulators=SUMS_OF_PRODUCTS,
    refuse=lambda k, **_: (
        None if k % 2 else f"k={k} is even, and both sides have the same padding; choose an odd k"
    ),
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


def count_outputs(size: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    """How many windows of a convolution begin along a dimension; below 1 where none fits."""
    return (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


def _get_outputs(h: int, w: int, kh: int, kw: int, **given: Any) -> tuple[int, int]:
    """The rows and columns of conv2d's result."""
    steps = {name: given[name] for name in ("stride", "padding", "dilation")}
    return count_outputs(h, kh, **steps), count_outputs(w, kw, **steps)


def _convolve(x: npt.NDArray[Any], f: npt.NDArray[Any], **given: Any) -> npt.NDArray[Any]:
    stride, padding, dilation = (given[name] for name in ("stride", "padding", "dilation"))
    rim = (padding, padding)
    spans = [dilation * (taps - 1) + 1 for taps in f.shape[1:3]]
    windows = sliding_window_view(np.pad(x, ((0, 0), rim, rim, (0, 0))), spans, axis=(1, 2))
    windows = windows[:, ::stride, ::stride, :, ::dilation, ::dilation]
    return np.einsum("byxcij,oijc->byxo", windows, f, optimize=True)


def _refuse_no_window(h: int, w: int, kh: int, kw: int, **given: Any) -> str | None:
    rows, columns = _get_outputs(h, w, kh, kw, **given)
    if rows >= 1 and columns >= 1:
        return None
    padding, dilation = given["padding"], given["dilation"]
    return (
        f"a window of {kh}x{kw} with dilation={dilation} is larger than the image of {h}x{w} with "
        f"padding={padding}; choose a larger image or padding, or a smaller window"
    )


def _count_conv2d(h: int, w: int, n: int, ci: int, co: int, kh: int, kw: int, **given: Any) -> int:
    rows, columns = _get_outputs(h, w, kh, kw, **given)
    return 2 * n * rows * columns * co * kh * kw * ci


def _find_largest(n: int, h: int, w: int, ci: int, co: int, kh: int, kw: int, **given: Any) -> int:
    """The elements of the padded image, of the filters or of the result."""
    rows, columns = _get_outputs(h, w, kh, kw, **given)
    rim = 2 * given["padding"]
    return max(n * (h + rim) * (w + rim) * ci, co * kh * kw * ci, n * rows * columns * co)


@kernel(
    reference=_convolve,
    flops=_count_conv2d,
    elements=_find_largest,
    accumulators=SUMS_OF_PRODUCTS,
    choices={"stride": range(1, 17), "padding": range(65), "dilation": range(1, 17)},
    refuse=_refuse_no_window,
    # An infinity in each row of pixels would make most results no numbers.
    corners=corners.SUMMED_ALONG,
)
def conv2d(
    n: int,
    h: int,
    w: int,
    ci: int,
    co: int,
    kh: int,
    kw: int,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    dtype: str = "float32",
    acc: str | None = None,
    out: str | None = None,
) -> tvm.IRModule:
    """Y(n, y, x, co) = the images X(n, h, w, ci) with filters F(co, kh, kw, ci), channels last.

    Y[n, y, x, o] is the sum over i, j, c of X[n, y * stride + i * dilation - padding, ..., c] times
    F[o, i, j, c], with zeros around the image; along h there are
    (h + 2 * padding - dilation * (kh - 1) - 1) // stride + 1 of them, and so along w. It
    correlates, as convolutions of neural networks do. Block "padded" writes the images with their
    rim into a buffer; block "Y", loops n, y, x, o, i, j, c, sums. `dtype`, `acc` and `out` are as
    for `matmul`: where Y is not of type acc, block "Y" sums into the buffer Y_acc and block
    "Y_cast" converts that into Y.

    2 * n * y * x * co * kh * kw * ci operations: products with the rim are counted, as is usual.
    Raises `KernelError` for bad sizes, options, dtype, acc or out, and where no window fits.
    """
    rows, columns = _get_outputs(h, w, kh, kw, stride=stride, padding=padding, dilation=dilation)
    sizes = (n, h, w, ci, co, kh, kw, rows, columns)
    return _conv2d(sizes, (stride, padding, dilation), (dtype, acc, out))


def _conv2d(sizes: tuple[int, ...], steps: tuple[int, ...], dtypes: DTypes) -> tvm.IRModule:
    (N, H, W, CI, CO, KH, KW, YH, YW), (S, P, D), (dtype, acc, out) = sizes, steps, dtypes
    rim, zero, widen = zero_of(dtype), zero_of(acc), cast_between(dtype, acc)

    @I.ir_module
    class Conv2D:
        @T.prim_func(s_tir=True)
        def main(
            X: T.Buffer((N, H, W, CI), dtype),
            F: T.Buffer((CO, KH, KW, CI), dtype),
            Y: T.Buffer((N, YH, YW, CO), out),
        ):
            T.func_attr({"tirx.noalias": True})
            padded = T.sblock_alloc_buffer((N, H + 2 * P, W + 2 * P, CI), dtype)
            Y_acc = T.meta_var(Y) if out == acc else T.sblock_alloc_buffer((N, YH, YW, CO), acc)
            for n, y, x, c in T.grid(N, H + 2 * P, W + 2 * P, CI):
                with T.sblock("padded"):
                    vn, vy, vx, vc = T.axis.remap("SSSS", [n, y, x, c])
                    padded[vn, vy, vx, vc] = T.if_then_else(
                        vy >= P and vy < H + P and vx >= P and vx < W + P,
                        X[vn, vy - P, vx - P, vc],
                        rim,
                    )
            for n, y, x, o, i, j, c in T.grid(N, YH, YW, CO, KH, KW, CI):
                with T.sblock("Y"):
                    vn, vy, vx, vo, vi, vj, vc = T.axis.remap("SSSSRRR", [n, y, x, o, i, j, c])
                    with T.init():
                        Y_acc[vn, vy, vx, vo] = zero
                    Y_acc[vn, vy, vx, vo] = Y_acc[vn, vy, vx, vo] + widen(
                        padded[vn, vy * S + vi * D, vx * S + vj * D, vc]
                    ) * widen(F[vo, vi, vj, vc])
            if out != acc:
                for n, y, x, o in T.grid(N, YH, YW, CO):
                    with T.sblock("Y_cast"):
                        vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
                        Y[vn, vy, vx, vo] = T.Cast(out, Y_acc[vn, vy, vx, vo])

    return Conv2D
