"""Recipes of conv1d that compute whole tiles: windows in shared memory, then in registers.

They run on the form over="padded" of the kernel, whose sums ask nowhere for the signal's end. The
window of a block in shared memory, with its halo, is that of V. Podlozhnyuk (Image convolution with
CUDA, NVIDIA 2007); several outputs for each thread are V. Volkov's (Better performance at lower
occupancy, GTC 2010).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..binding import tile_block
from ..caching import accumulate_in_registers, cache_read_at, cache_write_at
from ..errors import TransformError
from ..fetching import fetch_cooperatively, stage_operand_at
from ..gpu_limits import WARP
from ..layout import fold_tile, pad_shared_rows
from ..loops import Tail, suggest_unrolling, unroll_loop
from ..placement import compute_block_at, reverse_compute_block_at
from ..queries import get_extent as find_extent
from ..reduction import decompose_reduction_at, split_reduction
from ..rows import find_vector, spread_over_threads
from ..vectorize import vectorize_copy
from .recipe import Example, recipe

BLOCKS = ("padded sums B",)
SEED = Example({"m": 16384, "n": 32}, {"over": "padded"})
SHAPE, OPTIONS = {"m": 100, "n": 32}, {"over": "padded"}
WINDOW = {"threads": (32, 64, 128, 256), "taps": (4, 8, 16, 32)}
RUNS = {**WINDOW, "each": (4, 8, 16), "blocks": (1, 128)}
MAX_TILE = 1024
"""Outputs, of which the kernel computes a whole number of tiles."""
VECTOR = 4
"""Elements of a vector at most."""


class WindowPlan(NamedTuple):
    """How the outputs are dealt out.

    Attributes
    ----------
    threads : of a GPU block; fewer where it would have more than `MAX_TILE` outputs, and, down to a
        warp, where the grid would have fewer than `blocks`
    taps : of one step of the reduction
    each : outputs of a thread, side by side
    blocks : that the grid should have
    in_registers : whether the window and the taps of a step are loaded into registers
    folded : whether the window lies in shared memory in rows, one for each thread
    coalesced : whether the sums go through shared memory, to be stored side by side
    tail : what happens where `taps` does not divide the filter
    """

    threads: int
    taps: int
    each: int = 1
    blocks: int = 1
    in_registers: bool = False
    folded: bool = False
    coalesced: bool = False
    tail: Tail = "refuse"


def schedule_window(sch: Schedule, plan: WindowPlan) -> Iterator[str]:
    """The steps of a plan."""
    padded, sums, output = (sch.get_sblock(name) for name in BLOCKS[0].split())
    threads = _fit_threads(sch, sums, plan)
    per_thread = (plan.each,) if plan.each > 1 else None
    tile = tile_block(sch, sums, threads=(threads,), per_thread=per_thread)
    (block,), (thread,) = tile.blocks, tile.threads
    stage_operand_at(sch, sums, block, operand=1, threads=threads)
    yield "filter_in_shared_memory"
    # TVM takes the guard of a single output for the bounds of a loop, and loses the loop.
    if plan.coalesced and find_extent(sch, sch.get_loops(output)[0]) != 1:
        reverse_compute_block_at(sch, output, block)
        sch.set_scope(sums, 0, "shared")
        fold_tile(sch, sums, row=plan.each)
        copy = cache_write_at(sch, sums, thread)
        if plan.each > VECTOR:
            pad_shared_rows(sch, copy, elements=VECTOR)
        vectorize_copy(sch, copy, vector=VECTOR)
        stores = spread_over_threads(sch, output, threads=threads, tail="guard")
        unroll_loop(sch, stores.steps)
    else:
        accumulate_in_registers(sch, sums, thread)
    yield "accumulated_in_registers"
    steps = split_reduction(sch, sums, inner=plan.taps, tail=plan.tail)
    sch.set_scope(padded, 0, "shared")
    vector = _fold(sch, padded, plan.each) if plan.folded else 1
    if plan.in_registers:
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


def _fold(sch: Schedule, block: SBlockRV, each: int) -> int:
    """Rows of as many elements as a thread computes, a vector apart; the elements of a vector."""
    vector = find_vector(each, sch.get(block).writes[0].source.dtype, most=VECTOR)
    fold_tile(sch, block, row=each, padding=vector if each > vector else 0)
    return vector


def _fit_threads(sch: Schedule, sums: SBlockRV, plan: WindowPlan) -> int:
    """As many threads as leave the grid its blocks, and the tile of a block that of the kernel."""
    if any(size < 1 or MAX_TILE % size for size in (plan.threads, plan.each)):
        raise TransformError(
            "schedule_window",
            f"threads={plan.threads} and each={plan.each} do not divide the {MAX_TILE} outputs of "
            "a tile",
            f"use powers of two up to {MAX_TILE}",
        )
    outputs = find_extent(sch, sch.get_loops(sums)[0]) or 0
    threads = min(plan.threads, MAX_TILE // plan.each)
    while threads > WARP and outputs < plan.blocks * threads * plan.each:
        threads //= 2
    return threads


@recipe(
    kernel="conv1d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, OPTIONS, {"threads": 64, "taps": 8}),
    choices=WINDOW,
    expects={"decomposed": ("barriers == 1", "scalar_stores == 1")},
)
def conv1d_window(
    sch: Schedule, *, threads: int = 128, taps: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The window of a block in shared memory, zeros included: no tap asks where the signal ends.

    Sizes: threads of a block, taps of one step of the reduction.
    """
    yield from schedule_window(sch, WindowPlan(threads, taps, tail=tail))


