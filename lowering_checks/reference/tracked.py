"""Values with what is known of their error, and the rules of arithmetic on them.

A float is tracked as a sum of terms: its value, the magnitude of its terms (the sum of their
absolute values), how many additions make it, the error that the terms bring along, and a power of
two that all terms are multiples of. In any order of summation, with n additions in a type of unit
roundoff u, the rounding of a sum is at most n u / (1 - n u) times that magnitude (Higham, Accuracy
and Stability of Numerical Algorithms, 2nd ed., SIAM 2002, sections 3.1 and 4.2); and nothing at all
where no partial sum can have more bits than the type. Anything but an addition ends a sum
(`Tracker.close`): what it is off by then is an absolute error, which the operation passes on.

An integer has a value of its own type, a magnitude, and an error where a float decided over it.

Of a function of floats an error of the argument is passed on by the function's values at both ends
of the interval that it may be in. To it comes what a device may be off by itself
(`tirstep.modules.error_bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import tvm.tirx as tirx
from tvm.ir import TensorLoad
from tvm.tirx import (
    AllocBuffer,
    BufferLoad,
    BufferStore,
    IfThenElse,
    Select,
    Var,
    decl_buffer,
)

from tirstep.modules.dtypes import DType, dtype_facts
from tirstep.modules.error_bounds import (
    ANY_UNIT,
    DIVISION,
    FLOAT_FUNCTIONS,
    LARGEST_DIVISOR,
    get_units,
)

from ..devices.simulator.flatten import sequence

DOUBLE = "float64"
INFINITE = math.inf


def number(value: float) -> Any:
    """A constant of float64."""
    return tirx.FloatImm(DOUBLE, float(value))


def get_roundoff(dtype: str) -> float:
    """A type's unit roundoff and, beside it, that of the reference, which is float64."""
    own = dtype_facts(dtype).unit_roundoff
    return own + 2.0**-53 if own else 0.0


@dataclass(frozen=True)
class Tracked:
    """A number and its error; every part is an expression of TIR, which folds its constants.

    Attributes
    ----------
    value : in float64 of a float, in its own type of an integer
    dtype : the type in which the program has it
    magnitude : of its terms
    additions : that make it of its terms; 0 of an integer
    error : that its terms have
    unit : a power of two that all terms are multiples of
    condition : that a truth comes from, if it is known
    least : below which a number > 0 is not, even where it leaves its type and its error is infinite
    """

    value: Any
    dtype: str
    magnitude: Any
    additions: Any = 0.0
    error: Any = 0.0
    unit: Any = 1.0
    condition: Condition | None = None
    least: Any = None

    def __post_init__(self) -> None:
        for part in ("magnitude", "additions", "error", "unit"):
            object.__setattr__(self, part, lift(getattr(self, part)))

    @property
    def is_float(self) -> bool:
        return dtype_facts(self.dtype).is_float


@dataclass(frozen=True)
class Condition:
    """Whether something may hold and whether it may fail; it is certain where just one may."""

    may_hold: Any
    may_fail: Any

    @property
    def is_uncertain(self) -> Any:
        return tirx.And(self.may_hold, self.may_fail)

    def as_number(self) -> Tracked:
        """The truth as a number, which may be the other one where it is not certain."""
        error = choose(self.is_uncertain, 1.0, 0.0)
        return Tracked(self.may_hold, "bool", 1.0, error=error, condition=self)


