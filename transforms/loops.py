"""Loops: split, fuse, merge, reorder, unroll."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.sym import Analyzer
from tvm.tirx import For, ForKind, IfThenElse, IterVar, SeqStmt, floormod

from .annotations import ASYNC
from .coverage import require_single_terms
from .queries import get_enclosing_loops, get_extent, get_loop_name, get_outer_loops, is_reduction
from .schedule import Int64, TransformError, transform
from .tir import (
    constant,
    find_all,
    find_largest_index,
    get_axis,
    get_fed_iterators,
    get_kind,
    get_regions,
    is_among,
    is_used,
)

UNROLL = "pragma_auto_unroll_max_step"
Tail = Literal["refuse", "guard"]
"""What happens where a size does not divide: refuse, or guard the rest with predicates."""
PaddedTail = Literal["refuse", "guard", "pad"]
"""The same for a recipe that can also pad the whole problem with zeros."""


class Split(NamedTuple):
    """The two loops of a split."""

    outer: LoopRV
    inner: LoopRV


@transform
def split_loop(sch: Schedule, loop: LoopRV, *, inner: int, tail: Tail = "refuse") -> Split:
    """Split a loop in two, the inner one with `inner` iterations.

    rewrite: ``for i in n`` -> ``for i_0 in ceil(n / inner): for i_1 in inner``
    consumes: `loop`
    returns: the two loops, outer and inner
    requires: a serial loop; `inner` at least 1 and a divisor of the extent, or ``tail="guard"``,
        which puts a predicate on the blocks inside; an extent that plus a whole tile fits into the
        loop's integer type; no guard on the outputs of a reduction over threads (TVM loses it, if
        it is the only one), and none where a condition outside of the blocks loads with the loop's
        variable (it would load beyond the loop's end)
    guarded: indices within 32 bits, and quotients that TVM lowers as they stand
    """
    require_serial(sch, loop)
    require_factors(sch, loop, {"inner": inner}, tail)
    return Split(*sch.split(loop, [None, inner]))


@transform
def fuse_loops(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    """Fuse nested loops into one, the last of them running fastest.

    rewrite: ``for i in m: for j in n`` -> ``for i_j_fused in m * n``
    consumes: `loops`
    returns: the fused loop
    requires: at least one loop; serial loops that follow each other with nothing between; a product
        of their extents that fits into their integer type (TVM lets it overflow)
    guarded: indices within 32 bits, and quotients that TVM lowers as they stand
    """
    if not loops:
        raise TransformError("no loop is given", "pass at least one loop")
    for loop in loops:
        require_serial(sch, loop)
    for outer, inner in itertools.pairwise(loops):
        body = sch.get(outer).body
        if not (isinstance(body, For) and body.same_as(sch.get(inner))):
            raise TransformError(
                f"loop '{get_loop_name(sch, inner)}' does not stand directly inside "
                f"loop '{get_loop_name(sch, outer)}'",
                "bring them together with reorder_loops first",
            )
    require_countable(sch, loops)
    return sch.fuse(*loops)


@transform
def merge_loops(sch: Schedule, loops: Sequence[LoopRV]) -> LoopRV:
    """Merge loops that follow one another into one loop that has all their bodies.

    Two sums over one range, for example, get one loop, where shared operands are fetched once.

    rewrite: ``for k in n: G += x[k] * a[k]`` and ``for k in n: U += x[k] * b[k]``
        -> ``for k_m in n: (G += x[k_m] * a[k_m]); (U += x[k_m] * b[k_m])``
    consumes: `loops`
    returns: the merged loop
    requires: two loops or more, serial, starting at 0, of the same extent and without annotations,
        which follow each other in this order with nothing between; no block under one that writes
        what a block under another one reads or writes (TVM would merge a sum with a loop that uses
        it, which would then read incomplete sums)
    guarded: what is read is written by then
    """
    if len(loops) < 2:
        raise TransformError(f"{len(loops)} loops are given", "pass two loops or more")
    for loop in loops:
        require_serial(sch, loop)
    nodes = [sch.get(loop) for loop in loops]
    for node in nodes:
        if constant(node.min) != 0 or node.annotations:
            state = "is annotated" if node.annotations else f"begins at {node.min}"
            raise TransformError(
                f"loop '{node.loop_var.name}' {state}",
                "merge loops that begin at 0, before they are annotated",
            )
        if not Analyzer().can_prove_equal(node.extent, nodes[0].extent):
            raise TransformError(
                f"loop '{nodes[0].loop_var.name}' runs {nodes[0].extent} times, and loop "
                f"'{node.loop_var.name}' {node.extent} times",
                "split both so that the loops to merge run equally often",
            )
    parent = sch.get_sref(loops[0]).parent
    body = parent.stmt.body if parent is not None else None
    parts = list(body.seq) if isinstance(body, SeqStmt) else []

    places = [[n for n, part in enumerate(parts) if part.same_as(node)] for node in nodes]
    for (first, second), (place, following) in zip(
        itertools.pairwise(nodes), itertools.pairwise(places), strict=True
    ):
        if not place or following != [place[0] + 1]:
            raise TransformError(
                f"loop '{second.loop_var.name}' does not follow loop '{first.loop_var.name}' "
                "directly, in the same body",
                "merge the loops around both first, and before other blocks are placed between",
            )
    for first, second in itertools.combinations(loops, 2):
        sides = [find_all(sch.get(loop), SBlock) for loop in (first, second)]
        for writers, users in (sides, sides[::-1]):
            written = [(it, region.source) for it in writers for region in it.writes]
            for (writer, buffer), user in itertools.product(written, users):
                if any(region.source.same_as(buffer) for region in get_regions(user)):
                    raise TransformError(
                        f"block '{user.name_hint}' uses '{buffer.name}', which block "
                        f"'{writer.name_hint}' writes, and after merging it would read "
                        "incomplete values",
                        "place one under a loop of the other with compute_block_at, or fuse "
                        "dependent reductions with fuse_reductions",
                    )
    return sch.merge(*loops)


@transform
def reorder_loops(sch: Schedule, loops: Sequence[LoopRV]) -> None:
    """Put loops of one chain into the given order; loops that are not named keep their places.

    rewrite: ``for i: for j`` -> ``for j: for i``
    consumes: nothing
    requires: different loops of one block, with no other statement between them; no loop that
        repeats a whole sum, such as one of an inlined consumer, is moved into the sum
    guarded: no term is added before its sum is initialized
    """
    names = [get_loop_name(sch, loop) for loop in loops]
    nodes = [sch.get(loop) for loop in loops]
    for index, node in enumerate(nodes):
        if any(node.same_as(other) for other in nodes[:index]):
            raise TransformError(f"loop '{names[index]}' is given twice", "name each loop once")
    depths = [len(get_outer_loops(sch, loop)) for loop in loops]
    if loops:
        innermost = loops[depths.index(max(depths))]
        chain = [*get_outer_loops(sch, innermost), sch.get(innermost)]
        for name, node in zip(names, nodes, strict=True):
            if not any(node.same_as(link) for link in chain):
                raise TransformError(
                    f"loop '{name}' is not in one chain with "
                    f"loop '{get_loop_name(sch, innermost)}'",
                    "reorder loops of one block only",
                )
        trial = sch.copy()
        blocks = [
            block for block in trial.get_child_blocks(innermost) if is_reduction(trial, block)
        ]
        if blocks:
            trial.reorder(*loops)
            for block in blocks:
                require_single_terms(trial, block)
    sch.reorder(*loops)


@transform
def unroll_loop(sch: Schedule, loop: LoopRV, *, limit: Int64 = 256) -> None:
    """Mark a loop to be unrolled.

    rewrite: ``for i in range(n)`` -> ``for i in T.unroll(n)``
    consumes: nothing
    requires: a serial loop of constant extent; at most `limit` copies of the body together with
        the unrolled loops around and inside (TVM's code generator took 24 s for 2368 copies, and
        minutes for more)
    guarded: no kernel inside
    """
    require_serial(sch, loop)
    extent = require_constant(sch, loop)
    copies = extent * _count_copies(get_enclosing_loops(sch, loop))
    nests = [find_all(inner, For) for inner in find_all(sch.get(loop).body, For)]
    chains = [
        [nest[0] for nest in nests if any(leaf.same_as(n) for n in nest)] for leaf, *_ in nests
    ]
    copies *= max(map(_count_copies, chains), default=1)
    if copies > limit:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' would make {copies} copies of its body, "
            f"more than limit={limit}",
            "split the loop and unroll its inner part, or raise limit",
        )
    sch.unroll(loop)


@transform
def suggest_unrolling(sch: Schedule, loop: LoopRV, *, limit: int = 2048) -> None:
    """Ask the CUDA compiler to unroll a loop and the loops inside, where TVM keeps them as loops.

    The IR stays short, and NVIDIA's compiler can order the loads and operations of all copies.

    rewrite: ``for k`` -> ``for k`` with the annotations pragma_auto_unroll_max_step and
        pragma_unroll_explicit=0, which become ``#pragma unroll`` in the source
    consumes: nothing
    requires: a serial loop without such an annotation; a limit of at least 1 statement; no pipeline
        of asynchronous copies at or inside of the loop (TVM could not say how many to wait for)
    """
    require_serial(sch, loop)
    name = get_loop_name(sch, loop)
    if limit < 1:
        raise TransformError(f"limit={limit} is not a size", "use 1 or more")
    if UNROLL in sch.get(loop).annotations:
        raise TransformError(f"loop '{name}' is already marked for that", "call this once")
    for inner in find_all(sch.get(loop), For):
        if ASYNC in inner.annotations:
            raise TransformError(
                f"loop '{inner.loop_var.name}' is a pipeline of asynchronous copies, and TVM could "
                "not say how many to wait for",
                "suggest to unroll loops inside of the pipeline only",
            )
    sch.annotate(loop, UNROLL, limit)
    sch.annotate(loop, "pragma_unroll_explicit", 0)


def _count_copies(loops: list[For]) -> int:
    """How many copies of their body the unrolled ones of nested loops make."""
    unrolled = [loop for loop in loops if loop.kind == ForKind.UNROLLED]
    return math.prod(constant(loop.extent) or 1 for loop in unrolled)


def require_serial(sch: Schedule, loop: LoopRV) -> None:
    """Refuse a loop that is bound, vectorized, unrolled or parallel already."""
    node = sch.get(loop)
    if node.kind == ForKind.SERIAL:
        return
    axis = get_axis(node)
    state = get_kind(node) if axis is None else f"bound to '{axis}'"
    raise TransformError(
        f"loop '{get_loop_name(sch, loop)}' is already {state}",
        "do this while the loop is still serial",
    )


def require_constant(sch: Schedule, loop: LoopRV) -> int:
    """The loop's extent; refuse a symbolic one."""
    extent = get_extent(sch, loop)
    if extent is None:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' has the symbolic extent {sch.get(loop).extent}",
            'split it with tail="guard" first and use the inner loop',
        )
    return extent


