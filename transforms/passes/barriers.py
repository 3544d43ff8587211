"""Passes that drop barriers which TVM puts in and which order nothing.

TVM's ThreadSync puts a barrier between a read of shared memory and a later write of the same
buffer. In a software pipeline the two touch different slots of a buffer that was made several
times as large, ``(k % 2) * n + i`` and ``((k + 1) % 2) * n + j``, and one of the two barriers in
the loop is for nothing. The pass proves that the slots differ, and drops that one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.ir import Call, Op, PointerType, TensorLoad
from tvm.tirx import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Break,
    BufferStore,
    CallEffectKind,
    Continue,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    Return,
    SeqStmt,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from tirstep.tvm_compat import find_buffer_arguments, get_op_name

from ..tir import constant, find_all
from .uses import SHARED, Slot, Variables, find_slot, is_barrier

_PROXY_FENCE = "tirx.ptx.fence_proxy"
HARMLESS = (CallEffectKind.ExprAnnotation.value, CallEffectKind.Pure.value)


@prim_func_pass(opt_level=0, name="tirstep.DropRedundantBarriers")
def DropRedundantBarriers(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Drop each barrier inside of a loop that separates accesses of different slots only.

    A barrier is dropped if another one stands before it in the same loop, one follows the loop
    directly, and no access between that one and this can touch a cell that is accessed between
    this one and the next, which may stand in the next iteration. It stays where one of these
    statements does more than to load and store (`is_transparent`), and in a function in which
    shared memory has two names.

    rewrite: ``for k: barrier; read(slot k); barrier; write(slot k + 1)`` ->
        ``for k: barrier; read(slot k); write(slot k + 1)``
    """
    if has_aliases(function):
        return function
    variables = Variables.of(function)

    def rewrite(sequence: Any) -> Any:
        parts = list(sequence.seq)
        changed = False
        for place, part in enumerate(parts):
            following = next((each for each in parts[place + 1 :] if not _is_quiet(each)), None)
            if _is_counted(part) and is_barrier(following):
                kept = _drop_in_loop(part, variables)
                changed = changed or not kept.same_as(part)
                parts[place] = kept
        return SeqStmt(parts) if changed else sequence

    body = structural_map(function.body, (SeqStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


@prim_func_pass(opt_level=0, name="tirstep.DropDoubledBarriers")
def DropDoubledBarriers(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Drop each barrier that another one follows with nothing but fences in between.

    TVM puts one behind each wait for asynchronous copies, and what wgmma needs is one of its own
    behind a fence that all threads pass: the second orders all that the first does.

    rewrite: ``wait; barrier; fence.proxy.async; barrier`` -> ``wait; fence.proxy.async; barrier``
    """

    def rewrite(sequence: Any) -> Any:
        parts = list(sequence.seq)
        kept = [part for place, part in enumerate(parts) if not _is_doubled(parts, place)]
        if len(kept) == len(parts):
            return sequence
        return SeqStmt(kept) if len(kept) > 1 else kept[0]

    body = structural_map(function.body, (SeqStmt, rewrite))
    return function if body.same_as(function.body) else function.with_body(body)


def _is_doubled(parts: list[Any], place: int) -> bool:
    """Whether a statement is a barrier, and the next one that is no fence is one, too."""
    following = next((part for part in parts[place + 1 :] if not is_proxy_fence(part)), None)
    return is_barrier(parts[place]) and is_barrier(following)


def is_proxy_fence(statement: Any) -> bool:
    """Whether a statement is ``fence.proxy.async``, which touches no memory."""
    call = getattr(statement, "value", None)
    return isinstance(call, Call) and get_op_name(call) == _PROXY_FENCE


def _is_quiet(statement: Any) -> bool:
    """Whether a statement touches no memory."""
    if isinstance(statement, Bind):
        return is_transparent(statement) and not find_all(statement, TensorLoad)
    return isinstance(statement, AllocBuffer)


def _is_counted(statement: Any) -> bool:
    """Whether a statement is a loop whose iterations run one after the other, in steps of one."""
    if not isinstance(statement, For):
        return False
    step = 1 if statement.step is None else constant(statement.step)
    return statement.kind in (ForKind.SERIAL, ForKind.UNROLLED) and step == 1


def _drop_in_loop(loop: For, variables: Variables) -> For:
    old = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else [loop.body]
    parts = list(old)
    if not all(is_barrier(part) or is_transparent(part) for part in parts):
        return loop  # among others, where a barrier stands deeper inside
    while (place := _find_redundant(parts, loop, variables)) is not None:
        del parts[place]
    if len(parts) == len(old):
        return loop
    return For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        SeqStmt(parts) if len(parts) > 1 else parts[0],
        loop.thread_binding,
        loop.annotations,
        loop.step,
        loop.span,
    )


def _find_redundant(parts: list[Any], loop: For, variables: Variables) -> int | None:
    """The place of a barrier that can go; the first of the loop always stays."""
    barriers = [place for place, part in enumerate(parts) if is_barrier(part)]
    for number, place in enumerate(barriers[1:], start=1):
        last = number + 1 == len(barriers)
        before = parts[barriers[number - 1] + 1 : place]
        after = parts[place + 1 : len(parts) if last else barriers[number + 1]]
        again = parts[: barriers[0]] if last else []
        now = find_shared_accesses(before, loop, variables)
        later = [
            *find_shared_accesses(after, loop, variables),
            *find_shared_accesses(again, loop, variables, ahead=1),
        ]
        if all(item.is_harmless_with(other) for item in now for other in later):
            return place
    return None


@dataclass(frozen=True)
class SharedAccess:
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

    def is_harmless_with(self, other: SharedAccess) -> bool:
        """Whether two threads may make these accesses in any order."""
        if not (self.is_write or other.is_write):
            return True
        mine, others = (str(item.buffer.scope()) in SHARED for item in (self, other))
        if not (mine and others):
            return mine != others  # arguments in global memory may be one and the same
        if not self.buffer.same_as(other.buffer):
            return self.is_lasting and other.is_lasting
        return (
            self.slot is not None and other.slot is not None and self.slot.never_meets(other.slot)
        )


def find_shared_accesses(
    statements: list[Any], loop: For, variables: Variables, *, ahead: int = 0
) -> list[SharedAccess]:
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
                holding = [
                    condition
                    for condition, case in branches
                    if any(node.same_as(other) for other in find_all(case, type(node)))
                ]
                slot = find_slot(node.indices, loop, variables.under(holding), ahead=ahead)
                is_lasting = not any(buffer.same_as(other) for other in local)
                found.append(SharedAccess(buffer, is_write, slot, is_lasting))
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


def _is_opaque(call: Any) -> bool:
    is_pointer = isinstance(call.ty, PointerType) or find_buffer_arguments(call)
    if is_pointer or not isinstance(call.op, Op):
        return True
    if not call.op.has_attr("TCallEffectKind"):
        return True
    return int(call.op.get_attr("TCallEffectKind")) not in HARMLESS