class Tracker:
    """The rules; what they need to name becomes a statement, and so does what is used twice."""

    def __init__(self) -> None:
        self.statements: list[Any] = []
        self.cells: list[Any] = []
        self._own: set[Any] = set()
        self._count = 0

    def emit(self, statement: Any) -> None:
        """Append a statement."""
        self.statements.append(statement)

    def let(self, value: Any) -> Any:
        """A local variable of this value; a constant, a variable or a Python number is returned.

        It is a buffer of one element, and no `Bind`: TVM's passes put the value of a `Bind` into
        all its places, which takes forever where thousands build on one another.
        """
        if isinstance(value, (float, int, Var, tirx.FloatImm, tirx.IntImm)) or (
            isinstance(value, TensorLoad) and value.source in self._own
        ):
            return value
        buffer = self.cell(str(value.ty))
        self.emit(BufferStore(buffer, value, [0]))
        return BufferLoad(buffer, [0])

    def cell(self, dtype: str) -> Any:
        """A local variable that branches can set, declared at the head of the function."""
        self._count += 1
        buffer = decl_buffer((1,), dtype, f"c{self._count}")
        self.cells.append(buffer)
        self._own.add(buffer)
        return buffer

    @contextmanager
    def inside(self) -> Iterator[list[Any]]:
        """Collect the statements of this block into a list of their own."""
        outer, self.statements = self.statements, []
        try:
            yield self.statements
        finally:
            self.statements = outer

    def add_branch(self, condition: Any, statements: list[Any]) -> None:
        """Statements under a condition."""
        if statements:
            self.emit(IfThenElse(condition, sequence(statements), None))

    def times(self, first: Any, second: Any) -> Any:
        """A product of two numbers >= 0 in which 0 times infinity is 0."""
        for one, other in ((first, second), (second, first)):
            if holds_always(one, 0.0) or holds_always(other, 1.0):
                return one
        first, second = self.let(lift(first)), self.let(lift(second))
        zero = number(0)
        none = tirx.Or(tirx.EQ(first, zero), tirx.EQ(second, zero))
        return Select(none, zero, first * second)

    def larger(self, first: Any, second: Any) -> Any:
        """The larger of two numbers >= 0."""
        for one, other in ((first, second), (second, first)):
            if holds_always(one, 0.0):
                return other
        first, second = self.let(lift(first)), self.let(lift(second))
        return Select(first >= second, first, second)

    def smaller(self, first: Any, second: Any) -> Any:
        """The smaller of two numbers."""
        if _get_constant(first) == (least := _get_constant(second)) and least is not None:
            return first
        first, second = self.let(lift(first)), self.let(lift(second))
        return Select(first <= second, first, second)

    def absolute(self, value: Any) -> Any:
        """The absolute value of a number in float64."""
        if (known := _get_constant(value)) is not None:
            return number(abs(known))
        value = self.let(value)
        return Select(value < number(0), number(0) - value, value)

    def finish(self) -> Any:
        """The whole, with its local variables."""
        return sequence([*(AllocBuffer(cell) for cell in self.cells), *self.statements])

    # ---- The rules

    def name(self, value: Tracked) -> Tracked:
        """The same with every part named."""
        parts = {
            part: self.let(getattr(value, part))
            for part in ("value", "magnitude", "additions", "error", "unit")
        }
        return replace(value, **parts)

    def constant(self, value: float, dtype: str) -> Tracked:
        """A constant of a float type, as that type has it."""
        with_type = float(dtype_facts(dtype).numpy.type(value))
        return Tracked(number(with_type), dtype, abs(with_type), unit=float(get_units(with_type)))

    def close(self, value: Tracked) -> Tracked:
        """The sum as one term: what it is off by in any order."""
        if not value.is_float or holds_always(value.additions, 0.0):
            return value
        facts = dtype_facts(value.dtype)
        let, n = self.let, value.additions
        relative = let(n * number(get_roundoff(value.dtype)))
        gamma = let(
            Select(relative < number(0.5), relative / (number(1) - relative), number(INFINITE))
        )
        rounded = self.times(gamma, value.magnitude) + n * number(facts.underflow)
        rounded = value.error + self.times(gamma, value.error) + rounded
        error = let(choose(self.is_kept(value), value.error, rounded))
        return self._term(value, error, value.magnitude)

    def _term(self, value: Tracked, error: Any, largest: Any = 0.0) -> Tracked:
        """The value with an error, without a bound where it, or a partial sum as `largest`, leaves
        its type: it may be infinite then, NaN in the end, or a number if a wider type is at hand.
        """
        size = self.let(self.absolute(value.value) + error)
        reach, most = self.larger(lift(largest), size), dtype_facts(value.dtype).largest
        leaves = tirx.And(reach > number(most), reach < number(INFINITE))
        error = self.let(choose(leaves, INFINITE, error))
        magnitude = self.let(self.absolute(value.value) + error)
        unit = self.let(choose(error > number(0), 0.0, value.unit))
        return replace(value, magnitude=magnitude, additions=0.0, error=error, unit=unit)

    def is_kept(self, value: Tracked) -> Any:
        """Whether any partial sum of the terms is a number of its type; or it is 0, or infinite."""
        facts = dtype_facts(value.dtype)
        unit = self.let(value.unit)
        fits = value.magnitude <= unit * number(2.0**facts.mantissa_bits)
        is_normal = unit >= number(facts.smallest_normal)
        is_exact = tirx.EQ(value.error, number(0))
        size = self.let(self.absolute(value.value))
        is_zero = tirx.EQ(value.magnitude, number(0))
        is_plain = tirx.Or(is_zero, tirx.EQ(size, number(INFINITE)))
        return tirx.And(is_exact, tirx.Or(tirx.And(fits, is_normal), is_plain))

    def round(self, value: Tracked, units: Any, extra: Any = 0.0) -> Tracked:
        """A term rounded: by so many units of roundoff of its value, and by an absolute `extra`;
        not at all where the type has it, if it is one rounding or none (`units` of 1).
        """
        facts = dtype_facts(value.dtype)
        size = self.absolute(value.value) + value.error
        own = self.times(get_roundoff(value.dtype) * units, size) + facts.underflow
        total = value.error + own + extra
        if holds_always(units, 1.0):
            total = choose(self.is_kept(value), value.error, total)
        return self._term(value, self.let(total))

    # ---- Sums

    def add(self, first: Tracked, second: Tracked, *, sign: int = 1) -> Tracked:
        """A sum, or with sign -1 a difference."""
        value = first.value + second.value if sign > 0 else first.value - second.value
        error, counts = first.error + second.error, 0.0
        if first.is_float:
            parts = [first.magnitude, second.magnitude]
            rounds = tirx.And(*(part > number(0) for part in parts))
            is_one = all(holds_always(each.additions, 0.0) for each in (first, second))
            if is_one and first.dtype in ("float32", "float16"):  # the one addition may be exact
                value = self.let(value)
                stored = tirx.Cast(DOUBLE, tirx.Cast(first.dtype, value))
                is_kept = tirx.And(tirx.EQ(stored, value), tirx.EQ(error, number(0)))
                rounds = tirx.And(rounds, tirx.Not(is_kept))
            counts = self.let(choose(rounds, 1.0, 0.0))
        magnitude = first.magnitude + second.magnitude
        additions = first.additions + second.additions + counts
        unit = self.smaller(first.unit, second.unit)
        total = Tracked(value, first.dtype, magnitude, additions, error, unit)
        for one, other in ((first, second), (second, first)):
            if sign > 0 and (_get_constant(other.value) or -1) > 0:
                total = replace(total, least=one.least)
        return self.name(total)

    # ---- Products and quotients

    def multiply(self, first: Tracked, second: Tracked) -> Tracked:
        """A product."""
        first, second = self.close(first), self.close(second)
        sizes = [self.let(self.absolute(self.as_double(each))) for each in (first, second)]
        error = (
            self.times(sizes[0], second.error)
            + self.times(sizes[1], first.error)
            + self.times(first.error, second.error)
        )
        value = self.let(first.value * second.value)
        if not first.is_float:
            magnitude = self.times(first.magnitude, second.magnitude)
            return self.name(Tracked(value, first.dtype, magnitude, error=error))
        unit = self.times(first.unit, second.unit)
        unit = choose(unit > number(ANY_UNIT), ANY_UNIT, unit)
        error = self.let(error)
        magnitude = self.let(self.absolute(value) + error)
        product = Tracked(value, first.dtype, magnitude, 0.0, error, self.let(unit))
        return self.round(product, 1.0)

    def divide(self, first: Tracked, second: Tracked) -> Tracked:
        """A quotient of floats."""
        divisor = getattr(second.value, "value", None)
        if isinstance(divisor, float) and divisor and abs(math.frexp(divisor)[0]) == 0.5:
            return self.multiply(first, self.constant(1 / divisor, first.dtype))
        first, second = self.close(first), self.close(second)
        value = self.let(first.value / second.value)
        size, quotient = (self.let(self.absolute(it)) for it in (second.value, value))
        left = self.let(size - second.error)
        passed = first.error + self.times(quotient, second.error)
        error = choose(left > number(0), self.times(passed, number(1) / left), INFINITE)
        if second.least is not None:  # the quotient is between 0 and that by the least
            most = self.let((self.absolute(first.value) + first.error) / second.least)
            is_known = tirx.And(second.least > number(0), most < number(INFINITE))
            error = choose(tirx.And(is_known, tirx.Not(left > number(0))), most, error)
        is_zero = tirx.EQ(self.absolute(first.value), number(0))
        nothing = tirx.And(tirx.EQ(passed, number(0)), is_zero)
        error = self.let(choose(nothing, 0.0, error))
        lost = 0.0
        if second.dtype in ("float32", "bfloat16"):
            lost = choose(second.magnitude > number(LARGEST_DIVISOR), quotient, 0.0)
        result = Tracked(value, first.dtype, 0.0, 0.0, error, 0.0)
        rounded = self.round(result, DIVISION, lost)
        is_exact = tirx.EQ(second.error, number(0))
        is_one = tirx.And(is_exact, tirx.EQ(second.value, number(1)))  # the reciprocal is 1
        return replace(
            rounded,
            magnitude=self.let(choose(nothing, 0.0, rounded.magnitude)),
            error=self.let(choose(nothing, 0.0, choose(is_one, first.error, rounded.error))),
            unit=self.let(choose(nothing, ANY_UNIT, 0.0)),
        )

    # ---- Choices

    def extreme(self, first: Tracked, second: Tracked, make: Any) -> Tracked:
        """The larger or the smaller of two: `make` is `tirx.Max` or `tirx.Min`."""
        first, second = self.close(first), self.close(second)
        value = self.let(make(first.value, second.value))
        if not first.is_float:
            magnitude = self.larger(first.magnitude, second.magnitude)
            error = self.larger(first.error, second.error)
            return self._chosen(value, magnitude, error, first, second)
        error = self.let(self.larger(first.error, second.error))
        unit = self.let(self.smaller(first.unit, second.unit))
        return self._term(Tracked(value, first.dtype, 0.0, 0.0, error, unit), error)

    def join(self, condition: Condition, first: Tracked, second: Tracked) -> Tracked:
        """One of two values; where it is not certain which, either."""
        first, second = self.close(first), self.close(second)
        holds, uncertain = condition.may_hold, self.let(condition.is_uncertain)
        value = self.let(Select(holds, first.value, second.value))
        apart = self.absolute(self.as_double(first) - self.as_double(second))
        either = self.larger(first.error, second.error) + apart
        error = choose(uncertain, either, choose(holds, first.error, second.error))
        error = self.let(error)
        if not first.is_float:
            magnitude = choose(holds, first.magnitude, second.magnitude)
            return self._chosen(value, magnitude, error, first, second)
        unit = self.let(choose(holds, first.unit, second.unit))
        return self._term(Tracked(value, first.dtype, 0.0, 0.0, error, unit), error)

    def _chosen(
        self, value: Any, magnitude: Any, error: Any, first: Tracked, second: Tracked
    ) -> Tracked:
        """One of two integers, which is no sum: as large as it is, unless either overflowed."""
        overflows = self.let(tirx.Or(self._overflows(first), self._overflows(second)))
        size = self.absolute(tirx.Cast(DOUBLE, value)) + error
        settled = choose(overflows, magnitude, self.let(size))
        return self.name(Tracked(value, first.dtype, settled, error=error))

    def _overflows(self, value: Tracked) -> Any:
        """Whether an integer, or a partial sum of it, is none of its type; see `share_of`."""
        return value.magnitude * self.share_of(value, dtype_facts(value.dtype)) > number(1)

    def share_of(self, value: Tracked, facts: DType) -> Any:
        """What a magnitude is multiplied by: more than 1 says that a partial sum may overflow.

        A sum below 0 has no partial sum above half of its magnitude, so that the type's least
        number bounds it, which is there where the largest one has no opposite.
        """
        share = number(1 / facts.largest)
        if facts.smallest >= 0:
            return share
        is_negative = self.as_double(value) < number(0)
        return Select(is_negative, number(-1 / facts.smallest), share)

    def as_double(self, value: Tracked) -> Any:
        """The value in float64."""
        return value.value if value.is_float else tirx.Cast(DOUBLE, value.value)

    def compare(
        self, kind: str, first: Tracked, second: Tracked, *, ties: bool = False
    ) -> Condition:
        """A comparison, by the name of its node. With `ties`, which of two equal numbers comes
        first is not certain either: another order of a reduction may choose the other.
        """
        first, second = self.close(first), self.close(second)
        off = self.let(first.error + second.error)
        plain = self.let(getattr(tirx, kind)(first.value, second.value))
        ties = ties and kind not in ("EQ", "NE")
        if holds_always(off, 0.0) and not ties:
            return Condition(plain, self.let(tirx.Not(plain)))
        apart = self.let(self.absolute(self.as_double(first) - self.as_double(second)))
        near = tirx.Not(apart > off)
        near = self.let(near if ties else tirx.And(off > number(0), near))
        return Condition(self.let(tirx.Or(plain, near)), self.let(tirx.Or(tirx.Not(plain), near)))

    # ---- Conversions

    def convert(self, value: Tracked, dtype: str) -> Tracked:
        """A conversion to another type."""
        value, facts = self.close(value), dtype_facts(dtype)
        if value.dtype == dtype:
            return value
        if facts.is_float:
            double = self.let(self.as_double(value))
            size = self.let(self.absolute(double))
            magnitude = self.let(size + value.error)
            same = Tracked(double, dtype, magnitude, 0.0, value.error, value.unit)
            narrow = dtype_facts(value.dtype)
            if (
                value.is_float
                and facts.mantissa_bits >= narrow.mantissa_bits
                and facts.largest >= narrow.largest
                and facts.smallest_subnormal <= narrow.smallest_subnormal
            ):  # which has every number of it
                return same
            same = self.round(same, 1.0)
            # Beyond the type's range nothing is known but the sign, and that not in float8.
            limit = number(facts.largest * (1 + get_roundoff(dtype)))
            beyond = tirx.And(size > limit, size < number(INFINITE))
            return replace(same, error=self.let(choose(beyond, INFINITE, same.error)))
        converted, error = tirx.Cast(dtype, value.value), value.error
        if not holds_always(error, 0.0):
            is_off = error > number(0)
            if value.is_float:
                near, *ends = (
                    self.let(tirx.Cast(DOUBLE, tirx.Cast("int64", self.clip(value.value + shift))))
                    for shift in (number(0), error, number(0) - error)
                )
                apart = self.larger(*(self.absolute(end - near) for end in ends))
                error = choose(is_off, apart, 0.0)
            else:
                beyond = tirx.And(is_off, value.magnitude > number(facts.largest))
                error = choose(beyond, INFINITE, error)
        return self.name(Tracked(converted, dtype, value.magnitude, error=error))

    def clip(self, value: Any, low: float = -(2.0**62), high: float = 2.0**62) -> Any:
        """Into a range, by default that of an int64."""
        value = self.let(value)
        if high < INFINITE:
            value = self.let(Select(value > number(high), number(high), value))
        return value if low == -INFINITE else Select(value < number(low), number(low), value)


