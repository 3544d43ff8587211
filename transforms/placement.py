"""Placement: where a block is computed."""

from __future__ import annotations

import itertools
import math

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import ForKind, SeqStmt

from .annotations import STAGE
from .coverage import require_computed, require_single_terms
from .enumeration import count_points
from .queries import (
    get_enclosing_loops,
    get_extent,
    get_loop_name,
    get_outer_loops,
    get_realize,
    get_reduction_loops,
    get_root,
    get_sblock_name,
    is_around,
    is_reduction,
)
from .schedule import TransformError, transform
from .tir import (
    constant,
    find_all,
    get_fed_iterators,
    get_kind,
    get_places,
    is_among,
    is_used,
    substitute,
)


@transform
def compute_block_at(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Move a producer under a loop of its consumers, so that it computes what one iteration needs.

    rewrite: ``for i: P[i]`` and ``for j: C[j] = f(P[j])``
        -> ``for j: (for ax: P[j + ax]); C[j] = f(P[j])``
    consumes: the loops of `block`
    requires: a loop that is not vectorized nor inside of a vectorized one (TVM accepts that and
        computes wrong values); all consumers under the loop; for a block that reduces into global
        or shared memory, threads and thread blocks around the loop that each compute different
        results (otherwise one would initialize a result again while another reads it; the same
        value computed by all in one step is allowed); a place inside of all loops in which another
        block overwrites what it reads, such as running values
    guarded: what it reads is written before, by the same thread or thread block if the memory is
        private to it; threads that store one element of global memory store the same value
    """
    require_scalar_place(sch, loop)
    require_in_iteration(sch, block, loop)
    sch.compute_at(block, loop, preserve_unit_loops=True)


@transform
def reverse_compute_block_at(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Move a consumer under a loop of its producers, so that it uses what one iteration made.

    rewrite: ``for i: P[i]`` and ``for j: C[j] = f(P[j])`` -> ``for i: P[i]; C[i] = f(P[i])``
    consumes: the loops of `block`
    requires: a loop that is not vectorized nor inside of a vectorized one; all producers under it,
        and it outside of their reductions (inside, TVM would let the block use incomplete sums);
        the block's own consumers after the new place (TVM checks only its producers); a block whose
        elements all read its producers; a place outside of the block's own loops, or one where what
        the block computes still depends on these (otherwise all iterations would compute the same);
        registers ("local"), and elements of global memory that the kernel writes, that are read by
        the thread that wrote them; producers that compute there all that the block would use (after
        `align_vectors` with an offset, TVM also uses elements of the next vectors); a place inside
        of all loops in which another block overwrites what it reads
    guarded: what it reads is written in the same iteration, by the same thread or thread block
        where memory is theirs; threads store one element of global memory only with one value
    """
    require_scalar_place(sch, loop)
    for producer in sch.get_producers(block):
        require_outside_reductions(sch, loop, producer)
    require_in_iteration(sch, block, loop)
    consumers = list(sch.get_consumers(block))
    # The loops that decide, by more than one iteration, what a block computes.
    realize = get_realize(sch, block)
    feeding = [
        loop
        for loop in sch.get_loops(block)
        if get_extent(sch, loop) != 1 and list(get_fed_iterators(realize, sch.get(loop)))
    ]
    sch.reverse_compute_at(block, loop, preserve_unit_loops=True)
    order = find_all(get_root(sch, block), SBlock)
    place = next(index for index, node in enumerate(order) if node.same_as(sch.get(block)))
    for consumer in consumers:
        if any(sch.get(consumer).same_as(earlier) for earlier in order[:place]):
            raise TransformError(
                f"block '{get_sblock_name(sch, block)}' would be computed after block "
                f"'{get_sblock_name(sch, consumer)}', which uses it",
                "place it in front of its consumers, with compute_block_at",
            )
    realize, around = get_realize(sch, block), get_outer_loops(sch, block)
    for each in feeding:
        try:
            node = sch.get(each)
        except ValueError:
            continue  # it was the block's alone, and is gone
        encloses = any(node.same_as(item) for item in around)
        if encloses and not list(get_fed_iterators(realize, node)):
            raise TransformError(
                f"block '{get_sblock_name(sch, block)}' would compute the same in all "
                f"{node.extent} iterations of its loop '{node.loop_var.name}'",
                "place it at a loop of a producer that does not stand in the block's own loops",
            )
    _require_whole(sch, block)
    for producer in sch.get_producers(block):
        require_computed(sch, producer, block)
    require_single_terms(sch, block)


@transform
def fuse_epilogue_at(sch: Schedule, block: SBlockRV, epilogue: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Keep a block's result in registers and let its consumer finish it there (bias, relu, cast).

    rewrite: ``C[i, j] += ...`` and ``D[i, j] = relu(C[i, j] + bias[j])``
        -> under `loop`: ``C_registers[...] += ...; D[...] = relu(C_registers[...] + bias[...])``
    consumes: the loops of `epilogue`
    returns: `epilogue`, which writes the results
    requires: `epilogue` is the only consumer of the one intermediate buffer that `block` writes,
        does not reduce, and reads that buffer for each of its elements; a loop of `block`, inside
        of its thread loops and outside of its reductions, not vectorized, in which `block` computes
        all that `epilogue` would use there
    guarded: each thread reads registers of its own, which it wrote in the same iteration
    """
    consumers = list(sch.get_consumers(block))
    if len(consumers) != 1 or not sch.get(consumers[0]).same_as(sch.get(epilogue)):
        names = ", ".join(f"'{get_sblock_name(sch, consumer)}'" for consumer in consumers)
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has the consumers {names or 'none'}, "
            f"not just '{get_sblock_name(sch, epilogue)}'",
            "inline or cache the other consumers first",
        )
    if is_reduction(sch, epilogue):
        raise TransformError(
            f"block '{get_sblock_name(sch, epilogue)}' reduces, and would need results of other "
            "threads",
            "leave it a kernel of its own, and keep results in registers with cache_write_at",
        )
    require_around(sch, loop, block)
    require_outside_reductions(sch, loop, block)
    require_scalar_place(sch, loop)
    sch.set_scope(block, 0, "local")
    sch.reverse_compute_at(epilogue, loop, preserve_unit_loops=True)
    _require_whole(sch, epilogue)
    require_computed(sch, block, epilogue)
    return epilogue


def _require_whole(sch: Schedule, block: SBlockRV) -> None:
    """Refuse a place where a block computes only elements that need the producers there.

    A padding, say, has a rim of zeros that reads nothing: TVM leaves it out.
    """
    loops, realize = get_outer_loops(sch, block), get_realize(sch, block)
    around = [constant(loop.extent) for loop in loops]
    points = [constant(iterator.dom.extent) for iterator in sch.get(block).iter_vars]
    if None in around or None in points:
        return
    runs = math.prod(extent or 0 for extent in around)
    needed = math.prod(extent or 0 for extent in points)
    if runs >= needed:  # loops with a guard run more often than that lets them
        counted = count_points(list(realize.iter_values), realize.predicate, loops)
        runs = runs if counted is None else counted
    if runs < needed:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' would compute {runs} of its {needed} "
            "elements, only those that read what its producers compute there",
            "leave it where it is, or inline it into its consumers",
        )


def require_around(sch: Schedule, loop: LoopRV, block: SBlockRV) -> None:
    """Refuse a loop that is none of the block's."""
    if not is_around(sch, loop, block):
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is not around block "
            f"'{get_sblock_name(sch, block)}'",
            "choose one of sch.get_loops(block)",
        )


def require_outside_reductions(sch: Schedule, loop: LoopRV, block: SBlockRV) -> None:
    """Refuse a place where the block's sums are not complete yet."""
    for reduction in get_reduction_loops(sch, block):
        node = sch.get(reduction)
        if any(node.same_as(at) for at in [*get_outer_loops(sch, loop), sch.get(loop)]):
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' is at or inside of the reduction loop "
                f"'{get_loop_name(sch, reduction)}', where the sum is not complete",
                "choose a loop outside of the reductions",
            )


