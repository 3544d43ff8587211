"""Recipes of the normalizations of rows: layer_norm and rms_norm."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..loops import Tail
from .recipe import recipe
from .row_plan import RowPlan, schedule_row_per_thread, schedule_rows
from .rows import (
    ALONE,
    BY_SHUFFLES,
    IN_VECTORS,
    ROWS,
    SEED,
    SEVERAL,
    SMALL,
    SPREAD,
    THREADS,
    VECTORS,
    WIDE,
)

LAYER = "mean variance B"


@recipe(
    kernel="layer_norm",
    blocks=(LAYER,),
    seed=SEED,
    golden=SMALL,
    choices={"threads": THREADS[:4]},
    expects=ALONE,
)
def layer_norm_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread, read three times.

    Sizes: threads of a block.
    """
    blocks = [sch.get_sblock(name) for name in LAYER.split()]
    yield from schedule_row_per_thread(sch, blocks, threads=threads, tail=tail)


@recipe(
    kernel="layer_norm",
    blocks=(LAYER,),
    seed=SEED,
    golden=SPREAD,
    choices={"threads": THREADS},
    expects=BY_SHUFFLES,
)
def layer_norm_threads(
    sch: Schedule, *, threads: int = 256, tail: Tail = "refuse"
) -> Iterator[str]:
    """One row for each block, read three times; both sums by warp shuffles.

    Sizes: threads of a row.
    """
    blocks = [sch.get_sblock(name) for name in LAYER.split()]
    yield from schedule_rows(sch, blocks, RowPlan(threads, tail=tail))


@recipe(
    kernel="layer_norm",
    blocks=(LAYER,),
    seed=SEED,
    golden=WIDE,
    choices=VECTORS,
    expects=IN_VECTORS,
)
def layer_norm_registers(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row is read once, into registers, as the gain and the shift are; vectors both ways.

    Sizes: threads of a row; vector, its elements at most.
    """
    blocks = [sch.get_sblock(name) for name in LAYER.split()]
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, blocks, plan)


@recipe(
    kernel="layer_norm",
    blocks=(LAYER,),
    seed=SEED,
    golden=SEVERAL,
    choices=ROWS,
    expects=IN_VECTORS,
)
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
    blocks = [sch.get_sblock(name) for name in LAYER.split()]
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, blocks, plan)


RMS = "sum B"


@recipe(
    kernel="rms_norm",
    blocks=(RMS,),
    seed=SEED,
    golden=SMALL,
    choices={"threads": THREADS[:4]},
    expects=ALONE,
)
def rms_norm_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread, read twice.

    Sizes: threads of a block.
    """
    blocks = [sch.get_sblock(name) for name in RMS.split()]
    yield from schedule_row_per_thread(sch, blocks, threads=threads, tail=tail)


@recipe(
    kernel="rms_norm",
    blocks=(RMS,),
    seed=SEED,
    golden=SPREAD,
    choices={"threads": THREADS},
    expects=BY_SHUFFLES,
)
def rms_norm_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, read twice; the sum by warp shuffles.

    Sizes: threads of a row.
    """
    blocks = [sch.get_sblock(name) for name in RMS.split()]
    yield from schedule_rows(sch, blocks, RowPlan(threads, tail=tail))


@recipe(
    kernel="rms_norm",
    blocks=(RMS,),
    seed=SEED,
    golden=WIDE,
    choices=VECTORS,
    expects=IN_VECTORS,
)
def rms_norm_registers(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row is read once, into registers, as the gain is; vectors both ways.

    Sizes: threads of a row; vector, its elements at most.
    """
    blocks = [sch.get_sblock(name) for name in RMS.split()]
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, blocks, plan)


@recipe(
    kernel="rms_norm",
    blocks=(RMS,),
    seed=SEED,
    golden=SEVERAL,
    choices=ROWS,
    expects=IN_VECTORS,
)
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
    blocks = [sch.get_sblock(name) for name in RMS.split()]
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, blocks, plan)
