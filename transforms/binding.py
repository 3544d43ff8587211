"""Binding: loops onto the blocks and threads of a GPU, one by one or a whole tile at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .annotations import STAGE
from .coverage import require_single_terms
from .gpu_limits import MAX_THREADS
from .loops import (
    Tail,
    fuse_loops,
    require_constant,
    require_countable,
    require_factors,
    require_serial,
)
from .queries import get_loop_name, get_reduction_loops, get_sblock_name, get_spatial_loops
from .schedule import Int64, TransformError, transform
from .threads import (
    require_axis_free,
    require_axis_limit,
    require_same_extents,
    require_sound_reduction,
    require_thread_limit,
)

THREAD_AXES = tuple(
    f"{level}.{letter}" for level in ("blockIdx", "threadIdx", "vthread") for letter in "xyz"
)


class Tile(NamedTuple):
    """The loops of a tiled block, each in the order of the block's spatial loops."""

    blocks: tuple[LoopRV, ...]
    threads: tuple[LoopRV, ...]
    locals: tuple[LoopRV, ...]


@transform
def bind_loop(sch: Schedule, loop: LoopRV, *, axis: str, max_threads: Int64 = MAX_THREADS) -> None:
    """Bind a loop to a thread axis of the GPU.

    rewrite: ``for i in range(n)`` -> ``for i in T.thread_binding(n, thread=axis)``
    consumes: nothing
    requires: a known axis; a serial loop, no pipeline of prefetches; for threads a constant
        extent; no other loop on the same axis that feeds the same block or stands in its guards
        (only the diagonal would run); the extent that the axis has elsewhere in the same kernel
        (it would be launched with one of them); at most `max_threads` threads in a block, and
        along each axis what a GPU takes there; for virtual threads no other loop around or inside
        on the same axis; for a reduction over threads an outermost loop around it that is bound
        already (TVM leaves the threads' partial sums in one cell that all of them share), and that
        the loop goes over nothing but the reduction
    guarded: no register ("local") buffer of which a thread would read what another one wrote, nor
        shared memory of another GPU block; for virtual threads all blocks of the kernel inside;
        threads that TVM adds up with barriers where they are needed: up to a warp or a multiple of
        it along axes that follow each other, in 32 bits
    """
    name = get_loop_name(sch, loop)
    if axis not in THREAD_AXES:
        raise TransformError(
            f"loop '{name}': thread axis '{axis}' does not exist",
            f"use one of {', '.join(THREAD_AXES)}",
        )
    require_bindable(sch, loop, axis, max_threads)
    sch.bind(loop, axis)


def require_bindable(
    sch: Schedule, loop: LoopRV, axis: str, max_threads: int = MAX_THREADS
) -> None:
    """Refuse what `bind_loop` refuses, but for what only shows once the loop is bound."""
    require_serial(sch, loop)
    # Iterations of a pipeline overlap, and TVM lowers none over threads.
    if STAGE in sch.get(loop).annotations:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' prefetches for its next iteration, which has to "
            "come after it in the same thread",
            "bind another loop, or bind before prefetching",
        )
    if not axis.startswith("blockIdx"):
        require_constant(sch, loop)
    require_axis_free(sch, loop, axis)
    extents = require_same_extents(sch, loop, axis)
    require_thread_limit(sch, loop, extents, max_threads)
    require_axis_limit(sch, loop, axis)
    if axis.startswith("threadIdx"):
        require_sound_reduction(sch, loop)


@transform
def bind_batch(
    sch: Schedule, block: SBlockRV, *, axis: str = "blockIdx.z", kept: int = 2
) -> LoopRV:
    """Bind the spatial loops of a block that stand in front of its last ones to one block axis.

    For products, convolutions and norms with a batch, heads or images in front: all but the last
    `kept` spatial loops become one loop, however many they are and whatever their extents.

    rewrite: ``for b, h, i, j`` -> ``for b_h_fused in blockIdx.z: for i, j``
    consumes: the loops that are fused
    returns: the loop that is bound
    requires: more spatial loops than `kept`; those in front serial, directly inside of each other
        and around all others of the block; an axis of blocks that is free
    guarded: as for `bind_loop`
    """
    name, spatial = get_sblock_name(sch, block), get_spatial_loops(sch, block)
    if not axis.startswith("blockIdx"):
        raise TransformError(
            f"axis '{axis}' is not one of blocks", "use blockIdx.x, blockIdx.y or blockIdx.z"
        )
    if not 0 <= kept < len(spatial):
        raise TransformError(
            f"kept={kept} leaves no loop of the {len(spatial)} spatial ones of block '{name}'",
            "bind a batch of a block that has more spatial loops than it keeps",
        )
    batch = spatial[: len(spatial) - kept]
    first = [sch.get(loop) for loop in sch.get_loops(block)[: len(batch)]]
    for loop, node in zip(batch, first, strict=True):
        if not sch.get(loop).same_as(node):
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' of the batch stands inside of loop "
                f"'{node.loop_var.name}' of block '{name}', which is none of it",
                "bring the loops of the batch to the front with reorder_loops first",
            )
    fused = batch[0] if len(batch) == 1 else fuse_loops(sch, batch)
    bind_loop(sch, fused, axis=axis)
    return fused


