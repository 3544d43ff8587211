"""Tiling for registers: block tiles, strips, warps and the tile of each thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .binding import bind_loop
from .coverage import require_single_terms
from .gpu_limits import WARP
from .loops import Tail, require_countable, require_factors, require_serial
from .queries import get_reduction_loops, get_sblock_name, get_spatial_loops
from .schedule import TransformError, transform

Inner = Literal["columns", "rows"]
"""Which loop of a tile is the innermost."""
STRIP = 4
"""Elements of a thread's strip, one vector."""


class WarpTile(NamedTuple):
    """The loops of a block tiled in warps.

    Attributes
    ----------
    block : on blockIdx.x
    threads : on threadIdx.x, the place to keep results of a thread at
    elements : the rows and the columns of a strip, the innermost loops
    """

    block: LoopRV
    threads: LoopRV
    elements: tuple[LoopRV, LoopRV]


@transform
def tile_in_warps(
    sch: Schedule,
    block: SBlockRV,
    *,
    threads: Sequence[int],
    per_thread: Sequence[int],
    strips: Sequence[int] = (1, 1),
    warp: Sequence[int] | None = None,
    interleave: int = 1,
    inner: Inner = "columns",
    inner_strips: Inner = "columns",
    swizzle: int = 1,
    tail: Tail = "refuse",
) -> WarpTile:
    """Tile a block's last two spatial loops so that fragments come from few memory banks.

    `threads` are the rows and columns of threads in a thread block, `per_thread` the rows and
    columns of results per thread. `strips` divides a thread's rows and columns into that many
    pieces, which are a whole thread block apart, so that adjacent threads read adjacent vectors of
    shared memory. `warp` are the rows and columns of threads in a warp, 32 in all; without it a
    warp is 32 adjacent threads. `interleave` rows of a warp are numbered together, column by
    column: with 2, threads t and t ^ 1 share columns, and t and t ^ 2 share rows; such pairs need
    half the wavefronts if each thread reads 16 bytes (with more than 2, pairs share only columns).
    `inner` and `inner_strips` say whether a thread's innermost loop goes over columns or rows,
    within a strip and over strips; the other operand then stays in a register from one multiply-add
    to the next. `swizzle` rows of tiles run column by column, so that tiles that run at the same
    time share their operands in the L2 cache (thread block swizzling).

    rewrite: ``for i, j, k`` -> ``for i_0_j_0_i_1 in blockIdx.x: for i_2_j_1 in vthread.x:
        for i_3_j_2 in threadIdx.x: for k: for i_4, j_3``
    consumes: the spatial loops
    returns: the loops of the tile
    requires: two serial spatial loops, whose extents may be symbolic; strips that divide
        per_thread; a warp of 32 threads that divides threads, with rows that interleave divides; a
        number of rows of tiles that swizzle divides; the tile divides the extents, or
        ``tail="guard"``
    """
    loops = get_spatial_loops(sch, block)[-2:]
    if len(loops) != 2:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has one spatial loop or none",
            "use tile_block for a block of one dimension",
        )
    for loop in loops:
        require_serial(sch, loop)
    rows, columns = loops[0], loops[1]
    given = {"threads": threads, "per_thread": per_thread, "strips": strips}
    for name, pair in {**given, **({} if warp is None else {"warp": warp})}.items():
        if len(pair) != 2 or min(pair) < 1:
            raise TransformError(
                f"{name}={pair!r} is not a pair of sizes",
                "pass two integers >= 1, for rows and columns",
            )
    for name, whole, part, pieces in (
        ("strips", "per_thread", strips, per_thread),
        ("warp", "threads", (1, 1) if warp is None else warp, threads),
    ):
        if pieces[0] % part[0] or pieces[1] % part[1]:
            raise TransformError(
                f"{name}={tuple(part)} does not divide {whole}={tuple(pieces)}",
                "choose divisors, rows and columns each",
            )
    if warp is not None and warp[0] * warp[1] != WARP:
        raise TransformError(
            f"warp={tuple(warp)} has {warp[0] * warp[1]} threads", f"a warp has {WARP}, as (4, 8)"
        )
    of_warp = 1 if warp is None else warp[0]
    if interleave < 1:
        raise TransformError(f"interleave={interleave} must be >= 1", "use an integer >= 1")
    if of_warp % interleave:
        raise TransformError(
            f"interleave={interleave} does not divide a warp's rows, {of_warp}",
            "choose a divisor, or a warp with more rows",
        )
    factors = {"swizzle": swizzle, "threads": threads[0], "per_thread": per_thread[0]}
    require_factors(sch, rows, factors, tail)
    require_factors(sch, columns, {"threads": threads[1], "per_thread": per_thread[1]}, tail)
    reductions = get_reduction_loops(sch, block)
    rows_left, row_tile, row_strip, row, i = sch.split(
        rows, [None, swizzle, strips[0], threads[0], per_thread[0] // strips[0]]
    )
    column_tile, column_strip, column, j = sch.split(
        columns, [None, strips[1], threads[1], per_thread[1] // strips[1]]
    )
    # The loops over the threads of a block, outermost first.
    if warp is None:
        inside = [row, column]
    else:
        row_warp, row = sch.split(row, [None, warp[0]])
        column_warp, column = sch.split(column, [None, warp[1]])
        if interleave == 1:
            inside = [row_warp, column_warp, row, column]
        else:
            row, neighbour = sch.split(row, [None, interleave])
            inside = [row_warp, column_warp, row, column, neighbour]
    tiles = [rows_left, column_tile, row_tile]
    strips_in_order = _order(row_strip, column_strip, inner_strips)
    sch.reorder(*tiles, *strips_in_order, *inside, *reductions, *_order(i, j, inner))
    require_single_terms(sch, block)
    grid = _fuse_onto(sch, "blockIdx.x", tiles)
    if strips[0] * strips[1] > 1:
        _fuse_onto(sch, "vthread.x", strips_in_order)
    return WarpTile(grid, _fuse_onto(sch, "threadIdx.x", inside), (i, j))


def largest_divisor(extent: int, *, most: int) -> int:
    """The largest divisor that is at most `most`; of the rows of tiles, it is a `swizzle`."""
    return next(size for size in range(min(extent, most), 0, -1) if extent % size == 0)


def _fuse_onto(sch: Schedule, axis: str, loops: Sequence[LoopRV]) -> LoopRV:
    require_countable(sch, loops)
    fused = sch.fuse(*loops)
    bind_loop(sch, fused, axis=axis)
    return fused


def _order(row: LoopRV, column: LoopRV, inner: Inner) -> tuple[LoopRV, LoopRV]:
    return (row, column) if inner == "columns" else (column, row)
