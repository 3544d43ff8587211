"""Transpose through shared memory, and its ladder.

Tiles that go through shared memory with padded rows are G. Ruetsch's and P. Micikevicius's
(Optimizing matrix transpose in CUDA, NVIDIA 2009).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..binding import bind_loop, tile_block
from ..caching import cache_read_at, cache_write_at, fetch_cooperatively
from ..layout import pad_longer_rows
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, unroll_loop
from ..queries import get_extent
from ..thread_rows import find_vector, spread_over_threads
from ..vectorize import vectorize_copy
from .recipe import Example, get_sblocks, recipe
from .rungs import Family, knob, order

EXAMPLE = Example({"m": 4096, "n": 4096})


@recipe(
    kernel="transpose",
    blocks=("B",),
    default_example=EXAMPLE,
    golden=Example({"m": 32, "n": 24}, config={"rows": 4, "columns": 16}),
    choices={"rows": (2, 4, 8), "columns": (16, 32, 64)},
    expects={"bound": ("barriers == 0",)},
)
def transpose_naive(
    sch: Schedule, *, rows: int = 8, columns: int = 32, tail: Tail = "refuse"
) -> Iterator[str]:
    """One element for each thread: a warp writes neighbours, and reads a whole row apart.

    Knobs: rows and columns of a GPU block.
    """
    tile_block(sch, sch.get_sblock("B"), threads=(rows, columns), tail=tail)
    yield "bound"


@dataclass(frozen=True, kw_only=True)
class TransposeConfig:
    """Knobs of a transpose whose tiles go through shared memory."""

    tile: int = knob(32, "rows and columns of a tile", choices=(16, 32, 64))
    threads: int = knob(256, "threads of a block, at most", choices=(64, 128, 256, 512))
    padding: int = knob(
        0, "vectors that rows in shared memory are longer by", choices=(1, 2), least=0
    )
    vector: int = knob(
        1, "elements of a vector, at most; also the side of a thread's squares", choices=(2, 4)
    )
    tail: Tail = knob("refuse", "what happens where a tile does not divide")


def schedule(sch: Schedule, config: TransposeConfig) -> Iterator[str]:
    """Tiles of single elements, or of squares that threads transpose in registers."""
    (block,) = get_sblocks(sch)
    yield from transpose_by_tiles(sch, block, config)


def transpose_by_tiles(sch: Schedule, block: SBlockRV, config: TransposeConfig) -> Iterator[str]:
    """The steps of a config on a block that transposes, beside others."""
    loops, dtype = sch.get_loops(block), sch.get(block).reads[0].source.dtype
    side = min(find_vector(get_extent(sch, loop), dtype, most=config.vector) for loop in loops)
    tile, tail = config.tile, config.tail
    if side == 1:
        threads = min(config.threads, tile**2)
        rows, columns = (split_loop(sch, loop, inner=tile, tail=tail) for loop in loops)
        reorder_loops(sch, [rows.outer, columns.outer, rows.inner, columns.inner])
        bind_loop(sch, rows.outer, axis="blockIdx.y")
        bind_loop(sch, columns.outer, axis="blockIdx.x")
        yield "tiled"
        shared = cache_read_at(sch, block, columns.outer, operand=0)
        pad_longer_rows(sch, shared, elements=config.padding)
        fuse_loops(sch, [rows.inner, columns.inner])
        spread = spread_over_threads(sch, block, threads=threads, tail=tail)
        fetch_cooperatively(sch, shared, threads=threads, tail=tail)
        unroll_loop(sch, spread.steps)
        yield "tile_in_shared_memory"
    else:
        squares = [split_loop(sch, loop, inner=side) for loop in sch.get_loops(block)]
        tiles = [split_loop(sch, square.outer, inner=tile // side, tail=tail) for square in squares]
        inside = [tiles[0].inner, tiles[1].inner]
        elements = [square.inner for square in squares]
        reorder_loops(sch, [tiles[0].outer, tiles[1].outer, *inside, *elements])
        bind_loop(sch, tiles[0].outer, axis="blockIdx.y")
        bind_loop(sch, tiles[1].outer, axis="blockIdx.x")
        yield "tiled"
        threads = min(config.threads, (tile // side) ** 2)
        shared = cache_read_at(sch, block, tiles[1].outer, operand=0)
        pad_longer_rows(sch, shared, elements=side * config.padding)
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


TRANSPOSE = Family(
    kernel="transpose",
    config=TransposeConfig,
    schedule=schedule,
    blocks=("B",),
    default_example=EXAMPLE,
    small=Example({"m": 64, "n": 96}, config={"tile": 16, "threads": 64}),
    tiles=("tile", "threads"),
)

shared = TRANSPOSE.root(
    "shared",
    why="A tile goes through shared memory, so that rows are read and written side by side",
    expects={"tile_in_shared_memory": ("barriers == 1",)},
)
wide = shared.plus(
    "wide",
    tile=64,
    why="A quarter of the blocks, each with more loads in flight",
    golden={"tile": 32},
)
padded = wide.plus(
    "padded", padding=1, why="A column of a tile in shared memory lies in different banks"
)
vectors = padded.plus(
    "vectors",
    vector=2,
    why="Threads transpose squares in registers, so that all accesses are vectors",
    expects={"squares_in_registers": ("scalar_loads == 0",)},
)
LADDER = order("tiles through shared memory", transpose_naive, *TRANSPOSE.rungs)