def require_factors(sch: Schedule, loop: LoopRV, factors: dict[str, int], tail: str) -> None:
    """Refuse factors below 1, and factors that do not divide unless guarded."""
    for key, factor in factors.items():
        if factor < 1:
            raise TransformError(f"{key}={factor} must be >= 1", "use an integer >= 1")
    product = math.prod(factors.values())
    given = " * ".join(f"{key}={value}" for key, value in factors.items())
    node, extent, name = sch.get(loop), get_extent(sch, loop), get_loop_name(sch, loop)
    # TVM computes (extent + product - 1) // product in the loop's type, where the sum wraps around.
    limit = find_largest_index(node.loop_var)
    if (1 if extent is None else extent) + product - 1 > limit:
        raise TransformError(
            f"loop '{name}' runs {node.extent} times, and rounded up to a multiple of {given} that "
            f"is beyond {node.loop_var.ty}, which ends at {limit}",
            "choose a smaller size, or give the kernel int64 loops",
        )
    if tail != "guard" and extent is None:
        if Analyzer().can_prove_equal(floormod(node.extent, product), 0):
            return  # padded by pad_block to a multiple, say
        raise TransformError(
            f"loop '{name}' has the symbolic extent {node.extent}, which {given} may not divide",
            'pass tail="guard", or pad the block first with pad_block',
        )
    if extent is not None and extent % product == 0:
        return
    if tail != "guard":
        raise TransformError(
            f"loop '{name}' runs {extent} times, which {given} does not divide",
            'choose a divisor, pass tail="guard", or pad the block first with pad_block',
        )
    # Refuse a guard that TVM loses, or that comes too late.
    bound = [it for it in [*get_enclosing_loops(sch, loop), *find_all(node, For)] if get_axis(it)]
    for realize in find_all(node, SBlockRealize) if bound else ():
        # Where it is the only guard of a reduction's outputs over threads, TVM leaves it out where
        # the sums are stored, and stores those of outputs that do not exist.
        reduced = [fed for item in bound for fed in get_fed_iterators(realize, item)]
        over_threads = any(iterator.iter_type == IterVar.CommReduce for iterator in reduced)
        fed = {iterator.iter_type for iterator in get_fed_iterators(realize, node)}
        feeds_output = fed and IterVar.CommReduce not in fed
        if over_threads and constant(realize.predicate) == 1 and feeds_output:
            raise TransformError(
                f"block '{realize.block.name_hint}' reduces over threads, and TVM would leave out "
                f"the guard of loop '{node.loop_var.name}', which runs {node.extent} times and "
                f"which {given} does not divide",
                "choose a divisor, or pad the block first with pad_block",
            )

    def find_asking(statement: Any) -> list[Any]:  # before they do what is in them
        return [*find_all(statement, For), *find_all(statement, IfThenElse)]

    # The guard is the blocks': a condition, or an extent, outside of these would be asked beyond
    # the loop's end, out of bounds.
    within = [it for block in find_all(node, SBlock) for it in find_asking(block)]
    for each in find_asking(node.body):
        asked = each.condition if isinstance(each, IfThenElse) else each.extent
        loads = [it for it in find_all(asked, TensorLoad) if is_used(node.loop_var, it)]
        if loads and not is_among(each, within):
            raise TransformError(
                f"loop '{node.loop_var.name}' runs {node.extent} times, and {asked}, outside of "
                f"its blocks, would load '{loads[0].source.name}' beyond its end, where no guard "
                "stands",
                "choose a size that divides, or move the condition into the block",
            )


def require_countable(sch: Schedule, loops: Sequence[LoopRV]) -> None:
    """Refuse to fuse loops that together run more often than their integer type counts."""
    nodes = [sch.get(loop) for loop in loops]
    extents = [constant(node.extent) for node in nodes]
    total = math.prod(1 if extent is None else extent for extent in extents)
    widest = max((node.loop_var for node in nodes), key=find_largest_index)
    if total > (limit := find_largest_index(widest)):
        product = " * ".join(f"'{node.loop_var.name}' ({node.extent})" for node in nodes)
        raise TransformError(
            f"the loops {product} run {total} times together, beyond {widest.ty}, which ends at "
            f"{limit}",
            "fuse fewer loops, or give the kernel int64 loops",
        )
