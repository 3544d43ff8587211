"""Accesses: what statements of a loop do to the memory that threads share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.ir import Call, Op, PointerType, TensorLoad
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Break,
    BufferStore,
    CallEffectKind,
    Continue,
    DeclBuffer,
    For,
    IfThenElse,
    Return,
)

from ..queries import find_all
from .slots import Slot, Variables, find_slot

SHARED = ("shared", "shared.dyn")
HARMLESS = (CallEffectKind.ExprAnnotation.value, CallEffectKind.Pure.value)


@dataclass(frozen=True)
class Access:
    """One access of a buffer in a loop.

    Attributes
    ----------
    slot : None where it may be anywhere in the buffer
    is_lasting : whether the buffer is there before and after the loop; TVM may put two others into
        the same memory
    """

    buffer: Any
    is_write: bool
    slot: Slot | None
    is_lasting: bool

    def is_harmless_with(self, other: Access) -> bool:
        """Whether two threads may make these accesses in any order."""
        if not (self.is_write or other.is_write):
            return True
        mine, others = (str(one.buffer.scope()) in SHARED for one in (self, other))
        if not (mine and others):
            return mine != others  # arguments in global memory may be one and the same
        if not self.buffer.same_as(other.buffer):
            return self.is_lasting and other.is_lasting
        return (
            self.slot is not None and other.slot is not None and self.slot.never_meets(other.slot)
        )


def find_accesses(
    statements: list[Any], loop: For, variables: Variables, *, ahead: int = 0
) -> list[Access]:
    """The accesses in statements of a loop, `ahead` iterations later; registers are left out."""
    local = [node.buffer for node in find_all(loop, AllocBuffer)]
    found = []
    for statement in statements:
        loads = [(node.source, node, False) for node in find_all(statement, TensorLoad)]
        stores = [(node.buffer, node, True) for node in find_all(statement, BufferStore)]
        branches = [
            (node.condition, node.then_case)
            for node in find_all(statement, IfThenElse)
            if not find_all(node.condition, TensorLoad)  # which may be another value by then
        ]
        for buffer, node, is_write in [*loads, *stores]:
            if str(buffer.scope()) != "local":
                holding = [condition for condition, case in branches if _contains(case, node)]
                slot = find_slot(node.indices, loop, variables.under(holding), ahead=ahead)
                is_lasting = not any(buffer.same_as(other) for other in local)
                found.append(Access(buffer, is_write, slot, is_lasting))
    return found


def is_transparent(statement: Any) -> bool:
    """Whether loads and stores are all that a statement does to memory.

    It is not where something asynchronous begins or is waited for, where control leaves the loop,
    and where a call takes a pointer or may do anything.
    """
    if any(find_all(statement, kind) for kind in (Break, Continue, Return)):
        return False
    keys = [str(node.attr_key) for node in find_all(statement, AttrStmt)]
    return not any(key.startswith("async_") for key in keys) and not any(
        _is_opaque(call) for call in find_all(statement, Call)
    )


def has_aliases(function: Any) -> bool:
    """Whether a piece of shared memory has two names."""
    buffers = [node.buffer for node in find_all(function.body, DeclBuffer)]
    return any(str(buffer.scope()) in SHARED for buffer in buffers)


def _contains(statement: Any, node: Any) -> bool:
    return any(node.same_as(other) for other in find_all(statement, type(node)))


def _is_opaque(call: Any) -> bool:
    if isinstance(call.ty, PointerType) or not isinstance(call.op, Op):
        return True
    if not call.op.has_attr("TCallEffectKind"):
        return True
    return int(call.op.get_attr("TCallEffectKind")) not in HARMLESS
