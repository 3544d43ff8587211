"""Operators and calls of TIR as functions of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: _truncating(a, b),
    "Mod": lambda a, b: np.fmod(a, b),
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Min": lambda a, b: min(a, b) if _scalars(a, b) else np.minimum(a, b),
    "Max": lambda a, b: max(a, b) if _scalars(a, b) else _find_larger(a, b),
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LShift": lambda a, b: a << b,
    "RShift": lambda a, b: a >> b,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
}
CALLS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "fabs": np.abs,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "pow": np.power,
    "fma": lambda a, b, c: a * b + c,
    "likely": lambda x: x,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
}


def _find_larger(left: Any, right: Any) -> Any:
    """The maximum; of two zeros the one without a sign, where NumPy's is either."""
    return np.where((left == 0) & (right == 0), left + right, np.maximum(left, right))


def _truncating(left: Any, right: Any) -> Any:
    """Division as in C: integers towards zero."""
    if _is_integer(left) and _is_integer(right):
        return np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right))
    return left / right


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) or np.issubdtype(getattr(value, "dtype", float), np.integer)


def _scalars(left: Any, right: Any) -> bool:
    return not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray)
