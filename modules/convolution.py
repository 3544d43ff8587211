"""Convolutions over images."""

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import corners
from tirstep.modules.dtypes import SUMS_OF_PRODUCTS
from tirstep.modules.kernel import kernel
from tirstep.modules.script import cast_between, zero_of


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
