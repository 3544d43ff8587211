"""Recipes of matvec, the product of a matrix and a vector: a sum over each row, as row_sum."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..loops import Tail
from .row_plan import RowPlan, schedule_row_per_thread, schedule_rows
from .row_rungs import row_in_registers, row_per_block, row_per_thread, rows_per_block


@row_per_thread(kernel="matvec", blocks=("y",))
def matvec_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread: neighbouring threads read a whole row apart.

    Sizes: threads of a block.
    """
    yield from schedule_row_per_thread(sch, "y", threads=threads, tail=tail)


@row_per_block(kernel="matvec", blocks=("y",))
def matvec_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, whose threads add up their sums by warp shuffles.

    Sizes: threads of a row.
    """
    yield from schedule_rows(sch, "y", RowPlan(threads, tail=tail))


@row_in_registers(kernel="matvec", blocks=("y",))
def matvec_vectors(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row and the vector come in vectors into registers, all on their way before the first sum.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, "y", plan)


@rows_per_block(kernel="matvec", blocks=("y",))
def matvec_rows(
    sch: Schedule,
    *,
    threads: int | None = None,
    vector: int = 8,
    rows: int | None = None,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Threads by the length of a row; several short rows for each block share the vector in L1.

    Sizes: threads of a row, by default one for 64 bytes of it; vector, its elements at most; rows
    of a block, by default as many as make 64 threads.
    """
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, "y", plan)