def require_scalar_place(sch: Schedule, loop: LoopRV) -> None:
    """Refuse to place a block at or inside a vectorized loop, or in a copy of a pipeline."""
    for node in [*get_outer_loops(sch, loop), sch.get(loop)]:
        if node.kind == ForKind.VECTORIZED:
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' is at or inside of the {get_kind(node)} loop "
                f"'{node.loop_var.name}', where TVM would compute wrong values without an error",
                "place the block at a loop outside of it, or vectorize afterwards",
            )
    # A pipeline says for each statement of its body when it runs, and its last one computes.
    nodes = [*get_outer_loops(sch, loop), sch.get(loop)]
    for outer, inner in itertools.zip_longest(nodes, nodes[1:]):
        if STAGE not in outer.annotations:
            continue
        parts = list(outer.body.seq) if isinstance(outer.body, SeqStmt) else [outer.body]
        if inner is None or not inner.same_as(parts[-1]):
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' is or stands in a copy of the pipeline "
                f"'{outer.loop_var.name}', which has a stage for each statement of its body",
                "place blocks there before the loop becomes a pipeline",
            )


def require_in_iteration(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Refuse a place for a block outside of a loop in which another one overwrites what it reads.

    `fuse_reductions` makes such blocks; TVM, for which a buffer is written once, moves them.
    """
    places, node = get_places(get_root(sch, block)), sch.get(block)
    reader = next(place for place in places if place.block.same_as(node))
    stays = [*get_enclosing_loops(sch, loop), sch.get(loop)]
    left = [it for it in reader.loops if not is_among(it, stays)]
    reads = [region.source for region in reader.block.reads]
    for writer in places if left else ():
        if writer.block.same_as(node):
            continue
        outer = [it for it in left if is_among(it, writer.loops) and writer.is_fed(it)]
        for region, it in itertools.product(writer.block.writes, outer):
            buffer = region.source
            begins = [substitute(part.min, writer.values) for part in region.region]
            is_anew = not any(is_used(it.loop_var, begin) for begin in begins)
            if is_anew and is_among(buffer, reads):
                raise TransformError(
                    f"block '{reader.name}' reads '{buffer.name}' in each iteration of loop "
                    f"'{it.loop_var.name}', where block '{writer.name}' overwrites it, and outside "
                    "of that loop it would find what the last one left",
                    "place it at a loop inside of that one",
                )
