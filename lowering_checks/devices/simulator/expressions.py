"""Expressions of TIR as NumPy functions of all threads at once.

A value is a Python number where all threads agree, otherwise an array of shape (lanes, vector),
either of which may be 1. Expressions are translated once into closures; a closure takes the
machine and the mask of active lanes (None: all), so that both arms of an if_then_else are
evaluated, each for its own lanes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tirstep.transforms.queries import constant

from .calls import Evaluate, translate_call
from .faults import UnsupportedError, find_line
from .grid import Array
from .meanings import Machine
from .memory import count_lanes, numpy_type
from .operators import (
    ARITHMETIC,
    BITWISE,
    CALLS,
    COMPARISONS,
    DIVISIONS,
    HAZARDS,
    Hazard,
    as_stored,
    convert,
    find_operator,
    invert,
    is_integer,
    is_narrow,
    wrap,
)
from .shuffles import SHUFFLES, find_active_mask, translate_shuffle


def translate(expression: Any) -> Evaluate:
    """The function of an expression. Raises `UnsupportedError` for a node that is not known."""
    kind = type(expression).__name__
    if kind in ARITHMETIC or kind in COMPARISONS:
        return _binary(kind, expression.a, expression.b)
    maker = _MAKERS.get(kind)
    if maker is None:
        raise UnsupportedError(f"the simulator does not know the expression {kind}: {expression}")
    return maker(expression)


def restrict(mask: Array | None, condition: Any, wanted: bool = True) -> Any:
    """The lanes of a mask for which a condition is as wanted: a mask, or False for none of them."""
    if isinstance(condition, (bool, int, np.bool_)):
        return mask if bool(condition) == wanted else False
    kept = condition if wanted else ~condition
    kept = kept if mask is None else mask & kept
    if not kept.any():
        return False
    return None if kept.all() else kept


def _binary(kind: str, first: Any, second: Any) -> Evaluate:
    dtype = str(first.ty.dtype)
    (operate, wraps), left, right = find_operator(kind, dtype), translate(first), translate(second)
    if kind in HAZARDS and is_integer(dtype) and not constant(second):
        return _checked(kind, dtype, left, right)
    if wraps is None:
        return lambda machine, mask: operate(left(machine, mask), right(machine, mask))
    low, high = int(np.iinfo(wraps).min), int(np.iinfo(wraps).max)

    def run(machine: Machine, mask: Array | None) -> Any:
        result = operate(left(machine, mask), right(machine, mask))
        if result.__class__ is int and not low <= result <= high:
            return wrap(result, wraps)
        return result

    return run


def _checked(kind: str, dtype: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """An operation that has no result for some operands: these are a fault, and it goes on."""
    operate, wraps = find_operator(kind, dtype)

    def run(machine: Machine, mask: Array | None) -> Any:
        first, second = left(machine, mask), right(machine, mask)
        for hazard in HAZARDS[kind]:
            wrong = hazard.find(first, second, dtype)
            if np.any(wrong):
                _note_hazard(machine, mask, hazard, (first, second), wrong)
        if kind in DIVISIONS:
            is_array = isinstance(second, np.ndarray)
            second = np.where(second == 0, 1, second) if is_array else second or 1
        result = operate(first, second)
        if wraps is None or isinstance(result, np.ndarray):
            return result
        return wrap(result, wraps)

    return run


def _note_hazard(
    machine: Machine, mask: Array | None, hazard: Hazard, operands: tuple[Any, Any], wrong: Any
) -> None:
    lanes = 1 if machine.now.running is None else machine.now.batch.lanes
    shape = np.broadcast_shapes(np.shape(wrong), (lanes, 1))
    places = np.broadcast_to(wrong if mask is None else wrong & mask, shape)
    first, second = (np.broadcast_to(operand, places.shape) for operand in operands)

    def describe(at: tuple[int, ...]) -> str:
        who = "the program" if machine.now.running is None else machine.now.describe(at[0])
        return f"{who} {hazard.text.format(first[at], second[at])}"

    machine.now.log.add(hazard.kind, "", machine.line, places, describe)


def _float(node: Any) -> Evaluate:
    value = numpy_type(node.ty.dtype).type(node.value)
    return lambda machine, mask: value


def _integer(node: Any) -> Evaluate:
    value = int(node.value)
    return lambda machine, mask: value


def _variable(node: Any) -> Evaluate:
    return lambda machine, mask: machine.values[node]


def _cast(node: Any) -> Evaluate:
    value = translate(node.value)
    change = convert(str(node.value.ty.dtype), str(node.ty.dtype))
    return lambda machine, mask: change(value(machine, mask))


def _ramp(node: Any) -> Evaluate:
    base, stride = translate(node.base), translate(node.stride)
    steps = np.arange(int(node.lanes), dtype=numpy_type(node.base.ty.dtype))[None, :]
    return lambda machine, mask: base(machine, mask) + stride(machine, mask) * steps


def _broadcast(node: Any) -> Evaluate:
    return translate(node.value)


def _load(node: Any) -> Evaluate:
    if len(node.indices) != 1:
        raise UnsupportedError(f"the simulator wants flat buffers, and has {node}")
    index, buffer, line = translate(node.indices[0]), node.source, find_line(node)
    return lambda machine, mask: machine.memories[buffer].load(
        index(machine, mask),
        mask,
        line or machine.line,
    )


def _choose(condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
    def choose(machine: Machine, mask: Array | None) -> Any:
        holds = condition(machine, mask)
        taken, other = restrict(mask, holds), restrict(mask, holds, wanted=False)
        if other is False:
            return yes(machine, mask)
        if taken is False:
            return no(machine, mask)
        return np.where(holds, yes(machine, taken), no(machine, other))

    return choose


def _choose_both(condition: Evaluate, yes: Evaluate, no: Evaluate) -> Evaluate:
    """Of vectors the generated source computes both arms, for all elements."""

    def choose(machine: Machine, mask: Array | None) -> Any:
        holds = condition(machine, mask)
        return np.where(holds, yes(machine, mask), no(machine, mask))

    return choose


def _select(node: Any) -> Evaluate:
    arms = [translate(arm) for arm in (node.condition, node.true_value, node.false_value)]
    return _choose_both(*arms) if count_lanes(node.ty.dtype) > 1 else _choose(*arms)


def _if_then_else(node: Any) -> Evaluate:
    """The generated source has a variable for the result, which cuts off what is promoted."""
    chosen, dtype = _choose(*(translate(argument) for argument in node.args)), str(node.ty.dtype)
    if not is_narrow(dtype):
        return chosen
    return lambda machine, mask: as_stored(chosen(machine, mask), dtype)


def _let(node: Any) -> Evaluate:
    value, body, dtype = translate(node.value), translate(node.body), str(node.var.ty.dtype)

    def run(machine: Machine, mask: Array | None) -> Any:
        bound = value(machine, mask)
        machine.values[node.var] = as_stored(bound, dtype) if is_narrow(dtype) else bound
        return body(machine, mask)

    return run


def _and(node: Any) -> Evaluate:
    if count_lanes(node.ty.dtype) > 1:
        return _both(np.logical_and, node)
    return _choose(translate(node.a), translate(node.b), lambda machine, mask: False)


def _or(node: Any) -> Evaluate:
    if count_lanes(node.ty.dtype) > 1:
        return _both(np.logical_or, node)
    return _choose(translate(node.a), lambda machine, mask: True, translate(node.b))


def _both(operate: Callable[[Any, Any], Any], node: Any) -> Evaluate:
    left, right = translate(node.a), translate(node.b)
    return lambda machine, mask: operate(left(machine, mask), right(machine, mask))


def _not(node: Any) -> Evaluate:
    value = translate(node.a)
    return lambda machine, mask: np.logical_not(value(machine, mask))


def _call(node: Any) -> Evaluate:
    name = getattr(node.op, "name", str(node.op)).rsplit(".", 1)[-1]
    if name == "if_then_else":
        return _if_then_else(node)
    if name in BITWISE:
        return _binary(BITWISE[name], *node.args)
    if name in SHUFFLES:
        return translate_shuffle(name, [translate(argument) for argument in node.args[:4]])
    if name == "tvm_warp_activemask":
        return find_active_mask
    operate = _find_function(name, node)
    if operate is None:
        return translate_call(node, translate)
    arguments = [translate(argument) for argument in node.args]
    return lambda machine, mask: operate(*(value(machine, mask) for value in arguments))


def _find_function(name: str, node: Any) -> Callable[..., Any] | None:
    """The function of a call that takes and gives values alone; None for any other."""
    if name == "bitwise_not":
        return invert(str(node.args[0].ty.dtype))
    if name == "reinterpret":
        wanted = numpy_type(node.ty.dtype)
        given = numpy_type(node.args[0].ty.dtype)
        return lambda value: np.ascontiguousarray(value, given).view(wanted)[()]
    if name == "large_uint_imm":
        return lambda low, high: high << 32 | low
    return CALLS.get(name)


def _invert(node: Any) -> Evaluate:
    value, flip = translate(node.a), invert(str(node.a.ty.dtype))
    return lambda machine, mask: flip(value(machine, mask))


_MAKERS: dict[str, Callable[[Any], Evaluate]] = {
    "IntImm": _integer,
    "FloatImm": _float,
    "Var": _variable,
    "Cast": _cast,
    "Ramp": _ramp,
    "Broadcast": _broadcast,
    "TensorLoad": _load,
    "BufferLoad": _load,
    "Select": _select,
    "And": _and,
    "Or": _or,
    "Not": _not,
    "BitwiseNot": _invert,
    "Call": _call,
    "Let": _let,
}
