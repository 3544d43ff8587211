"""How a term changes with a running value: the algebra from which a repair is derived.

A reduction adds up terms ``f(x, m)``: x is what changes from term to term, m a value that another
reduction has found so far. What was added up with an old m can be used with a new one if all terms
change alike, so that the change can be done to their sum. There are two ways to change alike:

- by a *scale*: ``f(x, new) = s(new) / s(old) * f(x, old)``, as ``exp(x - m)`` or ``x / m`` does;
- by a *shift*: ``f(x, new) = f(x, old) + s(new) - s(old)``, as ``x - m`` does.

Both are found from the leaves of the expression up. A scale goes through a sum of terms of the same
scale, a shift of an exponent becomes a scale of the power. Where two operands change differently,
or an operation mixes x and m, the expression has neither, and `NoRepairError` names the part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer
from tvm.tirx import Add, Cast, Div, Max, Min, Mul, Select, Sub, Var, const

from ..tir import is_choice, is_used, substitute
from .evaluation import get_operation

_POWERS = {"exp": tirx.exp, "exp2": tirx.exp2, "exp10": tirx.exp10}
"""Operations that make a scale of a shift."""
_ROOTS = {"sqrt": 0.5, "rsqrt": -0.5}


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
    """

    value: Var
    varying: Callable[[Any], bool]

    def is_in(self, expression: Any) -> bool:
        """Whether an expression depends on the running value."""
        return is_used(self.value, expression)


class Part(NamedTuple):
    """A part of a shift.

    Attributes
    ----------
    expression : of the running value
    is_added : whether it is added, or taken away
    factors : what its change is multiplied by, cast to and so on, one after the other: a change is
        finite where both values are the least numbers, which multiplied might be infinite
    """

    expression: Any
    is_added: bool = True
    factors: tuple[Callable[[Any], Any], ...] = ()

    def get_change(self, value: Var, old: Any, new: Any) -> Any:
        """What the part adds to the shift's change."""
        first, second = (old, new) if self.is_added else (new, old)
        change = _put(self.expression, value, second) - _put(self.expression, value, first)
        for factor in self.factors:
            change = factor(change)
        return change


@dataclass(frozen=True)
class Shift:
    """A summand of a term that depends on the running value alone."""

    parts: tuple[Part, ...] = ()

    def plus(self, other: Shift) -> Shift:
        """The sum of two."""
        return Shift(self.parts + other.parts)

    def negated(self) -> Shift:
        """The shift that undoes this one."""
        return Shift(tuple(part._replace(is_added=not part.is_added) for part in self.parts))

    def times(self, factor: Callable[[Any], Any]) -> Shift:
        """A factor, a divisor or a cast of each part."""
        return Shift(tuple(part._replace(factors=(*part.factors, factor)) for part in self.parts))

    def get_change(self, value: Var, old: Any, new: Any) -> Any:
        """``s(new) - s(old)``; 0 for a shift that is constant."""
        changes = [part.get_change(value, old, new) for part in self.parts]
        return sum(changes[1:], changes[0]) if changes else const(0, value.ty.dtype)


@dataclass(frozen=True)
class Scale:
    """A factor of a term that depends on the running value alone.

    It is the product of ``operation(exponent)`` for each of `powers`, by the operation's name, and
    of ``base ** exponent`` for each of `bases`.
    """

    powers: tuple[tuple[str, Shift], ...] = ()
    bases: tuple[tuple[Any, float], ...] = ()

    def times(self, other: Scale) -> Scale:
        """The product of two."""
        powers = dict(self.powers)
        for name, exponent in other.powers:
            powers[name] = powers[name].plus(exponent) if name in powers else exponent
        return Scale(tuple(powers.items()), self.bases + other.bases)

    def raised(self, exponent: float) -> Scale:
        """The scale to a power."""
        powers = ((name, _times(shift, exponent)) for name, shift in self.powers)
        return Scale(tuple(powers), tuple((base, power * exponent) for base, power in self.bases))

    @property
    def is_positive(self) -> bool:
        """Whether it is known to be above 0."""
        return not self.bases

    def get_ratio(self, value: Var, old: Any, new: Any) -> Any:
        """``s(new) / s(old)``, in the type of the term; 1.0 for a scale that is constant."""
        ratio = None
        for name, exponent in self.powers:
            change = exponent.get_change(value, old, new)
            ratio = _product(ratio, _POWERS[name](change))
        for base, power in self.bases:
            before, after = (_put(base, value, it) for it in (old, new))
            ratio = _product(ratio, _quotient_to(power, before, after))
        return const(1.0, value.ty.dtype) if ratio is None else ratio


