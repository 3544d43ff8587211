"""What of a program depends on data, and on what a float decided over."""

from __future__ import annotations

from typing import Any

import tvm.tirx as tirx
from tvm.tirx import BufferStore, Var

from tirstep.transforms.tir import find_all
from tirstep.tvm_compat import Call, TensorLoad

from .refusals import RefusedError
from .tracked import get_facts


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
    return all(get_facts(get_dtype(each)).is_float for each in (expression, expression.value))


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
        if (is_uncertain or any(shaky)) and not get_facts(str(node.buffer.dtype)).is_float:
            found.add(node.buffer)


def is_shaky(expression: Any, shaky: set[Any]) -> bool:
    """Whether a float, or what a float decided over, stands in an expression."""
    loads = find_all(expression, TensorLoad)
    if any(get_facts(str(load.source.dtype)).is_float or load.source in shaky for load in loads):
        return True
    for variable in find_all(expression, Var):
        if variable in shaky or (is_number(variable) and get_facts(str(variable.ty)).is_float):
            return True
    return False


def is_number(variable: Any) -> bool:
    """Whether a variable is a number, and no buffer."""
    return type(variable.ty).__name__ == "PrimType" and str(variable.ty) != "handle"
