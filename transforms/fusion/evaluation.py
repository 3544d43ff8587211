"""The value of a TIR expression in float64, with the range of its own type.

Nothing raises on the way: a quotient by 0 is infinite, so is what float32 does not hold in an
expression of float32, and what has no value is NaN, such as an integer that its type does not hold.
A check on drawn numbers sees the infinities and NaNs that a GPU would see; only roundings are
finer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from tvm.ir import Call, TensorLoad
from tvm.tirx import Cast, Div, Not, Select, Var, max_value, min_value

from tirstep.tvm_compat import get_op_name

from ..tir import is_choice

_TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_TYPES += ["float32", "float16", "bfloat16"]
_BOUNDS = {name: (min_value(name).value, max_value(name).value) for name in _TYPES}
"""The least and the largest number of a type."""

Load: TypeAlias = Callable[[TensorLoad], float]
Compute: TypeAlias = Callable[[Mapping[int, float], Load], Any]
"""A function of the values of variables, by their addresses, and of loads."""


class UnknownOperationError(Exception):
    """An expression has an operation or a variable that is not known; its name is the message."""


def compile_expression(expression: Any) -> Compute:
    """An expression as a function of its variables, by their addresses, and of loads.

    What its type does not hold is infinite, or NaN if it is an integer. A variable that has no
    value, and an operation that is not known, raise `UnknownOperationError` where they are met.
    """
    compute = _compile(expression)

    def evaluate(values: Mapping[int, float], load: Load) -> Any:
        with np.errstate(all="ignore"):
            return compute(values, load)

    return evaluate


def _compile(node: Any) -> Compute:
    compute, dtype = _read(node), str(node.ty.dtype)
    if dtype not in _BOUNDS:
        return compute
    least, most = _BOUNDS[dtype]
    below, above = (math.nan, math.nan) if "int" in dtype else (-math.inf, math.inf)

    def limit(values: Mapping[int, float], load: Load) -> Any:
        value = compute(values, load)
        if value < least:
            return below
        return above if value > most else value  # NaN stays

    return limit


def _read(node: Any) -> Compute:
    name, is_whole = get_operation(node) or type(node).__name__, "int" in str(node.ty.dtype)
    function: Callable[..., Any] | None = None
    operands: list[Any] = []
    if isinstance(node, TensorLoad):
        return lambda values, load: load(node)
    if isinstance(node, Var):
        address, name = node.__chandle__(), f"'{node.name}'"

        def get(values: Mapping[int, float], load: Load) -> Any:
            if address not in values:  # a parameter, an open size, or what a statement binds
                raise UnknownOperationError(name)
            return values[address]

        return get
    if isinstance(getattr(node, "value", None), (int, float)):
        value = node.value
        return lambda values, load: value
    if isinstance(node, Select) or is_choice(node):
        parts = (
            node.args if is_choice(node) else (node.condition, node.true_value, node.false_value)
        )
        asked, first, second = map(_compile, parts)
        # The arm that is not chosen is not computed.
        return lambda values, load: (first if asked(values, load) else second)(values, load)
    if isinstance(node, Call):
        function, operands = _FUNCTIONS.get(name), list(node.args)
    elif isinstance(node, Cast):
        truncate = lambda value: math.trunc(value) if math.isfinite(value) else value  # noqa: E731
        function, operands = truncate if is_whole else float, [node.value]
    elif isinstance(node, Not):
        function, operands = operator.not_, [node.a]
    elif name in _OPERATORS:
        function, operands = _OPERATORS[name], [node.a, node.b]
        if isinstance(node, Div) and is_whole:
            function = lambda a, b: np.trunc(np.divide(a, b))  # noqa: E731
    arguments = [_compile(operand) for operand in operands]

    def call(values: Mapping[int, float], load: Load) -> Any:
        if function is None:
            raise UnknownOperationError(name)
        return function(*[argument(values, load) for argument in arguments])

    return call


def get_operation(node: Any) -> str:
    """The bare name of what a call computes, such as ``"exp"``; empty for another node."""
    return get_op_name(node).rpartition(".")[2] if isinstance(node, Call) else ""


def _choose(choose: Callable[[float, float], float], a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else choose(a, b)  # integers stay exact


_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": np.divide,
    "FloorDiv": lambda a, b: np.floor(np.divide(a, b)),
    "FloorMod": lambda a, b: np.mod(np.float64(a), b),
    "Max": lambda a, b: _choose(max, a, b),
    "Min": lambda a, b: _choose(min, a, b),
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "And": lambda a, b: bool(a) and bool(b),
    "Or": lambda a, b: bool(a) or bool(b),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda value: np.power(10.0, value),
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda value: 1.0 / np.sqrt(value),
    "pow": np.float_power,
    "fabs": abs,
    "tanh": np.tanh,
    "sigmoid": lambda value: 0.5 + 0.5 * np.tanh(0.5 * value),
    "erf": math.erf,
    "sin": np.sin,
    "cos": np.cos,
}
