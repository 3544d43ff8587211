"""Wrong kernels, written in NumPy's float32 (or whatever their inputs are): mistakes of a kind that
is right on most numbers. Each says which corner case or other input is there to see it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from wrong import Wrong, as_program
from wrong_attention import WRONG_ATTENTION

from tirstep.modules.dtypes import dtype_facts

__all__ = ["WRONG", "Wrong", "as_program"]
f32 = np.float32
Function = Callable[..., Any]


def total(values: Any) -> Any:
    return values.sum(axis=1, keepdims=True, dtype=f32)


def mean(values: Any) -> Any:
    return total(values) / f32(values.shape[1])


def _softmax(largest: Function = lambda a: a.max(axis=1, keepdims=True), summed=total, **_) -> Any:
    def of(a: Any) -> Any:
        powers = np.exp(a - largest(a))
        return powers / summed(powers)

    return of


def _online(start: float) -> Any:
    """Sum and maximum in one pass."""

    def of(a: Any) -> Any:
        top, power = np.full((len(a), 1), f32(start)), np.zeros((len(a), 1), f32)
        for column in np.split(a, a.shape[1], axis=1):
            new = np.maximum(top, column)
            power = power * np.exp(top - new) + np.exp(column - new)
            top = new
        return np.exp(a - top) / power

    return of


def _rms(square: Function = lambda a: mean(a * a), epsilon: float = 1e-5) -> Any:
    return lambda a, gain: a / np.sqrt(square(a) + f32(epsilon)) * gain


def _layer(
    variance: Function = lambda a: mean((a - mean(a)) ** 2),
    epsilon: float = 1e-5,
    average: Function = mean,
) -> Any:
    def of(a: Any, gain: Any, shift: Any) -> Any:
        return (a - average(a)) / np.sqrt(variance(a) + f32(epsilon)) * gain + shift

    return of


def _narrow(values: Any) -> Any:
    return values.astype(np.float16).astype(f32)


def _in_bfloat16(values: Any) -> Any:
    return values.astype(dtype_facts("bfloat16").numpy).astype(f32)


ROWS = ((4, 16), (4, 61), (4, 4096))
LONG = ((4, 512), (4, 4096))
ROOT = np.sqrt(f32(2 / np.pi))


def _gelu(x: Any, cubic: float = 0.044715) -> Any:
    return x / (1 + np.exp(-2 * ROOT * (x + f32(cubic) * x * x * x)))


SOFTMAX = (
    ("the maximum is not subtracted", _softmax(lambda a: f32(0)), "high", ROWS),
    ("the mean is subtracted, not the maximum", _softmax(mean), "high", ROWS),
    (
        "the maximum begins at 0",
        _softmax(lambda a: np.maximum(0, a.max(1, keepdims=True))),
        "low",
        ROWS,
    ),
    (
        "the maximum begins at -65504",
        _softmax(lambda a: np.maximum(f32(-65504), a.max(1, keepdims=True))),
        "low",
        ROWS,
    ),
    (
        "the maximum begins at -1e30",
        _softmax(lambda a: np.maximum(f32(-1e30), a.max(1, keepdims=True))),
        "one is largest",
        ROWS,
    ),
    ("the row is padded with zeros", _softmax(summed=lambda p: total(p) + 1), "zeros", ROWS),
    (
        "the largest magnitude is subtracted",
        _softmax(lambda a: np.abs(a).max(1, keepdims=True)),
        "low",
        ROWS,
    ),
    ("the sum lacks its last term", _softmax(summed=lambda p: total(p[:, :-1])), "few", ROWS),
    ("the sum lacks its first term", _softmax(summed=lambda p: total(p[:, 1:])), "few", ROWS),
    (
        "the sum in float16",
        _softmax(summed=lambda p: p.sum(axis=1, keepdims=True, dtype=np.float16)),
        "few",
        ROWS,
    ),
    ("the powers in bfloat16", _softmax(summed=lambda p: total(_in_bfloat16(p))), "few", ROWS),
    (
        "the sum lacks the middle term",
        _softmax(summed=lambda p: total(np.delete(p, p.shape[1] // 2, 1))),
        "zeros",
        ROWS,
    ),
    (
        "the maximum misses the last column",
        _softmax(lambda a: a[:, :-1].max(1, keepdims=True)),
        "last is largest",
        ROWS,
    ),
    (
        "the maximum misses half of the columns",
        _softmax(lambda a: a[:, ::2].max(1, keepdims=True)),
        "one is largest",
        ROWS,
    ),
    ("online, the maximum begins at -inf", _online(-np.inf), "masked in front", ROWS[:2]),
    ("a row all masked is 0", lambda a: np.nan_to_num(_softmax()(a)), "masked", ROWS),
    (
        "the powers are clipped at exp(-20)",
        lambda a: _softmax()(np.maximum(a, a.max(1, keepdims=True) - 20)),
        "few",
        ROWS[:2],
    ),
    ("differences in float16", lambda a: _softmax()(_narrow(a)), "low", ROWS),
    ("a mask of -10000 for -inf", lambda a: _softmax()(np.maximum(a, f32(-1e4))), "masked", ROWS),
)
RMS = (
    ("no epsilon", _rms(epsilon=0), "zeros", ROWS),
    ("epsilon is 1e-6", _rms(epsilon=1e-6), "small", ROWS),
    (
        "epsilon is added to the root",
        lambda a, g: a / (np.sqrt(mean(a * a)) + f32(1e-5)) * g,
        "small",
        ROWS,
    ),
    (
        "the larger of mean square and epsilon",
        lambda a, g: a / np.sqrt(np.maximum(mean(a * a), f32(1e-5))) * g,
        "small",
        ROWS,
    ),
    ("squares in float16", _rms(lambda a: mean(_narrow(_narrow(a) * _narrow(a)))), "large", ROWS),
    ("the mean over n - 1", _rms(lambda a: total(a * a) / f32(a.shape[1] - 1)), "integers", ROWS),
    (
        "the sum lacks its last term",
        _rms(lambda a: total(a[:, :-1] ** 2) / f32(a.shape[1])),
        "sparse",
        ROWS,
    ),
    (
        "the mean is subtracted from the squares",
        _rms(lambda a: mean(a * a) - mean(a) ** 2),
        "high offset",
        ROWS,
    ),
    (
        "scaled by a reciprocal of the largest",
        lambda a, g: _rms(epsilon=0)(a * (1 / np.abs(a).max(1, keepdims=True)), g),
        "subnormal",
        ROWS,
    ),
    ("the mean of magnitudes", _rms(lambda a: mean(np.abs(a)) ** 2), "sparse", ROWS),
    ("squares of A in bfloat16", _rms(lambda a: mean(_in_bfloat16(a) ** 2)), "sparse", ROWS),
    ("squares in bfloat16", _rms(lambda a: mean(_in_bfloat16(a * a))), "sparse", ROWS),
)
LAYER = (
    ("E[x^2] - E[x]^2", _layer(lambda a: mean(a * a) - mean(a) ** 2), "offset", LONG[:1]),
    (
        "E[x^2] - E[x]^2 without NaNs",
        _layer(lambda a: np.maximum(mean(a * a) - mean(a) ** 2, 0)),
        "offset",
        LONG,
    ),
    (
        "E[x^2] - E[x]^2 in whole numbers",
        _layer(lambda a: mean(a * a) - mean(a) ** 2),
        "equal",
        ROWS,
    ),
    (
        "the variance over n - 1",
        _layer(lambda a: total((a - mean(a)) ** 2) / f32(a.shape[1] - 1)),
        "balanced",
        ROWS,
    ),
    ("no epsilon", _layer(epsilon=0), "zeros", ROWS),
    ("epsilon is 1e-12", _layer(epsilon=1e-12), "small", ROWS),
    ("squares in float16", _layer(lambda a: mean(_narrow((a - mean(a)) ** 2))), "large", ROWS),
    (
        "the variance lacks its last term",
        _layer(lambda a: total((a - mean(a))[:, :-1] ** 2) / f32(a.shape[1])),
        "sparse",
        ROWS,
    ),
    (
        "the variance of A in bfloat16",
        _layer(lambda a: mean((_in_bfloat16(a) - mean(a)) ** 2)),
        "balanced",
        LONG,
    ),
    (
        "the mean lacks its last term",
        _layer(average=lambda a: total(a[:, :-1]) / f32(a.shape[1])),
        "sparse",
        ROWS,
    ),
    (
        "the deviation is the mean magnitude",
        _layer(lambda a: mean(np.abs(a - mean(a))) ** 2),
        "sparse",
        ROWS,
    ),
    (
        "scaled by a reciprocal of the largest",
        lambda a, g, s: _layer()(a * (1 / np.abs(a).max(1, keepdims=True)), g, s),
        "subnormal",
        ROWS,
    ),
)
FLAT = ((97,), (1031,))
GELU = (
    ("0 below -5", lambda x: np.where(x < -5, 0, _gelu(x)), "along the curve", FLAT),
    (
        "x above 5 less its tail, 0 beyond 1e4",
        lambda x: np.where(x > 1e4, 0, _gelu(x)),
        "along the curve",
        FLAT,
    ),
    (
        "by tanh, which cancels",
        lambda x: f32(0.5) * x * (1 + np.tanh(ROOT * (x + f32(0.044715) * x**3))),
        "along the curve",
        FLAT,
    ),
    (
        "x times a quotient of powers",
        lambda x: (
            x
            * (
                np.exp(2 * ROOT * (x + f32(0.044715) * x**3))
                / (1 + np.exp(2 * ROOT * (x + f32(0.044715) * x**3)))
            )
        ),
        "along the curve",
        FLAT,
    ),
    (
        "x times the sigmoid of 1.702 x",
        lambda x: x / (1 + np.exp(f32(-1.702) * x)),
        "random floats",
        FLAT,
    ),
    (
        "a polynomial near 0",
        lambda x: np.where(np.abs(x) < 0.1, x / 2 + x * x * f32(0.398), _gelu(x)),
        "random floats",
        FLAT,
    ),
    (
        "0.0447 for 0.044715",
        lambda x: x / (1 + np.exp(-2 * ROOT * (x + f32(0.0447) * x**3))),
        "integers",
        FLAT,
    ),
)
RELU = (
    ("0 below 1e-30", lambda a: np.where(a > 1e-30, a, 0), "edges", FLAT),
    ("-0.0 of negative numbers: A times a mask", lambda a: a * (a > 0), "random floats", FLAT),
    ("-0.0 of -0.0: A where A >= 0", lambda a: np.where(a >= 0, a, 0), "random floats", FLAT),
    ("half of A and its magnitude", lambda a: (a + np.abs(a)) / 2, "random floats", FLAT),
    ("no larger than 6", lambda a: np.clip(a, 0, 6) + f32(0), "random floats", FLAT),
    ("a leak", lambda a: np.where(a > 0, a, a * f32(1e-6)), "integers", FLAT),
    (
        "the largest numbers for infinities",
        lambda a: np.where(a > 0, np.nan_to_num(a), 0),
        "random floats",
        FLAT,
    ),
)
ADD = (
    (
        "infinities become the largest numbers",
        lambda a, b: np.nan_to_num(a) + b,
        "random floats",
        FLAT,
    ),
    ("halves are added", lambda a, b: 2 * (np.nan_to_num(a) / 2 + b / 2), "random floats", FLAT),
    (
        "B is left out of the last element",
        lambda a, b: a + np.where(np.arange(a.size) < a.size - 1, b, 0),
        "integers",
        FLAT,
    ),
    ("by a difference of squares", lambda a, b: (a * a - b * b) / (a - b), "integers", FLAT),
)
MOVED = ((7, 64), (61, 67))


def _swapped(count: int) -> Function:
    """The transpose, but for a few neighbours in the middle that changed places."""

    def of(a: Any) -> Any:
        b = a.T.copy()
        flat = b.reshape(-1)
        middle = flat.size // 2 - count
        flat[middle : middle + 2 * count] = flat[middle : middle + 2 * count][::-1].copy()
        return b

    return of


def _flushed(a: Any) -> Any:
    small = np.abs(a.astype(np.float64)) < float(dtype_facts(str(a.dtype)).smallest_normal)
    return np.where(small, np.zeros_like(a), a).T


MOVES = (
    ("a few neighbours change places", _swapped(4), "random bits", MOVED),
    (
        "zeros lose their sign",
        lambda a: np.where(a == 0, np.zeros_like(a), a).T,
        "random bits",
        MOVED,
    ),
    ("subnormal numbers become 0", _flushed, "random bits", MOVED),
    ("NaNs become 0", lambda a: np.where(np.isnan(a), np.zeros_like(a), a).T, "random bits", MOVED),
    ("by way of float16", lambda a: a.astype(np.float16).astype(a.dtype).T, "random bits", MOVED),
)


def _masked_by_product(a: Any, w: Any) -> Any:
    """A convolution whose filter has zeros around it, in place of a condition."""
    wide = np.concatenate([np.zeros(a.size - 1, f32), w, np.zeros(a.size - 1, f32)])
    return sliding_window_view(wide, a.size)[:, ::-1] @ a


def _clamped(a: Any, w: Any) -> Any:
    """A convolution that reads the signal's ends where it should read zeros."""
    return np.convolve(np.pad(a, w.size, mode="edge"), w)[w.size : 1 - w.size or None][
        : a.size + w.size - 1
    ]


