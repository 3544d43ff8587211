"""Elementwise maps and the transposition in Triton, tuned over block sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import triton
import triton.language as tl

from tirstep.modules import Problem

from . import Prepare
from .triton_matmul import bench_briefly

BLOCKS = ((512, 4), (1024, 4), (2048, 8), (4096, 8))
TILES = ((32, 32, 4), (64, 32, 4), (32, 64, 4), (64, 64, 8), (128, 32, 8))


def _tune(function: Any) -> Any:
    configs = [triton.Config({"BLOCK": size}, num_warps=warps) for size, warps in BLOCKS]
    return triton.autotune(configs, key=["n"], do_bench=bench_briefly)(triton.jit(function))


def _add_kernel(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


def _relu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)


def _gelu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n).to(tl.float32)
    # The approximation with tanh, which is this: x / (1 + exp(-2 z)), 2 sqrt(2 / pi) = 1.5957691.
    z = 1.5957691216057308 * (values + 0.044715 * values * values * values)
    result = values / (1.0 + tl.exp(-z))
    tl.store(y + at, result.to(y.dtype.element_ty), mask=at < n)


def _transpose_kernel(x, y, rows, n, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    column = tl.program_id(1).to(tl.int64) * BN + tl.arange(0, BN)
    mask = (row[:, None] < rows) & (column[None, :] < n)
    values = tl.load(x + row[:, None] * n + column[None, :], mask=mask)
    turned = (column[:, None] < n) & (row[None, :] < rows)
    tl.store(y + column[:, None] * rows + row[None, :], tl.trans(values), mask=turned)


_add, _relu, _gelu = _tune(_add_kernel), _tune(_relu_kernel), _tune(_gelu_kernel)
_transpose_tuned = triton.autotune(
    [triton.Config({"BM": m, "BN": n}, num_warps=warps) for m, n, warps in TILES],
    key=["rows", "n"],
    do_bench=bench_briefly,
)(triton.jit(_transpose_kernel))


def _prepare(kernel: Any) -> Prepare:
    def prepare(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
        n = out.numel()

        def launch() -> Any:
            kernel[lambda sizes: (triton.cdiv(n, sizes["BLOCK"]),)](*inputs, out, n)
            return out

        return launch

    return prepare


def _transpose(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    rows, n = x.shape

    def grid(sizes: Mapping[str, int]) -> tuple[int, int]:
        return triton.cdiv(rows, sizes["BM"]), triton.cdiv(n, sizes["BN"])

    def launch() -> Any:
        _transpose_tuned[grid](x, out, rows, n)
        return out

    return launch


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType(
    {
        "vector_add": _prepare(_add),
        "relu": _prepare(_relu),
        "gelu": _prepare(_gelu),
        "transpose": _transpose,
    }
)
