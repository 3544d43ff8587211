"""Convolutions in Triton, tuned over blocks and warps: each tap is a load that caches serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import triton
import triton.language as tl

from tirstep.modules import Problem

from . import Prepare
from .triton_matmul import bench_briefly

BLOCKS = (128, 256, 512, 1024, 2048)
WARPS = (1, 4, 8)
UNROLLED = 8
"""Taps of a step of conv1d: its number of taps is not bounded."""


def _tune(function: Any, key: Sequence[str]) -> Any:
    configs = [
        triton.Config({"BLOCK": size}, num_warps=warps)
        for size in BLOCKS
        for warps in WARPS
        if 1 <= size // (32 * warps) <= 16
    ]
    return triton.autotune(configs, key=[*key], do_bench=bench_briefly)(triton.jit(function))


def _conv1d_kernel(signal, taps, y, m, n, BLOCK: tl.constexpr, STEP: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, STEP):
        for step in tl.static_range(STEP):
            tap = start + step
            weight = tl.load(taps + tap, mask=tap < n, other=0.0).to(tl.float32)
            inside = (at >= tap) & (at - tap < m)
            total += tl.load(signal + at - tap, mask=inside, other=0.0).to(tl.float32) * weight
    tl.store(y + at, total.to(y.dtype.element_ty), mask=at < m + n - 1)


def _depthwise_kernel(
    x, filters, y, images, channels, height, width, BLOCK: tl.constexpr, K: tl.constexpr
):
    """Some pixels of one plane; the filter's taps are unrolled."""
    blocks = tl.cdiv(height * width, BLOCK)
    plane = (tl.program_id(0) // blocks).to(tl.int64)
    pixel = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    row, column = pixel // width, pixel % width
    first = x + plane * height * width
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for down in tl.static_range(K):
        for right in tl.static_range(K):
            from_row, from_column = row + (down - K // 2), column + (right - K // 2)
            inside = (from_row >= 0) & (from_row < height)
            inside &= (from_column >= 0) & (from_column < width)
            value = tl.load(first + from_row * width + from_column, mask=inside, other=0.0)
            weight = tl.load(filters + (plane % channels) * K * K + down * K + right)
            total += value.to(tl.float32) * weight.to(tl.float32)
    to = y + plane * height * width + pixel
    tl.store(to, total.to(y.dtype.element_ty), mask=pixel < height * width)


_conv1d_tuned = _tune(_conv1d_kernel, ["m", "n"])
_depthwise_tuned = _tune(_depthwise_kernel, ["images", "channels", "height", "width", "K"])


def _conv1d(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
    signal, taps = inputs

    def launch() -> Any:
        _conv1d_tuned[lambda sizes: (triton.cdiv(out.numel(), sizes["BLOCK"]),)](
            signal, taps, out, signal.numel(), taps.numel(), STEP=UNROLLED
        )
        return out

    return launch


def _depthwise(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
    x, filters = inputs
    images, channels, height, width = x.shape

    def grid(sizes: Mapping[str, int]) -> tuple[int]:
        return (images * channels * triton.cdiv(height * width, sizes["BLOCK"]),)

    def launch() -> Any:
        _depthwise_tuned[grid](x, filters, out, *x.shape, K=filters.shape[-1])
        return out

    return launch


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType(
    {"conv1d": _conv1d, "depthwise_conv2d": _depthwise}
)
