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
ISA, ex2.approx: a zero gives +1.0). A quotient whose divisor is beyond 2^126 may be 0 (__fdividef);
one by 1 is its dividend, since the reciprocal of 1 is a 1 that rounds nothing.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.numeric import Array

DIVISION = ROOT = 2 * 2.0
SAFETY = 2.0
EPSILON = 1e-5
"""What normalizations add to a mean square, so that a row of zeros has no division by zero."""
GONE = -104.0
"""Below this, exp(x) is less than half of float32's least subnormal number."""


def exponential(x: Any, xp: Any = np) -> Any:
    """The relative error of exp(x), in u, for an exact x; none for 0."""
    return xp.where(x == 0, 0.0, 2 * (2 + 1.173 * xp.abs(x)))


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
    row whose other elements all are its maximum sums ones, which is exact. Online, a sum is
    rescaled at most as often as elements count, by exponentials of differences that add up, for
    each term, to its distance from the maximum.
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


def rms_norm_matmul(
    x: Array, gain: Array, w: Array, *, u: float, tiny: float, dtype: str, **_: Any
) -> Array:
    """Of the rows of X (m, k), normalized with gain (k) and rounded to a type, times W (k, n).

    The inverse of a row's root may be a factor of each term or of their sum; what is too small then
    is multiplied by it.
    """
    inverse = 1 / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON)
    normed = np.abs(x) * inverse * np.abs(gain)
    facts, terms = dtype_facts(dtype), _count_terms(x)
    narrow, least = (facts.unit_roundoff, facts.underflow) if facts.unit_roundoff > u else (0, 0)
    of_normed = rms_norm(x, gain, u=u, tiny=tiny) + SAFETY * (narrow * normed + least)
    sums = (of_normed + SAFETY * u * terms * normed) @ np.abs(w)
    return np.asarray(sums + SAFETY * (terms + 1) * tiny * (1 + inverse))


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
    """Of gelu of A (m, k) times B (k, n) plus bias (n)."""
    of_sum = _bound_product(a, b, u, tiny, bias)
    total = a @ b + bias
    return gelu(total, u=u, tiny=tiny) + _move_along(_compute_gelu, total, of_sum, 1.13, -0.75)


def _bound_product(a: Array, b: Array, u: float, tiny: float, bias: Array | None = None) -> Array:
    """Of A (m, k) times B (k, n), and a bias (n) if there is one.

    Terms that are 0 add without rounding, and whole numbers as long as their magnitudes do.
    """
    added = [] if bias is None else [bias]
    counts = (a != 0).astype(np.float64) @ (b != 0).astype(np.float64) + len(added)
    magnitudes = np.abs(a) @ np.abs(b) + sum(map(np.abs, added))
    are_whole = all((array == np.rint(array)).all() for array in (a, b, *added))
    is_exact = are_whole & (magnitudes <= 1 / u)
    relative = np.minimum(counts * u, 0.5)
    gamma = np.where(counts * u < 0.5, relative / (1 - relative), np.inf)
    return np.asarray(SAFETY * np.where(is_exact, 0.0, gamma * magnitudes + counts * tiny))


def swiglu(x: Array, gate: Array, up: Array, *, u: float, tiny: float, **_: Any) -> Array:
    """Of silu(X Wg) * (X Wu), with silu(g) = g / (1 + exp(-g)), whose slope is at most 1.1."""
    gates, ups = x @ gate, x @ up
    of_gate, of_up = (_bound_product(x, weights, u, tiny) for weights in (gate, up))
    distance = np.minimum(np.abs(gates), 700)
    power = np.exp(np.minimum(-gates, 700))
    silu = _compute_silu(gates)
    relative = exponential(distance) * power / (1 + power) + DIVISION + 1
    of_silu = SAFETY * (u * np.abs(silu) * relative + tiny * (1 + distance))
    of_silu = of_silu + _move_along(_compute_silu, gates, of_gate, 1.1, -1.28)
    of_factors = np.abs(ups) * of_silu + np.abs(silu) * of_up + of_silu * of_up
    return np.asarray(of_factors + SAFETY * (u * np.abs(silu * ups) + tiny))


def _move_along(
    function: Callable[[Array], Array], a: Array, distance: Array, slope: float, least: float
) -> Array:
    """How far a function is off where its argument is: one that falls up to near `least` and rises
    from there on, with a slope that is at most `slope` and vanishes far below 0.
    """
    steepest = slope * distance
    is_monotone = (a + distance < least - 0.01) | (a - distance > least + 0.01)
    moved = (np.abs(function(a + step) - function(a)) for step in (distance, -distance))
    return np.where(
        is_monotone, np.minimum(functools.reduce(np.maximum, moved), steepest), steepest
    )


def _compute_silu(a: Array) -> Array:
    return a / (1 + np.exp(np.minimum(-a, 700)))


def _compute_gelu(a: Array) -> Array:
    return a / (1 + np.exp(np.minimum(-2 * np.sqrt(2 / np.pi) * (a + 0.044715 * a**3), 700)))


ONLINE = 7
"""Roundings of a term for each time that a running sum is rescaled, which is an exponential and
a product, and added to (`softmax`)."""