def _running(a: Any) -> Any:
    """Sums of three by what comes in and what goes out."""
    steps = a[3:-1] - a[:-4]
    return np.add.accumulate(np.concatenate([[a[:3].sum(dtype=f32)], steps]), dtype=f32)


def _depthwise(x: Any, f: Any, mode: str) -> Any:
    r = f.shape[-1] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (r, r), (r, r)), mode=mode)
    windows = sliding_window_view(padded, f.shape[-2:], axis=(2, 3))
    return np.einsum("bchwyx,cyx->bchw", windows, f[:, 0])


def _masked_rows(a: Any, b: Any) -> Any:
    """A product whose rows are kept apart by a matrix of ones and zeros, not by an index."""
    return np.eye(len(a), dtype=f32) @ (a @ b)


SIGNAL, IMAGE, PRODUCT = ((97, 5), (13, 5)), ((2, 3, 9, 11, 3),), ((6, 5, 33), (4, 5, 7))
LONG_PRODUCT = ((4, 5, 512),)
CONV = (
    ("a mask by a product with 0", _masked_by_product, "random floats", SIGNAL),
    ("the signal's ends are read beyond them", _clamped, "integers", SIGNAL),
    ("the filter is not turned round", lambda a, w: np.convolve(a, w[::-1]), "integers", SIGNAL),
    (
        "the filter in bfloat16",
        lambda a, w: np.convolve(a, _in_bfloat16(w)),
        "thinning",
        (*SIGNAL, (4096, 4096)),
    ),
)
WINDOW = (
    (
        "A in bfloat16",
        lambda a: sliding_window_view(_in_bfloat16(a), 3)[: a.size - 3].sum(1),
        "thinning",
        ((97,), (13,)),
    ),
    ("a running sum", _running, "random floats", ((97,), (13,))),
    (
        "the last window lacks an element",
        lambda a: np.append(sliding_window_view(a[:-1], 3).sum(1)[:-1], a[-4:-2].sum()),
        "integers",
        ((97,), (13,)),
    ),
)
DEPTHWISE = (
    ("the rim repeats the image", lambda x, f: _depthwise(x, f, "edge"), "integers", IMAGE),
    (
        "F in bfloat16",
        lambda x, f: _depthwise(x, _in_bfloat16(f), "constant"),
        "thinning",
        (*IMAGE, (1, 1, 40, 40, 31)),
    ),
    ("the rim is the other side", lambda x, f: _depthwise(x, f, "wrap"), "integers", IMAGE),
    (
        "the filter is turned round",
        lambda x, f: _depthwise(x, f[..., ::-1, ::-1], "constant"),
        "integers",
        IMAGE,
    ),
)
MATMUL = (
    (
        "nothing below 1e-6",
        lambda a, b: np.where(np.abs(a @ b) < 1e-6, 0, a @ b),
        "of small magnitudes",
        PRODUCT[:1],
    ),
    ("rows are kept apart by zeros", _masked_rows, "random floats", PRODUCT),
    ("the last step of the sum is left out", lambda a, b: a[:, :-1] @ b[:-1], "integers", PRODUCT),
    (
        "products in bfloat16",
        lambda a, b: _in_bfloat16(a[:, :, None] * b[None]).sum(1),
        "integers",
        PRODUCT,
    ),
    (
        "B in bfloat16",
        lambda a, b: a @ _in_bfloat16(b),
        "few terms",
        (*PRODUCT, (4, 3, 4096)),
    ),
    (
        "infinities become the largest numbers",
        lambda a, b: np.nan_to_num(a) @ b,
        "random floats",
        PRODUCT,
    ),
    (
        "a large magnitude is clipped at 1e4",
        lambda a, b: np.where(np.isinf(a), a, np.clip(a, -1e4, 1e4)) @ b,
        "random floats",
        PRODUCT[:1],
    ),
)
SUMS = (
    (
        "nothing below 1e-6",
        lambda a: np.where(np.abs(total(a)) < 1e-6, 0, total(a))[:, 0],
        "of small magnitudes",
        ((6, 61), (6, 4096)),
    ),
    ("the row's last element is left out", lambda a: a[:, :-1].sum(1, dtype=f32), "integers", ROWS),
    ("the sum of A in bfloat16", lambda a: total(_in_bfloat16(a))[:, 0], "few terms", ROWS),
    (
        "a mean of halves",
        lambda a: (a.astype(np.float16)).sum(1, dtype=np.float16).astype(f32),
        "integers",
        ROWS,
    ),
)
VECTOR = (
    ("x in bfloat16", lambda a, x: a @ _in_bfloat16(x), "few terms", ROWS),
    ("x is read one further", lambda a, x: a @ np.roll(x, -1), "integers", ROWS),
    (
        "rows are kept apart by zeros",
        lambda a, x: np.eye(len(a), dtype=f32) @ (a @ x),
        "random floats",
        ROWS,
    ),
)
BIAS = (
    (
        "the bias comes after the maximum",
        lambda a, b, c: np.maximum(a @ b, 0) + c,
        "integers",
        PRODUCT,
    ),
    ("no maximum", lambda a, b, c: a @ b + c, "integers", PRODUCT),
    (
        "the bias in bfloat16",
        lambda a, b, c: np.maximum(a @ b + _in_bfloat16(c), 0),
        "nothing",
        (*PRODUCT, (6, 5, 4096)),
    ),
    (
        "a mask by a product with 0",
        lambda a, b, c: (a @ b + c) * (a @ b + c > 0),
        "random floats",
        PRODUCT,
    ),
)

