"""Caches: copies of a block's operands and results in shared memory or registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferStore, For, IfThenElse, SeqStmt, Var

from .annotations import ASYNC, STAGE
from .coverage import require_computed
from .placement import (
    fuse_epilogue_at,
    require_around,
    require_outside_reductions,
    require_scalar_place,
)
from .queries import (
    find_epilogue,
    get_loop_name,
    get_outer_loops,
    get_readers_under,
    get_realize,
    get_root,
    get_sblock_name,
    get_sblocks_under,
    is_reduction,
)
from .schedule import TransformError, transform
from .tir import constant, find_all, is_among, is_used

_HELD = "tirstep.held"
SCOPES = ("shared", "shared.dyn", "local")
_WHY_NOT = {
    "warp": " (TVM lowers warp buffers wrongly)",
    "global": " (TVM puts no barrier between the threads that write it and those that read it)",
}


@transform
def cache_read_at(
    sch: Schedule, block: SBlockRV, loop: LoopRV, *, operand: int, scope: str = "shared"
) -> SBlockRV:
    """Copy what one iteration of a loop reads of an operand into a faster memory.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for ax: A_shared[...] = A[...]);
        C += A_shared[...]``
    consumes: nothing
    returns: the copy block, whose own loops go over the tile, one for each dimension; it has all
        readers of the operand under the loop, and those elsewhere read on as before
    requires: `operand` counts the buffers that the block reads, from 0; a scope of ``shared``,
        ``shared.dyn`` or ``local``; a loop around the block, not vectorized; a block that no
        pipeline copies asynchronously; a copy inside of the operand: where the loops of the block
        that writes it were fused and split with a guard, TVM may copy rows behind its end; an
        operand whose place the block does not read from data behind a guard
    guarded: an operand that is no register buffer of other threads, nor shared memory of another
        GPU block
    """
    copy = place_copy_at(sch, block, loop, operand=operand, scope=scope)
    return copy


def place_copy_at(
    sch: Schedule,
    block: SBlockRV,
    loop: LoopRV,
    *,
    operand: int,
    scope: str,
    comes_first: bool = False,
) -> SBlockRV:
    """`cache_read_at` of an operand that may lie in registers of threads which fetch it then.

    With `comes_first` the copy stands in front of all else in the loop, as far as it can.
    """
    _require_scope(scope)
    reads = [str(region.source.name) for region in sch.get(block).reads]
    if not 0 <= operand < len(reads):
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has no operand {operand}, it reads "
            f"{', '.join(f'{index}: {name}' for index, name in enumerate(reads))}",
            "count the operands from 0",
        )
    require_around(sch, loop, block)
    _require_no_async_copy(sch, block)
    require_scalar_place(sch, loop)
    copy = sch.cache_read(block, operand, scope, *list_consumers(sch, block, loop, operand))
    sch.compute_at(copy, loop, preserve_unit_loops=True, index=-2 if comes_first else -1)
    # Where a guarded block reads the place of a copy, TVM reads it without the guard.
    guard = get_realize(sch, block).predicate
    for value in get_realize(sch, copy).iter_values:
        for load in find_all(value, TensorLoad):
            used = [variable for index in load.indices for variable in find_all(index, Var)]
            if any(is_used(variable, guard) for variable in used):
                name = load.source.name
                raise TransformError(
                    f"block '{get_sblock_name(sch, block)}' reads from '{name}' which element of "
                    f"'{sch.get(copy).reads[0].source.name}' it takes, and TVM would do so without "
                    f"its guard, behind the end of '{name}'",
                    "cache the operand before the loops are split with a guard, or leave it in "
                    "global memory",
                )
    return copy


def list_consumers(
    sch: Schedule, block: SBlockRV, loop: LoopRV, operand: int
) -> list[list[SBlockRV]]:
    """The readers under a loop, as TVM's last argument; without others it takes all by itself.

    Where there are others, the readers are held in the trace: TVM's `Trace.simplified`, which
    MetaSchedule keeps, sees no handle in a list within the arguments, and would drop what gets it.
    """
    buffer = sch.get(block).reads[operand].source

    def count(nodes: list[SBlock]) -> int:
        return sum(any(it.source.same_as(buffer) for it in node.reads) for node in nodes)

    if count(find_all(get_root(sch, block), SBlock)) == count(get_sblocks_under(sch, loop)):
        return []
    readers = get_readers_under(sch, loop, buffer)
    hold_in_trace(sch, readers)
    return [readers]


def hold_in_trace(sch: Schedule, blocks: Sequence[SBlockRV]) -> None:
    """Instructions that take each block as an argument of their own, and change nothing."""
    for block in blocks:
        sch.annotate(block, _HELD, 1)
        sch.unannotate(block, _HELD)


@transform
def cache_write_at(
    sch: Schedule, block: SBlockRV, loop: LoopRV, *, scope: str = "local"
) -> SBlockRV:
    """Compute a block's result in a faster memory and copy it out under a loop.

    rewrite: ``for j_1: for k: C[...] += ...`` -> ``for j_1: (for k: C_local[...] += ...);
        C[...] = C_local[...]``
    consumes: nothing
    returns: the copy block
    requires: a scope as in `cache_read_at`; a loop around the block and outside of its
        reductions, not vectorized; for ``local`` a loop inside of the block's thread loops, since
        a thread cannot read another's registers; a block that computes all elements which the
        copy would write: of a tile with a guard TVM may copy more, or beyond the tensor, and of
        swizzled places or ones from data all of a region; a block that stores without a branch
        around, and changes nothing in place; a tile that the copy goes over in no more iterations
        than the block does, or than the tensor has elements: of loops that were split with guards
        and reordered TVM estimates larger ones
    """
    _require_scope(scope)
    require_around(sch, loop, block)
    require_outside_reductions(sch, loop, block)
    require_scalar_place(sch, loop)
    _require_known_elements(sch, block)
    copy = sch.cache_write(block, 0, scope)
    # What a block adds to is not there: its own memory begins with no values.
    node = sch.get(block)
    made = node.writes[0].source
    if node.init is None and any(it.source.same_as(made) for it in find_all(node.body, TensorLoad)):
        name = str(sch.get(sch.get_consumers(block)[0]).writes[0].source.name)
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' changes '{name}' in place, and what is there "
            "before would not be in the faster memory",
            "leave the result where it is, or let the block write to another buffer",
        )
    _require_inside(sch, copy)
    sch.reverse_compute_at(copy, loop, preserve_unit_loops=True)
    inside = find_all(sch.get(loop).body, For)
    runs, own = (
        math.prod(
            constant(it.extent) or 1 for it in get_outer_loops(sch, each) if is_among(it, inside)
        )
        for each in (copy, block)
    )
    target = sch.get(copy).writes[0].source
    elements = math.prod(constant(length) or 1 for length in target.shape)
    if runs > max(own, elements):
        raise TransformError(
            f"the copy of '{target.name}', which has {elements} elements, would run {runs} times "
            f"in each iteration of loop '{get_loop_name(sch, loop)}', and block "
            f"'{get_sblock_name(sch, block)}' {own} times: TVM estimates the tile of loops that "
            "were split with guards and reordered",
            "cache the result before its loops are split, or at a loop further in",
        )
    require_computed(sch, block, copy)
    return copy


@transform
def accumulate_in_registers(sch: Schedule, block: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Let each thread sum up in registers and write its results once, under a loop.

    Where the block's output is an intermediate buffer with one consumer (an epilogue: bias and
    relu, a cast, the cropping of a padded result), the consumer does the writing.

    rewrite: ``C[...] += ...`` -> ``C_local[...] += ...`` and, at the end of `loop`,
        ``C[...] = C_local[...]``
    consumes: the epilogue's loops, if there is one
    returns: the block that writes the results
    requires: a block that reduces; a loop around it, inside of its thread loops and outside of
        its reductions
    """
    if not is_reduction(sch, block):
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' reduces nothing",
            "use cache_write_at to keep a result in registers",
        )
    require_around(sch, loop, block)
    require_outside_reductions(sch, loop, block)
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        return cache_write_at(sch, block, loop, scope="local")
    return fuse_epilogue_at(sch, block, epilogue, loop)


