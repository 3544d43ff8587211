"""Products under what threads compute, where warps have roles.

Of a warpgroup's own next iteration (`overlap_products`), of other warpgroups in each iteration
(`alternate_warpgroups`), and of other warpgroups' tiles (`alternate_tiles`).

The first statement of an iteration and its last one are groups of wgmma each. With
`overlap_products` the loop is turned by one of them: the first group of the next iteration is
issued, behind it the last one of this iteration, and what lies between the two is computed while
that runs. With `alternate_warpgroups` warpgroups take turns to issue the two (`PingPong`): each has
a named barrier at which it waits, and at which the warpgroup before it arrives when it has issued
its products. The last one arrives in front of the first one's first turn, and the first one takes
the arrival that is left when all turns are over. Turns change what runs when, and no value:
mbarriers still say which tiles are there.

With `alternate_tiles` (`TileTurns`), the ping-pong kernels of NVIDIA's CUTLASS 3, one warpgroup
multiplies its tile while another one stores the tile before. Products of a tile begin when those of
the tile before have been issued: by then all stages of that one have been waited for, so that the
parity of an mbarrier says which of its uses is meant. A tile is stored when the one before has
been: both use the same shared memory. Each warpgroup has a barrier for either. In front of all
tiles the last warpgroup arrives at those of the first one; the arrivals behind the last tile are
taken by the warpgroup whose turn it would be: every barrier is complete then.

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar". Barrier 0 is that of all threads; the others are free.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm.ir import Call
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import tirx as T
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    SeqStmt,
    Var,
    stmt_seq,
)
from tvm_ffi import structural_map

from tirstep.tvm_compat import get_op_name

from ..annotations import TMA_IN_FLIGHT
from ..gpu_limits import THREADS, WARP
from ..passes.barriers import SHARED
from ..queries import get_enclosing_kernel, get_loop_name
from ..schedule import Int64, TransformError, transform
from ..tir import constant, find_all, get_axis, get_elements, is_among, number_threads, substitute
from .tma_loads import Pipeline, get_thread_extents, require_one_pipeline, require_registers
from .tma_tiles import (
    TMA_BLOCKS,
    TMA_COPY,
    TMA_OVERLAP,
    TMA_PERSISTENT,
    TMA_PINGPONG,
    TMA_ROLES,
    TMA_TURNS,
)

_MAX_TURNS = 3
"""Warpgroups that take turns at tiles: two barriers and one of their own each, of 15 in all."""


@transform
def overlap_products(sch: Schedule, loop: LoopRV) -> None:
    """Let the last products of an iteration run while the next one computes.

    The loop's first and last statements are products by wgmma. Behind the first of the next
    iteration the last of this one is issued; threads wait for the first alone, and compute on until
    they need registers of the last. As by hand in FlashAttention-3 (J. Shah and others, 2024),
    where scores of the next tile are computed ahead, and softmax runs under the product by values.
    Tiles of two iterations are in use at once: with 3 stages another one is on its way.

    rewrite: ``for j: wait for full[j]; S = Q * K[j]; P = f(S); O = g(O) + P * V[j]`` ->
        ``S = Q * K[0]; P = f(S); O = g(O); for j: wait for full[j + 1]; issue S = Q * K[j + 1];
        issue O += P * V[j]; wait for S; P' = f(S); wait for O; P = P'; O = g(O)`` and the last
        ``O += P * V[j]`` behind the loop, when the module is lowered
    consumes: nothing
    requires: a loop to which `specialize_warps` has given roles, in which no group of wgmma stays
        in flight; its first statement behind the copies, and its last one, are groups of wgmma that
        wait for themselves, as `tensorize_warp_rows` makes them, of other registers; no other
        statement of the loop is one
    """
    _require_products(sch, loop, TMA_OVERLAP, "overlaps already")
    sch.annotate(loop, TMA_OVERLAP, 1)


@transform
def alternate_warpgroups(sch: Schedule, loop: LoopRV) -> None:
    """Let warpgroups take turns at the tensor cores: one computes while another one multiplies.

    The ping-pong of FlashAttention-3 (J. Shah and others, 2024, section 3.1). A turn is the last
    products of an iteration and the first ones of the next. A warpgroup waits for its turn at a
    named barrier of its own, and lets the next one go on as soon as its products are issued: what
    lies between the products then runs under those of the others. Turns order instructions and no
    data. Behind `overlap_products` or in front of it, they go around the two groups that it issues
    together.

    rewrite: ``for j: S = Q * K[j]; P = f(S); O += P * V[j]`` -> ``bar.sync own; for j: issue
        S = Q * K[j]; bar.arrive next; wait for S; P = f(S); bar.sync own; O += P * V[j]``, when
        the module is lowered
    consumes: nothing
    requires: a loop as for `overlap_products`, which two warpgroups or more compute
    """
    _require_products(sch, loop, TMA_PINGPONG, "alternates already")
    threads = math.prod(get_thread_extents(sch, loop))
    if threads % WARPGROUP or threads < 2 * WARPGROUP:
        raise TransformError(
            f"{threads} threads compute in loop '{get_loop_name(sch, loop)}', and {WARPGROUP} are "
            "a warpgroup",
            "let two warpgroups or more compute",
        )
    sch.annotate(loop, TMA_PINGPONG, 1)


@transform
def alternate_tiles(
    sch: Schedule, loop: LoopRV, *, warpgroups: Int64 = 2, registers: Sequence[int] | None = None
) -> None:
    """Let warpgroups compute a tile each, in turn: one multiplies while another one stores.

    The ping-pong kernels of NVIDIA's CUTLASS 3. The warpgroup that computed alone becomes as many
    as `warpgroups`, and each of them takes every so manyth tile of its thread block, in registers
    of its own. Products of a tile begin when those of the tile before have been issued, and a tile
    is stored when the one before has been: all go through the same stages, and store through the
    same shared memory. Turns are named barriers, and order instructions and no data. `registers`
    are those of `specialize_warps`, of a thread that copies and of one that computes.

    rewrite: ``for tile in range(block, tiles, blocks): for k: multiply; store`` -> ``for tile in
        range(block + own * blocks, tiles, 2 * blocks): bar.sync own; for k: multiply; bar.arrive
        next; bar.sync own'; store; bar.arrive next'``, when the module is lowered
    consumes: nothing
    requires: a loop whose blocks `make_persistent` lets stay, of a known number of iterations, in
        which products do not overlap and warpgroups take no turns yet, the one pipeline of its
        kernel; no shared memory but its tiles' in use before its end; a kernel of threadIdx.x of
        one warpgroup and threadIdx.y of extent 1; 2 or 3 `warpgroups`, and what `specialize_warps`
        requires of `registers`, which move where they are given
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    notes = node.annotations
    if TMA_PERSISTENT not in notes or TMA_TURNS in notes:
        raise TransformError(
            f"the blocks of loop '{name}' do not stay, or its warpgroups alternate already",
            "call make_persistent first, and this once",
        )
    if {TMA_OVERLAP, TMA_PINGPONG} & {*map(str, notes)} or constant(node.extent) is None:
        raise TransformError(
            f"in loop '{name}' products overlap, warpgroups take turns, or a mask ends it",
            "let tiles alternate where every tile has the same steps, one after the other",
        )
    kernel = get_enclosing_kernel(sch, loop)
    require_one_pipeline(sch, loop, "let tiles alternate where there is one")
    inner = find_all(node.body, SBlock)
    copied = [
        region.source for block in inner if TMA_COPY in block.annotations for region in block.writes
    ]
    stores = find_all(kernel, SBlock)
    end = max(at for at, block in enumerate(stores) if is_among(block, inner)) + 1
    for block in stores[:end]:
        if any(node.same_as(each) for each in find_all(block, For)):
            continue  # around the loop
        for region in block.writes:
            if region.source.scope() in SHARED and not is_among(region.source, copied):
                raise TransformError(
                    f"block '{block.name_hint}' stores to '{region.source.name}', which "
                    "warpgroups share, while others multiply",
                    "let tiles alternate where nothing but bulk copies stores to shared memory "
                    "before products end",
                )
    axes = {get_axis(each) or "" for each in find_all(kernel, For)}
    extents, is_flat = get_thread_extents(sch, loop), "threadIdx.z" not in axes
    if extents != [WARPGROUP, 1] or not is_flat or not 2 <= warpgroups <= _MAX_TURNS:
        names = "x, y" if is_flat else "x, y, z, where there are such"
        raise TransformError(
            f"warpgroups={warpgroups} do not take turns where threads are {extents} along {names}",
            f"tile for one warpgroup of {WARPGROUP} threads on threadIdx.x and threadIdx.y of "
            f"extent 1, and use 2 to {_MAX_TURNS}",
        )
    added, blocks = int(notes[TMA_ROLES][0]), int(notes.get(TMA_BLOCKS, 1))
    counts, threads = list(registers or (0, 0)), warpgroups * WARPGROUP
    if blocks * (threads + added) > THREADS:
        raise TransformError(
            f"{blocks} blocks of {threads + added} threads do not fit on a multiprocessor of "
            f"{THREADS}",
            "give specialize_warps fewer blocks",
        )
    if registers is not None:
        require_registers(counts, threads, blocks)
    sch.unannotate(loop, TMA_ROLES)
    sch.annotate(loop, TMA_ROLES, [added, *counts])
    sch.annotate(loop, TMA_TURNS, warpgroups)


