"""Products under what threads compute, where warps have roles.

Of a warpgroup's own next iteration (`overlap_products`), and of other warpgroups
(`alternate_warpgroups`).
"""

from __future__ import annotations

import math
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from tirstep.tvm_compat import SBlock

from .bulk_copies import get_thread_extents
from .decorators import composite
from .errors import TransformError
from .passes.overlap import count_waits, require_independent
from .passes.pingpong import WARPGROUP
from .queries import get_loop_name
from .tir import find_all
from .tma_tiles import TMA_COPY, TMA_IN_FLIGHT, TMA_OVERLAP, TMA_PINGPONG, TMA_ROLES


@composite
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


@composite
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


def _require_products(sch: Schedule, loop: LoopRV, annotation: str, already: str) -> None:
    """Refuse a loop but one with roles, whose first and last statements alone are products."""
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if TMA_ROLES not in node.annotations or annotation in node.annotations:
        raise TransformError(
            f"loop '{name}' is no pipeline in which warps have roles, or {already}",
            "call specialize_warps first, and this once",
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
    waits = [count_waits(part) for part in parts]
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
