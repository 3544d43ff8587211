"""Which buffers a lowered function writes, through all their views."""

from __future__ import annotations

from typing import Any

from tvm.ir import Call
from tvm.tirx import BufferStore, DeclBuffer, Var

from tirstep.transforms.queries import constant, find_all

from .layout import find_base

_WRITES = 2
"""The bit of an access pointer's mask that says so."""


def find_written(body: Any) -> set[Var]:
    """The buffers that a function stores to, parameters among them.

    A pointer that is handed to a function without a mask does not count: who stores through it is
    seen when it happens.
    """
    bases = {node.buffer: find_base(node.data) for node in find_all(body, DeclBuffer)}
    written = {node.buffer for node in find_all(body, BufferStore)} | _find_pointed(body)
    found: set[Var] = set()
    for buffer in written:
        while bases.get(buffer) is not None:
            buffer = bases[buffer]
        found.add(buffer)
    return found


def _find_pointed(body: Any) -> set[Var]:
    """The buffers of access pointers that may be written through."""
    return {
        base
        for call in find_all(body, Call)
        if getattr(call.op, "name", "") == "tirx.tvm_access_ptr"
        and (constant(call.args[4]) or 0) & _WRITES
        and (base := find_base(call.args[1])) is not None
    }