BATCHES = ((2, 5, 4, 33), (3, 4, 3, 512))
BATCHED = (
    ("all products take the first B", lambda a, b: a @ b[:1], "integers", BATCHES),
    ("B in bfloat16", lambda a, b: a @ _in_bfloat16(b), "few terms", BATCHES),
    (
        "a mask by a product with 0",
        lambda a, b: a @ b + 0 * a.sum(axis=(1, 2), keepdims=True),
        "infinite",
        BATCHES,
    ),
    (
        "nothing below 1e-6",
        lambda a, b: np.where(np.abs(a @ b) < 1e-6, 0, a @ b),
        "of small magnitudes",
        BATCHES,
    ),
)
BIAS_GELU = (
    ("the bias comes after gelu", lambda a, b, c: _gelu(a @ b) + c, "integers", PRODUCT),
    ("no bias", lambda a, b, c: _gelu(a @ b), "nothing", PRODUCT),
    ("no gelu", lambda a, b, c: a @ b + c, "integers", PRODUCT),
    ("B in bfloat16", lambda a, b, c: _gelu(a @ _in_bfloat16(b) + c), "few terms", PRODUCT),
    ("the sum in float16", lambda a, b, c: _gelu(_narrow(a @ b) + c), "few terms", LONG_PRODUCT),
    (
        "0.0447 for 0.044715",
        lambda a, b, c: _gelu(a @ b + c, 0.0447),
        "one term",
        LONG_PRODUCT,
    ),
    (
        "the square of an intermediate result overflows",
        lambda a, b, c: _gelu(np.sqrt((a @ b + c) ** 2) * np.sign(a @ b + c)),
        "of all magnitudes",
        LONG_PRODUCT,
    ),
)
WINDOWS = ((2, 5, 6, 3, 4, 3, 2), (1, 7, 7, 32, 8, 3, 3))
CONV2D = (
    ("a filter is turned round", lambda x, f: _conv2d(x, f[:, ::-1, ::-1]), "integers", WINDOWS),
    ("F in bfloat16", lambda x, f: _conv2d(x, _in_bfloat16(f)), "thinning", WINDOWS),
    (
        "the largest numbers for infinities",
        lambda x, f: _conv2d(np.nan_to_num(x), f),
        "infinite pixel",
        WINDOWS,
    ),
)


