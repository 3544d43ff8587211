"""Recipes of window_sum and conv1d: those of the tutorials, then the fast ladder.

The fast ones compute whole tiles, on the form over="padded" of the kernel, whose sums have no
bounds check: windows in shared memory, then in registers. The window of a block in shared memory,
with its halo, is that of V. Podlozhnyuk (Image convolution with CUDA, NVIDIA 2007); several outputs
for each thread are V. Volkov's (Better performance at lower occupancy, GTC 2010).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from tvm.s_tir import Schedule

from ..binding import bind_loop, tile_block
from ..caching import (
    accumulate_in_registers,
    cache_read_at,
    cache_write_at,
    fetch_cooperatively,
    stage_operand_at,
)
from ..layout import fold_tile, pad_shared_rows
from ..loops import Tail, split_loop, suggest_unrolling, unroll_loop
from ..placement import compute_block_at, reverse_compute_block_at
from ..queries import get_extent
from ..reduction import decompose_reduction_at, split_reduction
from ..schedule import TransformError
from ..thread_rows import find_vector, spread_over_threads
from ..vectorize import vectorize_copy
from .recipe import Example, recipe
from .rungs import Family, knob, order

WINDOW_SUM = Example({"n": 1024})
OVER_FILTER = Example({"m": 16384, "n": 32}, {"over": "filter"})
OVER_FILTER_SMALL = Example({"m": 100, "n": 32}, {"over": "filter"}, {"tail": "guard"})
OVER_OUTPUT = Example({"m": 16384, "n": 32}, {"over": "output"})
OVER_OUTPUT_SMALL = Example({"m": 100, "n": 32}, {"over": "output"})
THREADS = (32, 64, 128, 256)


window_sums = functools.partial(
    recipe,
    kernel="window_sum",
    blocks=("C",),
    default_example=WINDOW_SUM,
    golden=WINDOW_SUM,
    choices={"threads": THREADS},
)
conv1d_tutorial = functools.partial(
    recipe,
    kernel="conv1d",
    blocks=("B",),
    default_example=Example(OVER_FILTER.shape, OVER_FILTER.options, {"tail": "guard"}),
    golden=OVER_FILTER_SMALL,
    symbolic=("m", "n"),
)


@window_sums(symbolic=("n",), expects={"bound": ("scalar_loads == 3", "guards == 0")})
def window_sum_bound(sch: Schedule, *, threads: int = 128, tail: Tail = "refuse") -> Iterator[str]:
    """One sum per thread, read from global memory: the first window sum of the notes.

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


@window_sums(
    expects={
        "fetched_cooperatively": ("scalar_loads == 1", "barriers == 1", "shared_bytes <= 1 KiB")
    }
)
def window_sum_shared(sch: Schedule, *, threads: int = 128, tail: Tail = "refuse") -> Iterator[str]:
    """The window of a block in shared memory, fetched by its threads together.

    Text: "TVM Learning (8)-GPU and Hardware Acceleration, Part 1".

    The notes place the copy under the thread's loop, so that every thread loads the whole window
    (128 times the traffic, and all threads write the same words). Here the threads share the
    work: thread t fetches the elements t, t + threads, ...

    Knobs: threads of a block.
    """
    block = sch.get_sblock("C")
    tile = tile_block(sch, block, threads=(threads,), tail=tail)
    yield "bound"
    window = cache_read_at(sch, block, tile.threads[0], operand=0)
    yield "window_in_every_thread"
    # The window is width - 1 longer than the block, so its last round is a guarded one.
    fetch_cooperatively(sch, window, threads=threads, tail="guard")
    yield "fetched_cooperatively"


@conv1d_tutorial(
    default_example=OVER_OUTPUT, golden=OVER_OUTPUT_SMALL, expects={"bound": ("threads == 1",)}
)
def conv1d_naive(sch: Schedule) -> Iterator[str]:
    """One output for each block of one thread; each output loops over the whole signal.

    Runs on the form over="output" of the kernel, where almost every step of the reduction adds
    nothing: m + n - 1 steps where n would do.
    """
    (i, _) = sch.get_loops(sch.get_sblock("B"))
    bind_loop(sch, i, axis="blockIdx.x")
    yield "bound"


@conv1d_tutorial(
    default_example=OVER_FILTER,
    golden=Example(OVER_FILTER_SMALL.shape, OVER_FILTER_SMALL.options),
    expects={"bound": ("threads == 1", "scalar_loads == 3")},
)
def conv1d_refactored(sch: Schedule) -> Iterator[str]:
    """The same, but the reduction goes over the taps of the filter: n steps for each output.

    Runs on the form over="filter" of the kernel; the change is in the program, not in the
    schedule, since no schedule may drop steps of a reduction.
    """
    (i, _) = sch.get_loops(sch.get_sblock("B"))
    bind_loop(sch, i, axis="blockIdx.x")
    yield "bound"


