"""Queries of a schedule and its handles; they change nothing."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For, IterVar

from .schedule import query
from .tir import constant, find_all, get_axis, get_fed_iterators, is_among, list_allocated


def get_loop_name(sch: Schedule, loop: LoopRV) -> str:
    """The loop variable's name, as the kernel or a split gave it."""
    return str(sch.get(loop).loop_var.name)


def get_sblock_name(sch: Schedule, block: SBlockRV) -> str:
    """The block's name, e.g. ``"C"``."""
    return str(sch.get(block).name_hint)


def get_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """How often the loop runs; None for a symbolic extent."""
    return constant(sch.get(loop).extent)


def get_outer_loops(sch: Schedule, handle: LoopRV | SBlockRV) -> list[For]:
    """The loops around a loop or block, outermost first, up to the block that encloses them."""
    loops = []
    parent = sch.get_sref(handle).parent
    while parent is not None and isinstance(parent.stmt, For):
        loops.append(parent.stmt)
        parent = parent.parent
    return loops[::-1]


def get_enclosing_loops(sch: Schedule, handle: LoopRV | SBlockRV) -> list[For]:
    """All loops around a loop or block, outermost first, those around its outer blocks too."""
    loops = []
    parent = sch.get_sref(handle).parent
    while parent is not None:
        if isinstance(parent.stmt, For):
            loops.append(parent.stmt)
        parent = parent.parent
    return loops[::-1]


def get_enclosing_kernel(sch: Schedule, handle: LoopRV | SBlockRV) -> Any:
    """The root of a GPU kernel: the outermost bound loop around a handle, or else itself.

    Serial loops further out run on the host, and may launch several kernels.
    """
    bound = [node for node in get_enclosing_loops(sch, handle) if get_axis(node) is not None]
    return bound[0] if bound else sch.get(handle)


def get_root(sch: Schedule, handle: LoopRV | SBlockRV) -> SBlock:
    """The root block of the function that a handle belongs to."""
    sref = sch.get_sref(handle)
    while sref.parent is not None:
        sref = sref.parent
    return sref.stmt


def get_sblocks_under(sch: Schedule, loop: LoopRV) -> list[SBlock]:
    """The blocks that a loop encloses."""
    return find_all(sch.get(loop), SBlock)


def get_realize(sch: Schedule, block: SBlockRV) -> SBlockRealize:
    """The realization of a block: where its iterators get their values and its predicate."""
    target = sch.get(block)
    realizes = find_all(sch.get_sref(block).parent.stmt, SBlockRealize)
    return next(realize for realize in realizes if realize.block.same_as(target))


@query
def get_spatial_loops(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """The block's loops that feed none of its reductions, outermost first."""
    return [loop for loop in sch.get_loops(block) if not is_reduction_loop(sch, block, loop)]


@query
def get_reduction_loops(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """The block's loops that feed a reduction, outermost first."""
    return [loop for loop in sch.get_loops(block) if is_reduction_loop(sch, block, loop)]


def is_reduction_loop(sch: Schedule, block: SBlockRV, loop: LoopRV) -> bool:
    """Whether the loop drives a reduction of the block."""
    fed = get_fed_iterators(get_realize(sch, block), sch.get(loop))
    return any(iterator.iter_type == IterVar.CommReduce for iterator in fed)


def is_reduction(sch: Schedule, block: SBlockRV) -> bool:
    """Whether the block reduces, that is: has at least one reduction iterator."""
    iterators = sch.get(block).iter_vars
    return any(iterator.iter_type == IterVar.CommReduce for iterator in iterators)


def is_around(sch: Schedule, loop: LoopRV, block: SBlockRV) -> bool:
    """Whether the block stands inside the loop."""
    node = sch.get(loop)
    return any(outer.same_as(node) for outer in get_outer_loops(sch, block))


def get_own_loops(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """The innermost loops that enclose this block and no other one, outermost first."""
    own: list[LoopRV] = []
    for loop in reversed(sch.get_loops(block)):
        if len(get_sblocks_under(sch, loop)) > 1:
            break
        own.append(loop)
    return own[::-1]


@query
def find_epilogue(sch: Schedule, block: SBlockRV) -> SBlockRV | None:
    """The only consumer of a block whose output is an intermediate buffer, or None.

    A consumer that reduces does not count, since it needs results of other threads.
    """
    consumers = [
        consumer for consumer in sch.get_consumers(block) if not is_reduction(sch, consumer)
    ]
    owned = list_allocated(get_root(sch, block))
    outputs = [region.source for region in sch.get(block).writes]
    inner = all(is_among(output, owned) for output in outputs)
    alone = len(consumers) == len(sch.get_consumers(block)) == 1
    return consumers[0] if alone and inner else None


def find_row_length(sch: Schedule, block: SBlockRV) -> int | None:
    """The extent of the one own loop along the last dimension of a copy; None if unclear."""
    realize, last = get_realize(sch, block), sch.get(block).writes[0].region[-1].min
    rows = []
    for loop in get_own_loops(sch, block):
        fed = [iterator.var for iterator in get_fed_iterators(realize, sch.get(loop))]
        if any(variable.same_as(last) for variable in fed):
            rows.append((loop, fed))
    if len(rows) != 1 or len(rows[0][1]) != 1:
        return None
    return get_extent(sch, rows[0][0])