def _require_products(sch: Schedule, loop: LoopRV, annotation: str, already: str) -> None:
    """Refuse a loop but one with roles, whose first and last statements alone are products."""
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_ROLES not in node.annotations or annotation in node.annotations:
        raise TransformError(
            f"loop '{name}' is no pipeline in which warps have roles, or {already}",
            "call specialize_warps first, and this once",
        )
    if TMA_TURNS in node.annotations:
        raise TransformError(
            f"the warpgroups of loop '{name}' compute a tile each, in turn",
            "use overlap_products and alternate_warpgroups without alternate_tiles",
        )
    if TMA_IN_FLIGHT in node.annotations:
        raise TransformError(
            f"loop '{name}' leaves groups of wgmma in flight, beside which there is no other",
            "call prefetch_by_tma without in_flight",
        )
    parts = [
        part
        for part in node.body.seq
        if not any(TMA_COPY in block.annotations for block in find_all(part, SBlock))
    ]
    # How often a statement waits for groups of wgmma.
    waits = [sum(_is_wait(each) for each in find_all(part, Evaluate)) for part in parts]
    if len(parts) < 2 or waits[0] != 1 or waits[-1] != 1 or sum(waits) != 2:
        raise TransformError(
            f"loop '{name}' does not begin with products by wgmma and end with others, with none "
            "between",
            "tensorize both with tensorize_warp_rows first",
        )
    require_independent(_find_registers(parts[0]), _find_registers(parts[-1]), name)


