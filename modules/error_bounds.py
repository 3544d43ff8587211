"""How far off a kernel's results may be (`bound_computing`, before they are stored): its meaning in
NumPy, asked with arrays that carry errors.

A `Rounded` array is what the judge of programs tracks of a number (lowering_checks/reference): a
sum of terms, its value in float64, the magnitude of its terms, how many additions make it, and the
error that the terms bring along. In any order of summation, with n additions in a type of unit
roundoff u, the rounding of a sum is at most n u / (1 - n u) times that magnitude (Higham, Accuracy
and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, sections 3.1 and 4.2); and nothing at all
where no partial sum can have more bits than the type. Anything but an addition ends a sum
(`Rounded.closed`): what it is off by then is an absolute error, which the operation passes on.
Whatever underflows may become 0, since TVM compiles for a GPU with fast arithmetic.

How far off a device may be by itself in quotients and functions of floats is in units of roundoff.
Those of float32 are CUDA's fast ones, with which TVM compiles (CUDA C++ Programming Guide,
"Mathematical Functions": __expf, __fdividef, rsqrtf; PTX ISA, sin.approx and tanh.approx), or what
TVM makes of functions that a device does not have (tanh and sinh of exponentials, say); other types
are given the same. A unit in the last place is two units of roundoff.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.inputs import Array
from tirstep.modules.validation import KernelError

if TYPE_CHECKING:
    from tirstep.modules.kernel import Problem

DIVISION = 4.0
"""Error of a quotient: 2 units in the last place."""
LARGEST_DIVISOR = 2.0**126
"""Beyond it CUDA's fast quotient of float32 may be 0."""
EXPONENTIAL = 2 * 1.173
"""Error of an exponential, per unit of the argument."""


@dataclass(frozen=True)
class FloatFunction:
    """A function that rises or falls all along its domain, or whose slope is at most 1.

    Attributes
    ----------
    name : in the C library; "" for one that is computed of others
    relative, absolute : what a device may be off by itself, in units of roundoff; the first also
        for each unit of the argument's magnitude (`growth`)
    low, high : the domain, into which ends of intervals are moved
    is_flat : the slope is at most 1, and it neither rises nor falls all along
    is_whole : its values are whole numbers, and rounded by nothing
    is_reciprocal : of a sum that overflows in its type, so that its least values are 0
    """

    name: str
    relative: float = 0.0
    growth: float = 0.0
    absolute: float = 0.0
    absolute_growth: float = 0.0
    low: float = -math.inf
    high: float = math.inf
    is_flat: bool = False
    is_whole: bool = False
    is_reciprocal: bool = False


FLOAT_FUNCTIONS: dict[str, FloatFunction] = {
    "exp": FloatFunction("exp", 4, EXPONENTIAL),
    "exp2": FloatFunction("exp2", 4, EXPONENTIAL),
    "exp10": FloatFunction("", 4, 6),
    "log": FloatFunction("log", 6, absolute=8, low=0),
    "log2": FloatFunction("log2", 8, absolute=8, low=0),
    "log10": FloatFunction("log10", 8, absolute=8, low=0),
    "log1p": FloatFunction("log1p", 8, absolute=8, low=-1),
    "sqrt": FloatFunction("sqrt", 6, low=0),
    "rsqrt": FloatFunction("", 6, low=0),
    "sigmoid": FloatFunction("", 12, EXPONENTIAL, is_reciprocal=True),
    "tanh": FloatFunction("tanh", 2.0**14, absolute=8),
    "sin": FloatFunction("sin", absolute=16, absolute_growth=4, is_flat=True),
    "cos": FloatFunction("cos", absolute=16, absolute_growth=4, is_flat=True),
    "asin": FloatFunction("asin", 8, absolute=8, low=-1, high=1),
    "acos": FloatFunction("acos", 8, absolute=8, low=-1, high=1),
    "atan": FloatFunction("atan", 8, absolute=8),
    "sinh": FloatFunction("sinh", 12, EXPONENTIAL, absolute=8),
    "asinh": FloatFunction("asinh", 8, absolute=8),
    "acosh": FloatFunction("acosh", 8, absolute=8, low=1),
    "atanh": FloatFunction("atanh", 8, absolute=8, low=-1, high=1),
    "erf": FloatFunction("erf", 8, absolute=8),
    "floor": FloatFunction("floor", is_whole=True),
    "ceil": FloatFunction("ceil", is_whole=True),
    "trunc": FloatFunction("trunc", is_whole=True),
    "round": FloatFunction("nearbyint", is_whole=True),
    "nearbyint": FloatFunction("nearbyint", is_whole=True),
}
"""By TVM's names, without ``tirx.``. TVM's `round` is to the nearest even number."""
ANY_UNIT = 2.0**600
"""The power of two that 0 and the infinities are taken to be multiples of."""
NEGLIGIBLE = 2.0**-64
"""An error that is no more than this of a number is lost in whatever that is added to."""
GONE = -104.0
"""Below this, exp(x) is less than half of float32's least subnormal number."""
RESCALING = 7
"""Roundings of a term for each time that a running sum is rescaled, which is an exponential and
a product, and added to."""


