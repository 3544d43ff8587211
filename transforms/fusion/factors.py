"""How a term changes with a running value: the algebra from which a repair is derived.

A reduction adds up terms ``f(x, m)``: x is what changes from term to term, m a value that another
reduction has found so far. What was added up with an old m can be used with a new one if all terms
change alike, so that the change can be done to their sum. There are two ways to change alike:

- by a *factor*: ``f(x, new) = s(new) / s(old) * f(x, old)``, as ``exp(x - m)`` or ``x / m`` does;
- by a *summand*: ``f(x, new) = f(x, old) + s(new) - s(old)``, as ``x - m`` does.

Both are found from the leaves of the expression up. A factor goes through a sum of terms of the
same factor, a summand of an exponent becomes a factor of the power. What is undone, as a divisor
or what is taken away, changes from the new value to the old one. Where two operands change
differently, or an operation mixes x and m, the expression has neither, and `NoRepairError` names
the part.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx import Add, Cast, Div, Max, Min, Mul, Select, Sub, Var, const

from ..tir import is_choice, is_used, substitute
from .evaluation import get_operation

_POWERS = {"exp": tirx.exp, "exp2": tirx.exp2, "exp10": tirx.exp10}
"""Operations that make a factor of a summand."""
Factor: TypeAlias = dict[str, Any]
"""What a term is multiplied by: the changes of exponents, by the names of the operations, and under
"" what else, which may be below 0."""


class NoRepairError(Exception):
    """A part of a term changes with the running value in no way that a sum could follow.

    Attributes
    ----------
    part : the part, an expression
    reason : why not, a clause about the part
    """

    def __init__(self, part: Any, reason: str) -> None:
        super().__init__(part, reason)
        self.part, self.reason = part, reason


@dataclass(frozen=True)
class Running:
    """The running value, and what varies from term to term.

    Attributes
    ----------
    value : the variable that stands for the running value
    varying : whether an expression changes from term to term
    old, new : the values that it goes from and to
    """

    value: Var
    varying: Callable[[Any], bool]
    old: Any
    new: Any

    def is_in(self, expression: Any) -> bool:
        """Whether an expression depends on the running value."""
        return is_used(self.value, expression)

    def put(self, expression: Any) -> list[Any]:
        """An expression of the old value, and of the new one."""
        return [substitute(expression, {self.value: it}) for it in (self.old, self.new)]

    @property
    def undone(self) -> Running:
        """From the new value to the old one."""
        return Running(self.value, self.varying, self.new, self.old)


def multiply_out(factor: Factor, dtype: Any) -> Any:
    """A factor as an expression; 1.0 of a `dtype` for one that is constant."""
    factors = [_POWERS[name](change) for name, change in factor.items() if name]
    factors += [factor[""]] if "" in factor else []
    multiply = functools.partial(in_wider, operator.mul)
    return functools.reduce(multiply, factors) if factors else const(1.0, dtype)


def find_factor(term: Any, running: Running) -> Factor | None:
    """The factor of a term; None for a term that is 0 whatever the running value, which has each.

    Raises `NoRepairError` where the term has none.
    """
    if _is_number(term, 0):
        return None
    if not running.is_in(term):
        return {}
    name, is_varying = get_operation(term), running.varying(term)
    if isinstance(term, (Mul, Div)):
        second = running.undone if isinstance(term, Div) else running
        factor, other = find_factor(term.a, running), find_factor(term.b, second)
        if factor is None or other is None:
            return None
        product = {**factor, **other}
        for key in factor.keys() & other.keys():
            combine = operator.add if key else functools.partial(in_wider, operator.mul)
            product[key] = combine(factor[key], other[key])
        return product
    if name in _POWERS:
        change = find_summand(term.args[0], running)
        return None if change is None else {name: change}
    if name in ("sqrt", "rsqrt") and is_varying:
        factor = find_factor(term.args[0], running if name == "sqrt" else running.undone)
        if factor is None:
            return None
        return {
            key: it * const(0.5, it.ty.dtype) if key else tirx.sqrt(it)
            for key, it in factor.items()
        }
    if isinstance(term, Cast) and _is_between_floats(term):
        return find_factor(term.value, running)
    if not is_varying:
        old, new = running.put(term)
        return {"": new / old}
    factors = _find_alike(term, running, "factor", find_factor)
    if isinstance(term, (Max, Min)) and any("" in factor for factor in factors):
        raise NoRepairError(term, "compares parts whose factor may be negative")
    return factors[0] if factors else None


def find_summand(term: Any, running: Running) -> Any | None:
    """``s(new) - s(old)``, 0 for a term that does not change; None for -inf, which has each.

    A change is computed before it is multiplied: both values may be the least numbers, and only
    their difference is finite then. Raises `NoRepairError` where the term has none.
    """
    if _is_low(term):
        return None
    if not running.is_in(term):
        return const(0, running.value.ty.dtype)
    is_varying = running.varying(term)
    if isinstance(term, (Add, Sub)):
        ends = running if isinstance(term, Add) else running.undone
        first, second = find_summand(term.a, running), find_summand(term.b, ends)
        if second is None:
            raise NoRepairError(term, "adds or takes away an infinity")
        if first is None or _is_number(second, 0):
            return first
        return second if _is_number(first, 0) else first + second
    if isinstance(term, (Mul, Div)):
        sides = [(term.a, term.b), (term.b, term.a)]
        for side, other in sides[:1] if isinstance(term, Div) else sides:
            if running.is_in(other) or running.varying(other):
                continue
            change = find_summand(side, running)
            if change is not None:
                return change * other if isinstance(term, Mul) else change / other
        if is_varying:
            raise NoRepairError(term, "multiplies or divides what changes by what varies")
    if not is_varying:
        old, new = running.put(term)
        return new - old
    if isinstance(term, Cast) and _is_between_floats(term):
        change = find_summand(term.value, running)
        return None if change is None else change.astype(term.ty.dtype)
    changes = _find_alike(term, running, "summand", find_summand)
    return changes[0] if changes else None


def _find_alike(term: Any, running: Running, what: str, find: Callable[..., Any]) -> list[Any]:
    """The changes of both parts of a term that changes as they do, where these are the same.

    A part that has any change, such as an arm of 0, is left out.
    """
    if isinstance(term, (Max, Min)) or (what == "factor" and isinstance(term, (Add, Sub))):
        parts = [term.a, term.b]
    elif isinstance(term, Select) or is_choice(term):
        condition, *parts = (
            term.args if is_choice(term) else (term.condition, term.true_value, term.false_value)
        )
        if running.is_in(condition):
            raise NoRepairError(condition, "is a condition, which may be another later")
    else:
        raise NoRepairError(term, f"mixes both so that no {what} comes out of it")
    found = [change for part in parts if (change := find(part, running)) is not None]
    dtype = running.value.ty.dtype
    made = [multiply_out(it, dtype) if isinstance(it, dict) else it for it in found]
    if len(made) == 2 and not (
        tvm_ffi.structural_equal(*made) or Analyzer().can_prove_equal(*made)
    ):
        raise NoRepairError(term, f"has parts that change by different {what}s")
    return found


def in_wider(combine: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """Two floats combined in the wider type of both: what the program computes in float32 is not
    rounded to the type of the running value."""
    wider = max(first.ty.dtype, second.ty.dtype, key=lambda dtype: dtype.bits)
    return combine(first.astype(wider), second.astype(wider))


def _is_between_floats(cast: Cast) -> bool:
    return all("float" in str(node.ty.dtype) for node in (cast, cast.value))


def _is_number(term: Any, number: float) -> bool:
    value = getattr(term, "value", None)
    return isinstance(value, (int, float)) and value == number


def _is_low(term: Any) -> bool:
    """Whether a term is -inf, to which nothing adds up."""
    return _is_low(term.value) if isinstance(term, Cast) else _is_number(term, -math.inf)
