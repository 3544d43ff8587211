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

`factor_out_of_sum` takes factors that are the same for all terms out of a sum by the distributive
law. The value of an expression is computed in float64, with the range of its own type
(`evaluate`). Nothing raises on the way: a quotient by 0 is infinite, so is what float32 does not
hold in an expression of float32, and what has no value is NaN, such as an integer that its type
does not hold. A check on drawn numbers sees the infinities and NaNs that a GPU would see; only
roundings are finer.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    BufferLoad,
    BufferStore,
    Cast,
    Div,
    Max,
    Min,
    Mul,
    Not,
    Select,
    Sub,
    Var,
    const,
    max_value,
    min_value,
)

from ..enumeration import OPERATORS
from ..loops import require_serial
from ..queries import get_sblocks_under
from ..rewriting import replace_blocks
from ..schedule import TransformError, inlines, transform
from ..tir import constant, is_among, is_choice, is_used, substitute
from .blocks import Point, Reduction, read_reduction, uses_any

_TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_TYPES += ["float32", "float16", "bfloat16"]
_BOUNDS = {name: (min_value(name).value, max_value(name).value) for name in _TYPES}
"""The least and the largest number of a type."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda value: np.power(10.0, value),
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda value: 1.0 / np.sqrt(value),
    "pow": np.power,
    "fabs": np.abs,
    "tanh": np.tanh,
    "sigmoid": lambda value: 0.5 + 0.5 * np.tanh(0.5 * value),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sin": np.sin,
    "cos": np.cos,
}
Load: TypeAlias = Callable[[TensorLoad, Any], Any]
"""The values of a load, where they are asked for."""


class UnknownOperationError(Exception):
    """An expression has an operation or a variable that is not known; its name is the message."""


def evaluate(node: Any, values: Mapping[int, Any], load: Load, where: Any = True) -> Any:
    """An expression of arrays of numbers, of its variables by their addresses and of its loads.

    What its type does not hold is infinite, or NaN if it is an integer. Of a choice the arms are
    computed `where` they are chosen. A variable that has no value, and an operation that is not
    known, raise `UnknownOperationError` there.
    """
    name, dtype = get_operation(node) or type(node).__name__, str(node.ty.dtype)
    value: Any
    if isinstance(node, Var):
        if node.__chandle__() not in values:  # a parameter, an open size, or what a statement binds
            raise UnknownOperationError(f"'{node.name}'")
        value = values[node.__chandle__()]
    elif isinstance(node, TensorLoad):
        value = load(node, where)
    elif choice := _read_choice(node):
        condition, *arms = choice
        asked = np.asarray(evaluate(condition, values, load, where)) != 0
        value = math.nan
        for arm, chosen in zip(arms, (where & asked, where & ~asked), strict=True):
            if np.any(chosen):
                value = np.where(chosen, evaluate(arm, values, load, chosen), value)
    elif isinstance(getattr(node, "value", None), (int, float)):
        value = np.float64(node.value)
    else:
        whole, function = "int" in dtype, OPERATORS.get(type(node))
        operands = [getattr(node, side) for side in ("a", "b") if hasattr(node, side)]
        if isinstance(node, Call):
            function, operands = _FUNCTIONS.get(name), list(node.args)
        elif isinstance(node, Cast):
            function, operands = np.trunc if whole else np.float64, [node.value]
        elif isinstance(node, Not):
            function = np.logical_not
        elif isinstance(node, Div):  # of integers rounded towards 0
            function = (lambda a, b: np.trunc(a / b)) if whole else np.divide
        arguments = [evaluate(operand, values, load, where) for operand in operands]
        if function is None:
            raise UnknownOperationError(name)
        with np.errstate(all="ignore"):
            value = function(*arguments)
    least, most = _BOUNDS.get(dtype, (-math.inf, math.inf))
    below, above = (math.nan, math.nan) if "int" in dtype else (-math.inf, math.inf)
    if dtype not in _BOUNDS:
        return value
    return np.where(value < least, below, np.where(value > most, above, value))  # NaN stays


def _read_choice(node: Any) -> list[Any]:
    """The condition of a choice and both of its values; nothing of another node."""
    if isinstance(node, Select):
        return [node.condition, node.true_value, node.false_value]
    return list(node.args) if is_choice(node) else []


def get_operation(node: Any) -> str:
    """The bare name of what a call computes, such as ``"exp"``; empty for another node."""
    name = getattr(getattr(node, "op", None), "name", "") if isinstance(node, Call) else ""
    return str(name).rpartition(".")[2]


_POWERS = {"exp": tirx.exp, "exp2": tirx.exp2, "exp10": tirx.exp10}
"""Operations that make a factor of a summand."""
Factor: TypeAlias = dict[str, Any]
"""A term's factor: the changes of exponents, by the names of the operations, and under
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
            raise NoRepairError(term, "adds or subtracts an infinity")
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
            raise NoRepairError(term, "multiplies or divides what changes by a part that varies")
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
    elif choice := _read_choice(term):
        condition, *parts = choice
        if running.is_in(condition):
            raise NoRepairError(condition, "is a condition, which may change later")
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


