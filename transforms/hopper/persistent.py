"""Thread blocks that stay: as many as run at once, which go through the tiles of a grid.

A transform only annotates the loop; the pass of `warp_roles` makes the loop over a block's tiles.
Roles stand around it: the warps that copy go on to the next tile while the others store theirs.
Stages and parities follow the steps of all tiles that a block goes through. Until TVM has put
barriers in, roles are marks (`split_roles`), since it puts none under the condition of threads;
those of the warps that compute are named ones then (`NameBarriersOfRoles`).

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar".
"""

from __future__ import annotations

from typing import Any

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import tirx as T
from tvm.tirx import AttrStmt, Evaluate, For, IfThenElse, Not, SeqStmt, stmt_seq
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..gpu_limits import MAX_SHARED_BYTES
from ..pass_options import lower_around
from ..passes.barriers import is_barrier
from ..queries import get_enclosing_loops, get_loop_name
from ..schedule import Int64, TransformError, transform
from ..tensor_cores.fragments import SCOPE
from ..tir import constant, find_all, get_axis, is_among, list_allocated, replace_fields
from .tma_loads import ROOM, Pipeline, require_one_pipeline
from .tma_tiles import (
    COMPUTES,
    COPIES,
    TMA_PERSISTENT,
    TMA_ROLES,
    TMA_STAGES,
    count_bytes,
    count_saved,
)

_PASS = "tirstep.LowerTmaPipelines"


