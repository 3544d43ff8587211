"""How far rounding may take the kernels that are no sums of products, in absolute numbers.

Each function gets a kernel's inputs in float64, the accumulator's unit roundoff u and the most that
one result may be off for being too small (`DType.underflow`), and returns a bound for every element
of the output before it is stored. They follow the operations one by one, to first order in u, and
double the result for the terms of higher order. A sum of n terms is off by at most n u times the
sum of their magnitudes, in any order (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
ed., SIAM 2002, section 4.2); and by nothing at all where all terms are multiples of a power of two
and no partial sum can have more than the type's bits (`sums_exactly`), which is what makes a lost
term show in a long row.

Exponential, quotient and reciprocal root are those of CUDA's fast arithmetic, with which TVM
compiles: 2 + 1.173 |x|, 2 and 2 units in the last place, which are 2 u each (CUDA C++ Programming
Guide, "Mathematical Functions": __expf, __fdividef, rsqrtf); exp(0) is 1 there as everywhere (PTX
ISA, ex2.approx: a zero gives +1.0). A quotient whose divisor is beyond 2^126 may be 0 (__fdividef).
"""

import functools
from typing import Any

import numpy as np

from tirstep.modules.numeric import Array

DIVISION = ROOT = 2 * 2.0
SAFETY = 2.0
EPSILON = 1e-5
"""What normalizations add to a mean square, so that a row of zeros has no division by zero."""
GONE = -104.0
"""Below this, exp(x) is less than half of float32's least subnormal number."""


def exponential(x: Array) -> Array:
    """The relative error of exp(x), in u, for an exact x; none for 0."""
    return np.where(x == 0, 0.0, 2 * (2 + 1.173 * np.abs(x)))


def sums_exactly(terms: Array, u: float) -> Array:
    """Whether the terms (m, n) of each row add up without rounding in any order, as (m, 1).

    Every term, and so every partial sum, is a multiple of the least power of two that all of them
    are multiples of; it fits where the sum of magnitudes is at most 1 / u times that.
    """
    magnitudes = np.abs(terms)
    mantissas, exponents = np.frexp(magnitudes)
    whole = (mantissas * 2.0**53).astype(np.int64)
    lowest = np.ldexp((whole & -whole).astype(np.float64), exponents - 53)
    unit = np.where(magnitudes > 0, lowest, np.inf).min(axis=1, keepdims=True)
    return np.asarray(magnitudes.sum(axis=1, keepdims=True) <= unit / u)


def _count_terms(terms: Array) -> Array:
    """The terms (m, n) of each row that are not 0, which adds without rounding, as (m, 1)."""
    return np.asarray(np.count_nonzero(terms, axis=1, keepdims=True))


def softmax(a: Array, *, u: float, tiny: float, online: bool = False, **_: Any) -> Array:
    """Of softmax over the rows of a (m, n); NaN in a row of nothing but -inf, which has none.

    Elements so far below the row's maximum that their power is 0 add nothing and round nothing; a
    row whose other elements all are its maximum sums ones, which is exact. Online, a sum is scaled
    anew at most as often as elements count, by exponentials of differences that add up, for each
    term, to its distance from the maximum.
    """
    n = a.shape[1]
    with np.errstate(invalid="ignore"):
        shifted = a - a.max(axis=1, keepdims=True)
        powers = np.exp(shifted)
        counts = shifted > GONE
        distance = np.where(counts, np.abs(shifted), 0.0)
        total = powers.sum(axis=1, keepdims=True)
        relative = distance + exponential(distance)
        terms = np.where((distance > 0).any(axis=1, keepdims=True), counts.sum(1, keepdims=True), 0)
        if online:
            of_total = (powers * (relative + 4 * distance)).sum(1, keepdims=True) / total
            of_total = of_total + 7 * terms
        else:
            of_total = (powers * relative).sum(1, keepdims=True) / total + terms
        rounding = SAFETY * u * powers / total * (relative + of_total + DIVISION)
        return np.asarray(rounding + (n + 2) * tiny)


