"""The elementwise kernels, which have one schedule, and transpose through shared memory.

Tiles that go through shared memory with padded rows are G. Ruetsch's and P. Micikevicius's
(Optimizing matrix transpose in CUDA, NVIDIA 2009).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Cast

from ..binding import bind_loop, tile_block
from ..caching import cache_read_at, cache_write_at, fetch_cooperatively
from ..layout import pad_longer_rows
from ..loops import Tail, fuse_loops, reorder_loops, split_loop, unroll_loop
from ..pass_options import set_pipeline
from ..queries import get_extent
from ..schedule import TransformError
from ..thread_rows import find_vector, spread_over_threads
from ..tir import constant, find_all
from ..vectorize import WIDEST, vectorize_copy, vectorize_loop
from .recipe import Example, Recipe, get_sblocks, recipe
from .rungs import Family, Ladder, knob, order


@dataclass(frozen=True, kw_only=True)
class FlatConfig:
    """Knobs of a kernel with one loop over all elements."""

    threads: int = knob(256, "threads of a block", choices=(64, 128, 256, 512))
    vector: int = knob(1, "most elements of a thread's vector", choices=(2, 4, 8))
    each: int = knob(1, "vectors per thread", choices=(1, 2, 4, 8))
    tail: Tail = knob("refuse", "what to do if these do not divide the elements")


def schedule(sch: Schedule, config: FlatConfig, block: SBlockRV | None = None) -> Iterator[str]:
    """Single elements, or vectors and batches of them, for each thread: of the only block, or of
    one with one loop, beside others.
    """
    if block is None:
        (block,) = get_sblocks(sch)
    if config.vector == config.each == 1:
        tile_block(sch, block, threads=(config.threads,), tail=config.tail)
        yield "bound"
        return
    (loop,) = sch.get_loops(block)
    dtype = next(iter([*sch.get(block).reads, *sch.get(block).writes])).source.dtype
    # Constants of eight float32 or int8 in a vector: TVM writes what CUDA does not compile.
    is_plain = dtype.itemsize > 1 and not find_all(sch.get(block).body, Cast)
    most = config.vector if is_plain else min(config.vector, 4)
    extent = get_extent(sch, loop)
    vector = find_vector(extent, dtype, most=most)
    widest = find_vector(0, dtype, most=most)  # of any extent: every vector divides 0
    if config.tail == "guard" and extent is not None and vector < widest:
        vector = widest
        set_pipeline(sch)  # it makes whole vectors of all but the last one
    spread = spread_over_threads(
        sch, block, threads=config.threads, vector=vector, tail=config.tail
    )
    if vector > 1:
        vectorize_loop(sch, spread.elements)
    yield "vectorized"
    steps, batch = split_loop(sch, spread.steps, inner=config.each, tail=config.tail)
    bind_loop(sch, steps, axis="blockIdx.x")
    unroll_loop(sch, batch)
    yield "bound"


@recipe(
    kernel="vector_add",
    blocks=("C",),
    default_example=Example({"n": 1024}),
    golden=Example({"n": 1024}),
    choices={"threads": (32, 64, 128, 256, 512)},
    symbolic=("n",),
    expects={"bound": ("threads == 128", "guards == 0")},
)
def vector_add_bound(sch: Schedule, *, threads: int = 128, tail: Tail = "refuse") -> Iterator[str]:
    """One element for each thread: split and bind.

    Text: "TVM Learning (8)-GPU and Hardware Acceleration, Part 1".

    Knobs: threads of a block.
    """
    block = sch.get_sblock("C")
    (i,) = sch.get_loops(block)
    outer, inner = split_loop(sch, i, inner=threads, tail=tail)
    yield "split"
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    yield "bound"


TENSOR = Example({"n": 4096 * 4096})


def _make_ladder(kernel: str, block: str, first: Recipe | None = None) -> Ladder:
    """The ladder of an elementwise kernel; `first` is the recipe of a tutorial, if there is one."""
    family = Family(
        kernel=kernel,
        config=FlatConfig,
        schedule=schedule,
        blocks=(block,),
        default_example=TENSOR,
        small=Example({"n": 1536}, config={"threads": 32}),
        tiles=("threads",),
    )
    told: dict[str, Any] = {
        "vector": 8,
        "why": "One load moves 16 bytes",
        "golden": {"vector": 4},
        "searched": ("each",),
        "expects": {"bound": ("scalar_loads == 0", "scalar_stores == 0")},
    }
    if first is not None:
        vectors = family.root("vectors", **told)
    else:
        first = bound = family.root(
            "bound",
            why="One element for each thread",
            expects={"bound": ("barriers == 0",)},
            changes={"symbolic": ("n",)},
        )
        vectors = bound.plus("vectors", **told, changes={"symbolic": ()})
    return order("vectors for each thread", first, vectors)


MANY = 1 << 21
"""Elements from which on a heavy function of half precision takes two vectors a thread."""


def choose_config(elements: int, size: int, *, is_heavy: bool) -> FlatConfig:
    """The config for so many elements of so many bytes; `is_heavy` with functions such as exp.

    The rules are those of 460 measurements on an H200, of relu, gelu and vector_add in float32 and
    bfloat16, from 2^13 to 2^26 elements, where they lose 2 % of the fastest config that was timed.
    One vector a thread was fastest, but for many elements of half precision of which each takes
    long: with two, loads of one are under way while the other is computed.
    """
    each = 2 if is_heavy and size == 2 and elements >= MANY else 1
    return FlatConfig(threads=256, vector=WIDEST, each=each, tail="guard")


def _make_best(kernel: str, block: str) -> Ladder:
    """The ladder of the recipe ``<kernel>_best``."""

    def best(sch: Schedule) -> Iterator[str]:
        (block,) = get_sblocks(sch)
        node = sch.get(block)
        elements = constant(node.iter_vars[0].dom.extent)
        if elements is None:
            raise TransformError(
                f"{kernel}_best", "the number of elements is not constant", "give the kernel its n"
            )
        size, is_heavy = node.reads[0].source.dtype.itemsize, bool(find_all(node.body, Call))
        yield from schedule(sch, choose_config(elements, size, is_heavy=is_heavy))

    best.__name__ = f"{kernel}_best"
    best.__doc__ = (
        "Threads per block and vectors per thread are chosen by the number of elements.\n\n"
        "Any number: all but the last vector are whole."
    )
    made = recipe(
        kernel=kernel,
        blocks=(block,),
        default_example=TENSOR,
        golden=Example({"n": 1536}),
        expects={"bound": ("scalar_loads == 0", "scalar_stores == 0")},
    )(best)
    return order("any number of elements", made, name=made.name)


PLANE = Example({"m": 4096, "n": 4096})


@recipe(
    kernel="transpose",
    blocks=("B",),
    default_example=PLANE,
    golden=Example({"m": 32, "n": 24}, config={"rows": 4, "columns": 16}),
    choices={"rows": (2, 4, 8), "columns": (16, 32, 64)},
    expects={"bound": ("barriers == 0",)},
)
def transpose_naive(
    sch: Schedule, *, rows: int = 8, columns: int = 32, tail: Tail = "refuse"
) -> Iterator[str]:
    """One element per thread: a warp writes adjacent elements and reads elements a row apart.

    Knobs: rows and columns per thread block.
    """
    tile_block(sch, sch.get_sblock("B"), threads=(rows, columns), tail=tail)
    yield "bound"


@dataclass(frozen=True, kw_only=True)
class TransposeConfig:
    """Knobs of a transpose whose tiles go through shared memory."""

    tile: int = knob(32, "rows and columns of a tile", choices=(16, 32, 64))
    threads: int = knob(256, "most threads per block", choices=(64, 128, 256, 512))
    padding: int = knob(
        0, "vectors by which rows in shared memory are padded", choices=(1, 2), least=0
    )
    vector: int = knob(
        1, "most elements of a vector; also the side of a thread's squares", choices=(2, 4)
    )
    tail: Tail = knob("refuse", "what to do if tiles do not divide")


def schedule_transpose(
    sch: Schedule, config: TransposeConfig, block: SBlockRV | None = None, operand: int = 0
) -> Iterator[str]:
    """Tiles of single elements, or of squares that threads transpose in registers: of the only
    block, or of one beside others, and of an operand. Loops in front of the last two are a batch.
    """
    if block is None:
        (block,) = get_sblocks(sch)
    *batch, row, column = sch.get_loops(block)
    loops, dtype = [row, column], sch.get(block).reads[operand].source.dtype
    if batch:
        bind_loop(sch, fuse_loops(sch, batch) if len(batch) > 1 else batch[0], axis="blockIdx.z")
    side = min(find_vector(get_extent(sch, loop), dtype, most=config.vector) for loop in loops)
    tile, tail = config.tile, config.tail
    if side == 1:
        threads = min(config.threads, tile**2)
        rows, columns = (split_loop(sch, loop, inner=tile, tail=tail) for loop in loops)
        reorder_loops(sch, [rows.outer, columns.outer, rows.inner, columns.inner])
        bind_loop(sch, rows.outer, axis="blockIdx.y")
        bind_loop(sch, columns.outer, axis="blockIdx.x")
        yield "tiled"
        shared = cache_read_at(sch, block, columns.outer, operand=operand)
        pad_longer_rows(sch, shared, elements=config.padding)
        fuse_loops(sch, [rows.inner, columns.inner])
        spread = spread_over_threads(sch, block, threads=threads, tail=tail)
        fetch_cooperatively(sch, shared, threads=threads, tail=tail)
        unroll_loop(sch, spread.steps)
        yield "tile_in_shared_memory"
    else:
        squares = [split_loop(sch, loop, inner=side) for loop in loops]
        tiles = [split_loop(sch, square.outer, inner=tile // side, tail=tail) for square in squares]
        inside = [tiles[0].inner, tiles[1].inner]
        elements = [square.inner for square in squares]
        reorder_loops(sch, [tiles[0].outer, tiles[1].outer, *inside, *elements])
        bind_loop(sch, tiles[0].outer, axis="blockIdx.y")
        bind_loop(sch, tiles[1].outer, axis="blockIdx.x")
        yield "tiled"
        threads = min(config.threads, (tile // side) ** 2)
        shared = cache_read_at(sch, block, tiles[1].outer, operand=operand)
        pad_longer_rows(sch, shared, elements=side * config.padding)
        steps, among = split_loop(sch, fuse_loops(sch, inside), inner=threads, tail=tail)
        bind_loop(sch, among, axis="threadIdx.x")
        fetch_cooperatively(sch, shared, threads=threads, vector=side, tail=tail)
        yield "tile_in_shared_memory"
        for copy in (
            cache_write_at(sch, block, among),
            cache_read_at(sch, block, among, operand=operand, scope="local"),
        ):
            vectorize_copy(sch, copy, vector=side)
        for loop in (steps, *elements):
            unroll_loop(sch, loop)
        yield "squares_in_registers"


TRANSPOSE = Family(
    kernel="transpose",
    config=TransposeConfig,
    schedule=schedule_transpose,
    blocks=("B",),
    default_example=PLANE,
    small=Example({"m": 64, "n": 96}, config={"tile": 16, "threads": 64}),
    tiles=("tile", "threads"),
)

shared = TRANSPOSE.root(
    "shared",
    why="A tile goes through shared memory, so that rows are read and written side by side",
    expects={"tile_in_shared_memory": ("barriers == 1",)},
)
padded = shared.plus(
    "padded",
    tile=64,
    padding=1,
    why="A column of a tile in shared memory lies in different banks, even of a larger tile, "
    "which has more loads in flight",
    golden={"tile": 32},
)
vectors = padded.plus(
    "vectors",
    vector=2,
    why="Threads transpose squares in registers, so that all accesses are vectors; faster for "
    "elements of 16 bits",
    expects={"squares_in_registers": ("scalar_loads == 0",)},
)
KERNELS = (("vector_add", "C", vector_add_bound), ("relu", "B"), ("gelu", "B"))
"""Elementwise kernels, their blocks, and the recipe of a tutorial."""
LADDERS = (
    *(_make_ladder(*each) for each in KERNELS),
    *(_make_best(kernel, block) for kernel, block, *_ in KERNELS),
    order("tiles through shared memory", transpose_naive, *TRANSPOSE.rungs),
)