def _require_no_async_copy(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a copy in a pipeline's asynchronous stage: cp.async reads global memory alone."""
    target = sch.get(block)
    for loop in get_outer_loops(sch, block):
        parts = list(loop.body.seq) if isinstance(loop.body, SeqStmt) else []
        stages = loop.annotations.get(STAGE, []) if ASYNC in loop.annotations else []
        for part, stage in zip(parts, stages, strict=False):
            if stage == 0 and any(target.same_as(item) for item in find_all(part, SBlock)):
                raise TransformError(
                    f"block '{get_sblock_name(sch, block)}' is copied asynchronously for the next "
                    f"iterations of loop '{loop.loop_var.name}', straight from global memory",
                    "cache its operand before prefetching",
                )


def _require_known_elements(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a block that writes one element of a region: the copy would write all of that."""
    node = sch.get(block)
    stores = find_all(node.body, BufferStore)
    if node.init is None and (condition := _find_condition(node.body)) is not None:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' stores to '{node.writes[0].source.name}' only "
            f"where {condition}, and the copy would write all of it",
            "write both cases, as T.if_then_else(condition, value, what is there before), or leave "
            "the result where it is",
        )
    if len(stores) != 1 or find_all(node.body, For) or node.match_buffers:
        return
    if any(constant(part.extent) != 1 for part in node.writes[0].region):
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' writes one element at a time of a region of "
            f"'{stores[0].buffer.name}' that its indices do not tell, and the copy would write all",
            "cache before its elements change places, by stage_swizzled_at or transform_layout",
        )


def _find_condition(body: Any) -> Any:
    """The condition of a branch in which something is stored, and in the other one nothing."""
    for branch in find_all(body, IfThenElse):
        arms = [branch.then_case, branch.else_case]
        stores = [bool(arm is not None and find_all(arm, BufferStore)) for arm in arms]
        if any(stores) and not all(stores):
            return branch.condition
    return None


def _require_scope(scope: str) -> None:
    if scope not in SCOPES:
        hint = _WHY_NOT.get(scope, "")
        raise TransformError(
            f"scope '{scope}' is not supported{hint}", f"use one of {', '.join(SCOPES)}"
        )


def _require_inside(sch: Schedule, copy: SBlockRV) -> None:
    """Refuse a copy of more elements than the tensor has that it writes."""
    target = sch.get(copy).writes[0].source
    for dimension, (iterator, length) in enumerate(
        zip(sch.get(copy).iter_vars, target.shape, strict=False)
    ):
        copied, whole = constant(iterator.dom.extent), constant(length)
        if copied is not None and whole is not None and copied > whole:
            raise TransformError(
                f"the guarded tile of '{target.name}' has {copied} elements along dimension "
                f"{dimension}, and TVM would copy all of them out to the {whole} that there are",
                "cache the result before its loops are split with a guard, or choose sizes that "
                "divide",
            )
