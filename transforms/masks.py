"""Masks that become bounds of loops: what they hide is not computed at all."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from .loops import require_constant, require_serial
from .mask_bounds import (
    ENDS_AT_MASK,
    LONGEST_FIRST,
    SPLITS_AT_MASKS,
    find_growing_axis,
    read_masks,
)
from .pass_options import set_pipeline
from .queries import get_enclosing_loops, get_loop_name
from .schedule import TransformError, transform
from .tir import constant


@transform
def end_loop_at_mask(sch: Schedule, loop: LoopRV) -> None:
    """End a loop behind the last iteration of which a mask lets something through.

    Masks are conditions of ``if_then_else``. That an iteration with nothing but hidden elements
    changes nothing is tried on drawn numbers: the maximum and the sums of attention take up what
    counts for nothing, and are repaired by 1. Values that are no numbers, or infinite, are hidden
    with the rest, where a product with 0 would have kept them.

    The loop is marked, and ends early once the pipeline "tirstep" has lowered reductions over
    threads, which TVM does in loops of constant extents alone. Whatever comes under the loop later
    is tried as well.

    rewrite: ``for j_0 in n: (for j_1 in 4: m = max(m, x[j] if j_0 * 4 + j_1 <= i_0 * 8 + i_1 else
        least))`` -> the same with ``for j_0 in min(n, max(1, (i_0 * 8 + 7) // 4 + 1))``
    consumes: nothing
    requires: a serial loop of a constant extent that begins at 0
    guarded: a condition under the loop that holds up to some iteration, which depends on GPU blocks
        and outer serial loops alone: all threads of a block go on together; an iteration that
        changes nothing beyond it
    """
    require_serial(sch, loop)
    require_constant(sch, loop)
    node = sch.get(loop)
    if constant(node.min) != 0:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' begins at {node.min}", "choose one that begins at 0"
        )
    sch.annotate(loop, ENDS_AT_MASK, 1)
    set_pipeline(sch)


@transform
def launch_longest_first(sch: Schedule, loop: LoopRV) -> None:
    """Launch those GPU blocks first in which a loop goes on longest before it ends at its mask.

    A GPU takes up blocks in the order of their numbers, and the last ones leave multiprocessors
    idle: these are short then. Nothing is computed otherwise, or elsewhere.

    rewrite: ``for i in blockIdx.x: for j in min(n, i * 2 + 1): C[i] += A[i, j]`` ->
        ``for i in blockIdx.x: for j in min(n, (m - 1 - i) * 2 + 1): C[m - 1 - i] += ...``, when the
        module is lowered
    consumes: nothing
    requires: a loop that `end_loop_at_mask` has marked, whose iterations become more along one axis
        of GPU blocks, and depend on no other
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if ENDS_AT_MASK not in node.annotations or LONGEST_FIRST in node.annotations:
        raise TransformError(
            f"loop '{name}' does not end at a mask, or its longest blocks come first already",
            "call end_loop_at_mask first, and this once",
        )
    around = get_enclosing_loops(sch, loop)
    count = read_masks(node, around).count_iterations()
    if count is None or find_growing_axis(node, around, count) is None:
        raise TransformError(
            f"loop '{name}' does not become longer along one axis of GPU blocks alone",
            "bind the loop that its mask depends on to blockIdx",
        )
    sch.annotate(loop, LONGEST_FIRST, 1)


@transform
def split_loop_at_mask(sch: Schedule, loop: LoopRV) -> None:
    """Let the first iterations of a loop, of which masks hide nothing, do without them.

    Masks are conditions of ``if_then_else``. The loop is marked, and split once
    pipelines are lowered, so that the copies of a pipeline go on from one part to the other.

    rewrite: ``for j_0 in n: (for j_1 in 4: m = max(m, x[j] if j_0 * 4 + j_1 <= i_0 * 8 + i_1 else
        least))`` -> ``for j_0 in (i_0 * 8 - 3) // 4 + 1: (for j_1 in 4: m = max(m, x[j]))`` and the
        rest as it was, when the module is lowered
    consumes: nothing
    requires: a serial loop of a constant extent that begins at 0, and a condition under it that
        holds up to some iteration
    """
    require_serial(sch, loop)
    require_constant(sch, loop)
    node = sch.get(loop)
    if read_masks(node, get_enclosing_loops(sch, loop)).count_iterations() is None:
        raise TransformError(
            f"no condition under loop '{get_loop_name(sch, loop)}' holds up to some iteration",
            "leave the loop as it is, or choose the serial loop over what a mask hides",
        )
    sch.annotate(loop, SPLITS_AT_MASKS, 1)
    set_pipeline(sch)
