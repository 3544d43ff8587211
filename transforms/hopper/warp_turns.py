"""Products under what threads compute, where warps have roles.

Of a warpgroup's own next iteration (`overlap_products`), and of other warpgroups in each iteration
(`alternate_warpgroups`).

The first statement of an iteration and its last one are groups of wgmma each. With
`overlap_products` the loop is turned by one of them: the first group of the next iteration is
issued, behind it the last one of this iteration, and what lies between the two is computed while
that runs. With `alternate_warpgroups` warpgroups take turns to issue the two: each has a named
barrier at which it waits, and at which the warpgroup before it arrives when it has issued
its products. The last one arrives in front of the first one's first turn, and the first one takes
the arrival that is left when all turns are over. Turns change what runs when, and no value:
mbarriers still say which tiles are there.

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar". Barrier 0 is that of all threads; the others are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm.ir import Call
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.script import tirx as T
from tvm.tirx import (
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    stmt_seq,
)

from tirstep.tvm_compat import get_op_name

from ..annotations import TMA_IN_FLIGHT
from ..gpu_limits import WARP
from ..queries import get_loop_name
from ..rewriting import leave_out
from ..schedule import TransformError, transform
from ..tir import find_all, get_elements, get_regions, is_among, number_threads, substitute
from .tma_loads import Pipeline, get_thread_extents, wait_for_groups
from .tma_tiles import (
    TMA_COPY,
    TMA_OVERLAP,
    TMA_PINGPONG,
    TMA_ROLES,
)


@transform
def overlap_products(sch: Schedule, loop: LoopRV) -> None:
    """Let the last matmuls of an iteration run while the next iteration computes.

    The loop's first and last statements are matmuls by wgmma. The first matmul of the next
    iteration is issued, then the last one of this iteration; threads wait only for the first, and
    continue until they need registers of the last. In FlashAttention-3 (J. Shah and others, 2024)
    the scores of the next tile are computed ahead in this way, and softmax overlaps with the matmul
    by values. Tiles of the first and of the last matmul are waited for, and released, separately:
    the stage of an iteration's keys can be refilled while its values are still read.

    rewrite: ``for j: wait for full[j]; S = Q * K[j]; P = f(S); O = g(O) + P * V[j]`` ->
        ``S = Q * K[0]; P = f(S); O = g(O); for j: wait for K[j + 1]; issue S = Q * K[j + 1];
        wait for V[j]; issue O += P * V[j]; wait for S; release K[j + 1]; P' = f(S); wait for O;
        release V[j]; P = P'; O = g(O)`` and the last
        ``O += P * V[j]`` behind the loop, when the module is lowered
    consumes: nothing
    requires: a loop that `specialize_warps` has specialized, with no group of wgmma in flight; its
        first statement after the copies and its last one, but no others, are groups of wgmma with
        waits of their own, as `tensorize_warp_rows` makes them, with different accumulators
    """
    _require_products(sch, loop, TMA_OVERLAP, "overlaps already")
    sch.annotate(loop, TMA_OVERLAP, 1)


@transform
def alternate_warpgroups(sch: Schedule, loop: LoopRV) -> None:
    """Ping-pong warpgroups: one computes while another one has the tensor cores.

    The ping-pong of FlashAttention-3 (J. Shah and others, 2024, section 3.1). A turn consists of
    the last matmuls of an iteration and the first ones of the next. A warpgroup waits for its turn
    at a named barrier of its own, and lets the next warpgroup continue as soon as its matmuls are
    issued, so that the code between matmuls overlaps with the matmuls of others. Turns order only
    instructions, not data. With `overlap_products`, called before or after, a turn consists of the
    two groups that it issues together.

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
            f"{threads} threads compute in loop '{get_loop_name(sch, loop)}', and a warpgroup "
            f"has {WARPGROUP}",
            "let two warpgroups or more compute",
        )
    sch.annotate(loop, TMA_PINGPONG, 1)


def _require_products(sch: Schedule, loop: LoopRV, annotation: str, already: str) -> None:
    """Refuse a loop but one with roles, whose first and last statements alone are products."""
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_ROLES not in node.annotations or annotation in node.annotations:
        raise TransformError(
            f"loop '{name}' is not a warp-specialized pipeline, or {already}",
            "call specialize_warps first, and this once",
        )
    if TMA_IN_FLIGHT in node.annotations:
        raise TransformError(
            f"loop '{name}' leaves groups of wgmma in flight already",
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
            f"loop '{name}' must begin and end with wgmma products, with none in between",
            "tensorize both with tensorize_warp_rows first",
        )
    first, last = (
        [it.source for it in get_regions(find_all(part, SBlock)[0]) if it.source.scope() == "local"]
        for part in (parts[0], parts[-1])
    )
    require_independent(first, last, name)


WAIT = "wgmma_wait_group"


