"""Statements of TIR as functions that run them for all threads of a batch at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .async_copies import CP_ASYNC
from .calls import Address, Evaluate
from .expressions import restrict, translate
from .faults import UnsupportedError, find_line
from .grid import Array
from .memory import numpy_type
from .operators import as_stored, is_narrow

if TYPE_CHECKING:
    from .machine import Machine

MAX_ROUNDS = 20_000
"""Of a while loop, which may wait for what never comes."""
Execute = Callable[["Machine", "Array | None"], None]


def translate_statement(node: Any) -> Execute:
    """The function of a statement. Raises `UnsupportedError` for a node that is not known."""
    kind = type(node).__name__
    maker = _MAKERS.get(kind)
    if maker is None:
        raise UnsupportedError(f"the simulator does not know the statement {kind}")
    return maker(node)


def _sequence(node: Any) -> Execute:
    statements = [translate_statement(statement) for statement in node.seq]

    def run(machine: Machine, mask: Array | None) -> None:
        left: Any = mask
        for statement in statements:
            statement(machine, left)
            if machine.now.ended is not None:
                left = restrict(left, ~machine.now.ended)
                if left is False:
                    return

    return run


def _attribute(node: Any) -> Execute:
    body = translate_statement(node.body)
    if node.attr_key == "thread_extent":
        return _enter_axis(node.node.var, str(node.node.thread_tag), body)
    if node.attr_key == "reduce_scope":
        return _trusted(body)
    if node.attr_key == "async_commit_queue_scope":
        return _committing(body)
    if node.attr_key == "async_wait_inflight_count":
        return _waiting(translate(node.value), body)
    return body


def _enter_axis(variable: Any, axis: str, body: Execute) -> Execute:
    dtype = numpy_type(variable.ty.dtype)

    def run(machine: Machine, mask: Array | None) -> None:
        places = machine.now.batch.coordinates[axis]
        machine.values[variable] = places.astype(dtype, copy=False)
        body(machine, mask)

    return run


def _committing(body: Execute) -> Execute:
    """TVM's code generator closes a group of copies behind the body."""

    def run(machine: Machine, mask: Array | None) -> None:
        body(machine, mask)
        machine.queue(CP_ASYNC).commit(_lanes(machine, mask))

    return run


def _waiting(in_flight: Evaluate, body: Execute) -> Execute:
    """TVM's code generator waits in front of the body."""

    def run(machine: Machine, mask: Array | None) -> None:
        machine.queue(CP_ASYNC).wait(_lanes(machine, mask), in_flight(machine, mask))
        body(machine, mask)

    return run


def _lanes(machine: Machine, mask: Array | None) -> Array:
    return np.broadcast_to(True if mask is None else mask, (machine.now.batch.lanes, 1))


def _trusted(body: Execute) -> Execute:
    """TVM's own reduction over threads: lanes that do not count shuffle what they never wrote."""

    def run(machine: Machine, mask: Array | None) -> None:
        machine.now.log.muted = "uninitialized read"
        body(machine, mask)
        machine.now.log.muted = ""

    return run


def _loop(node: Any) -> Execute:
    first, extent, body, variable = (
        translate(node.min),
        translate(node.extent),
        translate_statement(node.body),
        node.loop_var,
    )

    def run(machine: Machine, mask: Array | None) -> None:
        start, count = first(machine, mask), extent(machine, mask)
        is_shared = not isinstance(count, np.ndarray)
        for step in range(int(count if is_shared else count.max())):
            going: Any = mask if is_shared else restrict(mask, step < count)
            if machine.now.ended is not None and going is not False:
                going = restrict(going, ~machine.now.ended)
            machine.values[variable] = start + step
            if going is not False:
                body(machine, going)

    return run


def _while(node: Any) -> Execute:
    condition, body, line = (
        translate(node.condition),
        translate_statement(node.body),
        find_line(node),
    )

    def run(machine: Machine, mask: Array | None) -> None:
        going: Any = mask
        for _ in range(MAX_ROUNDS):
            machine.line = line
            going = restrict(going, condition(machine, going))
            if going is False:
                return
            body(machine, going)
            if machine.now.ended is not None:
                going = restrict(going, ~machine.now.ended)
                if going is False:
                    return
        raise UnsupportedError(
            f"a while loop does not end within {MAX_ROUNDS} iterations in the simulator, whose "
            "threads take turns in step"
        )

    return run


def _branch(node: Any) -> Execute:
    condition, then = translate(node.condition), translate_statement(node.then_case)
    other = None if node.else_case is None else translate_statement(node.else_case)

    def run(machine: Machine, mask: Array | None) -> None:
        holds = condition(machine, mask)
        taken, left = restrict(mask, holds), restrict(mask, holds, wanted=False)
        if taken is not False:
            then(machine, taken)
        if other is not None and left is not False:
            other(machine, left)

    return run


def _store(node: Any) -> Execute:
    index, value, buffer = translate(node.indices[0]), translate(node.value), node.buffer
    line = find_line(node)

    def run(machine: Machine, mask: Array | None) -> None:
        machine.line = line
        stored = value(machine, mask)
        machine.memories[buffer].store(index(machine, mask), stored, mask, line)

    return run


def _bind(node: Any) -> Execute:
    value, variable, dtype = translate(node.value), node.var, str(getattr(node.var.ty, "dtype", ""))
    has_narrow = is_narrow(dtype)

    def run(machine: Machine, mask: Array | None) -> None:
        bound = value(machine, mask)
        bound = as_stored(bound, dtype) if has_narrow else bound
        machine.values[variable] = bound.copy() if isinstance(bound, np.ndarray) else bound

    return run


def _allocate(node: Any) -> Execute:
    return lambda machine, mask: machine.allocate(node.buffer)


def _declare(node: Any) -> Execute:
    """A view of another buffer: flat, since buffers are flat in the machine."""
    buffer, data = node.buffer, translate(node.data)

    def run(machine: Machine, mask: Array | None) -> None:
        address = data(machine, mask)
        is_begin = isinstance(address, Address) and isinstance(address.offset, int)
        if not is_begin or address.offset != 0:
            raise UnsupportedError(f"the simulator does not know the view {buffer.name}")
        machine.declare(buffer, address)

    return run


def _evaluate(node: Any) -> Execute:
    call, line = node.value, find_line(node)
    name = getattr(getattr(call, "op", None), "name", "")
    if name.endswith("thread_return"):
        return lambda machine, mask: machine.now.end_threads(mask)
    if name.endswith("tvm_storage_sync"):
        return _barrier(str(call.args[0].value))
    value = translate(call)

    def run(machine: Machine, mask: Array | None) -> None:
        machine.line = line
        value(machine, mask)

    return run


def _barrier(scope: str) -> Execute:
    """A barrier of the block; one of a warp orders nothing that other warps see, so it is none."""
    if scope == "warp":
        return lambda machine, mask: None
    if scope not in ("shared", "shared.dyn"):
        raise UnsupportedError(f"the simulator does not know barriers of scope '{scope}'")
    return lambda machine, mask: machine.pass_barrier(mask)


_MAKERS: dict[str, Callable[[Any], Execute]] = {
    "SeqStmt": _sequence,
    "AttrStmt": _attribute,
    "For": _loop,
    "While": _while,
    "IfThenElse": _branch,
    "BufferStore": _store,
    "Bind": _bind,
    "AllocBuffer": _allocate,
    "DeclBuffer": _declare,
    "Evaluate": _evaluate,
}
