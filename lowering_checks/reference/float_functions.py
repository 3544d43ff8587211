"""The functions of floats that TIR calls, as the C library has them, and their errors on devices.

An error of the argument is passed on by the function's values at both ends of the interval that it
may be in. To it comes what a device may be off by itself (`tirstep.modules.float_errors`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm.tirx as tirx

from tirstep.modules.dtypes import dtype_facts
from tirstep.modules.error_bounds import ANY_UNIT
from tirstep.modules.float_errors import FLOAT_FUNCTIONS, FloatFunction

from .tracked import (
    DOUBLE,
    INFINITE,
    Tracked,
    Tracker,
    choose,
    get_roundoff,
    lift,
    number,
    plus,
    scale,
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
    value = let(compute(argument.value))
    passed = _pass_error(tracker, function, compute, argument, value)
    if function.is_whole:
        error = let(passed)
        whole = Tracked(value, argument.dtype, 0.0, 0.0, error, 1.0)
        return replace(whole, magnitude=let(plus(tracker.absolute(value), error)))
    size = let(tracker.absolute(argument.value))
    units = plus(function.relative, scale(function.growth, size) if function.growth else 0.0)
    roundoff = get_roundoff(argument.dtype)
    beside = plus(
        function.absolute * roundoff,
        scale(function.absolute_growth * roundoff, size) if function.absolute_growth else 0.0,
    )
    if function.is_reciprocal:
        beside = plus(beside, 1.0 / float(dtype_facts(argument.dtype).largest))
    rough = Tracked(value, argument.dtype, 0.0, 0.0, let(passed), 0.0)
    rounded = tracker.round(rough, let(units), let(beside))
    return _settle(tracker, argument, rounded, size)


def _pass_error(
    tracker: Tracker,
    function: FloatFunction,
    compute: Callable[[Any], Any],
    argument: Tracked,
    value: Any,
) -> Any:
    """What an error of the argument comes to."""
    if isinstance(argument.error, float) and argument.error == 0.0:
        return 0.0
    error, let = lift(argument.error), tracker.let
    if function.is_flat:
        return error
    ends = []
    for end in (argument.value + error, argument.value - error):
        end = let(end)
        if function.low > -INFINITE:
            end = let(tirx.Select(end < number(function.low), number(function.low), end))
        if function.high < INFINITE:
            end = let(tirx.Select(end > number(function.high), number(function.high), end))
        ends.append(let(tracker.absolute(let(compute(end)) - value)))
    # The library's own roundings: differences of two values near each other are off by those.
    own = tracker.absolute(value) * number(2.0**-50)
    apart = let(plus(tracker.larger(*ends), own))
    # Infinity less infinity is no number; such an end may be anything.
    known = tirx.EQ(apart, apart)
    return choose(tirx.EQ(error, number(0)), 0.0, choose(known, apart, INFINITE))


def _settle(tracker: Tracker, argument: Tracked, result: Tracked, size: Any) -> Tracked:
    """Of an exact 0 or infinity that becomes 0, 1 or an infinity: exact, too."""
    value, let = result.value, tracker.let
    plain = tirx.Or(tirx.EQ(size, number(0)), tirx.EQ(size, number(INFINITE)))
    out = let(tracker.absolute(value))
    special = tirx.Or(
        tirx.Or(tirx.EQ(out, number(0)), tirx.EQ(out, number(1))),
        tirx.EQ(out, number(INFINITE)),
    )
    exact = let(tirx.And(tirx.And(plain, special), tirx.EQ(lift(argument.error), number(0))))
    unit = choose(tirx.EQ(out, number(1)), 1.0, ANY_UNIT)
    return replace(
        result,
        error=let(choose(exact, 0.0, result.error)),
        magnitude=let(choose(exact, out, result.magnitude)),
        unit=let(choose(exact, unit, 0.0)),
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
    bases = [base.value + lift(base.error), base.value - lift(base.error)]
    exponents = [exponent.value + lift(exponent.error), exponent.value - lift(exponent.error)]
    apart: Any = 0.0
    for end in bases:
        clipped = let(tirx.Select(end < number(0), number(0), end))
        for power in exponents:
            apart = let(
                tracker.larger(apart, tracker.absolute(call_library("pow", clipped, power) - value))
            )
    exact = tirx.EQ(lift(plus(base.error, exponent.error)), number(0))
    own = plus(lift(apart), tracker.absolute(value) * number(2.0**-50))
    error = let(choose(exact, 0.0, own))
    error = let(choose(tirx.EQ(lift(error), lift(error)), error, INFINITE))
    return _round_power(tracker, Tracked(value, base.dtype, 0.0, 0.0, error, 0.0), base, exponent)


def _round_power(tracker: Tracker, result: Tracked, base: Tracked, exponent: Tracked) -> Tracked:
    size = tracker.let(tracker.absolute(base.value))
    base_or_one = tirx.Select(tirx.EQ(size, number(0)), number(1), size)
    logarithm = tracker.absolute(call_library("log", base_or_one) * exponent.value)
    steps = plus(scale(16.0, tracker.absolute(exponent.value)), scale(8.0, logarithm))
    return tracker.round(replace(result, unit=0.0), tracker.let(plus(8.0, steps)))
