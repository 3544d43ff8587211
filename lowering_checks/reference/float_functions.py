"""The functions of floats that TIR calls, as the C library has them, and their errors on devices.

An error of the argument is passed on by the function's values at both ends of the interval that it
may be in. To it comes what a device may be off by itself (`tirstep.modules.error_bounds`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm.tirx as tirx

from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.error_bounds import ANY_UNIT, FLOAT_FUNCTIONS

from .tracked import (
    DOUBLE,
    INFINITE,
    Tracked,
    Tracker,
    choose,
    get_roundoff,
    holds_always,
    number,
)


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
