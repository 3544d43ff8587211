"""The kernels of `make_persistent`: thread blocks that go through tiles, one after the other.

Roles stand around the loop over tiles: the warps that copy go on to the next tile while the others
store theirs. Stages and parities follow the steps of all tiles that a block goes through. Until
TVM has put barriers in, roles are marks (`split_roles`), since it puts none under the condition of
threads; those of the warps that compute are named ones then (`NameBarriersOfRoles`).

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar".
"""

from __future__ import annotations

import math
from typing import Any

from tvm.s_tir import SBlock
from tvm.script import tirx as T
from tvm.tirx import (
    AttrStmt,
    Evaluate,
    For,
    IfThenElse,
    IntImm,
    Not,
    SeqStmt,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..schedule import TransformError
from ..tir import constant, find_all, get_axis, is_among, replace_fields
from ..tma_tiles import COMPUTES, COPIES, TMA_ROLES, count_bytes
from .tile_turns import TURN, TileTurns
from .tma_pipeline import ROOM, Pipeline, join
from .uses import is_barrier

BARRIER = 8
"""The number of the named barrier of the warps that compute, or the first such, beyond those of
`PingPong` and `TileTurns`."""


def go_through_tiles(kernel: Any, pipeline: Pipeline, consumer: list[Any]) -> Any:
    """What warps that compute do in all rounds, of a kernel with theirs in the pipeline's place.

    Buffers of the kernel stand around the loop over tiles.
    """
    variable = pipeline.loop.loop_var
    for kind in (For, IfThenElse):
        for each in find_all(kernel, kind):
            if any(
                it.same_as(pipeline.loop) and not it.same_as(each) for it in find_all(each, For)
            ):
                raise TransformError(
                    f"loop '{variable.name}' stands in a loop, or under a condition, of its tile",
                    "let it be the outermost one of a tile, and pad the problem first",
                )

    turns = TileTurns.of(pipeline)
    turns.require_own_memory(kernel)

    def rewrite(loop: For) -> Any:
        return join(turns.go_around(consumer)) if loop.loop_var.same_as(variable) else loop

    def drop(block: SBlock) -> SBlock:
        kept = [it for it in block.alloc_buffers if not is_lasting(it, pipeline)]
        return replace_fields(block, alloc_buffers=kept) if block.alloc_buffers else block

    computed = structural_map(structural_map(kernel, (SBlock, drop)), (For, rewrite))
    tile = turns.end_tile(computed)
    return turns.go_through(pipeline.rounds.loop_over(tile, f"{variable.name}_tile", turns.turn))


def is_lasting(buffer: Any, pipeline: Pipeline) -> bool:
    """Whether a kernel's buffer is there in all rounds: all but those of the pipeline's body."""
    return not is_among(buffer, _list_buffers(pipeline.loop))


def find_lasting(kernel: Any, pipeline: Pipeline) -> list[Any]:
    """A kernel's buffers that stand beside the stages in all rounds; none where it has one tile.

    Memory of theirs is no stage's, which the next tile is copied to while this one is stored.
    """
    if not pipeline.rounds.is_persistent:
        return []
    lasting = [each for each in _list_buffers(kernel) if is_lasting(each, pipeline)]
    return [*lasting, *pipeline.rounds.buffers]


def _list_buffers(statement: Any) -> list[Any]:
    return [each for block in find_all(statement, SBlock) for each in block.alloc_buffers]


def measure_room(module: Any, name: str, stages: int) -> int:
    """The bytes of shared memory of a kernel whose blocks stay, before `LowerTmaPipelines`.

    So many stages of the pipeline of a name, the mbarriers, and what the kernel keeps beside them.
    """
    most = 0
    for _, function in module.functions_items():
        for kernel in find_all(function.body, For):
            loops = [loop for loop in find_all(kernel, For) if TMA_ROLES in loop.annotations]
            loops = [loop for loop in loops if loop.loop_var.name == name]
            if get_axis(kernel) != "blockIdx.x" or not loops:
                continue
            own = _list_buffers(loops[0])
            used = sum(count_bytes(it) for it in _list_buffers(kernel) if not is_among(it, own))
            most = max(most, used + stages * sum(map(count_bytes, own)) + ROOM * 8)
    return most


def split_roles(pipeline: Pipeline, computes: Any, consumer: Any, producer: Any) -> list[Any]:
    """Both roles under their condition; where blocks stay, marks for `NameBarriersOfRoles`."""
    if not pipeline.rounds.is_persistent:
        return [IfThenElse(computes, consumer, producer)]
    threads = IntImm("int32", math.prod(count for _, count in pipeline.threads))
    return [
        AttrStmt(threads, COMPUTES, computes, consumer),
        AttrStmt(threads, COPIES, computes, producer),
    ]


@prim_func_pass(opt_level=0, name="tirstep.NameBarriersOfRoles")
def NameBarriersOfRoles(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Put roles of a persistent kernel under their condition, and name the barriers there.

    A barrier among warps that compute is one of their threads alone: others never come to it. It
    runs when TVM has put barriers in.

    rewrite: ``barrier`` of the warps that compute -> ``bar.sync 8, threads``; of warpgroups that
        take turns at tiles ``bar.sync 8 + turn, threads``
    """
    if not any(node.attr_key == COMPUTES for node in find_all(function.body, AttrStmt)):
        return function
    body = structural_map(function.body, (SeqStmt, _pair))
    return function.with_body(structural_map(body, (AttrStmt, _choose)))


def _pair(sequence: Any) -> Any:
    """A sequence in which roles that follow one another are the two cases of one condition."""
    parts: list[Any] = []
    for part in sequence.seq:
        before: Any = parts[-1] if parts else None
        if _is_role(before, COMPUTES) and _is_role(part, COPIES):
            parts[-1] = IfThenElse(before.value, _name_barriers(before), part.body)
        else:
            parts.append(part)
    return sequence if len(parts) == len(sequence.seq) else join(parts)


def _is_role(statement: Any, key: str) -> bool:
    return isinstance(statement, AttrStmt) and statement.attr_key == key


def _choose(node: Any) -> Any:
    """A role that stands alone, under its condition."""
    if node.attr_key == COMPUTES:
        return IfThenElse(node.value, _name_barriers(node), None)
    return IfThenElse(Not(node.value), node.body, None) if node.attr_key == COPIES else node


def _name_barriers(role: Any) -> Any:
    threads = constant(role.node)
    turns = [each.value for each in find_all(role.body, AttrStmt) if each.attr_key == TURN]
    number = (turns[0] + BARRIER).astype("uint32") if turns else T.uint32(BARRIER)
    named = Evaluate(T.ptx.bar.sync(number, T.uint32(threads)))
    return structural_map(role.body, (Evaluate, lambda it: named if is_barrier(it) else it))