def lift(value: Any) -> Any:
    """An expression of float64; a Python float becomes a constant."""
    return number(value) if isinstance(value, (float, int)) else value


def choose(condition: Any, first: Any, second: Any) -> Any:
    """One of two numbers."""
    if (known := _get_constant(first)) is not None and known == _get_constant(second):
        return lift(first)
    return Select(condition, lift(first), lift(second))


def holds_always(value: Any, expected: float) -> bool:
    """Whether a part is that constant."""
    return _get_constant(value) == expected


def _get_constant(value: Any) -> float | None:
    return float(lift(value).value) if isinstance(value, (float, tirx.FloatImm)) else None


def store_cell(buffer: Any, value: Any) -> Any:
    """Set a local variable."""
    return BufferStore(buffer, lift(value) if isinstance(value, float) else value, [0])


def call_library(name: str, *arguments: Any) -> Any:
    """A call of the C library."""
    return tirx.call_pure_extern(DOUBLE, name, *arguments)


_MADE_OF: dict[str, Callable[[Any], Any]] = {
    "exp10": lambda x: call_library("pow", number(10), x),
    "rsqrt": lambda x: number(1) / call_library("sqrt", x),
    "sigmoid": lambda x: number(1) / (number(1) + call_library("exp", number(0) - x)),
}