@transform
@inlines
def factor_out_of_sum(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Move a factor that all terms of a sum have out of the sum.

    A sum that had to wait for another reduction because of such a factor, such as a matmul after a
    normalization, then need not wait: both can share one loop, and nothing is rescaled.

    This is the distributive law, which floats keep up to rounding. If the factor was inside of a
    rounding to a narrower type, that rounding is removed, since without the factor the value may
    exceed the type's range. A term without its factor may also exceed the range of the sum's type,
    and a result that is infinite or NaN may become the other of these.

    A trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``for i, k: C[i] += float32(float16(x[i, k] * s[i])) * w[k]`` ->
        ``for i, k: C_global[i] += x[i, k] * w[k]`` and ``for i: C[i] = C_global[i] * s[i]``
    consumes: nothing
    returns: the new block, which multiplies the sums by the factor
    requires: a block that sums floats, starting from 0, whose spatial iterators are each one index
        of the sums; serial loops around it that contain no other block (which could use a sum
        before it is multiplied, or change the factor); no guard that leaves out some of the sums; a
        factor or divisor of the term that does not depend on reduction iterators, within products,
        quotients and casts between floats
    """
    reduction = read_lone_sum(sch, block)
    reduced = [item.var for item in reduction.iterators(reduced=True)]
    factor, rest = split_factor(reduction.term, lambda it: uses_any(it, reduced))
    if factor is None:
        names = ", ".join(f"'{variable.name}'" for variable in reduced)
        raise TransformError(
            f"each factor of the term {reduction.term} of block '{reduction.name}' depends on "
            f"{names}, over which it is summed",
            "inline what the block reads first, or leave the sum as it is",
        )
    copy = sch.cache_write(block, 0, str(reduction.buffer.scope()))
    reduction, old, scaled = read_reduction(sch.get(block)), sch.get(block), sch.get(copy)
    rest = const(1, reduction.dtype) if rest is None else rest.astype(reduction.dtype)
    own = BufferLoad(reduction.buffer, reduction.indices)
    update = BufferStore(reduction.buffer, own + rest, reduction.indices)
    pairs = zip(reduction.indices, scaled.iter_vars, strict=True)
    rows = {ours: theirs.var for ours, theirs in pairs if isinstance(ours, Var)}
    product = in_wider(operator.mul, scaled.body.value, substitute(factor, rows))
    value = product.astype(reduction.dtype)
    store = BufferStore(scaled.body.buffer, value, scaled.body.indices)
    name = str(scaled.name_hint)
    made = {
        old: Point(list(old.iter_vars)).make_block(reduction.name, update, old.init, old),
        scaled: Point(list(scaled.iter_vars)).make_block(name, store, like=scaled),
    }
    replace_blocks(sch, block, made, [], who="factor_out_of_sum")
    return copy


def read_lone_sum(sch: Schedule, block: SBlockRV) -> Reduction:
    """A block's sum of floats from 0 on, which something is to be done to where it is complete.

    Refuses a block that shares loops with others, or whose loops are bound.
    """
    reduction, loops = read_reduction(sch.get(block)), sch.get_loops(block)
    name, identity = reduction.name, reduction.identity
    is_zero = getattr(identity, "value", None) == 0
    if reduction.kind != "sum" or "float" not in reduction.dtype or not is_zero:
        raise TransformError(
            f"block '{name}' is a {reduction.kind} of {reduction.dtype} that starts from "
            f"{identity}; it must be a sum of floats that starts from 0",
            "add the initial value to the result of such a sum, or leave it as it is",
        )
    rows = [item.var for item in reduction.iterators(reduced=False)]
    indices = [index for index in reduction.indices if constant(index) is None]
    if len(indices) != len(rows) or not all(is_among(index, rows) for index in indices):
        raise TransformError(
            f"block '{name}' does not sum to one element for each of its rows",
            "let each spatial iterator be one index of what it sums to",
        )
    for loop in loops:
        require_serial(sch, loop)
    for other in get_sblocks_under(sch, loops[0]) if loops else []:
        if not other.same_as(sch.get(block)):
            raise TransformError(
                f"blocks '{name}' and '{other.name_hint}' are in one loop, and the sums would "
                "be complete only after it",
                "change the sum before blocks are placed there",
            )
    return reduction


def split_factor(term: Any, varies: Callable[[Any], bool]) -> tuple[Any, Any]:
    """A term as ``factor * rest``, of which the rest alone varies; None for a 1.

    `varies` says whether an expression changes from term to term.
    """
    if not varies(term):
        return term, None
    if isinstance(term, (Mul, Div)):
        combine = operator.truediv if isinstance(term, Div) else operator.mul
        first, second = (split_factor(part, varies) for part in (term.a, term.b))
        return _join(combine, first[0], second[0]), _join(combine, first[1], second[1])
    if isinstance(term, Cast) and _is_between_floats(term):
        factor, rest = split_factor(term.value, varies)
        if factor is None:
            return None, term
        is_wider = term.ty.dtype.bits > rest.ty.dtype.bits
        return factor, rest.astype(term.ty.dtype) if is_wider else rest
    return None, term


def _join(combine: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    if second is None:
        return first
    if first is None:
        return second if combine is operator.mul else combine(const(1, second.ty.dtype), second)
    return in_wider(combine, first, second)
