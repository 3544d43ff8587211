"""Triton's kernels, as its tutorials write them, autotuned: the matrix product, rows and maps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import triton
import triton.language as tl

from tirstep.modules import Problem
from tirstep.modules.rows import EPSILON

from .. import PeerMissing
from . import Prepare


def bench_briefly(call: Callable[[], object], quantiles: Sequence[float]) -> Any:
    """Time one configuration: shorter than Triton does by default, since there are many."""
    return triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)


def _tune(function: Any, configs: Sequence[tuple[Mapping[str, int], int, int]], *key: str) -> Any:
    """A kernel tuned over sizes, warps and stages, anew for other values of the `key`."""
    known = [triton.Config({**it}, num_warps=warps, num_stages=n) for it, warps, n in configs]
    return triton.autotune(known, key=[*key], do_bench=bench_briefly)(triton.jit(function))


# Tiles (m, n, k), warps, stages: FMA units want other ones than tensor cores.
ON_FMA_UNITS = (
    (128, 128, 16, 8, 2),
    (128, 128, 16, 4, 3),
    (128, 64, 16, 4, 3),
    (128, 64, 32, 8, 2),
    (64, 128, 16, 4, 3),
    (64, 64, 32, 4, 3),
    (64, 64, 16, 4, 3),
    (64, 32, 32, 4, 3),
    (32, 64, 32, 4, 3),
    (32, 32, 32, 2, 4),
    (16, 64, 64, 4, 3),
    (16, 32, 64, 2, 4),
)
ON_TENSOR_CORES = (
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 8, 4),
    (128, 128, 32, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 5),
    (32, 64, 64, 4, 5),
    (16, 64, 128, 4, 4),
)


def _matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    b_row,
    b_column,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """One tile of C; tiles are taken in groups of rows, so that a group's operands stay in L2."""
    rows_of_tiles = tl.cdiv(m, BM)
    columns_of_tiles = tl.cdiv(n, BN)
    place = tl.program_id(0)
    group = place // (GROUP * columns_of_tiles)
    height = min(rows_of_tiles - group * GROUP, GROUP)
    within = place % (GROUP * columns_of_tiles)
    row = (group * GROUP + within % height) * BM + tl.arange(0, BM)
    column = (within // height) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    # 64 bits: 8192 rows of 8192 elements are near the end of 32.
    a = a_ptr + row[:, None].to(tl.int64) * k + depth[None, :]
    b = b_ptr + depth[:, None] * b_row + column[None, :].to(tl.int64) * b_column
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        inside = start + depth < k
        left = tl.load(a, mask=(row[:, None] < m) & inside[None, :], other=0.0)
        right = tl.load(b, mask=inside[:, None] & (column[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
        a += BK
        b += BK * b_row
    c = c_ptr + row[:, None].to(tl.int64) * n + column[None, :]
    mask = (row[:, None] < m) & (column[None, :] < n)
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=mask)


@functools.cache
def _tune_matmul(dtype: torch.dtype) -> Any:
    tiles = ON_FMA_UNITS if dtype == torch.float32 else ON_TENSOR_CORES
    sizes = [({"BM": m, "BN": n, "BK": k, "GROUP": 8}, w, s) for m, n, k, w, s in tiles]
    return _tune(_matmul_kernel, sizes, "m", "n", "k")


def _matmul(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
    a, b = inputs
    (m, k), n = a.shape, out.shape[1]
    steps = (1, k) if problem.options.get("transpose_b") else (n, 1)

    def grid(sizes: Mapping[str, int]) -> tuple[int]:
        return (triton.cdiv(m, sizes["BM"]) * triton.cdiv(n, sizes["BN"]),)

    return _launch(_tune_matmul(a.dtype), grid, out, a, b, out, m, n, k, *steps)


def _launch(kernel: Any, grid: Any, out: Any, *given: Any, **sizes: int) -> Callable[[], Any]:
    """A launch of a tuned kernel, which returns the output."""

    def launch() -> Any:
        kernel[grid](*given, **sizes)
        return out

    return launch


STAGES = 3
"""What Triton takes where a kernel has no loop to pipeline."""
ROW_WARPS = (2, 4, 8, 16, 32)
MOST_EACH = 64
"""Elements of a row that a thread holds, at most: more compile for minutes, and spill."""


def _row_sum_kernel(x, y, n, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, N)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(values, axis=0).to(y.dtype.element_ty))


def _softmax_kernel(x, y, n, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, N)
    values = tl.load(x + row * n + at, mask=at < n, other=float("-inf")).to(tl.float32)
    grown = tl.exp(values - tl.max(values, axis=0))
    result = grown / tl.sum(grown, axis=0)
    tl.store(y + row * n + at, result.to(y.dtype.element_ty), mask=at < n)


def _layer_norm_kernel(x, scale, shift, y, n, eps, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, N)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    centred = tl.where(at < n, values - tl.sum(values, axis=0) / n, 0.0)
    result = centred * tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    result = result * tl.load(scale + at, mask=at < n).to(tl.float32)
    result = result + tl.load(shift + at, mask=at < n).to(tl.float32)
    tl.store(y + row * n + at, result.to(y.dtype.element_ty), mask=at < n)


def _rms_norm_kernel(x, scale, y, n, eps, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, N)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    result = values * tl.rsqrt(tl.sum(values * values, axis=0) / n + eps)
    result = result * tl.load(scale + at, mask=at < n).to(tl.float32)
    tl.store(y + row * n + at, result.to(y.dtype.element_ty), mask=at < n)


def _matvec_kernel(x, v, y, n, N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, N)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    values *= tl.load(v + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(values, axis=0).to(y.dtype.element_ty))


def _prepare_rows(function: Any, *constants: float) -> Prepare:
    """A program holds a whole row: its warps are tuned for rows of up to so many elements."""

    @functools.cache
    def tune(power: int) -> Any:
        known = [warps for warps in ROW_WARPS if power <= MOST_EACH * 32 * warps]
        if not known:
            raise PeerMissing(
                f"a program holds a whole row, and one of {power} elements compiles for minutes"
            )
        fitting = [warps for warps in known if 32 * warps <= power] or known[:1]
        return _tune(function, [({}, warps, STAGES) for warps in fitting], "n")

    def prepare(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
        rows, n = inputs[0].shape
        power = triton.next_power_of_2(n)
        return _launch(tune(power), (rows,), out, *inputs, out, n, *constants, N=power)

    return prepare


MAP_BLOCKS = ((512, 4), (1024, 4), (2048, 8), (4096, 8))
MAP_TILES = ((32, 32, 4), (64, 32, 4), (32, 64, 4), (64, 64, 8), (128, 32, 8))


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


def _prepare_map(function: Any) -> Prepare:
    kernel = _tune(function, [({"BLOCK": size}, warps, STAGES) for size, warps in MAP_BLOCKS], "n")

    def prepare(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
        n = out.numel()
        return _launch(kernel, lambda it: (triton.cdiv(n, it["BLOCK"]),), out, *inputs, out, n)

    return prepare


_TILES = [({"BM": m, "BN": n}, warps, STAGES) for m, n, warps in MAP_TILES]
_transpose_tuned = _tune(_transpose_kernel, _TILES, "rows", "n")


def _transpose(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    rows, n = x.shape

    def grid(sizes: Mapping[str, int]) -> tuple[int, int]:
        return triton.cdiv(rows, sizes["BM"]), triton.cdiv(n, sizes["BN"])

    return _launch(_transpose_tuned, grid, out, x, out, rows, n)


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType(
    {
        "matmul": _matmul,
        "row_sum": _prepare_rows(_row_sum_kernel),
        "softmax": _prepare_rows(_softmax_kernel),
        "layer_norm": _prepare_rows(_layer_norm_kernel, EPSILON),
        "rms_norm": _prepare_rows(_rms_norm_kernel, EPSILON),
        "matvec": _prepare_rows(_matvec_kernel),
        "vector_add": _prepare_map(_add_kernel),
        "relu": _prepare_map(_relu_kernel),
        "gelu": _prepare_map(_gelu_kernel),
        "transpose": _transpose,
    }
)
