"""Kernels over rows in Triton: a row for each program where one fits, else a loop over parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import triton
import triton.language as tl

from tirstep.modules import Problem
from tirstep.modules.roundings import EPSILON

from . import Prepare
from .triton_matmul import bench_briefly

WARPS = (2, 4, 8, 16, 32)


def _tune(function: Any) -> Any:
    """Tune the warps of a program, which holds a whole row, for each length of rows."""
    configs = [triton.Config({}, num_warps=warps) for warps in WARPS]
    return triton.autotune(configs, key=["n"], do_bench=bench_briefly)(triton.jit(function))


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


_row_sum = _tune(_row_sum_kernel)
_softmax = _tune(_softmax_kernel)
_layer_norm = _tune(_layer_norm_kernel)
_rms_norm = _tune(_rms_norm_kernel)
_matvec = _tune(_matvec_kernel)


def _prepare(kernel: Any, *, with_eps: bool = False) -> Prepare:
    def prepare(inputs: Sequence[Any], out: Any, problem: Problem) -> Callable[[], Any]:
        x = inputs[0]
        rows, n = x.shape
        power = triton.next_power_of_2(n)
        eps = (EPSILON,) if with_eps else ()

        def launch() -> Any:
            kernel[(rows,)](*inputs, out, n, *eps, N=power)
            return out

        return launch

    return prepare


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType(
    {
        "row_sum": _prepare(_row_sum),
        "softmax": _prepare(_softmax),
        "layer_norm": _prepare(_layer_norm, with_eps=True),
        "rms_norm": _prepare(_rms_norm, with_eps=True),
        "matvec": _prepare(_matvec),
    }
)
