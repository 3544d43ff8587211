"""Warps that run apart, where threads wait for one another at named barriers.

The simulator's threads run in step, one statement after the other, which threads that wait for
others of the same statements cannot do. Statements between barriers of the whole thread block that
have named barriers are marked here, and `SimulatedGpu.run_apart` runs a marked one for each warp by
itself: until it waits, and then the next one goes on. Where there are instructions of a warpgroup,
its four warps stay in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm.ir import Call
from tvm.tirx import AllocBuffer, AttrStmt, DeclBuffer, For, IfThenElse, IntImm, SeqStmt, While

from tirstep.transforms.gpu_limits import WARP
from tirstep.transforms.tir import find_all, find_axes
from tirstep.tvm_compat import get_op_name

from .named_barriers import NAMED_BARRIERS

APART = "tirstep_apart"
"""The key of our mark: an AttrStmt around what so many neighbouring threads run by themselves."""
_OF_WARPGROUPS = ("ptx.wgmma_", "ptx.setmaxnreg", "cuda.warpgroup_")


def set_apart(body: Any) -> Any:
    """A kernel with marks; `body` where it has no named barriers."""
    if not _has_named_barriers(body):
        return body
    of_warpgroups = any(name.startswith(_OF_WARPGROUPS) for name in _get_names(body))
    return _mark(body, 4 * WARP if of_warpgroups else WARP)


def _mark(body: Any, threads: int) -> Any:
    if not _has_named_barriers(body):
        return body
    if not _is_in_step(body):
        return AttrStmt(IntImm("int32", 0), APART, IntImm("int32", threads), body)
    if isinstance(body, SeqStmt):
        return SeqStmt(_gather(body.seq, threads))
    if isinstance(body, AttrStmt):
        return AttrStmt(body.node, body.attr_key, body.value, _mark(body.body, threads))
    if isinstance(body, For):
        inner = _mark(body.body, threads)
        kept = body.thread_binding, body.annotations, body.step
        return For(body.loop_var, body.min, body.extent, body.kind, inner, *kept)
    if isinstance(body, IfThenElse):
        otherwise = None if body.else_case is None else _mark(body.else_case, threads)
        return IfThenElse(body.condition, _mark(body.then_case, threads), otherwise)
    if isinstance(body, While):
        return While(body.condition, _mark(body.body, threads))
    return body


def _gather(statements: Sequence[Any], threads: int) -> list[Any]:
    """Statements, of which neighbours between barriers of the block run apart together.

    Buffers are there before.
    """
    made: list[Any] = []
    segment: list[Any] = []

    def end_segment() -> None:
        if any(map(_has_named_barriers, segment)):
            made.append(_mark(SeqStmt(segment) if len(segment) > 1 else segment[0], threads))
        else:
            made.extend(segment)
        segment.clear()

    for statement in statements:
        if _is_in_step(statement):
            end_segment()
            made.append(_mark(statement, threads))
        elif isinstance(statement, AllocBuffer | DeclBuffer):
            made.append(statement)
        else:
            segment.append(statement)
    end_segment()
    return made


def _has_named_barriers(body: Any) -> bool:
    return not NAMED_BARRIERS.keys().isdisjoint(_get_names(body))


def _get_names(body: Any) -> set[str]:
    """The names of the functions that a statement calls."""
    return {get_op_name(call).removeprefix("tirx.") for call in find_all(body, Call)}


def _is_in_step(body: Any) -> bool:
    """Whether all threads of a block must run a statement together."""
    if any(str(node.buffer.scope()) != "local" for node in find_all(body, AllocBuffer)):
        return True
    if find_axes(body):
        return True
    return any(map(_is_barrier, find_all(body, Call)))


def _is_barrier(call: Any) -> bool:
    """Whether a call is a barrier of the thread block; not one of a warp, or of all stores."""
    if not get_op_name(call).endswith("tvm_storage_sync"):
        return False
    return str(call.args[0].value) in ("shared", "shared.dyn")
