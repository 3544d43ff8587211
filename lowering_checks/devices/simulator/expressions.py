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

from tirstep.transforms.gpu_limits import WARP

from .calls import Evaluate, translate_call
from .faults import UnsupportedError, find_line
from .grid import Array
from .meanings import Machine
from .memory import numpy_type
from .operators import BINARY, CALLS

SHUFFLES: dict[str, Callable[..., Any]] = {
    "tvm_warp_shuffle": lambda lane, source, width: source % width + 0 * lane,
    "tvm_warp_shuffle_down": lambda lane, by, width: np.where(lane + by < width, lane + by, lane),
    "tvm_warp_shuffle_up": lambda lane, by, width: np.where(lane >= by, lane - by, lane),
}


def translate(expression: Any) -> Evaluate:
    """The function of an expression. Raises `UnsupportedError` for a node that is not known."""
    kind = type(expression).__name__
    if kind in BINARY:
        return _binary(BINARY[kind], translate(expression.a), translate(expression.b))
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


def _binary(operate: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda machine, mask: operate(left(machine, mask), right(machine, mask))


def _float(node: Any) -> Evaluate:
    value = numpy_type(node.ty.dtype).type(node.value)
    return lambda machine, mask: value


def _integer(node: Any) -> Evaluate:
    value = int(node.value)
    return lambda machine, mask: value


def _variable(node: Any) -> Evaluate:
    return lambda machine, mask: machine.values[node]


def _cast(node: Any) -> Evaluate:
    value, target = translate(node.value), numpy_type(node.ty.dtype)
    return lambda machine, mask: np.asarray(value(machine, mask)).astype(target)[()]


def _ramp(node: Any) -> Evaluate:
    base, stride = translate(node.base), translate(node.stride)
    steps = np.arange(int(node.lanes), dtype=np.int32)[None, :]
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


def _select(node: Any) -> Evaluate:
    arms = (node.condition, node.true_value, node.false_value)
    return _choose(*(translate(arm) for arm in arms))


def _and(node: Any) -> Evaluate:
    return _choose(translate(node.a), translate(node.b), lambda machine, mask: False)


def _or(node: Any) -> Evaluate:
    return _choose(translate(node.a), lambda machine, mask: True, translate(node.b))


def _not(node: Any) -> Evaluate:
    value = translate(node.a)
    return lambda machine, mask: np.logical_not(value(machine, mask))


def _call(node: Any) -> Evaluate:
    name = getattr(node.op, "name", str(node.op)).rsplit(".", 1)[-1]
    if name == "if_then_else":
        return _choose(*(translate(argument) for argument in node.args))
    if name in SHUFFLES:
        return _shuffle(SHUFFLES[name], node.args)
    if name == "tvm_warp_activemask":
        return lambda machine, mask: 0xFFFFFFFF
    if name not in CALLS:
        return translate_call(node, translate)
    operate, arguments = CALLS[name], [translate(argument) for argument in node.args]
    return lambda machine, mask: operate(*(value(machine, mask) for value in arguments))


def _shuffle(find_source: Callable[..., Any], arguments: Any) -> Evaluate:
    named, value, offset, width = (translate(argument) for argument in arguments[:4])

    def run(machine: Machine, mask: Array | None) -> Any:
        batch = machine.now.batch
        given = np.broadcast_to(value(machine, mask), (batch.lanes, 1))
        lane, size = batch.lane % batch.threads % WARP, width(machine, mask)
        source = find_source(lane % size, offset(machine, mask), size) + (lane // size * size)
        there = batch.lane - lane + source
        ended = there // batch.threads != batch.block  # beyond the last thread: one's own value
        there = np.where(ended, batch.lane, there)
        members = np.asarray(named(machine, mask)).astype(np.int64)
        _require_partners(machine, mask, members >> lane & members >> source & 1 == 1, there)
        return given[there[:, 0]]

    return run


def _require_partners(machine: Machine, mask: Array | None, named: Array, there: Array) -> None:
    """A lane and its source must both come to a shuffle, and its mask must name them."""
    here = np.broadcast_to(True if mask is None else mask, there.shape)
    alone = here & ~(named & here[there[:, 0]])

    def describe(at: tuple[int, ...]) -> str:
        mine, other = (machine.now.describe(lane) for lane in (at[0], int(there[at])))
        return f"{mine} takes a value from {other}, and not both take part in the shuffle"

    machine.now.log.add("divergent shuffle", "", machine.line, alone, describe)


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
    "Call": _call,
}
