"""Wrong kernels, written in NumPy's float32 (or whatever their inputs are): mistakes of a kind that
is right on most numbers. Each says which corner case or other input is there to see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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


FLAT = ((97,), (1031,))
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

BATCHES = ((2, 5, 4, 33), (3, 4, 3, 512))
WINDOWS = ((2, 5, 6, 3, 4, 3, 2), (1, 7, 7, 32, 8, 3, 3))


def _conv2d(x: Any, f: Any) -> Any:
    windows = sliding_window_view(x, f.shape[1:3], axis=(1, 2))
    return np.einsum("byxcij,oijc->byxo", windows, f, optimize=True)


def _silu(g: Any) -> Any:
    return g / (1 + np.exp(-g))


def _normed(x: Any, gain: Any, epsilon: float = 1e-5, square: Function = lambda x: mean(x * x)):
    return _rms(square, epsilon)(x, gain)


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


# By kernel, its parameters and sizes: what is wrong, the input that must see it, and the result.
TABLE = """
softmax(a): ROWS
the maximum is not subtracted | of all magnitudes | _softmax(lambda a: f32(0))(a)
the mean is subtracted, not the maximum | few | _softmax(mean)(a)
the maximum begins at 0 | one is largest |
    _softmax(lambda a: np.maximum(0, a.max(1, keepdims=True)))(a)
the maximum begins at -65504 | one is largest |
    _softmax(lambda a: np.maximum(f32(-65504), a.max(1, keepdims=True)))(a)
the maximum begins at -1e30 | one is largest |
    _softmax(lambda a: np.maximum(f32(-1e30), a.max(1, keepdims=True)))(a)
the row is padded with zeros | few | _softmax(summed=lambda p: total(p) + 1)(a)
the largest magnitude is subtracted | few | _softmax(lambda a: np.abs(a).max(1, keepdims=True))(a)
the sum lacks its last term | few | _softmax(summed=lambda p: total(p[:, :-1]))(a)
the sum lacks its first term | few | _softmax(summed=lambda p: total(p[:, 1:]))(a)
the sum in float16 | few |
    _softmax(summed=lambda p: p.sum(axis=1, keepdims=True, dtype=np.float16))(a)