def _find_registers(part: Any) -> list[Any]:
    """The buffers in registers that the block of a statement reads and writes."""
    block = find_all(part, SBlock)[0]
    regions = (*block.reads, *block.writes)
    return [each.source for each in regions if str(each.source.scope()) == "local"]


WAIT = "wgmma_wait_group"


def run_overlapped(pipeline: Pipeline, done: Callable[[Any], list[Any]]) -> list[Any]:
    """What computes, of warps with roles; `done` says that an iteration's stage is empty.

    The first iteration has its own first group, and the last one its own last group.
    """
    first, *between, last = pipeline.compute()
    counters = pipeline.rounds.counters
    own = [each for each in find_registers(last) if not is_among(each, counters)]
    require_independent(find_registers(first), own, pipeline.loop.loop_var.name)
    step = pipeline.loop.loop_var
    # The place of the first statement that uses registers of the last one.
    uses = [any(is_among(each, own) for each in find_registers(part)) for part in between]
    kept = uses.index(True) if True in uses else len(uses)
    ahead = step + 1

    def at(value: Any, statements: list[Any]) -> list[Any]:
        return [substitute(each, {step: value}) for each in statements]

    wait, turns = pipeline.wait_for_tile(), take_turns(pipeline)
    zero = IntImm("int32", 0)
    body = [
        *at(ahead, [wait, *turns.begin, _drop_wait(first)]),
        _drop_wait(last),
        *turns.end,
        _wait_for_groups(1),
        *at(ahead, between[:kept]),
        _wait_for_groups(0),
        *done(step),
        *at(ahead, between[kept:]),
    ]
    loop = pipeline.loop
    turned = For(step, zero, loop.extent - 1, ForKind.SERIAL, stmt_seq(*body), None, pipeline.notes)
    end = loop.extent - 1
    begin = [*turns.open, *at(zero, [wait, first, *between])]
    return [*begin, turned, *at(end, [last]), *done(end), *turns.close]