ANY = Scale((("any", Shift()),))
"""The scale of a term that is 0, or 0 whatever the running value is: it agrees with each."""


def find_scale(term: Any, running: Running) -> Scale:
    """The scale of a term; raises `NoRepairError` where it has none."""
    if _is_zero(term):
        return ANY
    if not running.is_in(term):
        return Scale()
    name = get_operation(term)
    if isinstance(term, Mul):
        return _multiply(find_scale(term.a, running), find_scale(term.b, running))
    if isinstance(term, Div):
        above, below = find_scale(term.a, running), find_scale(term.b, running)
        return ANY if above is ANY else above.times(below.raised(-1.0))
    if name in _POWERS:
        shift = find_shift(term.args[0], running)
        return ANY if shift is None else Scale(((name, shift),))
    if name in _ROOTS and running.varying(term):
        return find_scale(term.args[0], running).raised(_ROOTS[name])
    if isinstance(term, Cast) and _is_between_floats(term):
        return find_scale(term.value, running)
    if not running.varying(term):
        return Scale(bases=((term, 1.0),))
    if isinstance(term, (Add, Sub, Max, Min)):
        return _find_common_scale(term, (term.a, term.b), running)
    arms = _get_arms(term, running)
    if arms is not None:
        return _find_common_scale(term, arms, running)
    raise NoRepairError(term, "mixes both so that no factor comes out of it")


def find_shift(term: Any, running: Running) -> Shift | None:
    """The shift of a term; None for -inf, which has each.

    Raises `NoRepairError` where the term has none.
    """
    if _is_low(term):
        return None
    if not running.is_in(term):
        return Shift()
    if isinstance(term, (Add, Sub)):
        first, second = (find_shift(part, running) for part in (term.a, term.b))
        if second is None:
            raise NoRepairError(term, "adds or takes away an infinity")
        if first is None:
            return None
        return first.plus(second if isinstance(term, Add) else second.negated())
    if isinstance(term, (Mul, Div)):
        return _find_scaled_shift(term, running)
    if not running.varying(term):
        return Shift((Part(term),))
    if isinstance(term, Cast) and _is_between_floats(term):
        shift = find_shift(term.value, running)
        return None if shift is None else shift.times(lambda it: it.astype(term.ty.dtype))
    if isinstance(term, (Max, Min)):
        return _find_common_shift(term, (term.a, term.b), running)
    arms = _get_arms(term, running)
    if arms is not None:
        return _find_common_shift(term, arms, running)
    raise NoRepairError(term, "mixes both so that no summand comes out of it")


def _find_scaled_shift(term: Any, running: Running) -> Shift:
    """The shift of a product or a quotient of which one side neither varies nor runs."""
    if isinstance(term, Div) and "float" not in str(term.ty.dtype) and running.varying(term):
        raise NoRepairError(term, "rounds what changes")
    sides = [(term.a, term.b)] if isinstance(term, Div) else [(term.a, term.b), (term.b, term.a)]
    for shifted, other in sides:
        if not running.is_in(other) and not running.varying(other):
            shift = find_shift(shifted, running)
            if shift is not None:
                combine = _divide if isinstance(term, Div) else _multiply_by
                return shift.times(partial(combine, other))
    if not running.varying(term):
        return Shift((Part(term),))
    raise NoRepairError(term, "multiplies or divides what changes by what varies")


