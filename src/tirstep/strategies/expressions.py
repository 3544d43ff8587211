"""Draws expressions of TVMScript whose values are exact in their types, and never overflow.

Every value has a bound of its magnitude, so that sums of whole numbers are the same in any order
and a program's answer is a matter of its meaning alone, not of its roundings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

LIMITS = {
    "bool": 1,
    "int8": 127,
    "int16": 2**15 - 1,
    "int32": 2**30,
    "int64": 2**50,
    "float16": 2**11,
    "bfloat16": 2**8,
    "float32": 2**24,
    "float64": 2**50,
}
"""The largest whole number of each type up to which all are exact, or a smaller one."""
INPUT = 4
"""The largest number of an input."""
CAP = 60
"""The largest number in a buffer of a program's own: what is stored there is cut off at it."""
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class Choice(Protocol):
    """What draws."""

    def one(self, values: Sequence[Any], label: str) -> Any:
        """One of the values."""


@dataclass(frozen=True)
class Value:
    """The text of an expression, and the largest magnitude that it can have."""

    text: str
    dtype: str
    bound: int


@dataclass(frozen=True)
class Store:
    """A buffer that can be read; `scope` is as TVM has it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bound: int
    scope: str = "global"


@dataclass(frozen=True)
class Index:
    """An integer expression, and the number of its values: 0 to ``extent - 1``."""

    text: str
    extent: int


def is_float(dtype: str) -> bool:
    """Whether a type is one of floats."""
    return "float" in dtype


class Expressions:
    """Draws expressions over what is in scope.

    Attributes
    ----------
    indices : loop variables, and what is made of them
    stores : the buffers that may be read
    values : lets
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.indices: list[Index] = []
        self.stores: list[Store] = []
        self.values: list[Value] = []

    def pick(self, values: Sequence[Any], label: str) -> Any:
        """One of the values."""
        return self.choice.one(values, label)

    def is_so(self, among: int, label: str = "chance") -> bool:
        """True once in `among` times."""
        return bool(self.pick(range(among), label) == 0)

    @contextmanager
    def scoped(self) -> Iterator[None]:
        """What is added to the scope goes with this."""
        kept = list(self.indices), list(self.stores), list(self.values)
        try:
            yield
        finally:
            self.indices, self.stores, self.values = kept

    @contextmanager
    def without(self, *scopes: str) -> Iterator[None]:
        """Buffers of these scopes are not read while this lasts."""
        kept = self.stores
        self.stores = [each for each in kept if not each.scope.startswith(scopes)]
        try:
            yield
        finally:
            self.stores = kept

    def index(self, extent: int) -> str:
        """An index into a dimension."""
        if not self.indices or self.is_so(10):
            return str(self.pick(range(extent), "constant index"))
        at = self.pick(self.indices, "index")
        shift = self.pick(range(1, max(2, extent)), "shift")
        forms = [f"({at.text} + {shift}) % {extent}", f"T.min({at.text}, {extent - 1})"]
        if at.extent <= extent:
            forms += [at.text] * 6 + [f"{extent - 1} - {_wrap(at.text)}"]
        else:
            forms += [
                f"{_wrap(at.text)} % {extent}",
                f"{_wrap(at.text)} // {-(-at.extent // extent)}",
            ]
        return str(self.pick(forms, "form of index"))

    def load(self, store: Store) -> Value:
        """A load from a buffer; now and then one that a condition keeps inside of it."""
        *front, last = store.shape
        places = [self.index(extent) for extent in front]
        fitting = [each for each in self.indices if each.extent <= last]
        if fitting and self.is_so(5, "guarded load"):
            at = self.pick(fitting, "index")
            shift = self.pick((1, 2, 3), "shift")
            text = f"{store.name}[{', '.join([*places, f'{at.text} + {shift}'])}]"
            other = self.constant(store.dtype)
            condition = f"{at.text} + {shift} < {last}"
            bound = max(store.bound, other.bound)
            return Value(f"T.if_then_else({condition}, {text}, {other.text})", store.dtype, bound)
        text = f"{store.name}[{', '.join([*places, self.index(last)])}]"
        return Value(text, store.dtype, store.bound)

    def constant(self, dtype: str) -> Value:
        """A small number."""
        if dtype == "bool":
            return Value(f"T.bool({self.pick((True, False), 'truth')})", dtype, 1)
        number = self.pick((0, 1, 2, 3, -1, -2), "number")
        return Value(f"T.{dtype}({number})", dtype, abs(number))

    def leaf(self, dtype: str) -> Value:
        """A load, a let, a constant, or a number made of an index."""
        loads = [each for each in self.stores if each.dtype == dtype]
        lets = [each for each in self.values if each.dtype == dtype]
        kind = self.pick(("load", "load", "load", "let", "constant", "index", "cast"), "leaf")
        if kind == "let" and lets:
            return self.pick(lets, "let")
        small = [each for each in self.indices if each.extent <= LIMITS[dtype]]
        if kind == "index" and small and dtype != "bool":
            at = self.pick(small, "index")
            return Value(f"T.Cast('{dtype}', {at.text})", dtype, at.extent - 1)
        if kind == "cast" and self.stores and dtype != "bool":
            made = self.cast(self.load(self.pick(self.stores, "buffer")), dtype)
            if made is not None:
                return made
        if kind != "constant" and loads:
            return self.load(self.pick(loads, "buffer"))
        return self.constant(dtype)

    def cast(self, value: Value, dtype: str) -> Value | None:
        """The value in another type; None where it may not fit."""
        if value.dtype == dtype:
            return value
        if value.bound > LIMITS[dtype]:
            return None
        return Value(f"T.Cast('{dtype}', {value.text})", dtype, value.bound)

    def expression(self, dtype: str, depth: int) -> Value:
        """A value of a type."""
        if depth <= 0:
            return self.leaf(dtype)
        if dtype == "bool":
            return Value(self.condition(depth - 1), "bool", 1)
        kinds = ["add", "subtract", "multiply", "extreme", "select", "choice", "leaf", "cast"]
        kinds += [] if is_float(dtype) else ["divide", "bits"]
        kind = self.pick(kinds, "operator")
        if kind in ("select", "choice"):
            return self.either(dtype, depth, kind)
        if kind == "cast":
            other = self.pick([each for each in LIMITS if each != "bool"], "type")
            made = self.cast(self.expression(other, depth - 1), dtype)
            return made or self.leaf(dtype)
        left = self.expression(dtype, depth - 1)
        if kind == "divide":
            return self.divide(left)
        if kind == "bits":
            return self.take_bits(left)
        if kind == "leaf":
            return left
        return self.combine(kind, left, self.expression(dtype, depth - 1))

    def combine(self, kind: str, left: Value, right: Value) -> Value:
        """A sum, difference or product; where that may be too large, the larger of the two."""
        bound = left.bound * right.bound if kind == "multiply" else left.bound + right.bound
        signs = {"add": "+", "subtract": "-", "multiply": "*"}
        if kind in signs and bound <= LIMITS[left.dtype]:
            text = f"({left.text} {signs[kind]} {right.text})"
            return Value(text, left.dtype, bound)
        name = self.pick(("T.max", "T.min"), "extreme")
        return Value(f"{name}({left.text}, {right.text})", left.dtype, max(left.bound, right.bound))

    def divide(self, left: Value) -> Value:
        """A quotient or a rest, rounded down or towards zero; of negative numbers, too."""
        by = self.pick((2, 3, 4, 5, 8), "divisor")
        name = self.pick(("T.floordiv", "T.floormod", "T.truncdiv", "T.truncmod"), "division")
        bound = by - 1 if name.endswith("mod") else left.bound
        return Value(f"{name}({left.text}, T.{left.dtype}({by}))", left.dtype, bound)

    def take_bits(self, left: Value) -> Value:
        """A shift, or some bits."""
        if left.bound * 4 <= LIMITS[left.dtype] and self.is_so(3, "left"):
            text = f"T.shift_left({left.text}, T.{left.dtype}(2))"
            return Value(text, left.dtype, left.bound * 4)
        if self.is_so(2, "right"):
            text = f"T.shift_right({left.text}, T.{left.dtype}(1))"
            return Value(text, left.dtype, left.bound)
        return Value(f"T.bitwise_and({left.text}, T.{left.dtype}(7))", left.dtype, 7)

    def either(self, dtype: str, depth: int, kind: str) -> Value:
        """One of two values: both computed (Select), or only the one (if_then_else)."""
        left, right = (self.expression(dtype, depth - 1) for _ in range(2))
        name = "T.Select" if kind == "select" else "T.if_then_else"
        text = f"{name}({self.condition(depth - 1)}, {left.text}, {right.text})"
        return Value(text, dtype, max(left.bound, right.bound))

    def condition(self, depth: int) -> str:
        """A truth: of indices mostly, which passes know something about, or of values."""
        kind = self.pick(("index", "index", "values", "both", "not", "load"), "condition")
        truths = [each for each in self.stores if each.dtype == "bool"]
        if kind == "load" and truths:
            return self.load(self.pick(truths, "buffer")).text
        if depth > 0 and kind in ("both", "not"):
            left = self.condition(depth - 1)
            if kind == "not":
                return f"T.Not({left})"
            return f"T.{self.pick(('And', 'Or'), 'both')}({left}, {self.condition(depth - 1)})"
        sign = self.pick(COMPARISONS, "comparison")
        if kind == "values" or not self.indices:
            dtype = self.pick([each for each in LIMITS if each != "bool"], "type")
            values = self.leaf(dtype), self.leaf(dtype)
            return f"{values[0].text} {sign} {values[1].text}"
        at = self.pick(self.indices, "index")
        text = self.pick(
            (at.text, at.text, f"{_wrap(at.text)} % 3", f"{_wrap(at.text)} // 2"), "of"
        )
        return f"{text} {sign} {self.pick(range(at.extent + 1), 'end')}"

    def capped(self, value: Value, cap: int = CAP) -> Value:
        """The value, cut off where it may be larger than `cap`."""
        if value.bound <= cap or value.dtype == "bool":
            return value
        low, high = f"T.{value.dtype}({-cap})", f"T.{value.dtype}({cap})"
        return replace(value, text=f"T.max(T.min({value.text}, {high}), {low})", bound=cap)


def _wrap(text: str) -> str:
    return text if text.isidentifier() else f"({text})"
