"""Recipes of the normalizations of rows: layer_norm and rms_norm."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..loops import Tail
from .row_plan import RowPlan, schedule_row_per_thread, schedule_rows
from .row_rungs import row_in_registers, row_per_block, row_per_thread, rows_per_block

LAYER = "mean variance B"


@row_per_thread(kernel="layer_norm", blocks=(LAYER,))
def layer_norm_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread, read three times.

    Sizes: threads of a block.
    """
    yield from schedule_row_per_thread(sch, LAYER, threads=threads, tail=tail)


@row_per_block(kernel="layer_norm", blocks=(LAYER,))
def layer_norm_threads(
    sch: Schedule, *, threads: int = 256, tail: Tail = "refuse"
) -> Iterator[str]:
    """One row for each block, read three times; both sums by warp shuffles.

    Sizes: threads of a row.
    """
    yield from schedule_rows(sch, LAYER, RowPlan(threads, tail=tail))


@row_in_registers(kernel="layer_norm", blocks=(LAYER,))
def layer_norm_registers(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row is read once, into registers, as the gain and the shift are; vectors both ways.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, LAYER, plan)


@rows_per_block(kernel="layer_norm", blocks=(LAYER,))
def layer_norm_rows(
    sch: Schedule,
    *,
    threads: int | None = None,
    vector: int = 8,
    rows: int | None = None,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Threads by the length of a row, and several short rows for each block.

    A row of 32 threads needs no barrier.

    Sizes: threads of a row, by default one for 64 bytes of it; vector, its elements at most; rows
    of a block, by default as many as make 64 threads.
    """
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, LAYER, plan)


RMS = "sum B"


@row_per_thread(kernel="rms_norm", blocks=(RMS,))
def rms_norm_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread, read twice.

    Sizes: threads of a block.
    """
    yield from schedule_row_per_thread(sch, RMS, threads=threads, tail=tail)


@row_per_block(kernel="rms_norm", blocks=(RMS,))
def rms_norm_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, read twice; the sum by warp shuffles.

    Sizes: threads of a row.
    """
    yield from schedule_rows(sch, RMS, RowPlan(threads, tail=tail))


@row_in_registers(kernel="rms_norm", blocks=(RMS,))
def rms_norm_registers(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row is read once, into registers, as the gain is; vectors both ways.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, RMS, plan)


@rows_per_block(kernel="rms_norm", blocks=(RMS,))
def rms_norm_rows(
    sch: Schedule,
    *,
    threads: int | None = None,
    vector: int = 8,
    rows: int | None = None,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Threads by the length of a row, and several short rows for each block.

    A row of 32 threads needs no barrier.

    Sizes: threads of a row, by default one for 64 bytes of it; vector, its elements at most; rows
    of a block, by default as many as make 64 threads.
    """
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, RMS, plan)