def _conv2d(x: Any, f: Any) -> Any:
    windows = sliding_window_view(x, f.shape[1:3], axis=(1, 2))
    return np.einsum("byxcij,oijc->byxo", windows, f, optimize=True)


def _silu(g: Any) -> Any:
    return g / (1 + np.exp(-g))


SWIGLU = (
    ("the gate is not gated", lambda x, g, u: (x @ g) * (x @ u), "integers", PRODUCT),
    ("gate and up change places", lambda x, g, u: _silu(x @ u) * (x @ g), "integers", PRODUCT),
    (
        "the last step is left out",
        lambda x, g, u: _silu(x[:, :-1] @ g[:-1]) * (x @ u),
        "integers",
        PRODUCT,
    ),
    ("a constant is added", lambda x, g, u: _silu(x @ g) * (x @ u) + f32(1e-9), "nothing", PRODUCT),
    (
        "the sums in float16",
        lambda x, g, u: _silu(_narrow(x @ g)) * _narrow(x @ u),
        "few terms",
        LONG_PRODUCT,
    ),
    (
        "by tanh, which cancels",
        lambda x, g, u: (x @ g) * f32(0.5) * (1 + np.tanh((x @ g) / 2)) * (x @ u),
        "one term",
        LONG_PRODUCT,
    ),
)