def run_overlapped(pipeline: Pipeline, done: Callable[[Any, int], list[Any]]) -> list[Any]:
    """What computes, of warps with roles; `done` says that an iteration's stage is empty, of a
    group of tiles: those of the first products, and those of the last ones.

    The first iteration has its own first group, and the last one its own last group.
    """
    first, *between, last = pipeline.compute()
    counters = pipeline.counters
    own = [each for each in find_registers(last) if not is_among(each, counters)]
    require_independent(find_registers(first), own, pipeline.loop.loop_var.name)
    step = pipeline.loop.loop_var

    def count_before(registers: list[Any]) -> int:
        """How many statements come before the first that uses some registers."""
        uses = [any(is_among(it, registers) for it in find_registers(part)) for part in between]
        return uses.index(True) if True in uses else len(uses)

    kept = count_before(own)
    free = min(kept, count_before(find_registers(first)))  # as loads into registers of their own
    ahead = step + 1

    def at(value: Any, statements: list[Any]) -> list[Any]:
        return [substitute(each, {step: value}) for each in statements]

    opens, begins, ends, closes = take_turns(pipeline)
    waits = [pipeline.wait_for_tile(group) for group in range(2)]
    zero = IntImm("int32", 0)
    body = [
        *at(ahead, [waits[0], *begins, leave_out(first, _is_wait)]),
        waits[1],
        leave_out(last, _is_wait),
        *ends,
        *at(ahead, between[:free]),
        wait_for_groups(1),
        *done(ahead, 0),
        *at(ahead, between[free:kept]),
        wait_for_groups(0),
        *done(step, 1),
        *at(ahead, between[kept:]),
    ]
    loop = pipeline.loop
    turned = For(step, zero, loop.extent - 1, ForKind.SERIAL, stmt_seq(*body), None, pipeline.notes)
    end = loop.extent - 1
    begin = [*opens, *at(zero, [waits[0], first]), *done(zero, 0), *at(zero, between)]
    return [*begin, turned, *at(end, [waits[1], last]), *done(end, 1), *closes]


def run_in_turns(pipeline: Pipeline, done: Callable[[Any], list[Any]]) -> list[Any]:
    """What computes, of warpgroups that take turns and do not overlap their own iterations.

    A turn is the last products of an iteration and the first ones of the next.
    """
    first, *between, last = pipeline.compute()
    opens, begins, ends, closes = take_turns(pipeline)
    body = [
        pipeline.wait_for_tile(),
        leave_out(first, _is_wait),
        *ends,
        wait_for_groups(0),
        *between,
        *begins,
        last,
        *done(pipeline.loop.loop_var),
    ]
    return [*opens, *begins, pipeline.loop_over(body), *ends, *closes]


def require_independent(first: list[Any], last: list[Any], name: str) -> None:
    """Refuse the buffers of two statements that cannot change places, since they share one."""
    shared = [each for each in first if is_among(each, last)]
    if shared:
        raise TransformError(
            f"the first and the last products of loop '{name}' both use '{shared[0].name}'",
            "overlap products that have sums and fragments of their own",
        )


def _is_wait(statement: Any) -> bool:
    if not isinstance(statement, Evaluate) or not isinstance(statement.value, Call):
        return False
    return get_op_name(statement.value).endswith(WAIT)


def find_registers(statement: Any) -> list[Any]:
    """The buffers in registers whose elements a statement loads or stores."""
    return [buffer for buffer, _ in get_elements(statement) if str(buffer.scope()) == "local"]


WARPGROUP = 4 * WARP
FIRST = 1
"""The number of the first warpgroup's barrier."""


def take_turns(pipeline: Pipeline) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """What warpgroups do in front of all turns, of each, behind each and behind all; nothing where
    `alternate_warpgroups` asked for none.

    The first warpgroup may begin; each waits until the one before has issued its products, and then
    lets the next one go on; behind all turns no arrival is left over.
    """
    groups = math.prod(count for _, count in pipeline.threads) // WARPGROUP
    if groups < 2 or not pipeline.alternates:
        return [], [], [], []
    number, analyzer = number_threads(pipeline.threads)
    number, first = analyzer.simplify(FloorDiv(number, WARPGROUP)), IntImm("int32", 0)

    def at_barrier(instruction: Any, group: Any) -> Evaluate:  # a warpgroup's, completed by two
        return Evaluate(instruction((group + FIRST).astype("uint32"), T.uint32(2 * WARPGROUP)))

    wait, arrive = T.ptx.bar.sync, T.ptx.bar.arrive
    return (
        [IfThenElse(number.equal(groups - 1), at_barrier(arrive, first), None)],
        [at_barrier(wait, number)],
        [at_barrier(arrive, FloorMod(number + 1, groups))],
        [IfThenElse(number.equal(0), at_barrier(wait, first), None)],
    )