@conv1d_tutorial(
    choices={"threads": (8, *THREADS)}, expects={"bound": ("threads == 8", "shared_bytes == 0")}
)
def conv1d_threads(sch: Schedule, *, threads: int = 8, tail: Tail = "refuse") -> Iterator[str]:
    """One output for each thread, `threads` of them in a block.

    m + n - 1 outputs rarely divide: pass tail="guard".
    """
    block = sch.get_sblock("B")
    tile_block(sch, block, threads=(threads,), tail=tail)
    yield "bound"


@conv1d_tutorial(
    choices={"rows": (2, 4, 8), "lanes": (4, 8, 16, 32)},
    expects={"bound": ("threads == 16", "shared_bytes == 0")},
)
def conv1d_threads_2d(
    sch: Schedule, *, rows: int = 4, lanes: int = 4, tail: Tail = "refuse"
) -> Iterator[str]:
    """The same with the threads of a block in rows: threadIdx.y and threadIdx.x.

    Knobs: rows of threads, lanes of a row.
    """
    i = sch.get_loops(sch.get_sblock("B"))[0]
    outer, inner = split_loop(sch, i, inner=rows * lanes, tail=tail)
    row, lane = split_loop(sch, inner, inner=lanes)
    yield "split"
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, row, axis="threadIdx.y")
    bind_loop(sch, lane, axis="threadIdx.x")
    yield "bound"


@conv1d_tutorial(
    choices={"threads": THREADS, "taps": (2, 4, 8)},
    symbolic=("m",),
    expects={"decomposed": ("barriers_per_step == 2", "scalar_stores == 1")},
)
def conv1d_memory_hierarchy(
    sch: Schedule, *, threads: int = 32, taps: int = 4, tail: Tail = "refuse"
) -> Iterator[str]:
    """Sums in registers, and the filter in shared memory, `taps` of it at a time.

    The tutorial lets every thread of the block copy all of the taps; here they share the copy.

    Knobs: threads of a block, taps of one step of the reduction.
    """
    block = sch.get_sblock("B")
    tile = tile_block(sch, block, threads=(threads,), tail=tail)
    yield "bound"
    accumulate_in_registers(sch, block, tile.threads[0])
    yield "accumulated_in_registers"
    steps = split_reduction(sch, block, inner=taps, tail=tail)
    stage_operand_at(sch, block, steps.outer, operand=1, threads=threads)
    yield "filter_in_shared_memory"
    decompose_reduction_at(sch, block, steps.outer)
    yield "decomposed"


