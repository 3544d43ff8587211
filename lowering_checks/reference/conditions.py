"""The conditions of a program whose numbers have errors: what may hold, and what may fail."""

from __future__ import annotations

from typing import Any

import tvm.tirx as tirx
from tvm.tirx import BufferLoad, BufferStore, Var

from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import TensorLoad

from .data_dependence import get_dtype, needs_guard
from .refusals import RefusedError, get_call_name, refuse_call
from .tracked import INFINITE, Condition, Tracked, get_facts, lift, number

COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
TESTS = ("isnan", "isinf", "isfinite")
TRANSPARENT = ("likely", "annotation", "ignore_loop_partition")
"""Calls that return their first argument."""


class ConditionTracking:
    """The part of the tracking pass that reads conditions; what it uses of the rest is below."""

    emitter: Any
    tracker: Any
    let: Any
    add: Any
    values: dict[Any, Any]
    accumulated: set[Any]
    bound_loads: dict[Any, list[Any]]
    is_deciding: bool
    expression: Any
    _has_data: Any
    _substitute: Any
    _value_tensorload: Any

    def condition(self, node: Any) -> Condition:
        """Whether a condition may hold, and may fail."""
        if not self._has_data(node):
            holds = self.let(self._substitute(node))
            return Condition(holds, self.let(tirx.Not(holds)))
        kind = type(node).__name__
        if kind in COMPARISONS:
            if get_dtype(node.a) == "bool":
                return self._compare_conditions(kind, node.a, node.b)
            ties = any(
                load.source in self.accumulated
                for side in (node.a, node.b)
                for load in self._find_loads(side)
            )
            self.is_deciding |= get_facts(get_dtype(node.a)).is_float
            sides = self.expression(node.a), self.expression(node.b)
            return self.tracker.compare(kind, *sides, ties=ties)
        if kind == "Not":
            inner = self.condition(node.a)
            return Condition(inner.may_fail, inner.may_hold)
        if kind in ("And", "Or"):
            return self._connect(kind, node.a, node.b)
        if kind == "Var":
            value = self.values[node]
            return self._as_condition(value)
        if kind in ("TensorLoad", "BufferLoad"):
            return self._as_condition(self._value_tensorload(node))
        if kind == "Cast":
            return self._as_condition(self.expression(node.value))
        if kind == "Select":
            return self._choose_condition(node.condition, node.true_value, node.false_value)
        if kind == "Call":
            return self._call_condition(node)
        raise RefusedError(f"the condition {kind} has no meaning in float64 here")

    def _as_condition(self, value: Tracked) -> Condition:
        value = self.tracker.close(value)
        plain = value.value
        if value.dtype != "bool":
            plain = tirx.NE(plain, number(0) if value.is_float else tirx.const(0, value.dtype))
        near = lift(value.error) > number(0)
        return Condition(self.let(tirx.Or(plain, near)), self.let(tirx.Or(tirx.Not(plain), near)))

    def _find_loads(self, expression: Any) -> list[Any]:
        """The loads in an expression, and in what its variables were bound to."""
        found = list(find_all(expression, TensorLoad))
        for variable in find_all(expression, Var):
            found += self.bound_loads.get(variable, [])
        return found

    def _compare_conditions(self, kind: str, first: Any, second: Any) -> Condition:
        left, right = self.condition(first), self.condition(second)
        same = tirx.Or(
            tirx.And(left.may_hold, right.may_hold), tirx.And(left.may_fail, right.may_fail)
        )
        other = tirx.Or(
            tirx.And(left.may_hold, right.may_fail), tirx.And(left.may_fail, right.may_hold)
        )
        pair = (self.let(same), self.let(other))
        if kind not in ("EQ", "NE"):
            raise RefusedError("an order of truth values has no meaning here")
        return Condition(*(pair if kind == "EQ" else pair[::-1]))

    def _connect(self, kind: str, first: Any, second: Any) -> Condition:
        """And, Or: the second is computed only where it matters."""
        left = self.condition(first)
        is_and = kind == "And"
        matters = left.may_hold if is_and else left.may_fail
        if not needs_guard(second):
            right = self.condition(second)
        else:
            cells = [self.emitter.cell("bool") for _ in range(2)]
            for cell, value in zip(cells, (not is_and, is_and), strict=True):
                self.add(BufferStore(cell, tirx.const(value, "bool"), [0]))
            with self.emitter.inside() as statements:
                inner = self.condition(second)
                self.add(BufferStore(cells[0], inner.may_hold, [0]))
                self.add(BufferStore(cells[1], inner.may_fail, [0]))
            self.emitter.add_branch(matters, statements)
            right = Condition(*(self.let(BufferLoad(cell, [0])) for cell in cells))
        if is_and:
            holds = tirx.And(left.may_hold, right.may_hold)
            fails = tirx.Or(left.may_fail, right.may_fail)
        else:
            holds = tirx.Or(left.may_hold, right.may_hold)
            fails = tirx.And(left.may_fail, right.may_fail)
        return Condition(self.let(holds), self.let(fails))

    def _choose_condition(self, condition: Any, first: Any, second: Any) -> Condition:
        yes = self._connect("And", condition, first)
        no = self._connect("And", tirx.Not(condition), second)
        holds = tirx.Or(yes.may_hold, no.may_hold)
        decided = self.condition(condition)
        fails = tirx.Or(
            tirx.And(decided.may_hold, self._fails(condition, first)),
            tirx.And(decided.may_fail, self._fails(tirx.Not(condition), second)),
        )
        return Condition(self.let(holds), self.let(fails))

    def _fails(self, condition: Any, value: Any) -> Any:
        """Whether a value may be false where a condition may hold."""
        return self._connect("And", condition, tirx.Not(value)).may_hold

    def _call_condition(self, node: Any) -> Condition:
        name = get_call_name(node)
        if name in TRANSPARENT:
            return self.condition(node.args[0])
        if name == "if_then_else":
            return self._choose_condition(*node.args)
        if name not in TESTS:
            refuse_call(node)
        value = self.tracker.close(self.expression(node.args[0])).value
        size = self.let(self.tracker.absolute(value))
        is_nan = tirx.NE(value, value)
        is_infinite = tirx.EQ(size, number(INFINITE))
        found = {
            "isnan": is_nan,
            "isinf": is_infinite,
            "isfinite": size < number(INFINITE),
        }[name]
        holds = self.let(found)
        return Condition(holds, self.let(tirx.Not(holds)))
