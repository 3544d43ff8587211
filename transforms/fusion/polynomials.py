"""Derivatives of a term by the running value, of which a polynomial has few.

A sum of polynomials moves with the value by Taylor's formula: ``sum f(x, new) = sum f(x, old) +
sum f'(x, old) * d + sum f''(x, old) * d**2 / 2 ...`` with ``d = new - old``. Derivatives are summed
beside it, and their sums move in the same way. For squared differences from a mean this is what
T. Chan, G. Golub and R. LeVeque add up (Algorithms for computing the sample variance, 1983).
"""

from __future__ import annotations

from typing import Any

from tvm.tirx import Add, Cast, Div, Mul, Sub, Var, const

from .factors import NoRepairError, Running

MOST = 3
"""The highest degree: each costs a sum beside."""


def find_derivatives(term: Any, running: Running) -> list[Any]:
    """The derivatives that are not 0, the first one first; raises `NoRepairError`."""
    found: list[Any] = []
    while (term := _derive(term, running)) is not None:
        found.append(term)
        if len(found) > MOST:
            raise NoRepairError(term, f"is of a degree above {MOST}")
    return found


def _derive(term: Any, running: Running) -> Any | None:
    """The derivative of an expression; None where it is 0."""
    if not running.is_in(term):
        return None
    if isinstance(term, Var):
        return const(1, term.ty.dtype)
    if isinstance(term, (Add, Sub)):
        return _add(_derive(term.a, running), _derive(term.b, running), isinstance(term, Sub))
    if isinstance(term, Mul):
        first, second = _derive(term.a, running), _derive(term.b, running)
        return _add(_multiply(first, term.b), _multiply(second, term.a), False)
    if isinstance(term, Div) and not running.is_in(term.b):
        above = _derive(term.a, running)
        return None if above is None else above / term.b
    if isinstance(term, Cast) and "float" in str(term.value.ty.dtype):
        derivative = _derive(term.value, running)
        return None if derivative is None else derivative.astype(term.ty.dtype)
    raise NoRepairError(term, "is no polynomial")


def _add(first: Any | None, second: Any | None, is_negative: bool) -> Any | None:
    if second is None:
        return first
    if first is None:
        return const(-1, second.ty.dtype) * second if is_negative else second
    return first - second if is_negative else first + second


def _multiply(derivative: Any | None, factor: Any) -> Any | None:
    if derivative is None:
        return None
    return factor if getattr(derivative, "value", None) == 1 else derivative * factor