@conv1d_tutorial(
    choices={"rows": (2, 4, 8), "lanes": (4, 8, 16), "taps": (4, 8)},
    symbolic=("m",),
    expects={"unrolled": ("unrolled_loops == 1", "barriers_per_step == 2")},
)
def conv1d_unrolled(
    sch: Schedule, *, rows: int = 8, lanes: int = 4, taps: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The memory hierarchy with threads in rows, and the taps of one step unrolled.

    Knobs: rows of threads, lanes of a row, taps of one step of the reduction.
    """
    block = sch.get_sblock("B")
    outer, inner = split_loop(sch, sch.get_loops(block)[0], inner=rows * lanes, tail=tail)
    row, lane = split_loop(sch, inner, inner=lanes)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, row, axis="threadIdx.y")
    bind_loop(sch, lane, axis="threadIdx.x")
    yield "bound"
    accumulate_in_registers(sch, block, lane)
    yield "accumulated_in_registers"
    steps = split_reduction(sch, block, inner=taps, tail=tail)
    stage_operand_at(sch, block, steps.outer, operand=1, threads=(rows, lanes))
    yield "filter_in_shared_memory"
    unroll_loop(sch, steps.inner)
    decompose_reduction_at(sch, block, steps.outer)
    yield "unrolled"


BLOCKS = ("padded sums B",)
MAX_TILE = 1024
"""Outputs, of which the kernel computes a whole number of tiles."""
VECTOR = 4
"""Elements of a vector at most."""


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """Knobs of a conv1d with the window of a block in shared memory."""

    threads: int = knob(
        128,
        "most threads per block: a block has 1024 outputs or fewer",
        choices=(32, 64, 128, 256),
    )
    taps: int = knob(8, "taps of one step of the reduction", choices=(4, 8, 16, 32))
    each: int = knob(1, "outputs of a thread, side by side", choices=(4, 8, 16))
    in_registers: bool = knob(False, "whether window and taps of a step are loaded into registers")
    coalesced: bool = knob(
        False,
        "whether the window lies in rows, one for each thread, and the sums go through shared "
        "memory, too",
    )
    tail: Tail = knob("refuse", "what happens where the taps do not divide the filter")


def schedule_window(sch: Schedule, config: WindowConfig) -> Iterator[str]:
    """Whole tiles of outputs, each over its window."""
    padded, sums, output = (sch.get_sblock(name) for name in BLOCKS[0].split())
    if any(size < 1 or MAX_TILE % size for size in (config.threads, config.each)):
        raise TransformError(
            "schedule_window",
            f"threads={config.threads} and each={config.each} do not divide the {MAX_TILE} outputs "
            "of a tile",
            f"use powers of two up to {MAX_TILE}",
        )
    threads = min(config.threads, MAX_TILE // config.each)
    per_thread = (config.each,) if config.each > 1 else None
    tile = tile_block(sch, sums, threads=(threads,), per_thread=per_thread)
    (block,), (thread,) = tile.blocks, tile.threads
    stage_operand_at(sch, sums, block, operand=1, threads=threads)
    yield "filter_in_shared_memory"
    # TVM takes the guard of a single output for the bounds of a loop, and loses the loop.
    if config.coalesced and get_extent(sch, sch.get_loops(output)[0]) != 1:
        reverse_compute_block_at(sch, output, block)
        sch.set_scope(sums, 0, "shared")
        fold_tile(sch, sums, row=config.each)
        copy = cache_write_at(sch, sums, thread)
        if config.each > VECTOR:
            pad_shared_rows(sch, copy, elements=VECTOR)
        vectorize_copy(sch, copy, vector=VECTOR)
        stores = spread_over_threads(sch, output, threads=threads, tail="guard")
        unroll_loop(sch, stores.steps)
    else:
        accumulate_in_registers(sch, sums, thread)
    yield "accumulated_in_registers"
    steps = split_reduction(sch, sums, inner=config.taps, tail=config.tail)
    sch.set_scope(padded, 0, "shared")
    vector = 1
    if config.coalesced:  # rows of as many elements as a thread computes, a vector apart
        vector = find_vector(config.each, sch.get(padded).writes[0].source.dtype, most=VECTOR)
        padding = vector if config.each > vector else 0
        fold_tile(sch, padded, row=config.each, padding=padding)
    if config.in_registers:
        for operand, most in enumerate((vector, VECTOR)):
            fragment = cache_read_at(sch, sums, steps.outer, operand=operand, scope="local")
            vectorize_copy(sch, fragment, vector=most)
        suggest_unrolling(sch, steps.inner)
        yield "fragments_in_registers"
    compute_block_at(sch, padded, block)
    fetch_cooperatively(sch, padded, threads=threads, tail="guard")
    yield "window_in_shared_memory"
    decompose_reduction_at(sch, sums, steps.outer)
    yield "decomposed"


WINDOW = Family(
    kernel="conv1d",
    config=WindowConfig,
    schedule=schedule_window,
    blocks=BLOCKS,
    default_example=Example({"m": 16384, "n": 32}, {"over": "padded"}),
    small=Example({"m": 900, "n": 32}, {"over": "padded"}, {"threads": 256}),
    tiles=("threads", "taps"),
)

window = WINDOW.root(
    "window",
    why="The window of a block in shared memory with a zero-padded halo, so no tap checks bounds",
    expects={"decomposed": ("barriers == 1", "scalar_stores == 1")},
)
registers = window.plus(
    "registers",
    each=8,
    taps=32,
    in_registers=True,
    why="Several adjacent outputs for each thread, which loads their window once, for all taps",
    golden={"each": 2},
    expects={"decomposed": ("barriers == 1",)},
)
coalesced = registers.plus(
    "coalesced",
    threads=32,
    each=16,
    coalesced=True,
    why="The sums go through shared memory, so that adjacent threads store adjacent outputs, and a "
    "thread reads more of them in vectors, from banks of its own",
    golden={"each": 8},
    expects={"decomposed": ("barriers == 3", "spills == 0 on sm_90a")},
)
LADDERS = (
    order(
        '"TVM Learning (8)-GPU and Hardware Acceleration, Part 1"',
        window_sum_bound,
        window_sum_shared,
    ),
    order(
        "the convolution tutorials, from the naive kernel to the unrolled one",
        conv1d_naive,
        conv1d_refactored,
        conv1d_threads,
        conv1d_threads_2d,
        conv1d_memory_hierarchy,
        conv1d_unrolled,
        name="conv1d-tutorial",
    ),
    order(
        "a window in shared memory, then in registers",
        *WINDOW.rungs,
        shape={"m": 1 << 24, "n": 32},
    ),
)
