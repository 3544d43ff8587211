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
from tirstep.modules.attention import find_visible
from tirstep.modules.rows import EPSILON

from .. import PeerMissing
from . import Prepare

Inputs = Sequence[Any]


def _call(function: Callable[..., Any]) -> Prepare:
    """Nothing is prepared for a function of the output, the problem's options and the inputs."""
    return lambda inputs, out, problem: lambda: function(out, problem.options, *inputs)


def _fit(out: Any, a: Any) -> Any:
    """The output, if products of an operand can be written into it; None otherwise."""
    return out if out is not None and out.dtype == a.dtype else None


INT_MM_ROWS = 17
"""The fewest rows that _int_mm multiplies."""


def _matmul(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    """mm; _scaled_mm of float8, _int_mm of int8."""
    a, b = inputs
    options, into = problem.options, _fit(out, a)
    b = b.t() if options.get("transpose_b") else b
    k, n = b.shape

    def require_multiples(name: str, size: int) -> None:
        if k % size or n % size:
            raise PeerMissing(f"{name} takes n and k that are multiples of {size}, not {n} and {k}")

    def multiply_in_tf32() -> Any:  # which nobody else in the process gets
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return torch.mm(a, b, out=into)
        finally:
            torch.set_float32_matmul_precision(before)

    if a.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        # With scales of 1, and a result of the problem's type. Sums in fp22 are those that it calls
        # fast; it adds up parts in float32 otherwise.
        require_multiples("_scaled_mm", 16)
        if b.stride(0) != 1:
            raise PeerMissing("_scaled_mm takes B only as (n, k); give transpose_b=True")
        one, name = torch.ones((), device=a.device), str(options["out"])
        how = {"out_dtype": getattr(torch, name), "use_fast_accum": options["acc"] == "fp22"}
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, **how)
    if a.dtype == torch.int8:
        require_multiples("_int_mm", 8)
        rows = a.shape[0]
        if rows >= INT_MM_ROWS:
            return lambda: torch._int_mm(a, b)
        # Rows of zeros where there are too few, which are there before.
        padded = torch.cat([a, a.new_zeros(2 * INT_MM_ROWS - 2 - rows, a.shape[1])])
        return lambda: torch._int_mm(padded, b)[:rows]
    if options.get("dtype") == "tf32" and a.dtype == torch.float32:
        return multiply_in_tf32
    return lambda: torch.mm(a, b, out=into)


def _batched_matmul(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    a, b = inputs
    b = b.transpose(1, 2) if problem.options["transpose_b"] else b
    return lambda: torch.bmm(a, b, out=_fit(out, a))


def _matmul_bias_relu(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    linear = _linear(inputs)
    return lambda: torch.relu_(linear())


def _matmul_bias_gelu(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    linear, how = _linear(inputs), str(problem.options["approximate"])
    return lambda: F.gelu(linear(), approximate=how)


def _linear(inputs: Inputs) -> Callable[[], Any]:
    """A product with a bias, which has the type of the operands in PyTorch."""
    a, b, bias = inputs
    weights, own = b.t(), bias.to(a.dtype)
    return lambda: F.linear(a, weights, own)


def _conv2d(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    # Views whose strides are those of torch.channels_last.
    images, filters = (tensor.permute(0, 3, 1, 2) for tensor in inputs)
    steps = {name: int(problem.options[name]) for name in ("stride", "padding", "dilation")}
    return lambda: F.conv2d(images, filters, **steps).permute(0, 2, 3, 1)


def _conv1d(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    signal, taps = inputs
    # PyTorch correlates; a user keeps the filter turned round.
    turned, n = taps.flip(0).contiguous()[None, None], taps.shape[0]
    return lambda: F.conv1d(signal[None, None], turned, padding=n - 1)[0, 0]


def _depthwise(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    x, filters = inputs
    channels, k = x.shape[1], filters.shape[-1]
    return lambda: F.conv2d(x, filters, padding=k // 2, groups=channels)


def _attention(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    """scaled_dot_product_attention, with the mask as a matrix only where it knows no name of it."""
    q, k, v, *masks = inputs
    shape, options = problem.shape, problem.options
    if masks and (options["causal"] or options["mask_op"] != "add"):
        raise PeerMissing("scaled_dot_product_attention takes one mask, and adds it")
    how: dict[str, Any] = {"scale": options["scale"], "enable_gqa": options["group"] > 1}
    if options["causal"] and options["window"] is None and shape["queries"] == shape["keys"]:
        how["is_causal"] = True
    elif options["causal"]:
        visible = find_visible(
            shape["queries"], shape["keys"], causal=True, window=options["window"]
        )
        how["attn_mask"] = torch.from_numpy(visible).to(q.device)
    elif masks:
        how["attn_mask"] = masks[0].to(q.dtype)
    return lambda: F.scaled_dot_product_attention(q, k, v, **how)


def _decode_attention(inputs: Inputs, out: Any, problem: Problem) -> Callable[[], Any]:
    """The same, with a mask of each sequence's length, which is there before."""
    q, k, v, lengths = inputs
    how = {"scale": problem.options["scale"], "enable_gqa": problem.options["group"] > 1}
    keys = torch.arange(problem.shape["keys"], device=q.device)
    if bool((lengths < problem.shape["keys"]).any()):
        how["attn_mask"] = (keys < lengths[:, None])[:, None, None]
    return lambda: F.scaled_dot_product_attention(q, k, v, **how)


FUNCTIONS: Mapping[str, Prepare] = MappingProxyType(
    {
        "matmul": _matmul,
        "matmul_bias_relu": _matmul_bias_relu,
        "matmul_bias_gelu": _matmul_bias_gelu,
        "batched_matmul": _batched_matmul,
        "conv2d": _conv2d,
        "matvec": _call(lambda out, _, a, x: torch.mv(a, x, out=_fit(out, a))),
        "conv1d": _conv1d,
        "depthwise_conv2d": _depthwise,
        "row_sum": _call(
            lambda out, _, x: (
                torch.sum(x, dim=-1)
                if out is None
                else torch.sum(x, dim=-1, dtype=out.dtype, out=out)
            )
        ),
        "softmax": _call(lambda out, _, x: torch.softmax(x, dim=-1, out=out)),
        "layer_norm": _call(
            lambda out, _, x, *affine: F.layer_norm(x, x.shape[-1:], *affine, eps=EPSILON)
        ),
        "rms_norm": _call(lambda out, _, x, *gain: F.rms_norm(x, x.shape[-1:], *gain, eps=EPSILON)),
        "row_argmax": _call(lambda out, _, x: torch.max(x, dim=-1)),
        "transpose": _call(
            lambda out, _, x: x.t().contiguous() if out is None else out.copy_(x.t())
        ),
        "vector_add": _call(lambda out, _, a, b: torch.add(a, b, out=out)),
        "relu": _call(lambda out, _, x: torch.clamp_min(x, 0, out=out)),
        "gelu": _call(lambda out, options, x: F.gelu(x, approximate=str(options["approximate"]))),
        "window_sum": _call(
            lambda out, options, a: a.unfold(0, int(options["width"]), 1)[:-1].sum(dim=1)
        ),
        "mlp_swiglu": _call(
            lambda out, _, x, gate, up: F.silu(torch.mm(x, gate)).mul_(torch.mm(x, up))
        ),
        "rms_norm_matmul": _call(
            lambda out, _, x, gain, w: torch.mm(
                F.rms_norm(x, x.shape[-1:], gain, eps=EPSILON), w, out=_fit(out, x)
            )
        ),
        "attention": _attention,
        "decode_attention": _decode_attention,
    }
)