@transform
def tile_block(
    sch: Schedule,
    block: SBlockRV,
    *,
    threads: Sequence[int],
    per_thread: Sequence[int] | None = None,
    axes: Sequence[str] | None = None,
    fuse_threads: bool = False,
    tail: Tail = "refuse",
) -> Tile:
    """Tile the last spatial loops of a block onto a grid of blocks and threads.

    One entry of `threads` (and of `per_thread`: elements of each thread, 1 by default) for every
    loop to be tiled, in the order of the loops. `axes` are the letters they get; by default the
    last loop gets x, the one before it y, then z, so that neighbouring threads touch
    neighbouring elements. `fuse_threads` puts all threads on threadIdx.x, the last loop fastest.

    rewrite: ``for i, j, k`` -> ``for i_0 in blockIdx.y: for j_0 in blockIdx.x:
        for i_1 in threadIdx.y: for j_1 in threadIdx.x: for k: for i_2, j_2``
    consumes: the tiled loops
    returns: the loops of the tile; `locals` is empty without `per_thread`
    requires: serial spatial loops, as many as `threads` has entries; the tile of each loop
        (threads * per_thread) divides its extent, or ``tail="guard"``
    guarded: as for `bind_loop`
    """
    sizes, letters, loops = _read_tile(sch, block, threads, per_thread, axes)
    for loop, (many, each) in zip(loops, sizes, strict=True):
        require_serial(sch, loop)
        require_factors(sch, loop, {"threads": many, "per_thread": each}, tail)
    reductions = get_reduction_loops(sch, block)
    levels = []
    for loop, (many, each) in zip(loops, sizes, strict=True):
        factors = [None, many] if per_thread is None else [None, many, each]
        levels.append(list(sch.split(loop, factors)))
    blocks = tuple(level[0] for level in levels)
    inside = tuple(level[1] for level in levels)
    elements = tuple(level[2] for level in levels if len(level) == 3)
    sch.reorder(*blocks, *inside, *reductions, *elements)
    require_single_terms(sch, block)
    if fuse_threads:
        require_countable(sch, inside)
        inside = (sch.fuse(*inside),)
    for letter, loop in zip(letters, blocks, strict=True):
        bind_loop(sch, loop, axis=f"blockIdx.{letter}")
    for letter, loop in zip("x" if fuse_threads else letters, inside, strict=True):
        bind_loop(sch, loop, axis=f"threadIdx.{letter}")
    return Tile(blocks, inside, elements)


def _read_tile(
    sch: Schedule,
    block: SBlockRV,
    threads: Sequence[int],
    per_thread: Sequence[int] | None,
    axes: Sequence[str] | None,
) -> tuple[list[tuple[int, int]], Sequence[str], list[LoopRV]]:
    spatial = get_spatial_loops(sch, block)
    count = len(threads)
    if not 1 <= count <= min(3, len(spatial)):
        raise TransformError(
            f"threads has {count} entries, and block '{get_sblock_name(sch, block)}' has "
            f"{len(spatial)} spatial loops",
            "give one entry for each loop to be tiled, at most three",
        )
    each = [1] * count if per_thread is None else list(per_thread)
    letters = list("xyz"[:count][::-1]) if axes is None else list(axes)
    for what, given in (("per_thread", each), ("axes", letters)):
        if len(given) != count:
            raise TransformError(
                f"{what} has {len(given)} entries and threads has {count}",
                "give one entry for each loop to be tiled",
            )
    return list(zip(threads, each, strict=True)), letters, spatial[-count:]