def _multiply_by(factor: Any, expression: Any) -> Any:
    return expression * factor


def _divide(divisor: Any, expression: Any) -> Any:
    return expression / divisor


def _find_common_scale(term: Any, parts: tuple[Any, ...], running: Running) -> Scale:
    scales = [scale for part in parts if (scale := find_scale(part, running)) is not ANY]
    if not scales:
        return ANY
    old, new = (Var(name, running.value.ty.dtype) for name in ("old", "new"))
    ratios = [scale.get_ratio(running.value, old, new) for scale in scales]
    if any(not _is_same(ratio, ratios[0]) for ratio in ratios[1:]):
        raise NoRepairError(term, "has parts that change by different factors")
    if isinstance(term, (Max, Min)) and not all(scale.is_positive for scale in scales):
        raise NoRepairError(term, "compares parts whose factor may be negative")
    return scales[0]


def _find_common_shift(term: Any, parts: tuple[Any, ...], running: Running) -> Shift | None:
    shifts = [shift for part in parts if (shift := find_shift(part, running)) is not None]
    if not shifts:
        return None
    old, new = (Var(name, running.value.ty.dtype) for name in ("old", "new"))
    changes = [shift.get_change(running.value, old, new) for shift in shifts]
    if any(not _is_same(change, changes[0]) for change in changes[1:]):
        raise NoRepairError(term, "has parts that change by different summands")
    return shifts[0]


def _get_arms(term: Any, running: Running) -> tuple[Any, Any] | None:
    """Both arms of a choice; None for another term. The condition must not run."""
    if isinstance(term, Select):
        condition, arms = term.condition, (term.true_value, term.false_value)
    elif is_choice(term):
        condition, arms = term.args[0], (term.args[1], term.args[2])
    else:
        return None
    if running.is_in(condition):
        raise NoRepairError(condition, "is a condition, which may be another later")
    return arms


def _multiply(first: Scale, second: Scale) -> Scale:
    return ANY if first is ANY or second is ANY else first.times(second)


def _product(ratio: Any, factor: Any) -> Any:
    """The product of two floats, in the wider type: what the program computes in float32 is not
    rounded to the type of the running value."""
    if ratio is None:
        return factor
    wider = max(ratio.ty.dtype, factor.ty.dtype, key=lambda dtype: dtype.bits)
    return ratio.astype(wider) * factor.astype(wider)


def _quotient_to(power: float, before: Any, after: Any) -> Any:
    """``(after / before) ** power``."""
    if power < 0:
        before, after, power = after, before, -power
    quotient = after / before
    if power == 1.0:
        return quotient
    if power == 0.5:
        return tirx.sqrt(quotient)
    return tirx.power(quotient, const(power, quotient.ty.dtype))


def _times(shift: Shift, factor: float) -> Shift:
    if factor == -1.0:
        return shift.negated()
    return shift.times(lambda it: it * const(factor, it.ty.dtype))


def _put(expression: Any, value: Var, other: Any) -> Any:
    return substitute(expression, {value: other})


def _is_same(first: Any, second: Any) -> bool:
    return bool(tvm_ffi.structural_equal(first, second)) or bool(
        Analyzer().can_prove_equal(first, second)
    )


def _is_between_floats(cast: Cast) -> bool:
    return all("float" in str(node.ty.dtype) for node in (cast, cast.value))


def _is_zero(term: Any) -> bool:
    value = getattr(term, "value", None)
    return isinstance(value, (int, float)) and value == 0


def _is_low(term: Any) -> bool:
    """Whether a term is -inf, to which nothing adds up."""
    if isinstance(term, Cast):
        return _is_low(term.value)
    value = getattr(term, "value", None)
    return isinstance(value, float) and math.isinf(value) and value < 0
