"""Recipes of transpose.

Tiles that go through shared memory with padded rows are G. Ruetsch's and P. Micikevicius's
(Optimizing matrix transpose in CUDA, NVIDIA 2009).
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import bind_loop, tile_block
from ..caching import cache_read_at, cache_write_at
from ..fetching import fetch_cooperatively
from ..layout import pad_longer_rows
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, unroll_loop
from ..queries import get_extent as find_extent
from ..rows import find_vector, spread_over_threads
from ..vectorize import vectorize_copy
from .recipe import Example, recipe

SEED = Example({"m": 4096, "n": 4096})
SHAPE = {"m": 64, "n": 96}
TILES = {"tile": (16, 32, 64), "threads": (64, 128, 256, 512)}


@recipe(
    kernel="transpose",
    blocks=("B",),
    default_example=SEED,
    golden=Example({"m": 32, "n": 24}, config={"rows": 4, "columns": 16}),
    choices={"rows": (2, 4, 8), "columns": (16, 32, 64)},
    expects={"bound": ("barriers == 0",)},
)
def transpose_naive(
    sch: Schedule, *, rows: int = 8, columns: int = 32, tail: Tail = "refuse"
) -> Iterator[str]:
    """One element for each thread: a warp writes neighbours, and reads a whole row apart.

    Sizes: rows and columns of a GPU block.
    """
    tile_block(sch, sch.get_sblock("B"), threads=(rows, columns), tail=tail)
    yield "bound"


@recipe(
    kernel="transpose",
    blocks=("B",),
    default_example=SEED,
    golden=Example(SHAPE, config={"tile": 32, "threads": 64}),
    choices=TILES,
    expects={"tile_in_shared_memory": ("barriers == 1",)},
)
def transpose_shared(
    sch: Schedule, *, tile: int = 32, threads: int = 256, tail: Tail = "refuse"
) -> Iterator[str]:
    """A tile goes through shared memory, so that rows are read and written side by side.

    Sizes: tile, its rows and columns; threads of a block.
    """
    yield from _schedule(sch, tile, threads, 0, tail)


@recipe(
    kernel="transpose",
    blocks=("B",),
    default_example=SEED,
    golden=Example(SHAPE, config={"tile": 32, "threads": 64}),
    choices={**TILES, "pad": (1, 2)},
    expects={"tile_in_shared_memory": ("barriers == 1",)},
)
def transpose_padded(
    sch: Schedule, *, tile: int = 64, threads: int = 256, pad: int = 1, tail: Tail = "refuse"
) -> Iterator[str]:
    """Rows in shared memory are longer by an element: a column of them lies in different banks.

    Sizes: tile, its rows and columns; threads of a block; pad, the elements.
    """
    yield from _schedule(sch, tile, threads, pad, tail)


@recipe(
    kernel="transpose",
    blocks=("B",),
    default_example=SEED,
    golden=Example(SHAPE, config={"tile": 32, "threads": 64, "vector": 2}),
    choices={**TILES, "vector": (2, 4)},
    expects={"squares_in_registers": ("scalar_loads == 0",)},
)
def transpose_vectors(
    sch: Schedule, *, tile: int = 64, threads: int = 256, vector: int = 2, tail: Tail = "refuse"
) -> Iterator[str]:
    """Squares are turned round in the registers of a thread, so that all accesses are vectors.

    Sizes: tile, its rows and columns; threads of a block; vector, the elements of one at most,
    which are also the rows and columns of a square.
    """
    block = sch.get_sblock("B")
    loops, dtype = sch.get_loops(block), sch.get(block).reads[0].source.dtype
    side = min(find_vector(find_extent(sch, loop), dtype, most=vector) for loop in loops)
    if side == 1:
        yield from _schedule(sch, tile, threads, 1, tail)
        return
    squares = [split_loop(sch, loop, inner=side) for loop in loops]
    tiles = [split_loop(sch, one.outer, inner=tile // side, tail=tail) for one in squares]
    inside = [tiles[0].inner, tiles[1].inner]
    elements = [one.inner for one in squares]
    reorder_loops(sch, [tiles[0].outer, tiles[1].outer, *inside, *elements])
    bind_loop(sch, tiles[0].outer, axis="blockIdx.y")
    bind_loop(sch, tiles[1].outer, axis="blockIdx.x")
    yield "tiled"
    threads = min(threads, (tile // side) ** 2)
    shared = cache_read_at(sch, block, tiles[1].outer, operand=0)
    pad_longer_rows(sch, shared, elements=side)
    steps, among = split_loop(sch, fuse_loops(sch, inside), inner=threads, tail=tail)
    bind_loop(sch, among, axis="threadIdx.x")
    fetch_cooperatively(sch, shared, threads=threads, vector=side, tail=tail)
    yield "tile_in_shared_memory"
    for copy in (
        cache_write_at(sch, block, among),
        cache_read_at(sch, block, among, operand=0, scope="local"),
    ):
        vectorize_copy(sch, copy, vector=side)
    for loop in (steps, *elements):
        unroll_loop(sch, loop)
    yield "squares_in_registers"


def _schedule(sch: Schedule, tile: int, threads: int, padding: int, tail: Tail) -> Iterator[str]:
    """Tiles of single elements through shared memory."""
    block, threads = sch.get_sblock("B"), min(threads, tile * tile)
    rows, columns = (split_loop(sch, loop, inner=tile, tail=tail) for loop in sch.get_loops(block))
    reorder_loops(sch, [rows.outer, columns.outer, rows.inner, columns.inner])
    bind_loop(sch, rows.outer, axis="blockIdx.y")
    bind_loop(sch, columns.outer, axis="blockIdx.x")
    yield "tiled"
    shared = cache_read_at(sch, block, columns.outer, operand=0)
    pad_longer_rows(sch, shared, elements=padding)
    fuse_loops(sch, [rows.inner, columns.inner])
    spread = spread_over_threads(sch, block, threads=threads, tail=tail)
    fetch_cooperatively(sch, shared, threads=threads, tail=tail)
    unroll_loop(sch, spread.steps)
    yield "tile_in_shared_memory"
