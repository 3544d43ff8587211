"""Products of few rows, whose time is that of reading B: columns on threads, and all rows in each.

What shared memory would save, a second use of B, is not there: no two threads read the same of it.
Of more rows than a thread has sums for, B is read several times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..binding import bind_loop
from ..caching import accumulate_in_registers, cache_read_at
from ..gpu_limits import MAX_SHARED_BYTES, WARP
from ..inlining import inline_producers
from ..layout import pad_block
from ..loops import fuse_loops, reorder_loops, split_loop, unroll_loop
from ..pass_options import set_pipeline
from ..placement import compute_block_at
from ..queries import get_extent, get_own_loops
from ..reduction import decompose_reduction_at, rfactor_reduction, split_reduction
from ..schedule import TransformError
from ..tensor_cores.mma_tiles import is_along_k
from ..thread_rows import find_guarded, find_vector
from ..vectorize import WIDEST, vectorize_copy, vectorize_loop
from ..warp_tiling import largest_divisor
from .recipe import Example
from .rungs import Family, knob, order
from .tiled_product import SUM_VECTOR, VECTOR_BYTES, add_parts, get_row_lengths
from .time_model import Gpu, Product

RESIDENT = 1024
"""Threads of each multiprocessor that read at the same time."""
FEW_BLOCKS, LONG = 8, 4096
"""Blocks of columns, up to which more threads of a block share a k from so many on: fewer parts are
added up then.
"""
MOST_ROWS = 8
"""Most rows of A that one thread accumulates; more rows get blocks of their own."""
MOST_PRODUCTS = 2048
"""Most multiply-adds of a thread for the rows of B that it has in flight, without a loop."""
SHAPE = {"m": 4, "n": 8192, "k": 8192}


@dataclass(frozen=True, kw_only=True)
class SkinnyConfig:
    """Knobs of a product whose rows are all in each thread.

    With a tail of "refuse" threads * vector divides n, and steps * depth * split_k divides k.
    """

    threads: int = knob(64, "threads per block, on columns", choices=(32, 64))
    vector: int = knob(1, "most adjacent columns per thread", choices=(2, 4, 8))
    steps: int = knob(1, "rows of B that a thread has in flight", choices=(2, 4, 8, 16))
    depth: int = knob(
        1,
        "rows of threads per block, each with a slice of k, which add up in shared memory",
        choices=(2, 4, 8, 16),
    )
    split_k: int = knob(1, "split-K slices, each on its own blocks", choices=(4, 8, 16, 32, 64))
    tail: Literal["refuse", "pad"] = knob(
        "refuse", "what to do if these do not divide: zero padding, as B is read"
    )


def schedule(sch: Schedule, config: SkinnyConfig) -> Iterator[str]:
    """The steps of a config, on block "C" of matmul."""
    total = sch.get_sblock("C")
    for name in ("vector", "depth"):
        if getattr(config, name) < 1:
            raise TransformError(
                "matmul_skinny",
                f"{name}={getattr(config, name)} must be an integer >= 1",
                "use 1 or more",
            )
    # The columns of a vector: of whole ones is a row of B, which is not transposed.
    if is_along_k(sch.get(total), -1):
        vector = 1
    else:
        length = get_row_lengths(sch, total)[1]
        vector = _find_lanes(sch.get(total).reads[-1].source, length, config.vector)
    # The elements of a vector of A, of which a thread takes `steps` side by side in each row.
    a = sch.get(total).reads[-2].source
    widths = _find_lanes(a, math.gcd(get_row_lengths(sch, total)[0], config.steps), WIDEST), vector
    block = total
    if config.tail == "pad":
        multiples = 1, config.threads * vector, config.steps * config.depth * config.split_k
        pad_block(sch, total, multiples=multiples)
        yield "padded"
    if config.split_k != 1:
        block = rfactor_reduction(sch, total, parts=config.split_k).block
        yield "cut_in_parts"
    if config.depth > 1:
        # Give each row of a block's threads a slice of k, and add their sums in shared memory.
        slices = rfactor_reduction(sch, block, parts=config.depth)
        blocks, own_rows, inside = _bind_grid(sch, block, config, vector)
        cells = config.depth * (get_extent(sch, own_rows) or 1) * config.threads * vector
        is_large = (
            cells * sch.get(block).writes[0].source.dtype.itemsize > MAX_SHARED_BYTES["shared"]
        )
        sch.set_scope(slices.block, 0, "shared.dyn" if is_large else "shared")
        compute_block_at(sch, slices.block, blocks)
        cells = fuse_loops(sch, [own_rows, inside])
        # Before the guard, which may stand around no crop.
        accumulate_in_registers(sch, block, cells)
        rest, own_columns = split_loop(sch, cells, inner=config.threads)
        _, deep = split_loop(sch, rest, inner=config.depth, tail="guard")
        bind_loop(sch, deep, axis="threadIdx.y")
        bind_loop(sch, own_columns, axis="threadIdx.x")
        bind_loop(sch, get_own_loops(sch, slices.block)[0], axis="threadIdx.y")
        block = slices.block
    else:
        _bind_grid(sch, block, config, vector)
    *_, rows, columns, _ = sch.get_loops(block)
    threads, each = split_loop(sch, columns, inner=vector)
    depth = split_reduction(sch, block, inner=config.steps)
    reorder_loops(sch, [threads, depth.outer, depth.inner, rows, each])
    bind_loop(sch, threads, axis="threadIdx.x")
    yield "columns_on_threads"
    result = accumulate_in_registers(sch, block, threads)
    if config.tail != "refuse":
        set_pipeline(sch)  # whose passes keep vectors under the guard of a crop
    vectorize_copy(sch, result, vector=math.gcd(vector, SUM_VECTOR))
    for operand, lanes in enumerate(widths):
        fragment = cache_read_at(sch, block, depth.outer, operand=operand, scope="local")
        inline_producers(sch, fragment)
        last = split_loop(sch, get_own_loops(sch, fragment)[-1], inner=lanes)
        if lanes > 1:
            vectorize_loop(sch, last.inner)
        for loop in get_own_loops(sch, fragment)[:-1]:
            unroll_loop(sch, loop)
    yield "operands_in_registers"
    for loop in (depth.inner, rows, each):
        unroll_loop(sch, loop, limit=MOST_PRODUCTS)
    decompose_reduction_at(sch, block, depth.outer)
    yield "unrolled"
    if config.split_k > 1:
        add_parts(sch, total, config.tail)
        yield "parts_added"


def choose_config(sch: Schedule, sizes: Product, gpu: Gpu) -> SkinnyConfig:
    """The config for few rows, by rules.

    They are those of 434 measurements on an H200, of 1 to 8 rows by seven pairs of n and k, in
    float32 and bfloat16.
    """
    node = sch.get(sch.get_sblock("C"))
    vector = _find_lanes(node.reads[-1].source, sizes.n, WIDEST)
    config = SkinnyConfig(threads=WARP, vector=WIDEST, depth=8, steps=4)
    blocks = -(-sizes.n // (config.threads * vector))
    if blocks <= FEW_BLOCKS and sizes.k >= LONG:
        config = replace(config, depth=16)
    wanted = round(gpu.multiprocessors * RESIDENT / (config.threads * config.depth) / blocks)
    is_whole = sizes.k % (VECTOR_BYTES // sizes.size) == 0
    rounds = sizes.k // (2 * config.depth)
    if sizes.m <= (4 if is_whole else 2) and rounds // 8 >= wanted:
        config = replace(config, steps=8)
    if vector == 1:  # element by element more rows of B have to be in flight
        config = replace(config, steps=16)
    most = max(1, min(wanted, rounds // config.steps))
    parts = 1 << min(round(math.log2(most)), max(rounds // config.steps, 1).bit_length() - 1)
    divides = (
        sizes.n % (config.threads * vector) == 0
        and sizes.k % (config.steps * config.depth * parts) == 0
    )
    return replace(config, split_k=parts, tail="refuse" if divides else "pad")


def _bind_grid(
    sch: Schedule, block: SBlockRV, config: SkinnyConfig, vector: int
) -> tuple[LoopRV, LoopRV, LoopRV]:
    """Put columns, rows beyond those of a thread, and slices of k on thread blocks.

    Returns the loop of blocks, and those of rows and columns inside.
    """
    *slices, rows, wide, _ = sch.get_loops(block)
    most = largest_divisor(get_extent(sch, rows) or 1, most=MOST_ROWS)
    groups, rows = split_loop(sch, rows, inner=most)
    blocks, columns = split_loop(sch, wide, inner=config.threads * vector)
    reorder_loops(sch, [blocks, rows])
    bind_loop(sch, groups, axis="blockIdx.z")
    bind_loop(sch, blocks, axis="blockIdx.x")
    for loop in slices:
        bind_loop(sch, loop, axis="blockIdx.y")
    return blocks, rows, columns


def _find_lanes(buffer: Any, length: int, most: int) -> int:
    widest = min(most, find_guarded(buffer.dtype.itemsize))
    return find_vector(length, buffer.dtype, most=widest)


SKINNY = Family(
    kernel="matmul",
    config=SkinnyConfig,
    schedule=schedule,
    blocks=("C", "C C_cast"),
    default_example=Example(SHAPE),
    small=Example({"m": 3, "n": 64, "k": 96}, config={"threads": 8}),
    tiles=("threads",),
)
columns = SKINNY.root(
    "skinny",
    why="A thread sums a column of B, once for all rows of A",
    expects={"unrolled": ("kernels == 1", "shared_bytes == 0", "vector_loads == 0")},
)
shared = columns.plus(
    "skinny_shared",
    vector=8,
    steps=8,
    depth=8,
    why="One load moves 16 bytes of a row of B, with eight in flight; fewer rows of threads share "
    "k, and add their sums in shared memory",
    golden={"steps": 4, "depth": 2},
    expects={"unrolled": ("scalar_loads == 0",)},
)
shared.plus(
    "skinny_split_k",
    split_k=8,
    why="Slices of k fill all multiprocessors, however few the columns are",
    golden={"split_k": 2},
    expects={"unrolled": ("scalar_loads == 0",), "parts_added": ("kernels == 2",)},
)
LADDER = order("few rows: B is read once, by vectors", *SKINNY.rungs, name="matmul_skinny")
