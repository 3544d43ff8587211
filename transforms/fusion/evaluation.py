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
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tvm.ir import Call, TensorLoad
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

from ..tir import is_choice

NAN, INFINITY = math.nan, math.inf
_LARGEST = {name: float(max_value(name).value) for name in ("float32", "float16", "bfloat16")}
"""The largest finite number of a type."""
_INTEGERS = {f"int{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)} | {
    f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)
}
"""The least and the largest number of a type."""


class UnknownOperationError(Exception):
    """An expression has an operation or a variable that is not known; its name is the message."""


_Values: TypeAlias = Any  # a mapping of variables, or a sequence in the order of some
_Load: TypeAlias = Callable[[TensorLoad], float]
_Compute: TypeAlias = Callable[[_Values, _Load], Any]
_Bind: TypeAlias = Callable[[Var], _Compute]


def evaluate(expression: Any, values: Mapping[Any, float], load: _Load) -> float:
    """The value of an expression, of its variables and what `load` says of each load."""

    return _compile_once(expression)(values, load)


def compile_expression(
    expression: Any, variables: Sequence[Var]
) -> Callable[[Sequence[float], _Load], float]:
    """An expression as a function of the values of `variables`, in their order, and of loads.

    For what is evaluated on many numbers: a look-up of a variable of TVM's costs more than most
    operations. A variable that is not among them raises `UnknownOperationError` where it is read.
    """

    def bind(variable: Var) -> _Compute:
        for place, known in enumerate(variables):
            if known.same_as(variable):
                return lambda values, load: values[place]
        return functools.partial(_refuse, f"'{variable.name}'")

    return _compile(expression, bind)


@functools.lru_cache(maxsize=512)  # each is evaluated on many drawn numbers
def _compile_once(expression: Any) -> _Compute:
    return _compile(expression, lambda variable: functools.partial(_get_value, variable))


def _compile(node: Any, bind: _Bind) -> _Compute:
    """A node's value, as a function.

    What its type does not hold is infinite, or NaN if it is an integer.
    """
    compute, dtype = _read(node, bind), str(node.ty.dtype)
    if dtype in _INTEGERS:
        least, most = _INTEGERS[dtype]
        # What is NaN compares false, and stays NaN.
        return lambda values, load: (
            value if least <= (value := compute(values, load)) <= most else NAN
        )
    largest = _LARGEST.get(dtype)
    if largest is None:
        return compute

    def limit(values: _Values, load: _Load) -> Any:
        value = compute(values, load)
        return math.copysign(INFINITY, value) if largest < abs(value) < INFINITY else value

    return limit


def _read(node: Any, bind: _Bind) -> _Compute:
    if isinstance(node, Var):
        return bind(node)
    if isinstance(node, TensorLoad):
        return lambda values, load: load(node)
    if isinstance(node, Cast):
        inner = _compile(node.value, bind)
        if "int" in str(node.ty.dtype):
            return lambda values, load: _truncate(inner(values, load))
        return inner
    if isinstance(node, Select):
        return _choose(node.condition, node.true_value, node.false_value, bind=bind)
    if isinstance(node, Call):
        return _choose(*node.args, bind=bind) if is_choice(node) else _read_call(node, bind)
    if isinstance(node, Not):
        inner = _compile(node.a, bind)
        return lambda values, load: not inner(values, load)
    function = next((_BINARY[kind] for kind in _BINARY if isinstance(node, kind)), None)
    if isinstance(node, Div) and str(node.ty.dtype) in _INTEGERS:
        function = _divide_integers
    if function is not None:
        left, right = _compile(node.a, bind), _compile(node.b, bind)
        return lambda values, load: function(left(values, load), right(values, load))
    value = getattr(node, "value", None)
    if isinstance(value, (int, float)):
        return lambda values, load: value
    return functools.partial(_refuse, type(node).__name__)


def _get_value(variable: Var, values: Mapping[Any, float], _load: _Load) -> Any:
    if variable not in values:  # a parameter, an open size, or what a statement binds
        raise UnknownOperationError(f"'{variable.name}'")
    return values[variable]


def _choose(condition: Any, one: Any, other: Any, *, bind: _Bind) -> _Compute:
    """The value of one of two nodes; the other one is not computed."""
    asked, first, second = (_compile(node, bind) for node in (condition, one, other))

    def choose(values: _Values, load: _Load) -> Any:
        return first(values, load) if asked(values, load) else second(values, load)

    return choose


def _read_call(node: Any, bind: _Bind) -> _Compute:
    name = get_operation(node)
    function = _CALLS.get(name)
    if function is None:
        return functools.partial(_refuse, name or str(node.op))
    arguments = [_compile(argument, bind) for argument in node.args]

    def call(values: _Values, load: _Load) -> Any:
        given = [argument(values, load) for argument in arguments]
        try:
            return function(*given)
        except OverflowError:
            return INFINITY
        except (ValueError, ZeroDivisionError):
            return NAN

    return call


def _refuse(what: str, _values: _Values, _load: _Load) -> Any:
    raise UnknownOperationError(what)


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
    if b == 0 or math.isnan(a) or math.isnan(b):
        return NAN
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


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
