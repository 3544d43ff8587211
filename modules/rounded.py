"""Arrays that carry how far rounding may take them: what a kernel's meaning in NumPy is asked with.

A `Rounded` array is what the judge of programs tracks of a number (lowering_checks/reference): a
sum of terms, its value in float64, the magnitude of its terms, how many additions make it, the
error that the terms bring along, and a power of two that all terms are multiples of. In any order
of summation, with n additions in a type of unit roundoff u, the rounding of a sum is at most
n u / (1 - n u) times that magnitude (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
ed., SIAM 2002, sections 3.1 and 4.2); and nothing at all where no partial sum can have more bits
than the type. Anything but an addition ends a sum (`Rounded.closed`): what it is off by then is an
absolute error, which the operation passes on. Whatever underflows may become 0, since TVM compiles
for a GPU with fast arithmetic.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.float_errors import DIVISION, FLOAT_FUNCTIONS, LARGEST_DIVISOR, FloatFunction
from tirstep.modules.validation import KernelError

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


def find_gamma(roundings: Any, roundoff: float, xp: Any = np) -> Any:
    """The relative error of so many roundings; infinite where nothing can be promised."""
    relative = roundings * roundoff
    is_small = relative < 1
    return xp.where(is_small, relative / (1 - xp.where(is_small, relative, 0.0)), math.inf)


def bound_sums(magnitudes: Any, roundings: Any, facts: DType, xp: Any = np) -> Any:
    """How far off sums of such magnitudes are by so many roundings each, in any order.

    `xp` is the module that the arrays belong to: NumPy, or PyTorch.
    """
    relative = find_gamma(roundings, facts.unit_roundoff, xp)
    # A sum without a term is exact, whatever gamma (0 times infinity is no number); so is one with
    # an infinity, of which the others change nothing.
    rounds = (magnitudes > 0) & xp.isfinite(magnitudes)
    share = xp.where(rounds, relative * xp.where(rounds, magnitudes, 1.0), 0.0)
    return share + xp.maximum(roundings, 0 * roundings + 1.0) * facts.underflow


@dataclass(frozen=True, eq=False)
class Rounded(np.lib.mixins.NDArrayOperatorsMixin):
    """Numbers in float64 and their errors; NumPy's operators and functions take them.

    Attributes
    ----------
    facts : the type in which the program computes
    magnitude : of the terms of open sums; None where each number is one term
    additions : that make it of its terms
    unit : a power of two that the terms of open sums are multiples of
    """

    value: Any
    facts: DType
    error: Any = 0.0
    magnitude: Any = None
    additions: Any = 0.0
    unit: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def T(self) -> Rounded:  # noqa: N802 - NumPy's name
        return self._move(np.transpose)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, index: Any) -> Rounded:
        return self._move(lambda part: part[index])

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise _refuse("what makes plain arrays of its inputs")

    def _move(self, move: Callable[[Any], Any]) -> Rounded:
        """Every part moved alike, as by reshape or transpose."""
        parts = {
            name: move(np.broadcast_to(part, self.shape))
            for name in ("error", "magnitude", "additions", "unit")
            if isinstance(part := getattr(self, name), np.ndarray)
        }
        return replace(self, value=move(self.value), **parts)

    # ---- Sums end

    @functools.cached_property
    def largest(self) -> Any:
        """How large the numbers may be."""
        return np.abs(self.value) + self.error

    @functools.cached_property
    def closed(self) -> Rounded:
        """Each number as one term, with the error of its sum in any order."""
        if self.magnitude is None:
            return self
        facts = self.facts
        gamma = find_gamma(self.additions, facts.unit_roundoff)
        with np.errstate(invalid="ignore"):
            passed = np.where(self.error == 0, 0.0, self.error * (1 + gamma))
        rounds = bound_sums(self.magnitude, self.additions, facts)
        fits = self.magnitude <= self.unit * 2.0**facts.mantissa_bits
        is_kept = fits & (self.unit >= facts.smallest_normal)
        is_kept = is_kept & (self.error <= NEGLIGIBLE * self.unit) | np.isinf(self.value)
        is_kept = is_kept | (self.additions == 0)
        return Rounded(self.value, facts, np.where(is_kept, self.error, passed + rounds))

    def _round(self, units: Any = 1.0, extra: Any = 0.0, facts: DType | None = None) -> Rounded:
        """Off by so many units of roundoff of the value, and by an absolute `extra`; not at all
        where the type has the value, if it is one rounding or none.
        """
        facts = facts or self.facts
        roundoff = facts.unit_roundoff + 2.0**-53
        total = self.error + units * roundoff * self.largest + facts.underflow + extra
        if isinstance(units, float) and units == 1.0:
            total = np.where(self._is_kept(self.value, self.error, facts), self.error, total)
        return replace(self, error=total)

    @functools.cached_property
    def _operand(self) -> Rounded:
        """One term each, of which subnormal numbers may be taken for zeros by arithmetic."""
        closed = self.closed
        if self.facts.underflow < self.facts.smallest_normal:
            return closed
        sizes = np.abs(closed.value)
        is_lost = (sizes < self.facts.smallest_normal) & (sizes > 0)
        if not is_lost.any():
            return closed
        return replace(
            closed, error=np.where(is_lost, np.maximum(closed.error, sizes), closed.error)
        )

    def _take(self, other: Any) -> Rounded:
        """Another operand; of a constant what its type has of it."""
        if isinstance(other, Rounded):
            return other
        value = np.asarray(other, np.float64)
        return (
            Rounded(value, self.facts)._round() if value.ndim == 0 else Rounded(value, self.facts)
        )

    def _find_units(self) -> Any:
        near = NEGLIGIBLE * np.abs(self.value) + 2 * self.facts.underflow
        return np.where(self.error > near, 0.0, get_units(self.value))

    # ---- Arithmetic

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        name, first = ufunc.__name__, next(it for it in inputs if isinstance(it, Rounded))
        if method != "__call__" or options:
            raise _refuse(f"{name}.{method} of NumPy")
        operands = [first._take(each) for each in inputs]
        if name in FLOAT_FUNCTIONS:
            return operands[0]._apply(ufunc, FLOAT_FUNCTIONS[name])
        if name in _COMPARISONS:
            values = [each.closed for each in operands]
            if any(np.any(each.error) for each in values):
                raise _refuse("a comparison of numbers that are rounded")
            return ufunc(*(each.value for each in values))
        if name not in _OPERATIONS:
            raise _refuse(f"{name} of NumPy")
        return _OPERATIONS[name](*operands)

    def _add(self, other: Rounded, sign: int = 1) -> Rounded:
        pair = [each._operand if each.magnitude is None else each for each in (self, other)]
        sizes = [each.largest if each.magnitude is None else each.magnitude for each in pair]
        units = [_find_unit(each) if each.magnitude is None else each.unit for each in pair]
        one, two = pair
        value = one.value + sign * two.value
        rounds = (sizes[0] > 0) & (sizes[1] > 0)
        if one.magnitude is two.magnitude is None:  # one addition, which may be exact
            rounds = rounds & ~self._is_kept(value, one.error + two.error)
        counts = one.additions + two.additions + rounds
        total = sizes[0] + sizes[1]
        unit = np.minimum(units[0], units[1])
        return Rounded(value, self.facts, one.error + two.error, total, counts, unit)

    def _is_kept(self, value: Any, error: Any, facts: DType | None = None) -> Any:
        """Whether a type has a value as it is, with an error that does not count."""
        facts = facts or self.facts
        with np.errstate(over="ignore", invalid="ignore"):
            same = value.astype(facts.numpy) == value
            return same & (error <= NEGLIGIBLE * np.abs(value) + 2 * facts.underflow)

    def _multiply(self, other: Rounded) -> Rounded:
        one, two = self._operand, other._operand
        with np.errstate(invalid="ignore"):
            error = one.largest * two.error + one.error * np.abs(two.value)
        return Rounded(one.value * two.value, self.facts, _known(error))._round()

    def _divide(self, other: Rounded) -> Rounded:
        one, two = self._operand, other._operand
        value, size = one.value / two.value, np.abs(two.value)
        quotient = np.abs(value)
        passed = one.error + np.where(two.error == 0, 0.0, quotient * two.error)
        left = size - two.error
        error = np.where(left > 0, passed / np.where(left > 0, left, 1.0), math.inf)
        error = np.where((passed == 0) | np.isinf(size), 0.0, error)
        lost = np.where(two.largest > LARGEST_DIVISOR, np.where(np.isinf(size), 0, quotient), 0.0)
        rounded = Rounded(value, self.facts, error)._round(DIVISION, lost)
        is_zero = (one.value == 0) & (one.error == 0)
        return replace(rounded, error=np.where(is_zero, 0.0, rounded.error))

    def _power(self, other: Rounded) -> Rounded:
        exponent = float(other.value) if other.value.ndim == 0 else 0.0
        if exponent not in range(1, 17):
            raise _refuse("a power that is none from 1 to 16")
        result = self
        for _ in range(int(exponent) - 1):
            result = result._multiply(self)
        return result

    def _choose(self, other: Rounded, choose: Callable[[Any, Any], Any]) -> Rounded:
        one, two = self.closed, other.closed
        return Rounded(choose(one.value, two.value), self.facts, np.maximum(one.error, two.error))

    def _apply(self, compute: Callable[[Any], Any], function: FloatFunction) -> Rounded:
        """A function that rises or falls all along, or is flat: its values at both ends of where
        the argument may be say what the error of that comes to.
        """
        argument = self._operand
        with np.errstate(all="ignore"):
            value = compute(argument.value)
            passed = argument.error
            if not function.is_flat and np.any(argument.error):
                ends = [
                    compute(np.clip(argument.value + sign * argument.error, *function.domain))
                    for sign in (-1, 1)
                ]
                apart = [np.where(end == value, 0.0, np.abs(end - value)) for end in ends]
                own = np.where(np.isfinite(value), np.abs(value), 0.0) * 2.0**-50
                passed = np.where(argument.error == 0, 0.0, _known(np.maximum(*apart)) + own)
            if function.is_whole:
                return Rounded(value, self.facts, passed)
            size, roundoff = np.abs(argument.value), self.facts.unit_roundoff
            finite = np.where(np.isfinite(size), size, 0.0)
            beside = roundoff * (function.absolute + function.absolute_growth * finite)
            rough = Rounded(value, self.facts, passed)
            rounded = rough._round(function.relative + function.growth * finite, beside)
            # An exact 0 or infinity that becomes 0, 1 or an infinity is exact, too.
            is_plain = ((size == 0) | np.isinf(size)) & (argument.error == 0)
            is_settled = is_plain & ((value == 0) | (value == 1)) | np.isinf(value) & (passed == 0)
        return replace(rounded, error=np.where(is_settled, 0.0, rounded.error))

    # ---- Rows

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        name = function.__name__
        if name in _MOVES:
            return _move_all(function, args, options)
        if name in _PRODUCTS:
            return add_products(lambda *arrays: function(*arrays, **options), args)
        if name not in _REDUCTIONS:
            raise _refuse(f"{name} of NumPy")
        return _REDUCTIONS[name](*args, **options)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Rounded:
        """Sums along an axis, open: in any order."""
        one, how = self._operand, {"axis": axis, "keepdims": keepdims}
        sizes = np.broadcast_to(one.largest, self.shape)
        counts = np.maximum(np.count_nonzero(sizes, **how) - 1, 0).astype(np.float64)
        errors = np.broadcast_to(one.error, self.shape).sum(**how)
        units = one._find_units().min(**how)
        return Rounded(one.value.sum(**how), self.facts, errors, sizes.sum(**how), counts, units)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Rounded:
        """Sums along an axis, divided by how many terms there are."""
        total = self.sum(axis, keepdims)
        return total / float(self.size // max(total.size, 1))

    def max(self, axis: Any = None, keepdims: bool = False) -> Rounded:
        """The largest along an axis."""
        return self._reduce(np.max, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Rounded:
        """The smallest along an axis."""
        return self._reduce(np.min, axis, keepdims)

    def _reduce(self, choose: Any, axis: Any, keepdims: bool) -> Rounded:
        one, how = self.closed, {"axis": axis, "keepdims": keepdims}
        errors = np.broadcast_to(one.error, self.shape).max(**how) if np.any(one.error) else 0.0
        return Rounded(choose(one.value, **how), self.facts, errors)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Where the first of the largest is; of numbers that are not rounded."""
        if np.any(self.closed.error):
            raise _refuse("argmax of numbers that are rounded")
        return self.value.argmax(axis=axis, keepdims=keepdims)

    def reshape(self, *shape: Any) -> Rounded:
        """The same numbers in another shape."""
        return self._move(lambda part: part.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> Rounded:
        """Two dimensions in each other's place."""
        return self._move(lambda part: part.swapaxes(first, second))

    def transpose(self, *axes: int) -> Rounded:
        """The dimensions in another order."""
        return self._move(lambda part: part.transpose(*axes))


def get_error(values: Any, shape: tuple[int, ...]) -> Any:
    """How far off each number of an output may be; what is plain is exact."""
    if not isinstance(values, Rounded):
        return np.zeros(shape)
    closed = values.closed
    error = np.broadcast_to(closed.error, closed.shape)
    return np.where(np.isnan(error) & ~np.isnan(closed.value), math.inf, error)


def _known(errors: Any) -> Any:
    """Errors of which what is no number may be anything."""
    return np.where(np.isnan(errors), math.inf, errors)


def _refuse(what: str) -> KernelError:
    return KernelError(
        f"its reference uses {what}, and how far off that may be is not known; write it with sums, "
        "products, quotients, maxima and exponentials, or give the kernel its error"
    )


def _move_all(function: Any, args: Any, options: Any) -> Rounded:
    """What moves numbers does it to each part of them alike."""
    whole = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else [arg])]
    first = next(each for each in whole if isinstance(each, Rounded))

    def take(part: str, arg: Any) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)(take(part, each) for each in arg)
        if not isinstance(arg, Rounded):
            is_bare = part == "error" and isinstance(arg, (float, np.ndarray))
            return 0 * np.asarray(arg) if is_bare and np.asarray(arg).dtype.kind == "f" else arg
        closed = arg.closed
        return closed.value if part == "value" else np.broadcast_to(closed.error, closed.shape)

    value = function(*(take("value", arg) for arg in args), **options)
    errors = any(np.any(each.closed.error) for each in whole if isinstance(each, Rounded))
    error = function(*(take("error", arg) for arg in args), **options) if errors else 0.0
    return Rounded(value, first.facts, error)