def apply_function(tracker: Tracker, name: str, argument: Tracked) -> Tracked:
    """A function of a tracked float."""
    function, let = FLOAT_FUNCTIONS[name], tracker.let
    argument = tracker.close(argument)
    compute = _MADE_OF.get(name, lambda x: call_library(function.name, x))
    low = value = let(compute(argument.value))
    error, passed = argument.error, argument.error
    if not holds_always(argument.error, 0.0) and not function.is_flat:
        ends = [
            let(compute(tracker.clip(end, function.low, function.high)))
            for end in (argument.value + error, argument.value - error)
        ]
        low = ends[-1]
        # The library's own roundings: differences of two values near each other are off by those.
        own = tracker.absolute(value) * number(0.0 if function.is_whole else 2.0**-50)
        apart = let(tracker.larger(*(tracker.absolute(end - value) for end in ends)) + own)
        # Infinity less infinity is no number; such an end may be anything.
        known = choose(tirx.EQ(apart, apart), apart, INFINITE)
        passed = choose(tirx.EQ(error, number(0)), 0.0, known)
    if function.is_whole:
        passed = let(passed)
        size = let(tracker.absolute(value) + passed)
        return Tracked(value, argument.dtype, size, 0.0, passed, 1.0)
    size = let(tracker.absolute(argument.value))
    units, roundoff = function.growth * size + function.relative, get_roundoff(argument.dtype)
    beside = function.absolute_growth * roundoff * size + function.absolute * roundoff
    if function.is_reciprocal:
        beside = beside + 1.0 / float(dtype_facts(argument.dtype).largest)
    rough = Tracked(value, argument.dtype, 0.0, 0.0, let(passed), 0.0)
    rounded = tracker.round(rough, let(units), let(beside))
    # Of an exact 0 or infinity that becomes 0, 1 or an infinity: exact, too.
    plain = tirx.Or(tirx.EQ(size, number(0)), tirx.EQ(size, number(INFINITE)))
    out = let(tracker.absolute(value))
    is_one = tirx.EQ(out, number(1))
    special = tirx.Or(tirx.Or(tirx.EQ(out, number(0)), is_one), tirx.EQ(out, number(INFINITE)))
    exact = let(tirx.And(tirx.And(plain, special), tirx.EQ(error, number(0))))
    return replace(
        rounded,
        error=let(choose(exact, 0.0, rounded.error)),
        magnitude=let(choose(exact, out, rounded.magnitude)),
        unit=let(choose(exact, choose(is_one, 1.0, ANY_UNIT), 0.0)),
        least=let(low * (number(1) - roundoff * units)) if name.startswith("exp") else None,
    )


