"""What PyTorch computes each kernel with, on whatever device and in whatever type its inputs have.

Called with inputs and an output (None for one of PyTorch's making), a function prepares what need
not be done at each call, such as turning a filter round, and returns the launch. The launch
returns the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F

from tirstep.modules import Problem
from tirstep.modules.roundings import EPSILON

from . import Prepare

Inputs = Sequence[Any]


def _matmul(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    a, b = inputs
    if problem.options.get("transpose_b"):
        b = b.t()
    into = out if out is not None and out.dtype == a.dtype else None
    return lambda: torch.mm(a, b, out=into)


def _matmul_bias_relu(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    a, b, bias = inputs
    return lambda: torch.relu_(torch.addmm(bias, a, b))


def _matvec(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    a, x = inputs
    into = out if out is not None and out.dtype == a.dtype else None
    return lambda: torch.mv(a, x, out=into)


def _conv1d(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    signal, taps = inputs
    # PyTorch correlates; a user keeps the filter turned round.
    turned, n = taps.flip(0).contiguous()[None, None], taps.shape[0]
    return lambda: F.conv1d(signal[None, None], turned, padding=n - 1)[0, 0]


def _depthwise(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    x, filters = inputs
    channels, k = x.shape[1], filters.shape[-1]
    return lambda: F.conv2d(x, filters, padding=k // 2, groups=channels)


def _row_sum(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    if out is None:
        return lambda: torch.sum(x, dim=-1)
    return lambda: torch.sum(x, dim=-1, dtype=out.dtype, out=out)


def _softmax(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    return lambda: torch.softmax(x, dim=-1, out=out)


def _layer_norm(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    x, *scale_and_shift = inputs
    return lambda: F.layer_norm(x, x.shape[-1:], *scale_and_shift, eps=EPSILON)


def _rms_norm(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    x, *scale = inputs
    return lambda: F.rms_norm(x, x.shape[-1:], *scale, eps=EPSILON)


def _row_argmax(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    return lambda: torch.max(x, dim=-1)


def _transpose(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    if out is None:
        return lambda: x.t().contiguous()
    return lambda: out.copy_(x.t())


def _vector_add(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    a, b = inputs
    return lambda: torch.add(a, b, out=out)


def _relu(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    return lambda: torch.clamp_min(x, 0, out=out)


def _gelu(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (x,) = inputs
    how = str(problem.options["approximate"])
    return lambda: F.gelu(x, approximate=how)


def _window_sum(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    (a,) = inputs
    n, width = problem.shape["n"], int(problem.options["width"])
    return lambda: a.unfold(0, width, 1)[:n].sum(dim=1)


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType(
    {
        "matmul": _matmul,
        "matmul_bias_relu": _matmul_bias_relu,
        "matvec": _matvec,
        "conv1d": _conv1d,
        "depthwise_conv2d": _depthwise,
        "row_sum": _row_sum,
        "softmax": _softmax,
        "layer_norm": _layer_norm,
        "rms_norm": _rms_norm,
        "row_argmax": _row_argmax,
        "transpose": _transpose,
        "vector_add": _vector_add,
        "relu": _relu,
        "gelu": _gelu,
        "window_sum": _window_sum,
    }
)
