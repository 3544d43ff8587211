"""Products under what threads compute, where warps have roles.

Of a warpgroup's own next iteration (`overlap_products`), of other warpgroups in each iteration
(`alternate_warpgroups`), and of other warpgroups' tiles (`alternate_tiles`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For

from .bulk_copies import get_thread_extents, require_registers
from .gpu_limits import THREADS
from .passes.overlap import count_waits, require_independent
from .passes.pingpong import WARPGROUP
from .passes.uses import SHARED
from .queries import get_enclosing_kernel, get_loop_name
from .schedule import Int64, TransformError, transform
from .tir import constant, find_all, get_axis, is_among
from .tma_tiles import (
    TMA_BLOCKS,
    TMA_COPY,
    TMA_IN_FLIGHT,
    TMA_OVERLAP,
    TMA_PERSISTENT,
    TMA_PINGPONG,
    TMA_ROLES,
    TMA_STAGES,
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
    sch: Schedule,
    loop: LoopRV,
    *,
    warpgroups: Int64 = 2,
    registers: Sequence[int] | None = None,
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
    _require_own_memory(sch, loop)
    axes = {get_axis(each) or "" for each in find_all(get_enclosing_kernel(sch, loop), For)}
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


def _require_own_memory(sch: Schedule, loop: LoopRV) -> None:
    """Refuse a kernel in which a warpgroup, not in its turn to store, shares memory with others."""
    name, node, kernel = get_loop_name(sch, loop), sch.get(loop), get_enclosing_kernel(sch, loop)
    if sum(TMA_STAGES in each.annotations for each in find_all(kernel, For)) > 1:
        raise TransformError(
            f"the kernel of loop '{name}' has another pipeline of bulk copies",
            "let tiles alternate where there is one",
        )
    inner = find_all(node.body, SBlock)
    copied = [
        region.source for block in inner if TMA_COPY in block.annotations for region in block.writes
    ]
    blocks = find_all(kernel, SBlock)
    end = max(at for at, block in enumerate(blocks) if is_among(block, inner)) + 1
    for block in blocks[:end]:
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
