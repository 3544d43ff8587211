"""TVM's reduction over threads in registers, as statements that the machine runs.

Threads add to a cell of shared memory one after the other, and all of them read it. It is meant for
the stages in which TVM has such a reduction as one call, between its passes
LowerCrossThreadReduction and LowerThreadAllreduce.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
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

from .faults import UnsupportedError
from .flat_buffers import integer

NAME = "tirx.tvm_thread_allreduce"
Store = Callable[[Any], Any]


@dataclass(frozen=True)
class Axis:
    """A thread axis that a statement stands in."""

    name: str
    variable: Var
    extent: int


def is_allreduce(value: Any) -> bool:
    """Whether an expression is a reduction over threads."""
    return isinstance(value, Call) and str(getattr(value.op, "name", "")) == NAME


def make_allreduce(
    call: Any, reducer: Any, axes: Sequence[Axis], finish: Store
) -> tuple[list[Any], Any]:
    """The cells in shared memory, to be allocated, and the statement.

    `axes` are those of the threads of a block, and `finish` makes all of them wait for a store.
    """
    count = int(call.args[0].value)
    values, condition = list(call.args[1 : 1 + count]), call.args[1 + count]
    results = list(call.args[2 + count : 2 + 2 * count])
    names = {axis.name for axis in axes if axis.variable in set(call.args[2 + 2 * count :])}
    reduced = [axis for axis in axes if axis.name in names]
    if not all(isinstance(one, TensorLoad) for one in results) or not reduced:
        raise UnsupportedError("the interpreter does not know this reduction over threads")
    kept = [axis for axis in axes if axis.name not in names]
    place = integer(0)
    for axis in kept:
        place = place * integer(axis.extent) + axis.variable
    size = math.prod(axis.extent for axis in kept)
    cells = [
        decl_buffer((size,), str(one.ty.dtype), f"{one.source.name}_all", scope="shared")
        for one in results
    ]
    own = [
        Select(condition, one, zero)
        for one, zero in zip(values, reducer.identity_element, strict=True)
    ]
    begin = [
        finish(BufferStore(cell, zero, [place]))
        for cell, zero in zip(cells, reducer.identity_element, strict=True)
    ]
    first = _guard(reduced, [integer(0)] * len(reduced), SeqStmt(begin) if count > 1 else begin[0])
    end = [
        finish(BufferStore(one.source, BufferLoad(cell, [place]), list(one.indices)))
        for one, cell in zip(results, cells, strict=True)
    ]
    return cells, SeqStmt([first, _take_turns(reduced, cells, place, own, reducer, finish), *end])


def _take_turns(
    reduced: Sequence[Axis],
    cells: Sequence[Any],
    place: Any,
    own: Sequence[Any],
    reducer: Any,
    finish: Store,
) -> Any:
    """Each thread in its turn combines what is in the cells with its own."""
    known = dict(zip(reducer.lhs, [BufferLoad(cell, [place]) for cell in cells], strict=True))
    known.update(zip(reducer.rhs, own, strict=True))
    sums = [
        tvm_ffi.structural_map(result, (Var, lambda one: known.get(one, one)))
        for result in reducer.result
    ]
    # All are computed before one is stored: a maximum's place depends on the maximum.
    news = [Var(f"{cell.name}_new", one.ty) for cell, one in zip(cells, sums, strict=True)]
    stores = [
        finish(BufferStore(cell, new, [place])) for cell, new in zip(cells, news, strict=True)
    ]
    body: Any = SeqStmt([*(Bind(new, one) for new, one in zip(news, sums, strict=True)), *stores])
    turns = [Var(f"{axis.name[-1]}_turn", axis.variable.ty) for axis in reduced]
    body = _guard(reduced, turns, body)
    for turn, axis in zip(turns, reduced, strict=True):
        body = For(turn, integer(0), integer(axis.extent), ForKind.SERIAL, body)
    return body


def _guard(axes: Sequence[Axis], values: Sequence[Any], body: Any) -> Any:
    conditions = [axis.variable.equal(value) for axis, value in zip(axes, values, strict=True)]
    return IfThenElse(tvm.tirx.all(*conditions), body, None)
