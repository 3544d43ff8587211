"""The value of a TIR expression, in Python's floats (float64), with the range of its own type.

Nothing raises on the way: a quotient by 0 is infinite, so is what float32 does not hold in an
expression of float32, and what has no value is NaN. A check on drawn numbers sees the infinities
and NaNs that a GPU would see; only roundings are finer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tvm.tirx import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    max_value,
)

from tirstep.tvm_compat import Call, TensorLoad

from ..tir import is_choice

NAN, INFINITY = math.nan, math.inf
_LARGEST = {name: float(max_value(name).value) for name in ("float32", "float16", "bfloat16")}
"""The largest finite number of a type."""


class UnknownOperationError(Exception):
    """An expression has an operation or a variable that is not known; its name is the message."""


def evaluate(
    expression: Any, values: dict[Any, float], load: Callable[[TensorLoad], float]
) -> float:
    """The value of an expression, of its variables and what `load` says of each load."""

    def visit(node: Any) -> Any:
        value = compute(node)
        largest = _LARGEST.get(str(node.ty.dtype))
        if largest is not None and math.isfinite(value) and abs(value) > largest:
            return math.copysign(INFINITY, value)
        return value

    def compute(node: Any) -> Any:
        if isinstance(node, Var):
            if node not in values:  # a parameter, an open size, or what a statement binds
                raise UnknownOperationError(f"'{node.name}'")
            return values[node]
        if isinstance(node, TensorLoad):
            return load(node)
        if isinstance(node, Cast):
            value = visit(node.value)
            return _truncate(value) if "int" in str(node.ty.dtype) else value
        if isinstance(node, Select):
            return visit(node.true_value if visit(node.condition) else node.false_value)
        if isinstance(node, Call):
            if is_choice(node):
                return visit(node.args[1] if visit(node.args[0]) else node.args[2])
            return _call(node, [visit(argument) for argument in node.args])
        if isinstance(node, Not):
            return not visit(node.a)
        function = next((_BINARY[kind] for kind in _BINARY if isinstance(node, kind)), None)
        if function is not None:
            return function(visit(node.a), visit(node.b))
        value = getattr(node, "value", None)
        if isinstance(value, (int, float)):
            return value
        raise UnknownOperationError(type(node).__name__)

    return visit(expression)


def get_operation(node: Any) -> str:
    """The bare name of what a call computes, such as ``"exp"``; empty for another node."""
    name = getattr(getattr(node, "op", None), "name", "") if isinstance(node, Call) else ""
    return str(name).rpartition(".")[2]


def _call(node: Any, arguments: list[float]) -> float:
    name = get_operation(node)
    if name not in _CALLS:
        raise UnknownOperationError(name or str(node.op))
    try:
        return _CALLS[name](*arguments)
    except OverflowError:
        return INFINITY
    except (ValueError, ZeroDivisionError):
        return NAN


def _truncate(value: float) -> float:
    return math.trunc(value) if math.isfinite(value) else value


def _divide(a: float, b: float) -> float:
    if b == 0:
        return NAN if a == 0 or math.isnan(a) else math.copysign(INFINITY, a)
    return a / b


def _larger(a: float, b: float) -> float:
    return NAN if math.isnan(a) or math.isnan(b) else max(a, b)


def _smaller(a: float, b: float) -> float:
    return NAN if math.isnan(a) or math.isnan(b) else min(a, b)


def _power(base: float, exponent: float) -> float:
    return INFINITY if base == 0 and exponent < 0 else math.pow(base, exponent)


def _log(value: float) -> float:
    return -INFINITY if value == 0 else math.log(value)


_BINARY: dict[Any, Callable[[Any, Any], Any]] = {
    Add: operator.add,
    Sub: operator.sub,
    Mul: operator.mul,
    Div: _divide,
    FloorDiv: lambda a, b: a // b if b else NAN,
    FloorMod: lambda a, b: a % b if b else NAN,
    Max: _larger,
    Min: _smaller,
    EQ: operator.eq,
    NE: operator.ne,
    LT: operator.lt,
    LE: operator.le,
    GT: operator.gt,
    GE: operator.ge,
    And: lambda a, b: bool(a) and bool(b),
    Or: lambda a, b: bool(a) or bool(b),
}
_CALLS: dict[str, Callable[..., float]] = {
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
