"""What of a program depends on data, and what its conditions may be where numbers have errors."""

from __future__ import annotations

from typing import Any

import tvm.tirx as tirx
from tvm.ir import Call, TensorLoad
from tvm.tirx import BufferLoad, BufferStore, Var

from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.tir import find_all

from .refusals import RefusedError, get_call_name, refuse_call
from .tracked import INFINITE, Condition, Tracked, lift, number


def get_dtype(expression: Any) -> str:
    """The type of a scalar expression; raises `RefusedError` for a vector."""
    dtype = str(expression.ty)
    if "x" in dtype:
        raise RefusedError(f"the vector type {dtype} has no meaning in float64 here")
    return dtype


def is_float_cast(expression: Any) -> bool:
    """Whether an expression converts a float to another."""
    if type(expression).__name__ != "Cast":
        return False
    return all(dtype_facts(get_dtype(each)).is_float for each in (expression, expression.value))


def needs_guard(expression: Any) -> bool:
    """Whether computing an expression where it is not wanted may go wrong: loads, divisions."""
    if find_all(expression, TensorLoad) or find_all(expression, Call):
        return True
    kinds = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    return any(find_all(expression, kind) for kind in kinds)


def chooses_by_data(body: Any) -> bool:
    """Whether a program takes the larger or smaller of two values, or compares what it loads."""
    for kind in (tirx.Max, tirx.Min, tirx.LT, tirx.LE, tirx.GT, tirx.GE):
        for node in find_all(body, kind):
            if str(node.a.ty).startswith(("float", "bfloat")) or find_all(node, TensorLoad):
                return True
    return False


def find_shaky_buffers(body: Any) -> set[Any]:
    """The buffers of integers that a float may have decided over."""
    found: set[Any] = set()
    while True:
        before = len(found)
        _mark(body, False, found)
        if len(found) == before:
            return found


def find_accumulated(body: Any) -> set[Any]:
    """The buffers that are stored to in dependence on what they held: whose order may change."""
    bound: dict[Any, set[Any]] = {}

    def loaded(expression: Any) -> set[Any]:
        found = {load.source for load in find_all(expression, TensorLoad)}
        return found.union(*(bound.get(variable, set()) for variable in find_all(expression, Var)))

    for node in find_all(body, tirx.Bind):
        bound[node.var] = loaded(node.value)
    stores = find_all(body, BufferStore)
    return {node.buffer for node in stores if node.buffer in loaded(node.value)}


def _mark(node: Any, is_uncertain: bool, found: set[Any]) -> None:
    kind = type(node).__name__
    if kind == "SeqStmt":
        for statement in node.seq:
            _mark(statement, is_uncertain, found)
    elif kind in ("For", "While", "AttrStmt"):
        bounds = {"For": ("min", "extent"), "While": ("condition",)}.get(kind, ())
        inner = any(is_shaky(getattr(node, name), found) for name in bounds)
        _mark(node.body, is_uncertain or inner, found)
    elif kind == "IfThenElse":
        inner = is_uncertain or is_shaky(node.condition, found)
        for case in (node.then_case, node.else_case):
            if case is not None:
                _mark(case, inner, found)
    elif kind == "Bind":
        if is_shaky(node.value, found):
            found.add(node.var)
    elif kind == "BufferStore":
        shaky = [is_shaky(each, found) for each in (node.value, *node.indices)]
        if (is_uncertain or any(shaky)) and not dtype_facts(str(node.buffer.dtype)).is_float:
            found.add(node.buffer)


def is_shaky(expression: Any, shaky: set[Any]) -> bool:
    """Whether a float, or what a float decided over, stands in an expression."""
    loads = find_all(expression, TensorLoad)
    if any(dtype_facts(str(load.source.dtype)).is_float or load.source in shaky for load in loads):
        return True
    for variable in find_all(expression, Var):
        if variable in shaky or (is_number(variable) and dtype_facts(str(variable.ty)).is_float):
            return True
    return False


def is_number(variable: Any) -> bool:
    """Whether a variable is a number, and no buffer."""
    return type(variable.ty).__name__ == "PrimType" and str(variable.ty) != "handle"


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
                if kind not in ("EQ", "NE"):
                    raise RefusedError("an order of truth values has no meaning here")
                first, second = (node.a, node.b) if kind == "EQ" else (tirx.Not(node.a), node.b)
                return self._choose_condition(first, second, tirx.Not(second))
            ties = any(
                load.source in self.accumulated
                for side in (node.a, node.b)
                for load in self._find_loads(side)
            )
            self.is_deciding |= dtype_facts(get_dtype(node.a)).is_float
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
        """One of two; not certain where it is not which, whatever they are."""
        both = tirx.And(condition, first), tirx.And(tirx.Not(condition), second)
        return self._connect("Or", *both)

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
