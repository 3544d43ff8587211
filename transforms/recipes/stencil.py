"""Recipes of the one-dimensional stencils: window_sum and conv1d."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import bind_loop, tile_block
from ..caching import accumulate_in_registers, cache_read_at
from ..fetching import fetch_cooperatively, stage_operand_at
from ..loops import Tail, split_loop, unroll_loop
from ..reduction import decompose_reduction_at, split_reduction
from .recipe import Example, recipe

WINDOW_SUM = Example({"n": 1024})
CONV1D = Example({"m": 16384, "n": 32}, {"over": "filter"})
CONV1D_SMALL = Example({"m": 100, "n": 32}, {"over": "filter"}, {"tail": "guard"})
NAIVE_CONV1D = Example({"m": 16384, "n": 32}, {"over": "output"})
NAIVE_CONV1D_SMALL = Example({"m": 100, "n": 32}, {"over": "output"})
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
    default_example=Example(CONV1D.shape, CONV1D.options, {"tail": "guard"}),
    golden=CONV1D_SMALL,
    symbolic=("m", "n"),
)


@window_sums(symbolic=("n",), expects={"bound": ("scalar_loads == 3", "guards == 0")})
def window_sum_bound(sch: Schedule, *, threads: int = 128, tail: Tail = "refuse") -> Iterator[str]:
    """One sum for each thread, read from global memory, as the notes' first window sum.

    Sizes: threads of a block.
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

    The notes place the copy under the thread's loop, so that every thread loads the whole window
    (128 times the traffic, and all threads write the same words). Here the threads share the
    work: thread t fetches the elements t, t + threads, ...

    Sizes: threads of a block.
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
    default_example=NAIVE_CONV1D, golden=NAIVE_CONV1D_SMALL, expects={"bound": ("threads == 1",)}
)
def conv1d_naive(sch: Schedule) -> Iterator[str]:
    """One output for each block of one thread; every output walks over the whole signal.

    Runs on the form over="output" of the kernel, where almost every step of the reduction adds
    nothing: m + n - 1 steps where n would do.
    """
    (i, _) = sch.get_loops(sch.get_sblock("B"))
    bind_loop(sch, i, axis="blockIdx.x")
    yield "bound"


@conv1d_tutorial(
    default_example=CONV1D,
    golden=Example(CONV1D_SMALL.shape, CONV1D_SMALL.options),
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

    Sizes: rows of threads, lanes of a row.
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

    Sizes: threads of a block, taps of one step of the reduction.
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

    Sizes: rows of threads, lanes of a row, taps of one step of the reduction.
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