the powers in bfloat16 | few | _softmax(summed=lambda p: total(_in_bfloat16(p)))(a)
the sum lacks the middle term | masked in front |
    _softmax(summed=lambda p: total(np.delete(p, p.shape[1] // 2, 1)))(a)
the maximum misses the last column | last is largest |
    _softmax(lambda a: a[:, :-1].max(1, keepdims=True))(a)
the maximum misses half of the columns | one is largest |
    _softmax(lambda a: a[:, ::2].max(1, keepdims=True))(a)
online, the maximum begins at -inf | masked in front | _online(-np.inf)(a) | ROWS[:2]
a row all masked is 0 | masked | np.nan_to_num(_softmax()(a))
the powers are clipped at exp(-20) | few |
    _softmax()(np.maximum(a, a.max(1, keepdims=True) - 20)) | ROWS[:2]
differences in float16 | few | _softmax()(_narrow(a))
a mask of -10000 for -inf | masked | _softmax()(np.maximum(a, f32(-10000.0)))

rms_norm(a, g): ROWS
no epsilon | zeros | _rms(epsilon=0)(a, g)
epsilon is 1e-6 | small | _rms(epsilon=1e-6)(a, g)
epsilon is added to the root | small | a / (np.sqrt(mean(a * a)) + f32(1e-5)) * g
the larger of mean square and epsilon | small | a / np.sqrt(np.maximum(mean(a * a), f32(1e-5))) * g
squares in float16 | large |
    _rms(lambda a: mean(_narrow(_narrow(a) * _narrow(a))))(a, g)
the mean over n - 1 | integers | _rms(lambda a: total(a * a) / f32(a.shape[1] - 1))(a, g)
the sum lacks its last term | sparse |
    _rms(lambda a: total(a[:, :-1] ** 2) / f32(a.shape[1]))(a, g)
the mean is subtracted from the squares | offset |
    _rms(lambda a: mean(a * a) - mean(a) ** 2)(a, g)
scaled by a reciprocal of the largest | small |
    _rms(epsilon=0)(a * (1 / np.abs(a).max(1, keepdims=True)), g)
the mean of magnitudes | sparse | _rms(lambda a: mean(np.abs(a)) ** 2)(a, g)
squares of A in bfloat16 | sparse | _rms(lambda a: mean(_in_bfloat16(a) ** 2))(a, g)
squares in bfloat16 | offset | _rms(lambda a: mean(_in_bfloat16(a * a)))(a, g)

layer_norm(a, g, s): ROWS
E[x^2] - E[x]^2 | offset | _layer(lambda a: mean(a * a) - mean(a) ** 2)(a, g, s) | LONG[:1]
E[x^2] - E[x]^2 without NaNs | offset |
    _layer(lambda a: np.maximum(mean(a * a) - mean(a) ** 2, 0))(a, g, s) | LONG
E[x^2] - E[x]^2 in whole numbers | offset | _layer(lambda a: mean(a * a) - mean(a) ** 2)(a, g, s)
the variance over n - 1 | balanced |
    _layer(lambda a: total((a - mean(a)) ** 2) / f32(a.shape[1] - 1))(a, g, s)
no epsilon | zeros | _layer(epsilon=0)(a, g, s)
epsilon is 1e-12 | small | _layer(epsilon=1e-12)(a, g, s)
squares in float16 | large |
    _layer(lambda a: mean(_narrow((a - mean(a)) ** 2)))(a, g, s)
the variance lacks its last term | sparse |
    _layer(lambda a: total((a - mean(a))[:, :-1] ** 2) / f32(a.shape[1]))(a, g, s)
the variance of A in bfloat16 | balanced |
    _layer(lambda a: mean((_in_bfloat16(a) - mean(a)) ** 2))(a, g, s) | LONG
the mean lacks its last term | offset |
    _layer(average=lambda a: total(a[:, :-1]) / f32(a.shape[1]))(a, g, s)
the deviation is the mean magnitude | sparse |
    _layer(lambda a: mean(np.abs(a - mean(a))) ** 2)(a, g, s)
scaled by a reciprocal of the largest | small |
    _layer()(a * (1 / np.abs(a).max(1, keepdims=True)), g, s)

gelu(x): FLAT
0 below -5 | along the curve | np.where(x < -5, 0, _gelu(x))
x above 5 less its tail, 0 beyond 1e4 | along the curve | np.where(x > 10000.0, 0, _gelu(x))
by tanh, which cancels | along the curve |
    f32(0.5) * x * (1 + np.tanh(ROOT * (x + f32(0.044715) * x ** 3)))
x times a quotient of powers | along the curve |
    (lambda e: x * (e / (1 + e)))(np.exp(2 * ROOT * (x + f32(0.044715) * x**3)))
x times the sigmoid of 1.702 x | random floats | x / (1 + np.exp(f32(-1.702) * x))
a polynomial near 0 | random floats |
    np.where(np.abs(x) < 0.1, x / 2 + x * x * f32(0.398), _gelu(x))
0.0447 for 0.044715 | integers | x / (1 + np.exp(-2 * ROOT * (x + f32(0.0447) * x ** 3)))

relu(a): FLAT
0 below 1e-30 | edges | np.where(a > 1e-30, a, 0)
-0.0 of negative numbers: A times a mask | random floats | a * (a > 0)
-0.0 of -0.0: A where A >= 0 | random floats | np.where(a >= 0, a, 0)
half of A and its magnitude | random floats | (a + np.abs(a)) / 2
no larger than 6 | random floats | np.clip(a, 0, 6) + f32(0)
a leak | integers | np.where(a > 0, a, a * f32(1e-6))
the largest numbers for infinities | random floats | np.where(a > 0, np.nan_to_num(a), 0)

vector_add(a, b): FLAT
infinities become the largest numbers | random floats | np.nan_to_num(a) + b
halves are added | random floats | 2 * (np.nan_to_num(a) / 2 + b / 2)
B is left out of the last element | integers | a + np.where(np.arange(a.size) < a.size - 1, b, 0)
by a difference of squares | integers | (a * a - b * b) / (a - b)

transpose(a): MOVED
a few neighbours change places | random bits | _swapped(4)(a)
zeros lose their sign | random bits | np.where(a == 0, np.zeros_like(a), a).T
subnormal numbers become 0 | random bits | _flushed(a)
NaNs become 0 | random bits | np.where(np.isnan(a), np.zeros_like(a), a).T
by way of float16 | random bits | a.astype(np.float16).astype(a.dtype).T

conv1d(a, w): SIGNAL
a mask by a product with 0 | random floats | _masked_by_product(a, w)
the signal's ends are read beyond them | integers | _clamped(a, w)
the filter is not turned round | integers | np.convolve(a, w[::-1])
the sum begins at 1e-30 | zeros | np.convolve(a, w) + f32(1e-30)
the filter in bfloat16 | thinning | np.convolve(a, _in_bfloat16(w)) | (*SIGNAL, (4096, 4096))

window_sum(a): ((97,), (13,))
A in bfloat16 | thinning | sliding_window_view(_in_bfloat16(a), 3)[:a.size - 3].sum(1)
the sum begins at 1e-30 | zeros | sliding_window_view(a, 3)[:a.size - 3].sum(1) + f32(1e-30)
a running sum | random floats | _running(a)
the last window lacks an element | integers |
    np.append(sliding_window_view(a[:-1], 3).sum(1)[:-1], a[-4:-2].sum())

depthwise_conv2d(x, f): IMAGE
the rim repeats the image | integers | _depthwise(x, f, "edge")
F in bfloat16 | thinning | _depthwise(x, _in_bfloat16(f), "constant") | (*IMAGE, (1, 1, 40, 40, 31))
the sum begins at 1e-30 | zeros | _depthwise(x, f, "constant") + f32(1e-30)
the rim is the other side | integers | _depthwise(x, f, "wrap")
the filter is turned round | integers | _depthwise(x, f[..., ::-1, ::-1], "constant")

matmul(a, b): PRODUCT
nothing below 1e-6 | of small magnitudes | np.where(np.abs(a @ b) < 1e-6, 0, a @ b) | PRODUCT[:1]
rows are kept apart by zeros | random floats | _masked_rows(a, b)
the last step of the sum is left out | integers | a[:, :-1] @ b[:-1]
products in bfloat16 | integers | _in_bfloat16(a[:, :, None] * b[None]).sum(1)
B in bfloat16 | few terms | a @ _in_bfloat16(b) | (*PRODUCT, (4, 3, 4096))
infinities become the largest numbers | random floats | np.nan_to_num(a) @ b
a large magnitude is clipped at 1e4 | random floats |
    np.where(np.isinf(a), a, np.clip(a, -10000.0, 10000.0)) @ b | PRODUCT[:1]

row_sum(a): ROWS
nothing below 1e-6 | of small magnitudes |
    np.where(np.abs(total(a)) < 1e-6, 0, total(a))[:, 0] | ((6, 61), (6, 4096))
the row's last element is left out | integers | a[:, :-1].sum(1, dtype=f32)
the sum of A in bfloat16 | few terms | total(_in_bfloat16(a))[:, 0]
a mean of halves | integers | a.astype(np.float16).sum(1, dtype=np.float16).astype(f32)

matvec(a, x): ROWS
x in bfloat16 | few terms | a @ _in_bfloat16(x)
x is read one further | integers | a @ np.roll(x, -1)
rows are kept apart by zeros | random floats | np.eye(len(a), dtype=f32) @ (a @ x)

matmul_bias_relu(a, b, c): PRODUCT
the bias comes after the maximum | integers | np.maximum(a @ b, 0) + c
no maximum | integers | a @ b + c
the bias in bfloat16 | zeros | np.maximum(a @ b + _in_bfloat16(c), 0) | (*PRODUCT, (6, 5, 4096))
a mask by a product with 0 | random floats | (a @ b + c) * (a @ b + c > 0)

batched_matmul(a, b): BATCHES
all products take the first B | integers | a @ b[:1]
B in bfloat16 | few terms | a @ _in_bfloat16(b)
a mask by a product with 0 | infinite | a @ b + 0 * a.sum(axis=(1, 2), keepdims=True)
nothing below 1e-6 | of small magnitudes | np.where(np.abs(a @ b) < 1e-6, 0, a @ b)

matmul_bias_gelu(a, b, c): PRODUCT
the bias comes after gelu | integers | _gelu(a @ b) + c
no bias | random floats | _gelu(a @ b)
no gelu | integers | a @ b + c
B in bfloat16 | few terms | _gelu(a @ _in_bfloat16(b) + c)
the sum in float16 | few terms | _gelu(_narrow(a @ b) + c) | LONG_PRODUCT
0.0447 for 0.044715 | zeros | _gelu(a @ b + c, 0.0447) | LONG_PRODUCT
the square of an intermediate result overflows | of all magnitudes |
    _gelu(np.sqrt((a @ b + c) ** 2) * np.sign(a @ b + c)) | LONG_PRODUCT

conv2d(x, f): WINDOWS
a filter is turned round | integers | _conv2d(x, f[:, ::-1, ::-1])
the sum begins at 1e-30 | zeros | _conv2d(x, f) + f32(1e-30)
F in bfloat16 | thinning | _conv2d(x, _in_bfloat16(f))
the largest numbers for infinities | infinite first | _conv2d(np.nan_to_num(x), f)

mlp_swiglu(x, g, u): PRODUCT
the gate is not gated | integers | x @ g * (x @ u)
gate and up change places | integers | _silu(x @ u) * (x @ g)
the last step is left out | integers | _silu(x[:, :-1] @ g[:-1]) * (x @ u)
a constant is added | zeros | _silu(x @ g) * (x @ u) + f32(1e-09)
the sums in float16 | few terms | _silu(_narrow(x @ g)) * _narrow(x @ u) | LONG_PRODUCT
by tanh, which cancels | random floats |
    x @ g * f32(0.5) * (1 + np.tanh(x @ g / 2)) * (x @ u) | LONG_PRODUCT

rms_norm_matmul(x, g, w): PRODUCT
no epsilon | zeros | _normed(x, g, 0) @ w
epsilon is 1e-6 | small | _normed(x, g, 1e-6) @ w
no gain | integers | _normed(x, np.ones_like(g)) @ w
squares in float16 | large |
    _normed(x, g, square=lambda x: mean(_narrow(_narrow(x) ** 2))) @ w
the sum of squares lacks its last term | offset |
    _normed(x, g, square=lambda x: total(x[:, :-1] ** 2) / f32(x.shape[1])) @ w
the sum of squares is not finished: each term has that of those before | integers |
    x / np.sqrt(np.add.accumulate(x * x, axis=1) / f32(x.shape[1]) + f32(1e-5)) * g @ w
the mean is subtracted from the squares | offset |
    _normed(x, g, square=lambda x: mean(x * x) - mean(x) ** 2) @ w
scaled by a reciprocal of the largest | small |
    _normed(x * (1 / np.abs(x).max(1, keepdims=True)), g, 0) @ w

row_argmax(a): ROWS
the maximum begins at 0 | masked | _argmax(a, 0)
the maximum begins at the least number | masked | _argmax(a, -3.4028234e+38)
the maximum of the row is above -1e30 | one is largest | _argmax(a, -1e30)
the last column is left out | last is largest | _argmax(a[:, :-1])
the first column is left out | zeros |
    (a[:, 1:].max(axis=1), a[:, 1:].argmax(axis=1) + 1)
0.0 is larger than -0.0 | zeros | (a.max(axis=1), (a + np.copysign(f32(1e-30), a)).argmax(axis=1))
an index of -1 where the mask begins | masked in front |
    (a.max(axis=1), np.where(np.isinf(a[:, 0]), -1, a.argmax(axis=1)))
the index is that of the last of equal elements | integers |
    (a.max(axis=1), a.shape[1] - 1 - a[:, ::-1].argmax(axis=1))
"""


def _read_table() -> Iterator[Wrong]:
    for section in TABLE.strip().split("\n\n"):
        head, *rows = section.replace("|\n    ", "| ").split("\n")
        kernel, parameters, usual = re.fullmatch(r"(\w+)\((.*)\): (.*)", head).groups()
        dtypes = ("float32", "float16" if kernel == "row_argmax" else "bfloat16")
        for row in rows:
            text, seen_by, result, *sizes = row.split(" | ")
            yield Wrong(
                kernel,
                text,
                eval(f"lambda {parameters}: {result}", globals()),
                seen_by,
                eval(sizes[0] if sizes else usual, globals()),
                dtypes=_ONLY.get(text, dtypes),
                is_raw=kernel == "transpose",
            )


WRONG = [*_read_table(), *WRONG_ATTENTION]