def get_units(values: Any) -> Any:
    """The largest power of two that each number is a multiple of."""
    mantissas, exponents = np.frexp(values)
    digits = (np.where(np.isfinite(values), mantissas, 0.0) * 2.0**53).astype(np.int64)
    lowest = np.ldexp((digits & -digits).astype(np.float64), exponents - 53)
    return np.where(digits == 0, ANY_UNIT, lowest)


def bound_sums(magnitudes: Any, roundings: Any, facts: DType, xp: Any = np) -> Any:
    """How far off sums of such magnitudes are by so many roundings each, in any order; infinite
    where nothing can be promised. `xp` is the module of the arrays: NumPy, or PyTorch.
    """
    relative = roundings * facts.unit_roundoff
    is_small = relative < 1
    gamma = xp.where(is_small, relative / (1 - xp.where(is_small, relative, 0.0)), math.inf)
    # A sum without a term is exact, whatever gamma (0 times infinity is no number); so is one with
    # an infinity, of which the others change nothing.
    rounds = (magnitudes > 0) & xp.isfinite(magnitudes)
    share = xp.where(rounds, gamma * xp.where(rounds, magnitudes, 1.0), 0.0)
    return share + xp.maximum(roundings, 0 * roundings + 1.0) * facts.underflow


@dataclass(frozen=True, eq=False)
class Rounded(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers in float64 and their errors; NumPy's operators and functions take them.

    Attributes
    ----------
    facts : the type in which the program computes
    magnitude : of the terms of open sums; None where each number is one term
    additions : that round, of those that make it of its terms
    """

    value: Any
    facts: DType
    error: Any = 0.0
    magnitude: Any = None
    additions: Any = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def T(self) -> Rounded:  # noqa: N802 - NumPy's name
        return self.closed._move(np.transpose)

    def __getitem__(self, index: Any) -> Rounded:
        return self.closed._move(lambda part: part[index])

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise _refuse("what makes plain arrays of its inputs")

    def _move(self, move: Callable[[Any], Any]) -> Rounded:
        error = move(np.broadcast_to(self.error, self.shape)) if np.any(self.error) else 0.0
        return replace(self, value=move(self.value), error=error)

    @functools.cached_property
    def largest(self) -> Any:
        """How large the numbers, or the terms of their sums, may be."""
        return np.abs(self.value) + self.error if self.magnitude is None else self.magnitude

    @functools.cached_property
    def closed(self) -> Rounded:
        """Each number as one term, with the error of its sum in any order."""
        if self.magnitude is None:
            return self
        rounding = bound_sums(self.magnitude, self.additions, self.facts)
        error = self.error + np.where(self.additions > 0, rounding, 0.0)
        if np.any(self.error):
            error = error + bound_sums(self.error + 0 * error, self.additions, self.facts)
        return Rounded(self.value, self.facts, np.where(np.isinf(self.value), self.error, error))

    @functools.cached_property
    def _operand(self) -> Rounded:
        """One term each, of which subnormal numbers may be taken for zeros by arithmetic."""
        closed, sizes = self.closed, np.abs(self.value)
        is_lost = (sizes < self.facts.smallest_normal) & (sizes > 0)
        if self.facts.underflow < self.facts.smallest_normal or not is_lost.any():
            return closed
        return replace(
            closed, error=np.where(is_lost, np.maximum(closed.error, sizes), closed.error)
        )

    def _is_small(self, error: Any, facts: DType | None = None) -> Any:
        """Whether a type has the value as it is, and an error of it does not count."""
        facts = facts or self.facts
        with np.errstate(over="ignore", invalid="ignore"):
            same = self.value.astype(facts.numpy) == self.value
            return same & (error <= NEGLIGIBLE * np.abs(self.value) + 2 * facts.underflow)

    def _round(self, units: Any = None, extra: Any = 0.0, facts: DType | None = None) -> Rounded:
        """Off by so many units of roundoff of the value, and by an absolute `extra`; without them
        by one rounding to a type, or by none where that has the value.
        """
        facts = facts or self.facts
        roundoff = (1.0 if units is None else units) * (facts.unit_roundoff + 2.0**-53)
        total = self.error + roundoff * self.largest + facts.underflow + extra
        if units is None:
            total = np.where(self._is_small(self.error, facts), self.error, total)
        return replace(self, error=total)

    def _take(self, other: Any) -> Rounded:
        """Another operand; of a constant what its type has of it."""
        if isinstance(other, Rounded):
            return other
        value = Rounded(np.asarray(other, np.float64), self.facts)
        return value if value.value.ndim else value._round()

    # ---- Arithmetic

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name = ufunc.__name__
        operands = [self._take(each) for each in inputs]
        if method == "__call__" and not options:
            if name in FLOAT_FUNCTIONS:
                return operands[0]._apply(ufunc, FLOAT_FUNCTIONS[name])
            if name in _OPERATIONS:
                return _OPERATIONS[name](*operands)
            if name in _COMPARISONS and not any(np.any(each.closed.error) for each in operands):
                return ufunc(*(each.value for each in operands))
        raise _refuse(f"{name} of NumPy")

    def _add(self, other: Rounded, sign: int = 1) -> Rounded:
        one, two = (it._operand if it.magnitude is None else it for it in (self, other))
        error = one.error + two.error
        total = Rounded(one.value + sign * two.value, self.facts)
        rounds = (one.largest > 0) & (two.largest > 0)
        # One addition alone may be exact.
        rounds = rounds & ~((one.additions + two.additions == 0) & total._is_small(error))
        counts = one.additions + two.additions + rounds
        return replace(total, error=error, magnitude=one.largest + two.largest, additions=counts)

    def _multiply(self, other: Rounded) -> Rounded:
        one, two = self._operand, other._operand
        with np.errstate(invalid="ignore"):
            error = _known(one.largest * two.error + one.error * np.abs(two.value))
        return Rounded(one.value * two.value, self.facts, error)._round()

    def _divide(self, other: Rounded) -> Rounded:
        one, two = self._operand, other._operand
        value, size = one.value / two.value, np.abs(two.value)
        quotient, left = np.where(np.isinf(size), 0.0, np.abs(value)), size - two.error
        passed = one.error + np.where(two.error == 0, 0.0, quotient * two.error)
        error = np.where(left > 0, passed / np.where(left > 0, left, 1.0), math.inf)
        error = np.where((passed == 0) | (np.isinf(size) & np.isfinite(two.error)), 0.0, error)
        lost = np.where(two.largest > LARGEST_DIVISOR, quotient, 0.0)
        rounded = Rounded(value, self.facts, error)._round(DIVISION, lost)
        # A quotient by 1 is its dividend: the reciprocal is a 1 that rounds nothing.
        is_kept = (one.value == 0) & (one.error == 0) | (two.value == 1) & (two.error == 0)
        return replace(rounded, error=np.where(is_kept, one.error, rounded.error))

    def _power(self, other: Rounded) -> Rounded:
        if other.value.ndim or other.value not in range(1, 17):
            raise _refuse("a power that is none from 1 to 16")
        return functools.reduce(Rounded._multiply, [self] * int(other.value))

    def _choose(self, other: Rounded, choose: Callable[[Any, Any], Any]) -> Rounded:
        one, two = self.closed, other.closed
        error = np.maximum(one.error, two.error)
        return Rounded(choose(one.value, two.value), self.facts, error)

    def _apply(self, compute: Callable[[Any], Any], function: FloatFunction) -> Rounded:
        """A function that rises or falls all along, or is flat: its values at both ends of where
        the argument may be say what the error of that comes to.
        """
        given, roundoff = self._operand, self.facts.unit_roundoff
        with np.errstate(all="ignore"):
            value, passed = compute(given.value), given.error
            if not function.is_flat and np.any(given.error):
                ends = (
                    compute(np.clip(given.value + sign * given.error, function.low, function.high))
                    for sign in (-1, 1)
                )
                apart = [np.where(end == value, 0.0, np.abs(end - value)) for end in ends]
                own = np.where(np.isfinite(value), np.abs(value), 0.0) * 2.0**-50
                passed = np.where(given.error == 0, 0.0, _known(np.maximum(*apart)) + own)
            if function.is_whole:
                return Rounded(value, self.facts, passed)
            size = np.where(np.isfinite(given.value), np.abs(given.value), 0.0)
            beside = roundoff * (function.absolute + function.absolute_growth * size)
            units = function.relative + function.growth * size
            rounded = Rounded(value, self.facts, passed)._round(units, beside)
            # An exact 0 or infinity that becomes 0, 1 or an infinity is exact, too.
            is_plain = ((given.value == 0) | np.isinf(given.value)) & (given.error == 0)
            is_settled = is_plain & ((value == 0) | (value == 1)) | np.isinf(value) & (passed == 0)
        return replace(rounded, error=np.where(is_settled, 0.0, rounded.error))

    # ---- Rows

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function is np.where:
            (condition, *both), first = args, self
            one, two = (first._take(each).closed for each in both)
            error = np.where(condition, one.error, two.error)
            return Rounded(np.where(condition, one.value, two.value), self.facts, error)
        if function.__name__ in ("sum", "mean", "max", "amax", "min", "amin"):
            return getattr(args[0], function.__name__.removeprefix("a"))(*args[1:], **options)
        raise _refuse(f"{function.__name__} of NumPy")

    def sum(self, axis: Any = None, keepdims: bool = False) -> Rounded:
        """Sums along an axis, open: in any order."""
        one, how = self._operand, {"axis": axis, "keepdims": keepdims}
        sizes, errors = (np.broadcast_to(it, self.shape) for it in (one.largest, one.error))
        magnitude, error = sizes.sum(**how), errors.sum(**how)
        counts = np.maximum(np.count_nonzero(sizes, **how) - 1, 0).astype(np.float64)
        near = NEGLIGIBLE * np.abs(one.value) + 2 * self.facts.underflow
        units = np.where(errors > near, 0.0, get_units(one.value)).min(**how)
        fits = (magnitude <= units * 2.0**self.facts.mantissa_bits) & (error <= NEGLIGIBLE * units)
        counts = np.where(fits & (units >= self.facts.smallest_normal), 0.0, counts)
        return Rounded(one.value.sum(**how), self.facts, error, magnitude, counts)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Rounded:
        """Sums along an axis, divided by how many terms there are."""
        total = self.sum(axis, keepdims)
        return total / (self.value.size / total.value.size)

    def _reduce(self, choose: Any, axis: Any = None, keepdims: bool = False) -> Rounded:
        """The largest, or the smallest, along an axis."""
        one, how = self.closed, {"axis": axis, "keepdims": keepdims}
        error = np.broadcast_to(one.error, self.shape).max(**how) if np.any(one.error) else 0.0
        return Rounded(choose(one.value, **how), self.facts, error)

    max = functools.partialmethod(_reduce, np.max)
    min = functools.partialmethod(_reduce, np.min)

    def _multiply_matrices(self, other: Rounded) -> Rounded:
        """Sums of products, open: in any order, products and sums fused or not."""
        one, two = self._operand, other._operand
        with np.errstate(invalid="ignore"):
            magnitude, error = one.largest @ two.largest, 0.0
            counts = (one.largest != 0).astype(np.float64) @ (two.largest != 0).astype(np.float64)
            if np.any(one.error):
                error = _known(np.broadcast_to(one.error, one.shape) @ two.largest)
            if np.any(two.error):
                error = error + _known(np.abs(one.value) @ np.broadcast_to(two.error, two.shape))
        if not np.any(error) and all((it.value == np.rint(it.value)).all() for it in (one, two)):
            counts = np.where(magnitude <= 1 / self.facts.unit_roundoff, 0.0, counts)
        return Rounded(one.value @ two.value, self.facts, error, magnitude, counts)


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_OPERATIONS: Mapping[str, Callable[..., Rounded]] = {
    "add": Rounded._add,
    "subtract": lambda a, b: a._add(b, -1),
    "negative": lambda a: replace(a, value=-a.value),
    "absolute": lambda a: replace(a.closed, value=np.abs(a.value)),
    "multiply": Rounded._multiply,
    "square": lambda a: a._multiply(a),
    "divide": Rounded._divide,
    "power": Rounded._power,
    "maximum": lambda a, b: a._choose(b, np.maximum),
    "minimum": lambda a, b: a._choose(b, np.minimum),
    "matmul": Rounded._multiply_matrices,
}


def _known(errors: Any) -> Any:
    """Errors of which what is no number may be anything."""
    return np.where(np.isnan(errors), math.inf, errors)


class UnknownRoundingError(Exception):
    """A meaning does something of which nobody here knows the error."""


def _refuse(what: str) -> UnknownRoundingError:
    return UnknownRoundingError(
        f"its reference uses {what}, whose rounding error is not known; write it with sums, "
        "products, quotients, maxima and exponentials, or give the kernel its error"
    )


# ---- What a meaning says of its program's roundings; plain arrays stay as they are.


def stored(values: Any, dtype: str) -> Any:
    """Values that the program rounds to a type on their way."""
    narrow = dtype_facts(dtype)
    if not isinstance(values, Rounded) or narrow.unit_roundoff <= values.facts.unit_roundoff:
        return values
    return values.closed._round(facts=narrow)


def rescaled(powers: Any, distances: Any) -> Any:
    """Powers of distances <= 0 to a row's maximum of which a running sum may be formed: rescaled at
    most as often as elements count, by exponentials of differences that add up to the distance.
    """
    if not isinstance(powers, Rounded):
        return powers
    counts = distances.value > GONE
    lengths = np.where(counts, np.abs(distances.value), 0.0)
    terms = np.where(lengths.any(axis=-1, keepdims=True), counts.sum(axis=-1, keepdims=True), 0)
    roundings = powers.facts.unit_roundoff * (4 * lengths + RESCALING * terms)
    return replace(powers, error=powers.error + roundings * powers.value)


def bound_storing(exact: Any, error: Any, dtype: str, xp: Any = np) -> Any:
    """How far off what was computed with an error may be once it is rounded to a type.

    `xp` is the module that the arrays belong to: NumPy, or PyTorch.
    """
    out = dtype_facts(dtype)
    return error + (out.unit_roundoff * (xp.abs(exact) + error) + out.underflow)


def round_end(values: Array, dtype: str, sign: int) -> Array:
    """Values rounded to a type, in float64, as the end of an interval: the upper one with sign 1.

    Where float8 overflows, NumPy has an infinity or, in a type without, no number; CUDA has the
    largest number, of infinities too (`__NV_SATFINITE` of the constructors in cuda_fp8.h). Both
    are in the interval.
    """
    facts = dtype_facts(dtype)
    if not facts.is_float:
        return values
    with np.errstate(over="ignore"):
        stored = values.astype(facts.numpy).astype(np.float64)
    if facts.bytes > 1:
        return stored
    beyond = ~np.isfinite(stored) & ~np.isnan(values)
    most = np.where(np.sign(values) == sign, np.inf, facts.largest)
    return np.where(beyond, np.copysign(most, values), stored)


def bound_computing(problem: Problem, inputs: Sequence[Array]) -> list[Array]:
    """How far off each output may be before it is stored, in absolute numbers."""
    meaning, acc = problem.kernel.meaning, dtype_facts(problem.accumulator)
    if not acc.is_float or meaning.is_bitwise:
        return [np.zeros(output.shape) for output in problem.outputs]
    constants = {**problem.shape, **problem.options}
    doubles = [np.asarray(x).astype(np.float64) for x in inputs]
    if meaning.error is not None:
        units = {"u": acc.unit_roundoff, "tiny": acc.underflow}
        found = problem.kernel.ask("error", *doubles, **units, **constants)
        return problem.take_results("error", found)
    if problem.is_exact:
        magnitudes = problem.reference([np.abs(double) for double in doubles])
        terms = problem.reference([double != 0 for double in doubles])
        return [bound_exact(problem, *pair) for pair in zip(magnitudes, terms, strict=True)]
    rounded: list[Any] = [
        double if place in problem.ranges else Rounded(double, acc)
        for place, double in enumerate(doubles)
    ]
    with np.errstate(invalid="ignore", over="ignore"):
        try:
            found = problem.kernel.ask("reference", *rounded, **constants)
        except UnknownRoundingError as error:
            raise KernelError(f"{problem}: {error}") from None
        results = [each.closed for each in (found if isinstance(found, tuple) else (found,))]
    return [
        np.where(np.isnan(it.error) & ~np.isnan(it.value), np.inf, it.error + np.zeros(it.shape))
        for it in results
    ]


def bound_exact(problem: Problem, magnitudes: Any, terms: Any, xp: Any = np) -> Any:
    """How far off sums, or sums of products, may be before they are stored, in absolute numbers.

    `magnitudes` is the reference of the inputs' absolute values, and `terms` of ones where inputs
    are not 0; `xp` is the module that they belong to: NumPy, or PyTorch. Operands of type tf32 lose
    all but 11 bits, 2^-10 of each at most: tensor cores cut bits off, the vendor's libraries round.
    """
    acc, operands = dtype_facts(problem.accumulator), str(problem.options.get("dtype"))
    roundings = terms if problem.multiplies else xp.maximum(terms - 1.0, 0.0 * terms)
    lost = (1 + 2 * dtype_facts("tf32").unit_roundoff * (operands == "tf32")) ** 2 - 1
    rounding = bound_sums(magnitudes, roundings, acc, xp)
    return rounding if lost == 0 else lost * magnitudes + (1 + lost) * rounding