@dataclass(frozen=True)
class Attention:
    """Of softmax(scale q k^T) v of one head, in any order of keys and however often rescaled.

    Attributes
    ----------
    dtype : of values, to which powers are rounded before they are multiplied
    fuses : whether an exponent may be c x - c m of a score x and the maximum m, by one multiply-add
    u, tiny : as for all functions here
    xp : the module that the arrays belong to, NumPy or PyTorch
    """

    scale: float
    dtype: str
    u: float
    tiny: float
    fuses: bool = False
    xp: Any = np

    def bound(self, q: Any, k: Any, v: Any, visible: Any) -> Any:
        """For q (queries, dim), k and v (keys, dim), visible (queries, keys): (queries, dim).

        Maxima cancel. A row of equal scores sums ones; a key that leaves no other any power has the
        power 1, and its value is the result: to the bit of whole numbers, and of others but for a
        product with a power that is nearly 1, and the quotient by that. Where scores may be so far
        off that the first order says nothing, the result still lies among the values. Where
        exponents are fused, powers of equal scores are equal, but no ones.
        """
        xp = self.xp
        with np.errstate(invalid="ignore", over="ignore"):
            scores = xp.where(visible, self.scale * (q @ k.T), -math.inf)
            maximum = _largest(scores, xp)
            shifted = scores - maximum
            off = xp.where(visible, self._bound_scores(q, k), 0.0)
            if self.fuses:  # the maximum so far, when a power is computed, may be another one
                off = xp.where(visible, off + self.u * (xp.abs(maximum) - 2 * shifted), 0.0)
            counts = shifted > GONE - 2 * _largest(off, xp)
            powers = xp.exp(shifted)
            is_alone = counts.sum(axis=1, keepdims=True) == 1
            first_order = self._bound_powers(powers, xp.abs(shifted), off, counts, v)
            largest = _find_largest(counts, xp.abs(v), xp)
            among, alone = 2.1 * largest, 0.0 if _are_whole(v, xp) else 2 * self.u * largest
            if self.fuses:
                alone = xp.minimum(alone + first_order, among)
            is_far = (xp.where(counts, off, 0.0) > 0.25).any(axis=1, keepdims=True)
            rounding = xp.where(is_far, among, xp.minimum(first_order, among))
            most = 1 + xp.amax(xp.abs(v), axis=0)
            return xp.where(is_alone, alone, rounding) + 2 * (len(k) + 2) * self.tiny * most

    def _bound_scores(self, q: Any, k: Any) -> Any:
        """How far off scores are, and so the logarithms of powers."""
        xp = self.xp
        magnitudes = xp.abs(q) @ xp.abs(k).T
        is_exact = magnitudes == 0
        if _are_whole(q, xp) and _are_whole(k, xp):
            is_exact |= magnitudes <= 1 / self.u
        rounded = q.shape[1] * (self.u * magnitudes + self.tiny)
        return xp.where(is_exact, 0.0, self.scale * rounded)

    def _bound_powers(self, powers: Any, distance: Any, off: Any, counts: Any, v: Any) -> Any:
        """To first order in u, doubled."""
        xp = self.xp
        distance = xp.where(counts, distance, 0.0)
        terms = counts.sum(axis=1, keepdims=True)
        is_equal = ~(distance > 0).any(axis=1, keepdims=True)
        of_power = off / self.u + 3 * distance + exponential(distance, xp)
        of_power = xp.where(counts, of_power, 0.0) + xp.where(is_equal, 0, ONLINE * terms)
        total = powers.sum(axis=1, keepdims=True)
        magnitudes = powers @ xp.abs(v) / total
        narrow, least = self._find_narrow()
        of_sum = (powers * of_power) @ xp.abs(v) / total + terms * magnitudes
        of_total = (powers * of_power).sum(axis=1, keepdims=True) / total
        of_result = xp.abs(powers @ v / total) * (of_total + DIVISION)
        rounded = self.u * (of_sum + of_result)
        counted = xp.where(counts, 1.0, xp.zeros_like(powers))
        stored = narrow * magnitudes + least * (counted @ xp.abs(v)) / total
        if self.fuses:  # powers of equal scores are equal, and ones where they are stored so
            is_equal &= _largest(xp.where(counts, off, 0.0), xp) < narrow / 4
        return SAFETY * (rounded + xp.where(is_equal, 0.0, stored))

    def _find_narrow(self) -> tuple[float, float]:
        """What powers lose in the type of the values: of themselves, and at least."""
        facts = dtype_facts(self.dtype)
        if facts.unit_roundoff <= self.u:
            return 0.0, 0.0
        return facts.unit_roundoff, facts.smallest_subnormal / 2


RUN = 64
"""Keys that are looked at together."""


def _are_whole(array: Any, xp: Any) -> bool:
    return bool((array == xp.round(array)).all())


def _largest(rows: Any, xp: Any) -> Any:
    return xp.amax(rows, axis=1, keepdims=True)


def _find_largest(counts: Any, magnitudes: Any, xp: Any) -> Any:
    """The largest of the values (keys, dim) that count for each query (queries, keys).

    Keys that count for all queries are looked at once for all of them. Of most runs of the others
    all or none count for a query: one key after the other are only those looked at that do not.
    """
    largest = xp.where(counts[:, :1], 0.0, xp.zeros_like(magnitudes[:1]))
    of_all = counts.all(axis=0)
    if bool(of_all.any()):
        largest = xp.maximum(largest, xp.amax(magnitudes[of_all], axis=0))
    of_some = counts.any(axis=0) & ~of_all
    counts, magnitudes = counts[:, of_some], magnitudes[of_some]
    for start in range(0, len(magnitudes), RUN):
        here, values = counts[:, start : start + RUN], magnitudes[start : start + RUN]
        is_whole = here.all(axis=1)
        is_part = here.any(axis=1) & ~is_whole
        largest[is_whole] = xp.maximum(largest[is_whole], xp.amax(values, axis=0))
        if bool(is_part.any()):
            counted = xp.where(here[is_part][:, :, None], values, 0.0)
            largest[is_part] = xp.maximum(largest[is_part], xp.amax(counted, axis=1))
    return largest