def run_in_turns(pipeline: Pipeline, done: Callable[[Any], list[Any]]) -> list[Any]:
    """What computes, of warpgroups that take turns and do not overlap their own iterations.

    A turn is the last products of an iteration and the first ones of the next.
    """
    first, *between, last = pipeline.compute()
    turns = take_turns(pipeline)
    body = [
        pipeline.wait_for_tile(),
        _drop_wait(first),
        *turns.end,
        _wait_for_groups(0),
        *between,
        *turns.begin,
        last,
        *done(pipeline.loop.loop_var),
    ]
    return [*turns.open, *turns.begin, pipeline.loop_over(body), *turns.end, *turns.close]


def require_independent(first: list[Any], last: list[Any], name: str) -> None:
    """Refuse the buffers of two statements that cannot change places, since they share one."""
    shared = [each for each in first if is_among(each, last)]
    if shared:
        raise TransformError(
            f"the first and the last products of loop '{name}' both use '{shared[0].name}'",
            "overlap products that have sums and fragments of their own",
        )


def _drop_wait(statement: Any) -> Any:
    """A statement without the wait for its own group."""

    def rewrite(sequence: Any) -> Any:
        kept = [part for part in sequence.seq if not _is_wait(part)]
        return sequence if len(kept) == len(sequence.seq) else stmt_seq(*kept)

    return structural_map(statement, (SeqStmt, rewrite))


def _is_wait(statement: Any) -> bool:
    if not isinstance(statement, Evaluate) or not isinstance(statement.value, Call):
        return False
    return get_op_name(statement.value).endswith(WAIT)


def _wait_for_groups(in_flight: int) -> Evaluate:
    return Evaluate(T.ptx.wgmma.wait_group.sync.aligned(in_flight))


def find_registers(statement: Any) -> list[Any]:
    """The buffers in registers whose elements a statement loads or stores."""
    return [buffer for buffer, _ in get_elements(statement) if str(buffer.scope()) == "local"]


WARPGROUP = 4 * WARP
FIRST = 1
"""The number of the first warpgroup's barrier."""
BOTH = 2 * WARPGROUP
"""Threads that complete a barrier: those that wait, and those that let them go on."""


class PingPong(NamedTuple):
    """What warpgroups that take turns do, in front of all turns, of each, behind each and all."""

    open: list[Any]
    begin: list[Any]
    end: list[Any]
    close: list[Any]


def take_turns(pipeline: Pipeline) -> PingPong:
    """The turns that `alternate_warpgroups` asked for; nothing at all where there are none.

    The first warpgroup may begin; each waits until the one before has issued its products, and then
    lets the next one go on; behind all turns no arrival is left over.
    """
    groups = math.prod(count for _, count in pipeline.threads) // WARPGROUP
    if groups < 2 or not pipeline.alternates:
        return PingPong([], [], [], [])
    number, analyzer = number_threads(pipeline.threads)
    number, first = analyzer.simplify(FloorDiv(number, WARPGROUP)), IntImm("int32", 0)
    return PingPong(
        [IfThenElse(number.equal(groups - 1), arrive_at(first), None)],
        [wait_at(number)],
        [arrive_at(FloorMod(number + 1, groups))],
        [IfThenElse(number.equal(0), wait_at(first), None)],
    )