@transform
def make_persistent(
    sch: Schedule, loop: LoopRV, *, blocks: Int64, stages: Int64 | None = None
) -> None:
    """Let as many thread blocks stay as run at once, and go through the tiles of the grid.

    Block number b computes the tiles b, b + `blocks`, b + 2 * `blocks`, …: those that run at the
    same time are neighbours in the order of the grid, as they were. Where a mask ends loops, every
    other round of tiles goes back: no block has all of the long ones. The warps that copy go from
    tile to tile without a break, and fetch the next one while the others store theirs; mbarriers
    are made once, and their stages and parities follow the steps of all tiles. The memory that a
    result is stored through lies beside the stages, not in their place, and barriers of the warps
    that compute are those of their threads alone (bar.sync with a number). A grid of several axes
    is gone through as a GPU numbers its blocks, along blockIdx.x first. `blocks` are the
    multiprocessors of a GPU, 132 of an H200, times those that one has room for. With `stages` the
    pipeline has so many, more than its loop has iterations if need be: those of the next tiles are
    copied, too.

    rewrite: ``for tile in blockIdx.x: for k: wait for full[k % stages]; compute; store`` ->
        ``for block in blockIdx.x: for tile in range(block, tiles, blocks): for k: wait for
        full[step % stages]; compute; store``, step counting on from tile to tile, when the module
        is lowered
    consumes: nothing
    requires: a loop to which `specialize_warps` has given roles, the one pipeline of its kernel;
        a grid of known size; no fewer `stages` than it has, and room in shared memory for
        them beside the tile that is stored; one block or more
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_ROLES not in node.annotations or TMA_PERSISTENT in node.annotations:
        raise TransformError(
            f"loop '{name}' is no pipeline in which warps have roles, or its blocks stay already",
            "call specialize_warps first, and this once: without roles nothing is copied while "
            "a tile is stored",
        )
    require_one_pipeline(sch, loop, "leave one tile to each block there")
    if blocks < 1:
        raise TransformError(
            f"blocks={blocks} is no number of thread blocks",
            "give those that run at once: the multiprocessors of the GPU, 132 of an H200",
        )
    has = int(node.annotations[TMA_STAGES])
    wanted = has if stages is None else stages
    if wanted < has:
        raise TransformError(
            f"stages={wanted} are fewer than the {has} that loop '{name}' has",
            "tell prefetch_by_tma of so few",
        )
    enclosing = get_enclosing_loops(sch, loop)
    grid = [each for each in enclosing if (get_axis(each) or "").startswith("blockIdx")]
    if not grid:
        raise TransformError(
            f"the tiles of loop '{name}' are on no thread blocks", "bind them to blockIdx.x"
        )
    for each in grid:
        if constant(each.extent) is None:
            raise TransformError(
                f"loop '{each.loop_var.name}' around loop '{name}' has {each.extent} tiles, an "
                "open number",
                "give the sizes of the problem",
            )
    # The stages of this pipeline, the mbarriers, and what the kernel keeps beside them.
    around, used, most = lower_around(sch.mod, [_PASS]).get(_PASS), 0, MAX_SHARED_BYTES[SCOPE]
    functions = around.before.functions_items() if around else ()
    for kernel in (it for _, function in functions for it in find_all(function.body, For)):
        loops = [it for it in find_all(kernel, For) if TMA_ROLES in it.annotations]
        loops = [it for it in loops if it.loop_var.name == name]
        if get_axis(kernel) == "blockIdx.x" and loops:
            own = list_allocated(loops[0])
            room = sum(count_bytes(it) for it in list_allocated(kernel) if not is_among(it, own))
            used = max(used, room + wanted * sum(map(count_bytes, own)) + ROOM * 8)
    used -= count_saved(around.before, used) if around else 0
    if 2 * wanted + 1 > ROOM:
        raise TransformError(
            f"stages={wanted} have {2 * wanted + 1} mbarriers, and there is room for {ROOM}",
            f"use {(ROOM - 1) // 2} stages at most",
        )
    if used > most:
        raise TransformError(
            f"{wanted} stages of loop '{get_loop_name(sch, loop)}' and the tile that is stored "
            f"take {-(-used >> 10)} KiB of shared memory, and a block has {most >> 10}",
            "use fewer stages or smaller tiles, or store from registers",
        )
    if wanted != has:
        sch.unannotate(loop, TMA_STAGES)
        sch.annotate(loop, TMA_STAGES, wanted)
    sch.annotate(loop, TMA_PERSISTENT, blocks)


BARRIER = 8
"""The number of the named barrier of the warps that compute, beyond those of `PingPong`."""


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

    staging = list_allocated(pipeline.loop)

    def rewrite(loop: For) -> Any:
        return stmt_seq(*consumer) if loop.loop_var.same_as(variable) else loop

    def drop(block: SBlock) -> SBlock:
        kept = [it for it in block.alloc_buffers if is_among(it, staging)]
        return replace_fields(block, alloc_buffers=kept) if block.alloc_buffers else block

    tile = structural_map(structural_map(kernel, (SBlock, drop)), (For, rewrite))
    return pipeline.rounds.loop_over(tile, f"{variable.name}_tile")


def find_lasting(kernel: Any, pipeline: Pipeline) -> list[Any]:
    """A kernel's buffers that stand beside the stages in all rounds; none where it has one tile.

    Memory of theirs is no stage's, which the next tile is copied to while this one is stored.
    """
    if not pipeline.rounds.is_persistent:
        return []
    staging = list_allocated(pipeline.loop)
    lasting = [each for each in list_allocated(kernel) if not is_among(each, staging)]
    return [*lasting, *pipeline.rounds.counters]


@prim_func_pass(opt_level=0, name="tirstep.NameBarriersOfRoles")
def NameBarriersOfRoles(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Put roles of a persistent kernel under their condition, and name the barriers there.

    A barrier among warps that compute is one of their threads alone: others never come to it. It
    runs when TVM has put barriers in.

    rewrite: ``barrier`` of the warps that compute -> ``bar.sync 8, threads``
    """
    if not any(node.attr_key == COMPUTES for node in find_all(function.body, AttrStmt)):
        return function

    def name_barriers(role: Any) -> Any:
        named = Evaluate(T.ptx.bar.sync(T.uint32(BARRIER), T.uint32(constant(role.node))))
        return structural_map(role.body, (Evaluate, lambda it: named if is_barrier(it) else it))

    def pair(sequence: Any) -> Any:  # roles that follow one another, as cases of one condition
        parts: list[Any] = []
        for part in sequence.seq:
            before: Any = parts[-1] if parts else None
            if [getattr(it, "attr_key", "") for it in (before, part)] == [COMPUTES, COPIES]:
                parts[-1] = IfThenElse(before.value, name_barriers(before), part.body)
            else:
                parts.append(part)
        return sequence if len(parts) == len(sequence.seq) else stmt_seq(*parts)

    def choose(node: Any) -> Any:  # a role that stands alone
        if node.attr_key == COMPUTES:
            return IfThenElse(node.value, name_barriers(node), None)
        return IfThenElse(Not(node.value), node.body, None) if node.attr_key == COPIES else node

    body = structural_map(function.body, (SeqStmt, pair))
    return function.with_body(structural_map(body, (AttrStmt, choose)))
