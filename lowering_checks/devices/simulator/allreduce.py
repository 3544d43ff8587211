"""TVM's reduction over threads in registers, as statements that the simulated GPU runs.

Threads add to a cell of shared memory one after the other, and all of them load it. It is meant for
the stages in which TVM has such a reduction as one call, between its passes
LowerCrossThreadReduction and LowerThreadAllreduce.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import Call, TensorLoad
from tvm.tirx import (
    Bind,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Select,
    SeqStmt,
    Var,
    decl_buffer,
)
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from .run_state import UnsupportedError

NAME = "tirx.tvm_thread_allreduce"
Finish = Callable[[Any], Any]


@dataclass(frozen=True)
class ThreadAxis:
    """A thread axis that a statement stands in."""

    name: str
    variable: Var
    extent: int


def integer(value: int) -> Any:
    """A constant of TIR, of the type of indices."""
    return tvm.tirx.const(value, "int32")


def is_allreduce(value: Any) -> bool:
    """Whether an expression is a reduction over threads."""
    return isinstance(value, Call) and get_op_name(value) == NAME


def make_allreduce(
    call: Any, reducer: Any, axes: Sequence[ThreadAxis], finish: Finish
) -> tuple[list[Any], Any]:
    """The cells in shared memory, to be allocated, and the statement.

    `axes` are those of a thread block's threads, and `finish` makes all of them wait for a store.
    """
    count = int(call.args[0].value)
    values, condition = list(call.args[1 : 1 + count]), call.args[1 + count]
    results = list(call.args[2 + count : 2 + 2 * count])
    names = {axis.name for axis in axes if axis.variable in set(call.args[2 + 2 * count :])}
    reduced = [axis for axis in axes if axis.name in names]
    if not all(isinstance(result, TensorLoad) for result in results) or not reduced:
        raise UnsupportedError("the interpreter does not support this reduction over threads")
    kept = [axis for axis in axes if axis.name not in names]
    place = integer(0)
    for axis in kept:
        place = place * integer(axis.extent) + axis.variable
    size = math.prod(axis.extent for axis in kept)
    cells = [
        decl_buffer((size,), str(result.ty.dtype), f"{result.source.name}_all", scope="shared")
        for result in results
    ]
    zeros = list(reducer.identity_element)
    own = [Select(condition, value, zero) for value, zero in zip(values, zeros, strict=True)]
    clears = [
        finish(BufferStore(cell, zero, [place])) for cell, zero in zip(cells, zeros, strict=True)
    ]
    body = SeqStmt(clears) if count > 1 else clears[0]
    first = _guard(reduced, [integer(0)] * len(reduced), body)
    combine = _combine_one_by_one(reduced, cells, place, own, reducer, finish)
    loads = [
        finish(BufferStore(result.source, BufferLoad(cell, [place]), list(result.indices)))
        for result, cell in zip(results, cells, strict=True)
    ]
    return cells, SeqStmt([first, combine, *loads])


def _combine_one_by_one(
    reduced: Sequence[ThreadAxis],
    cells: Sequence[Any],
    place: Any,
    own: Sequence[Any],
    reducer: Any,
    finish: Finish,
) -> Any:
    """Each thread, one after the other, combines what is in the cells with its own values."""
    known = dict(zip(reducer.lhs, [BufferLoad(cell, [place]) for cell in cells], strict=True))
    known.update(zip(reducer.rhs, own, strict=True))
    sums = [
        structural_map(result, (Var, lambda variable: known.get(variable, variable)))
        for result in reducer.result
    ]
    # All are computed before one is stored: a maximum's place depends on the maximum.
    news = [Var(f"{cell.name}_new", value.ty) for cell, value in zip(cells, sums, strict=True)]
    binds = [Bind(new, value) for new, value in zip(news, sums, strict=True)]
    stores = [
        finish(BufferStore(cell, new, [place])) for cell, new in zip(cells, news, strict=True)
    ]
    steps = [Var(f"{axis.name[-1]}_step", axis.variable.ty) for axis in reduced]
    body = _guard(reduced, steps, SeqStmt([*binds, *stores]))
    for step, axis in zip(steps, reduced, strict=True):
        body = For(step, integer(0), integer(axis.extent), ForKind.SERIAL, body)
    return body


def _guard(axes: Sequence[ThreadAxis], values: Sequence[Any], body: Any) -> Any:
    conditions = [axis.variable.equal(value) for axis, value in zip(axes, values, strict=True)]
    return IfThenElse(tvm.tirx.all(*conditions), body, None)