def _normed(x: Any, gain: Any, epsilon: float = 1e-5, square: Function = lambda x: mean(x * x)):
    return _rms(square, epsilon)(x, gain)


NORM_PRODUCT = (
    ("no epsilon", lambda x, g, w: _normed(x, g, 0) @ w, "zeros", PRODUCT),
    ("epsilon is 1e-6", lambda x, g, w: _normed(x, g, 1e-6) @ w, "small", PRODUCT),
    ("no gain", lambda x, g, w: _normed(x, np.ones_like(g)) @ w, "integers", PRODUCT),
    (
        "squares in float16",
        lambda x, g, w: _normed(x, g, square=lambda x: mean(_narrow(_narrow(x) ** 2))) @ w,
        "large",
        PRODUCT,
    ),
    (
        "the sum of squares lacks its last term",
        lambda x, g, w: _normed(x, g, square=lambda x: total(x[:, :-1] ** 2) / f32(x.shape[1])) @ w,
        "sparse",
        PRODUCT,
    ),
    (
        "the sum of squares is not finished: each term has that of those before",
        lambda x, g, w: (
            x / np.sqrt(np.add.accumulate(x * x, axis=1) / f32(x.shape[1]) + f32(1e-5)) * g @ w
        ),
        "integers",
        PRODUCT,
    ),
    (
        "the mean is subtracted from the squares",
        lambda x, g, w: _normed(x, g, square=lambda x: mean(x * x) - mean(x) ** 2) @ w,
        "high offset",
        PRODUCT,
    ),
    (
        "scaled by a reciprocal of the largest",
        lambda x, g, w: _normed(x * (1 / np.abs(x).max(1, keepdims=True)), g, 0) @ w,
        "subnormal",
        PRODUCT,
    ),
)