@recipe(
    kernel="conv1d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, OPTIONS, {"threads": 32, "each": 4, "taps": 8}),
    choices=RUNS,
    expects={"decomposed": ("barriers == 1", "spills == 0 on sm_90a")},
)
def conv1d_registers(
    sch: Schedule,
    *,
    threads: int = 128,
    each: int = 8,
    taps: int = 32,
    blocks: int = 128,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Neighbouring outputs for each thread, which loads their window into registers once.

    Sizes: threads of a block at most, each thread's outputs, taps of one step of the reduction;
    blocks of a grid: where there would be fewer, a block has fewer threads, down to a warp.
    """
    plan = WindowPlan(threads, taps, each, blocks, in_registers=True, tail=tail)
    yield from schedule_window(sch, plan)


@recipe(
    kernel="conv1d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, OPTIONS, {"threads": 32, "each": 8, "taps": 8}),
    choices=RUNS,
    expects={"decomposed": ("barriers == 1", "spills == 0 on sm_90a")},
)
def conv1d_folded(
    sch: Schedule,
    *,
    threads: int = 128,
    each: int = 8,
    taps: int = 32,
    blocks: int = 128,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """The window lies in rows, one for each thread, which reads vectors from banks of its own.

    Sizes: threads, each, taps and blocks, as for conv1d_registers.
    """
    plan = WindowPlan(threads, taps, each, blocks, in_registers=True, folded=True, tail=tail)
    yield from schedule_window(sch, plan)


@recipe(
    kernel="conv1d",
    blocks=BLOCKS,
    default_example=SEED,
    golden=Example(SHAPE, OPTIONS, {"threads": 32, "each": 8, "taps": 8}),
    choices=RUNS,
    expects={"decomposed": ("barriers == 3", "spills == 0 on sm_90a")},
)
def conv1d_coalesced(
    sch: Schedule,
    *,
    threads: int = 32,
    each: int = 16,
    taps: int = 32,
    blocks: int = 128,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """The sums go through shared memory, too, so that neighbouring threads store neighbours.

    Sizes: threads, each, taps and blocks, as for conv1d_registers.
    """
    plan = WindowPlan(threads, taps, each, blocks, True, True, coalesced=True, tail=tail)
    yield from schedule_window(sch, plan)
