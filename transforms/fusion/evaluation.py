"""The value of a TIR expression, in Python's floats (float64), with the range of its own type.

Nothing raises on the way: a quotient by 0 is infinite, so is what float32 does not hold in an
expression of float32, and what has no value is NaN, such as an integer that its type does not hold.
A check on drawn numbers sees the infinities and NaNs that a GPU would see; only roundings are
finer.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tvm.ir import Call, TensorLoad
from tvm.tirx import Cast, Div, Not, Select, Var, max_value, min_value

from ..tir import is_choice

NAN, INFINITY = math.nan, math.inf
_TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_TYPES += ["float32", "float16", "bfloat16"]
_BOUNDS = {name: (min_value(name).value, max_value(name).value) for name in _TYPES}
"""The least and the largest number of a type."""

Load: TypeAlias = Callable[[TensorLoad], float]
Compute: TypeAlias = Callable[[Mapping[int, float], Load], Any]
"""A function of the values of variables, by their addresses, and of loads."""


class UnknownOperationError(Exception):
    """An expression has an operation or a variable that is not known; its name is the message."""


@functools.lru_cache(maxsize=512)  # each is evaluated on many drawn numbers
def compile_expression(expression: Any) -> Compute:
    """An expression as a function of its variables, by their addresses, and of loads.

    What its type does not hold is infinite, or NaN if it is an integer. A variable that has no
    value, and an operation that is not known, raise `UnknownOperationError` where they are met.
    """
    return _compile(expression)


def _compile(node: Any) -> Compute:
    compute, dtype = _read(node), str(node.ty.dtype)
    if dtype not in _BOUNDS:
        return compute
    least, most = _BOUNDS[dtype]
    below, above = (NAN, NAN) if "int" in dtype else (-INFINITY, INFINITY)

    def limit(values: Mapping[int, float], load: Load) -> Any:
        value = compute(values, load)
        if value < least:
            return below
        return above if value > most else value  # NaN stays

    return limit


def _read(node: Any) -> Compute:
    if isinstance(node, Var):
        return functools.partial(_get_value, node.__chandle__(), str(node.name))
    if isinstance(node, TensorLoad):
        return lambda values, load: load(node)
    if isinstance(node, Select) or is_choice(node):
        parts = (
            node.args if is_choice(node) else (node.condition, node.true_value, node.false_value)
        )
        asked, first, second = map(_compile, parts)
        # The arm that is not chosen is not computed.
        return lambda values, load: (first if asked(values, load) else second)(values, load)
    if isinstance(getattr(node, "value", None), (int, float)):
        value = node.value
        return lambda values, load: value
    name, is_whole = get_operation(node) or type(node).__name__, "int" in str(node.ty.dtype)
    if isinstance(node, Call):
        function, operands = _FUNCTIONS.get(name), list(node.args)
    elif isinstance(node, Cast):
        function, operands = _truncate if is_whole else float, [node.value]
    elif isinstance(node, Not):
        function, operands = operator.not_, [node.a]
    elif isinstance(node, Div) and is_whole:
        function, operands = _divide_integers, [node.a, node.b]
    else:
        function = _OPERATORS.get(name)
        operands = [node.a, node.b] if function else []

    arguments = [_compile(operand) for operand in operands]

    def call(values: Mapping[int, float], load: Load) -> Any:
        if function is None:
            raise UnknownOperationError(name)
        try:
            return function(*[argument(values, load) for argument in arguments])
        except OverflowError:
            return INFINITY
        except (ValueError, ZeroDivisionError):
            return NAN

    return call


def _get_value(address: int, name: str, values: Mapping[int, float], _load: Load) -> Any:
    if address not in values:  # a parameter, an open size, or what a statement binds
        raise UnknownOperationError(f"'{name}'")
    return values[address]


def get_operation(node: Any) -> str:
    """The bare name of what a call computes, such as ``"exp"``; empty for another node."""
    name = getattr(getattr(node, "op", None), "name", "") if isinstance(node, Call) else ""
    return str(name).rpartition(".")[2]


def _truncate(value: float) -> float:
    return math.trunc(value) if math.isfinite(value) else value


def _divide(a: float, b: float) -> float:
    if b == 0:
        return NAN if a == 0 or math.isnan(a) else math.copysign(INFINITY, a)
    return a / b


def _divide_integers(a: float, b: float) -> float:
    """The quotient, rounded towards 0."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _choose(choose: Callable[[float, float], float], a: float, b: float) -> float:
    return NAN if math.isnan(a) or math.isnan(b) else choose(a, b)


def _power(base: float, exponent: float) -> float:
    return INFINITY if base == 0 and exponent < 0 else math.pow(base, exponent)


def _log(value: float) -> float:
    return -INFINITY if value == 0 else math.log(value)


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divide,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
    "Max": functools.partial(_choose, max),
    "Min": functools.partial(_choose, min),
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "exp2": lambda value: math.pow(2.0, value),
    "exp10": lambda value: math.pow(10.0, value),
    "log": _log,
    "log2": lambda value: _log(value) / math.log(2.0),
    "sqrt": math.sqrt,
    "rsqrt": lambda value: INFINITY if value == 0 else 1.0 / math.sqrt(value),
    "pow": _power,
    "fabs": abs,
    "tanh": math.tanh,
    "sigmoid": lambda value: 0.5 + 0.5 * math.tanh(0.5 * value),
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
}