def wait_at(group: Any) -> Evaluate:
    """Wait at a warpgroup's barrier, until another one has arrived there."""
    return Evaluate(T.ptx.bar.sync(_name(group), T.uint32(BOTH)))


def arrive_at(group: Any) -> Evaluate:
    """Let the warpgroup go on that waits at its barrier."""
    return Evaluate(T.ptx.bar.arrive(_name(group), T.uint32(BOTH)))


def _name(group: Any) -> Any:
    return (group + FIRST).astype("uint32")


TURN = "tirstep_turn"
"""Key of our mark: an AttrStmt around what a warpgroup does, whose value is the warpgroup's."""


@dataclass(frozen=True)
class TileTurns:
    """The turns of a pipeline's warpgroups; nothing at all where they take none.

    Attributes
    ----------
    pipeline : whose tiles these are
    turn : the variable of a warpgroup's number; None where all compute one tile together
    """

    pipeline: Pipeline
    turn: Any

    @classmethod
    def of(cls, pipeline: Pipeline) -> TileTurns:
        """The turns that `alternate_tiles` asked for."""
        axis = pipeline.threads[-1][0]
        return cls(pipeline, Var("turn", axis.ty) if pipeline.rounds.turns > 1 else None)

    def require_own_memory(self, kernel: Any) -> None:
        """Refuse what threads store to shared memory before products end, in no turn to store."""
        loop = self.pipeline.loop
        if self.turn is None:
            return

        # The statements of a kernel that stand before a loop.
        def is_elsewhere(part: Any) -> bool:
            return not any(loop.same_as(each) for each in find_all(part, For))

        around = [each for each in find_all(kernel, SeqStmt) if not is_elsewhere(each)]
        parts = [
            *[part for each in around for part in itertools.takewhile(is_elsewhere, each.seq)],
            *self.pipeline.rest,
        ]
        stored = [store.buffer for part in parts for store in find_all(part, BufferStore)]
        shared = [buffer.name for buffer in stored if str(buffer.scope()) in SHARED]
        if shared or self.pipeline.fence_others():
            raise TransformError(
                f"warpgroups share {shared[0] if shared else 'memory'}, which threads store to "
                f"before the end of loop '{loop.loop_var.name}'",
                "lower the module as alternate_tiles left it",
            )

    def go_around(self, tile: list[Any]) -> list[Any]:
        """The turns around the products of a tile, of which the loop comes first, and in front of
        what stores it."""
        if self.turn is None:
            return tile
        issue, *rest = tile
        begin, end = wait_at(self.turn), arrive_at(self._next)
        return [begin, issue, end, *rest, wait_at(self.turn + self._count)]

    def end_tile(self, tile: Any) -> Any:
        """A tile, behind which the next one may be stored: bulk stores have read this one."""
        if self.turn is None:
            return tile
        read = Evaluate(T.ptx["cp.async.bulk.wait_group.read"](0))
        stored = arrive_at(self._next + self._count)
        return stmt_seq(tile, read, Evaluate(T.cuda.warp_sync()), stored)

    def go_through(self, tiles: Any) -> Any:
        """All tiles, in front of which the first one may begin, as each warpgroup does them.

        It was alone on its thread axis before.
        """
        if self.turn is None:
            return tiles
        first, second = IntImm("int32", 0), IntImm("int32", self._count)
        last = self.turn.equal(self._count - 1)
        left = self.turn.equal(FloorMod(self.pipeline.rounds.count_tiles(), self._count))
        opened = IfThenElse(last, SeqStmt([arrive_at(first), arrive_at(second)]), None)
        closed = [wait_at(self.turn), wait_at(self.turn + self._count)]
        body = SeqStmt([opened, tiles, IfThenElse(left, SeqStmt(closed), None)])
        axis = self.pipeline.threads[-1][0]
        made = substitute(body, {axis: IntImm("int32", 0), self.turn: axis})
        return AttrStmt(IntImm("int32", 0), TURN, axis, made)

    @property
    def _count(self) -> int:
        return self.pipeline.rounds.turns

    @property
    def _next(self) -> Any:
        return FloorMod(self.turn + 1, self._count)
