"""What the recipes over the rows of a matrix have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..binding import bind_loop
from ..caching import cache_write_at
from ..errors import TransformError
from ..gpu_limits import MAX_THREADS, WARP
from ..loops import Tail, split_loop, unroll_loop
from ..placement import compute_block_at
from ..queries import get_extent as find_extent
from ..queries import is_reduction
from ..rows import cache_row_at, find_vector, keep_in_registers, spread_over_threads
from ..vectorize import vectorize_loop

SHARE_BYTES = 64
"""Of a row, for each of its threads: less keeps too few loads on their way, more fills registers.
Measured on an H200 for rows of 1024 to 8192 elements of four and two bytes."""
BLOCK_THREADS = 64
"""So many threads a block has at least: it takes more than one warp to fill a multiprocessor."""


class RowPlan(NamedTuple):
    """How rows are dealt out.

    Attributes
    ----------
    threads : of a row; None for as many as leave `SHARE_BYTES` of it for each
    vector : elements of a vector at most; rows of another length, and wide types, get shorter ones
    rows : of a GPU block; None for as many as make `BLOCK_THREADS`
    in_registers : whether a row is read once, into registers
    """

    threads: int | None
    vector: int = 1
    rows: int | None = 1
    in_registers: bool = False
    tail: Tail = "refuse"


def schedule_row_per_thread(
    sch: Schedule, names: str, *, threads: int, tail: Tail
) -> Iterator[str]:
    """One thread for each row. `names`: the blocks in program order, as a recipe has them."""
    *producers, output = (sch.get_sblock(name) for name in names.split())
    outer, row = split_loop(sch, sch.get_loops(output)[0], inner=threads, tail=tail)
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, row, axis="threadIdx.x")
    _compute_row_at(sch, producers, row)
    yield "bound"


def schedule_rows(sch: Schedule, names: str, plan: RowPlan) -> Iterator[str]:
    """Threads share a row. `names`: the blocks in program order, as a recipe has them."""
    blocks = [sch.get_sblock(name) for name in names.split()]
    *producers, output = blocks
    threads, vector, rows = _fit(sch, blocks, plan)
    row = _bind_rows(sch, output, rows, plan.tail)
    _compute_row_at(sch, producers, row)
    yield "rows_on_blocks"
    store = cache_write_at(sch, output, row) if plan.in_registers else None
    steps = []
    for block in [*([store] if store else []), *reversed(blocks)]:  # readers first
        if block is store and is_reduction(sch, output):
            sch.add_unit_loop(block)  # one thread stores
            spread_over_threads(sch, block, threads=threads, tail="guard")
            continue
        spread = spread_over_threads(sch, block, threads=threads, vector=vector, tail=plan.tail)
        steps.append(spread.steps)
        if block is store and vector > 1:
            vectorize_loop(sch, spread.elements)
    for block in [*producers, *([output] if store else [])]:
        keep_in_registers(sch, block)
    yield "spread_over_threads"
    if plan.in_registers:
        for block in blocks:
            _cache_inputs(sch, block, row)
        yield "row_in_registers"
        for loop in steps:
            unroll_loop(sch, loop)
        yield "unrolled"


class _Fit(NamedTuple):
    """The threads of a row, the elements of their vectors, and the rows of a block."""

    threads: int
    vector: int
    rows: int


def _fit(sch: Schedule, blocks: Sequence[SBlockRV], plan: RowPlan) -> _Fit:
    """The plan for rows of this length and type."""
    height, extent = (find_extent(sch, loop) for loop in sch.get_loops(blocks[-1])[:2])
    dtype = sch.get(blocks[0]).reads[0].source.dtype
    vector = find_vector(extent, dtype, most=plan.vector)
    threads = plan.threads
    if threads is None:
        threads = _choose_threads(extent, dtype.itemsize, vector, plan.tail)
    if plan.tail == "guard" and extent is not None:
        # A power of two, which TVM reduces by shuffles, and no more than there are vectors.
        threads = min(threads, 1 << (extent // vector - 1).bit_length())
    rows = plan.rows
    if rows is None:
        rows = max(1, BLOCK_THREADS // threads)
        if plan.tail == "refuse":
            rows = math.gcd(rows, height or 1)
    return _Fit(threads, vector, rows)


def _choose_threads(extent: int | None, item_bytes: int, vector: int, tail: Tail) -> int:
    """A power of two between a warp and the largest block.

    Where the row has to be divided, it may be down to a quarter of what would be best; refuses rows
    that none of these divides.
    """
    if extent is None:
        return MAX_THREADS // 4
    wanted = 1 << max(extent * item_bytes // SHARE_BYTES - 1, 0).bit_length()
    wanted = min(max(wanted, WARP), MAX_THREADS)
    if tail == "guard":
        return wanted
    vectors, tried = extent // vector, (wanted // 4, wanted // 2, wanted)
    dividing = [threads for threads in tried if vectors % threads == 0]
    if not dividing:
        raise TransformError(
            "schedule_rows",
            f"a row of {extent} elements in vectors of {vector} does not divide among "
            f"{' or '.join(map(str, tried))} threads, which suit its length",
            f'pass tail="guard", or choose threads that divide {vectors}',
        )
    return dividing[-1]


def _bind_rows(sch: Schedule, output: SBlockRV, rows: int, tail: Tail) -> LoopRV:
    """The loop of which one iteration is one row."""
    (row, *_) = sch.get_loops(output)
    if rows > 1:
        outer, row = split_loop(sch, row, inner=rows, tail=tail)
        bind_loop(sch, outer, axis="blockIdx.x")
        bind_loop(sch, row, axis="threadIdx.y")
    else:
        bind_loop(sch, row, axis="blockIdx.x")
    return row


def _compute_row_at(sch: Schedule, producers: Sequence[SBlockRV], row: LoopRV) -> None:
    for block in reversed(producers):
        compute_block_at(sch, block, row)
    for block in producers:
        keep_in_registers(sch, block)


def _cache_inputs(sch: Schedule, block: SBlockRV, row: LoopRV) -> None:
    """All that a block reads of the kernel's tensors."""
    for operand, region in enumerate(sch.get(block).reads):
        if region.source.scope() == "global":
            cache_row_at(sch, block, row, operand=operand)
