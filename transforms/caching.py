"""Caches: copies of a block's operands and results in shared memory or registers."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .binding import require_own_registers
from .errors import TransformError, composite
from .placement import fuse_epilogue_at, require_scalar_place
from .queries import (
    find_block_name,
    find_epilogue,
    find_loop_name,
    find_reduction_loops,
    is_around,
    is_reduction,
)

SCOPES = ("global", "shared", "shared.dyn", "local")


@composite
def cache_read_at(
    sch: Schedule, block: SBlockRV, loop: LoopRV, *, operand: int, scope: str = "shared"
) -> SBlockRV:
    """Copy what one iteration of a loop reads of an operand into a faster memory.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for ax: A_shared[...] = A[...]);
        C += A_shared[...]``
    consumes: nothing
    returns: the copy block, whose own loops go over the tile, one for each dimension
    requires: `operand` counts the buffers that the block reads, from 0; a scope of ``global``,
        ``shared``, ``shared.dyn`` or ``local``; a loop around the block, not vectorized
    """
    _require_scope("cache_read_at", scope)
    reads = [str(region.source.name) for region in sch.get(block).reads]
    if not 0 <= operand < len(reads):
        raise TransformError(
            "cache_read_at",
            f"block '{find_block_name(sch, block)}' has no operand {operand}, it reads "
            f"{', '.join(f'{index}: {name}' for index, name in enumerate(reads))}",
            "count the operands from 0",
        )
    _require_around(sch, "cache_read_at", loop, block)
    require_scalar_place(sch, "cache_read_at", loop)
    copy = sch.cache_read(block, operand, scope)
    sch.compute_at(copy, loop, preserve_unit_loops=True)
    return copy


@composite
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
        a thread cannot read another's registers
    """
    _require_scope("cache_write_at", scope)
    _require_around(sch, "cache_write_at", loop, block)
    _require_outside_reductions(sch, "cache_write_at", loop, block)
    require_scalar_place(sch, "cache_write_at", loop)
    copy = sch.cache_write(block, 0, scope)
    sch.reverse_compute_at(copy, loop, preserve_unit_loops=True)
    require_own_registers(sch, "cache_write_at")
    return copy


@composite
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
            "accumulate_in_registers",
            f"block '{find_block_name(sch, block)}' reduces nothing",
            "use cache_write_at to keep a result in registers",
        )
    _require_around(sch, "accumulate_in_registers", loop, block)
    _require_outside_reductions(sch, "accumulate_in_registers", loop, block)
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        return cache_write_at(sch, block, loop, scope="local")
    return fuse_epilogue_at(sch, block, epilogue, loop)


def _require_scope(who: str, scope: str) -> None:
    if scope not in SCOPES:
        hint = " (TVM lowers warp buffers wrongly)" if scope == "warp" else ""
        raise TransformError(
            who, f"scope '{scope}' is not supported{hint}", f"use one of {', '.join(SCOPES)}"
        )


def _require_around(sch: Schedule, who: str, loop: LoopRV, block: SBlockRV) -> None:
    if not is_around(sch, loop, block):
        raise TransformError(
            who,
            f"loop '{find_loop_name(sch, loop)}' is not around block "
            f"'{find_block_name(sch, block)}'",
            "choose one of sch.get_loops(block)",
        )


def _require_outside_reductions(sch: Schedule, who: str, loop: LoopRV, block: SBlockRV) -> None:
    for reduction in find_reduction_loops(sch, block):
        node = sch.get(reduction)
        if node.same_as(sch.get(loop)) or _is_inside(sch, loop, reduction):
            raise TransformError(
                who,
                f"loop '{find_loop_name(sch, loop)}' is at or inside of the reduction loop "
                f"'{find_loop_name(sch, reduction)}', where the sum is not complete",
                "choose a loop outside of the reductions",
            )


def _is_inside(sch: Schedule, loop: LoopRV, outer: LoopRV) -> bool:
    node = sch.get(outer)
    parent = sch.get_sref(loop).parent
    while parent is not None:
        if parent.stmt.same_as(node):
            return True
        parent = parent.parent
    return False