def add_products(product: Callable[..., Any], operands: Any) -> Rounded:
    """What is a sum of products of one factor from each operand, open: in any order, products and
    sums fused or not.
    """
    texts = [each for each in operands if isinstance(each, str)]
    given = [each for each in operands if not isinstance(each, str)]
    first = next(each for each in given if isinstance(each, Rounded))
    terms = [first._take(each)._operand for each in given]

    def of(arrays: Any) -> Any:
        return product(*texts, *arrays)

    with np.errstate(invalid="ignore"):
        value = of(each.value for each in terms)
        magnitude = of(each.largest for each in terms)
        counts = of((each.largest != 0).astype(np.float64) for each in terms)
        error: Any = 0.0
        for place, each in enumerate(terms):
            if np.any(each.error):
                off = np.broadcast_to(each.error, each.shape)
                others = (
                    it.largest if at < place else np.abs(it.value) for at, it in enumerate(terms)
                )
                arrays = [off if at == place else it for at, it in enumerate(others)]
                error = error + of(arrays)
    return Rounded(
        value, first.facts, _known(error), magnitude, counts, min(map(_find_unit, terms))
    )


def _find_unit(terms: Rounded) -> float:
    """1 of whole numbers, and 0 where any is none, of which nothing is known then."""
    is_whole = not np.any(terms.error) and (terms.value == np.rint(terms.value)).all()
    return float(is_whole)


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_MOVES = (
    "where",
    "pad",
    "reshape",
    "transpose",
    "swapaxes",
    "moveaxis",
    "concatenate",
    "stack",
    "broadcast_to",
    "expand_dims",
    "squeeze",
    "flip",
    "roll",
    "sliding_window_view",
    "zeros_like",
)
_PRODUCTS = ("einsum", "convolve", "dot", "tensordot")
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
    "matmul": lambda *operands: add_products(np.matmul, operands),
}
_REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "sum": Rounded.sum,
    "mean": Rounded.mean,
    "max": Rounded.max,
    "amax": Rounded.max,
    "min": Rounded.min,
    "amin": Rounded.min,
    "argmax": Rounded.argmax,
}


# ---- What a meaning says of its program's roundings; plain arrays stay as they are.


def stored(values: Any, dtype: str) -> Any:
    """Values that the program rounds to a type on their way."""
    if (
        not isinstance(values, Rounded)
        or dtype_facts(dtype).unit_roundoff <= values.facts.unit_roundoff
    ):
        return values
    return values.closed._round(facts=dtype_facts(dtype))


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