def apply_power(tracker: Tracker, base: Tracked, exponent: Tracked) -> Tracked:
    """base ** exponent: for a whole constant exponent a product; else of a base that is positive,
    within what the ends of both intervals give.
    """
    base, exponent = tracker.close(base), tracker.close(exponent)
    fixed = getattr(exponent.value, "value", None)
    if isinstance(fixed, float) and fixed.is_integer() and 1 <= fixed <= 16:
        result = base
        for _ in range(int(fixed) - 1):
            result = tracker.multiply(result, base)
        # As an exponential of a logarithm, too.
        return _round_power(tracker, result, base, exponent)
    let = tracker.let
    value = let(call_library("pow", base.value, exponent.value))
    bases = [base.value + base.error, base.value - base.error]
    exponents = [exponent.value + exponent.error, exponent.value - exponent.error]
    apart: Any = 0.0
    for end in bases:
        clipped = let(tirx.Select(end < number(0), number(0), end))
        for power in exponents:
            apart = let(
                tracker.larger(apart, tracker.absolute(call_library("pow", clipped, power) - value))
            )
    exact = tirx.EQ(base.error + exponent.error, number(0))
    error = let(choose(exact, 0.0, apart + tracker.absolute(value) * number(2.0**-50)))
    error = let(choose(tirx.EQ(error, error), error, INFINITE))
    return _round_power(tracker, Tracked(value, base.dtype, 0.0, 0.0, error, 0.0), base, exponent)


def _round_power(tracker: Tracker, result: Tracked, base: Tracked, exponent: Tracked) -> Tracked:
    size = tracker.let(tracker.absolute(base.value))
    base_or_one = tirx.Select(tirx.EQ(size, number(0)), number(1), size)
    logarithm = tracker.absolute(call_library("log", base_or_one) * exponent.value)
    steps = 16.0 * tracker.absolute(exponent.value) + 8.0 * logarithm
    return tracker.round(replace(result, unit=0.0), tracker.let(8.0 + steps))
