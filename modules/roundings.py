"""How far rounding may take the kernels that are no sums of products, in absolute numbers.

Each function gets a kernel's inputs in float64 and the accumulator's unit roundoff u, and returns a
bound for every element of the output before it is stored. They follow the operations one by one, to
first order in u, and double the result for the terms of higher order. A sum of n terms is off by at
most n u times the sum of their magnitudes, in any order (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., SIAM 2002, section 4.2). Exponential, quotient and reciprocal root
are those of CUDA's fast arithmetic, with which TVM compiles: 2 + 1.173 |x|, 2 and 2 units in the
last place, which are 2 u each (CUDA C++ Programming Guide, "Mathematical Functions").
"""

from typing import Any

import numpy as np

from tirstep.modules.numeric import Array

DIVISION = ROOT = 2 * 2.0
SAFETY = 2.0
EPSILON = 1e-5
"""What normalizations add to a mean square, so that a row of zeros has no division by zero."""


def exponential(x: Array) -> Array:
    """The relative error of exp(x), in u, for an exact x."""
    return 2 * (2 + 1.173 * np.abs(x))


def softmax(a: Array, *, u: float, online: bool = False, **_: Any) -> Array:
    """Of softmax over the rows of a (m, n).

    Online, a sum is scaled anew at most n times, by exponentials of differences that add up to no
    more than the row's range.
    """
    shifted = a - a.max(axis=1, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=1, keepdims=True)
    relative = np.abs(shifted) + exponential(shifted)
    of_total = (powers * relative).sum(axis=1, keepdims=True) / total + a.shape[1]
    if online:
        of_total = of_total + 6 * a.shape[1] + 4 * np.abs(shifted).max(axis=1, keepdims=True)
    return SAFETY * u * powers / total * (relative + of_total + DIVISION)


def layer_norm(a: Array, gain: Array, shift: Array, *, u: float, **_: Any) -> Array:
    """Of the normalization of the rows of a (m, n), with gain and shift (n)."""
    n = a.shape[1]
    centered = a - a.mean(axis=1, keepdims=True)
    of_mean = (n + DIVISION) * np.abs(a).mean(axis=1, keepdims=True)
    of_centered = of_mean + np.abs(centered) + np.abs(a)
    square = (centered * centered).mean(axis=1, keepdims=True)
    of_square = (2 * np.abs(centered) * of_centered).mean(axis=1, keepdims=True)
    of_square = of_square + (n + DIVISION + 2) * square
    inverse = 1 / np.sqrt(square + EPSILON)
    of_inverse = of_square / 2 * inverse**2 + ROOT + 1
    scaled = np.abs(gain) * inverse
    errors = scaled * (of_centered + np.abs(centered) * (of_inverse + 3))
    return SAFETY * u * (errors + np.abs(shift))


def rms_norm(a: Array, gain: Array, *, u: float, **_: Any) -> Array:
    """Of the normalization of the rows of a (m, n) by their mean square, with gain (n)."""
    relative = (a.shape[1] + DIVISION + 1) / 2 + ROOT + 3
    square = (a * a).mean(axis=1, keepdims=True)
    return SAFETY * u * np.abs(a * gain) / np.sqrt(square + EPSILON) * relative


def gelu(a: Array, *, u: float, **_: Any) -> Array:
    """Of x / (1 + exp(-2 z)) with z = sqrt(2 / pi) (x + 0.044715 x^3)."""
    twice = -2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)
    power = np.exp(np.minimum(twice, 700))
    relative = 6 * np.abs(twice) + exponential(twice)
    value = a / (1 + power)
    return SAFETY * u * np.abs(value) * (relative * power / (1 + power) + DIVISION + 1)
