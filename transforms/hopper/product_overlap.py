"""Products of a warpgroup's next iteration under what its threads compute, where warps have roles.

The first statement of an iteration and its last one are groups of wgmma each. `overlap_products`
turns the loop by one of them: the first group of the next iteration is issued, behind it the last
one of this iteration, and what lies between the two is computed while that runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.ir import Call
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import (
    Evaluate,
    For,
    ForKind,
    IntImm,
    stmt_seq,
)

from tirstep.tvm_compat import get_op_name

from ..annotations import TMA_IN_FLIGHT
from ..queries import get_loop_name
from ..rewriting import leave_out
from ..schedule import TransformError, transform
from ..tir import find_all, get_elements, get_regions, is_among, substitute
from .tma_loads import Pipeline, wait_for_groups
from .tma_tiles import (
    TMA_COPY,
    TMA_OVERLAP,
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
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_ROLES not in node.annotations or TMA_OVERLAP in node.annotations:
        raise TransformError(
            f"loop '{name}' is not a warp-specialized pipeline, or overlaps already",
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
    sch.annotate(loop, TMA_OVERLAP, 1)


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

    waits = [pipeline.wait_for_tile(group) for group in range(2)]
    zero = IntImm("int32", 0)
    body = [
        *at(ahead, [waits[0], leave_out(first, _is_wait)]),
        waits[1],
        leave_out(last, _is_wait),
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
    begin = [*at(zero, [waits[0], first]), *done(zero, 0), *at(zero, between)]
    return [*begin, turned, *at(end, [waits[1], last]), *done(end, 1)]


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
