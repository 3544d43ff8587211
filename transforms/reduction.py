"""Reductions: splitting them, and taking their initialization apart from their updates."""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .errors import TransformError, composite
from .loops import Split, Tail, require_factors, require_serial
from .queries import (
    find_axis,
    find_block_name,
    find_loop_name,
    find_outer_loops,
    find_reduction_loops,
    is_around,
    is_reduction,
)


@composite
def split_reduction(sch: Schedule, block: SBlockRV, *, inner: int, tail: Tail = "refuse") -> Split:
    """Split the one reduction loop of a block into steps of `inner`.

    rewrite: ``for k in n: C += ...`` -> ``for k_0 in n / inner: for k_1 in inner: C += ...``
    consumes: the reduction loop
    returns: the two loops, outer and inner
    requires: exactly one reduction loop, serial; `inner` a divisor of its extent, or
        ``tail="guard"``
    """
    loops = find_reduction_loops(sch, block)
    if len(loops) != 1:
        raise TransformError(
            "split_reduction",
            f"block '{find_block_name(sch, block)}' has {len(loops)} reduction loops, not one",
            "use split_loop on the one that you mean",
        )
    require_serial(sch, "split_reduction", loops[0])
    require_factors(sch, "split_reduction", loops[0], {"inner": inner}, tail)
    return Split(*sch.split(loops[0], [None, inner]))


@composite
def decompose_reduction_at(sch: Schedule, block: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Take the initialization of a reduction out of it, in front of a loop.

    The block's handle stays good; its name becomes ``<name>_update``.

    rewrite: ``for k: (if k == 0: C = 0); C += ...`` -> ``C = 0; for k: C += ...``
    consumes: nothing
    returns: the new block that initializes
    requires: a block that reduces and is not decomposed yet; a loop around it, with no reduction
        loop further out; reduction loops that are not bound (TVM reduces over threads only where
        block and initialization are one, and makes a race of the rest without an error)
    """
    who, name = "decompose_reduction_at", find_block_name(sch, block)
    if not is_reduction(sch, block) or sch.get(block).init is None:
        raise TransformError(
            who,
            f"block '{name}' has no initialization to take out",
            "call this once, on a block with T.init",
        )
    if not is_around(sch, loop, block):
        raise TransformError(
            who,
            f"loop '{find_loop_name(sch, loop)}' is not around block '{name}'",
            "choose one of sch.get_loops(block)",
        )
    outer = find_outer_loops(sch, loop)
    for reduction in find_reduction_loops(sch, block):
        if any(node.same_as(sch.get(reduction)) for node in outer):
            raise TransformError(
                who,
                f"loop '{find_loop_name(sch, loop)}' is inside of the reduction loop "
                f"'{find_loop_name(sch, reduction)}', so that the sum would start anew",
                "choose that loop or one outside of it",
            )
        axis = find_axis(sch.get(reduction))
        if axis is not None:
            raise TransformError(
                who,
                f"the reduction loop '{find_loop_name(sch, reduction)}' is bound to '{axis}', and "
                "without its initialization its threads would race for the sum",
                "leave the initialization in the block, or bind another loop",
            )
    return sch.decompose_reduction(block, loop)
