"""Matrix products in Triton, tuned over tile sizes; float32 is multiplied as float32 (IEEE)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import triton
import triton.language as tl

from tirstep.modules import Problem

from . import Prepare


def bench_briefly(call: Callable[[], object], quantiles: Sequence[float]) -> Any:
    """Time one configuration: shorter than Triton does by default, since there are many."""
    return triton.testing.do_bench(call, warmup=5, rep=20, quantiles=quantiles)


def _configs(dtype: torch.dtype) -> list[triton.Config]:
    """Tiles (m, n, k), warps, stages: FMA units want other ones than tensor cores."""
    fma = (
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
    tensor_cores = (
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
    return [
        triton.Config({"BM": m, "BN": n, "BK": k, "GROUP": 8}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in (fma if dtype == torch.float32 else tensor_cores)
    ]


def _kernel(
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


_jitted = triton.jit(_kernel)
_tuned: dict[torch.dtype, Any] = {}


def _matmul(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
    a, b = inputs
    (m, k), n = a.shape, out.shape[1]
    transposed = bool(problem.options.get("transpose_b"))
    rows, columns = (1, k) if transposed else (n, 1)
    if a.dtype not in _tuned:
        _tuned[a.dtype] = triton.autotune(
            _configs(a.dtype), key=["m", "n", "k"], do_bench=bench_briefly
        )(_jitted)

    def grid(sizes: Mapping[str, int]) -> tuple[int]:
        return (triton.cdiv(m, sizes["BM"]) * triton.cdiv(n, sizes["BN"]),)

    def launch() -> Any:
        _tuned[a.dtype][grid](a, b, out, m, n, k, rows, columns)
        return out

    return launch


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType({"matmul": _matmul})