def layer_norm(a: Array, gain: Array, shift: Array, *, u: float, tiny: float, **_: Any) -> Array:
    """Of the normalization of the rows of a (m, n), with gain and shift (n).

    The variance is the mean of (a - mean)^2: an error of the mean is one of all differences alike,
    which add up to zero, and counts in the variance by its square alone.
    """
    n = a.shape[1]
    mean = a.mean(axis=1, keepdims=True)
    of_sum = np.where(sums_exactly(a, u), 0, _count_terms(a))
    of_sum = of_sum * np.abs(a).mean(axis=1, keepdims=True)
    of_mean = of_sum + DIVISION * np.abs(mean)
    centered = a - mean
    is_kept = (of_mean == 0) & (centered.astype(np.float32) == centered)
    of_centered = of_mean + np.where(is_kept, 0.0, np.abs(centered))
    squares = centered * centered
    square = squares.mean(axis=1, keepdims=True)
    is_exact = is_kept.all(axis=1, keepdims=True) & sums_exactly(squares, u)
    of_square = np.where(is_exact, DIVISION, n + 3 + DIVISION) * square + u * of_mean**2
    inverse = 1 / np.sqrt(square + EPSILON)
    of_inverse = of_square / 2 * inverse**2 + ROOT + 1
    scaled = np.abs(gain) * inverse
    errors = scaled * (of_centered + np.abs(centered) * (of_inverse + 3))
    return SAFETY * (u * (errors + np.abs(shift)) + tiny * (2 + 2 * scaled))


def rms_norm(a: Array, gain: Array, *, u: float, tiny: float, **_: Any) -> Array:
    """Of the normalization of the rows of a (m, n) by their mean square, with gain (n)."""
    squares = a * a
    of_sum = np.where(sums_exactly(squares, u), 0, _count_terms(squares))
    relative = (of_sum + DIVISION + 1) / 2 + ROOT + 3
    scaled = np.abs(gain) / np.sqrt(squares.mean(axis=1, keepdims=True) + EPSILON)
    return SAFETY * (u * np.abs(a) * scaled * relative + tiny * (1 + scaled))


def gelu(a: Array, *, u: float, tiny: float, **_: Any) -> Array:
    """Of x / (1 + exp(-2 z)) with z = sqrt(2 / pi) (x + 0.044715 x^3), for finite x.

    Where the exponential is beyond 2^126, the quotient may be 0, and it is no normal number anyway.
    """
    twice = -2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)
    power = np.exp(np.minimum(twice, 700))
    distance = np.minimum(np.abs(twice), 700)
    relative = 6 * distance + exponential(distance)
    value = a / (1 + power)
    rounding = np.abs(value) * (relative * power / (1 + power) + DIVISION + 1)
    return SAFETY * (u * rounding + tiny * (1 + np.minimum(np.abs(a), 100)))


def biased_gelu(a: Array, b: Array, bias: Array, *, u: float, tiny: float, **_: Any) -> Array:
    """Of gelu of A (m, k) times B (k, n) plus bias (n).

    Terms that are 0 add without rounding, and whole numbers as long as their magnitudes do.
    """
    counts = (a != 0).astype(np.float64) @ (b != 0).astype(np.float64) + 1
    magnitudes = np.abs(a) @ np.abs(b) + np.abs(bias)
    are_whole = all((array == np.rint(array)).all() for array in (a, b, bias))
    is_exact = are_whole & (magnitudes <= 1 / u)
    relative = np.minimum(counts * u, 0.5)
    gamma = np.where(counts * u < 0.5, relative / (1 - relative), np.inf)
    of_sum = SAFETY * np.where(is_exact, 0.0, gamma * magnitudes + counts * tiny)
    total = a @ b + bias
    return gelu(total, u=u, tiny=tiny) + _move_along_gelu(total, of_sum)


def _move_along_gelu(a: Array, distance: Array) -> Array:
    """How far gelu is off where its argument is, whose slope is at most 1.13 and vanishes far below
    0. It falls up to its least value near -0.752, and rises from there on.
    """
    steepest = 1.13 * distance
    is_monotone = (a + distance < -0.76) | (a - distance > -0.74)
    values = (_compute_gelu(a + step) for step in (distance, -distance))
    moved = functools.reduce(np.maximum, (np.abs(it - _compute_gelu(a)) for it in values))
    return np.where(is_monotone, np.minimum(moved, steepest), steepest)


def _compute_gelu(a: Array) -> Array:
    return a / (1 + np.exp(np.minimum(-2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3), 700)))