_FAMILIES = {
    "mlp_swiglu": SWIGLU,
    "rms_norm_matmul": NORM_PRODUCT,
    "batched_matmul": BATCHED,
    "matmul_bias_gelu": BIAS_GELU,
    "conv2d": CONV2D,
    "softmax": SOFTMAX,
    "rms_norm": RMS,
    "layer_norm": LAYER,
    "gelu": GELU,
    "relu": RELU,
    "vector_add": ADD,
    "transpose": MOVES,
    "conv1d": CONV,
    "window_sum": WINDOW,
    "depthwise_conv2d": DEPTHWISE,
    "matmul": MATMUL,
    "matmul_bias_relu": BIAS,
    "row_sum": SUMS,
    "matvec": VECTOR,
}
_OPERANDS = ("x", "A", "B", "F", "the filter", "the sum of A", "squares of A", "the variance of A")
# In which types a mistake does not change a bit of the result, or in which none is made.
_ONLY = {
    "E[x^2] - E[x]^2": ("float32",),
    "a polynomial near 0": ("float32",),
    "the largest numbers for infinities": ("float32",),
    "infinities become the largest numbers": ("float32",),
    "the maximum of the row is above -1e30": ("float32",),
    "the maximum begins at the least number": ("float32",),
    "halves are added": ("float32",),
    **dict.fromkeys((f"{name} in bfloat16" for name in _OPERANDS), ("float32", "float16")),
}


def _argmax(a: Any, least: float = -np.inf) -> Any:
    """A maximum that begins at a number, and where it is first."""
    return np.maximum(a.max(axis=1), a.dtype.type(least)), a.argmax(axis=1)


ARGMAX = (
    ("the maximum begins at 0", lambda a: _argmax(a, 0), "low"),
    ("the maximum begins at the least number", lambda a: _argmax(a, -3.4028234e38), "masked"),
    ("the maximum of the row is above -1e30", lambda a: _argmax(a, -1e30), "one is largest"),
    ("the last column is left out", lambda a: _argmax(a[:, :-1]), "last is largest"),
    (
        "the first column is left out",
        lambda a: (a[:, 1:].max(axis=1), a[:, 1:].argmax(axis=1) + 1),
        "first is largest",
    ),
    (
        "0.0 is larger than -0.0",
        lambda a: (a.max(axis=1), (a + np.copysign(f32(1e-30), a)).argmax(axis=1)),
        "zeros",
    ),
    (
        "an index of -1 where the mask begins",
        lambda a: (a.max(axis=1), np.where(np.isinf(a[:, 0]), -1, a.argmax(axis=1))),
        "masked in front",
    ),
    (
        "the index is that of the last of equal elements",
        lambda a: (a.max(axis=1), a.shape[1] - 1 - a[:, ::-1].argmax(axis=1)),
        "integers",
    ),
)
_OF_TWO_OUTPUTS = [
    Wrong("row_argmax", text, function, seen_by, ROWS, _ONLY.get(text, ("float32", "float16")))
    for text, function, seen_by in ARGMAX
]
WRONG = [
    *_OF_TWO_OUTPUTS,
    *WRONG_ATTENTION,
] + [
    Wrong(
        name,
        text,
        function,
        seen_by,
        sizes,
        dtypes=_ONLY.get(text, ("float32", "bfloat16")),
        is_raw=name == "transpose",
    )
    for name, family in _FAMILIES.items()
    for text, function, seen_by, sizes in family
]
