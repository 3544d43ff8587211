"""Recipes of row_sum and softmax: the rows of a matrix, reduced by the threads of a block.

A reduction over threads by warp shuffles is M. Harris's (Faster parallel reductions on Kepler,
2014), the row in registers that of the softmax of A. Dakkak and others and of Triton's tutorial.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..loops import Tail
from .recipe import Example
from .row_plan import RowPlan, schedule_row_per_thread, schedule_rows
from .row_rungs import (
    SEED,
    SEVERAL,
    SHAPE,
    row_in_registers,
    row_per_block,
    row_per_thread,
    rows_per_block,
)


@row_per_thread(kernel="row_sum", blocks=("B",))
def row_sum_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread: neighbouring threads read a whole row apart.

    Sizes: threads of a block.
    """
    yield from schedule_row_per_thread(sch, "B", threads=threads, tail=tail)


@row_per_block(kernel="row_sum", blocks=("B",))
def row_sum_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, whose threads add up their sums by warp shuffles.

    Sizes: threads of a row.
    """
    yield from schedule_rows(sch, "B", RowPlan(threads, tail=tail))


@row_in_registers(kernel="row_sum", blocks=("B",))
def row_sum_vectors(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row comes in vectors into registers, all of it on its way before the first sum.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, "B", plan)


@rows_per_block(kernel="row_sum", blocks=("B",))
def row_sum_rows(
    sch: Schedule,
    *,
    threads: int | None = None,
    vector: int = 8,
    rows: int | None = None,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Threads by the length of a row, and several short rows for each block.

    A row of 32 threads needs no barrier for its sum.

    Sizes: threads of a row, by default one for 64 bytes of it; vector, its elements at most; rows
    of a block, by default as many as make 64 threads.
    """
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, "B", plan)


BLOCKS = "max exp sum B"
READ_AGAIN = "max sum B"
"""With the exponentials inlined."""
ONLINE = "wide statistics B"


@row_per_thread(kernel="softmax", blocks=(BLOCKS,))
def softmax_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread, read three times; exponentials are computed twice.

    Sizes: threads of a block.
    """
    sch.compute_inline(sch.get_sblock("exp"))
    yield "exponentials_inlined"
    yield from schedule_row_per_thread(sch, READ_AGAIN, threads=threads, tail=tail)


@row_per_block(kernel="softmax", blocks=(BLOCKS,))
def softmax_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, read three times; maximum and sum by warp shuffles.

    Sizes: threads of a row.
    """
    sch.compute_inline(sch.get_sblock("exp"))
    yield "exponentials_inlined"
    yield from schedule_rows(sch, READ_AGAIN, RowPlan(threads, tail=tail))


@row_in_registers(kernel="softmax", blocks=(BLOCKS,))
def softmax_registers(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row is read once, into registers, and so are its exponentials kept; vectors both ways.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, BLOCKS, plan)


@rows_per_block(kernel="softmax", blocks=(BLOCKS,))
def softmax_rows(
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
    yield from schedule_rows(sch, BLOCKS, plan)


@rows_per_block(
    kernel="softmax",
    blocks=(ONLINE,),
    default_example=Example(SEED.shape, {"online": True}),
    golden=Example(SHAPE, {"online": True}, SEVERAL),
)
def softmax_online(
    sch: Schedule,
    *,
    threads: int | None = None,
    vector: int = 8,
    rows: int | None = None,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """Maximum and sum in one reduction: half the barriers, and three exponentials an element.

    Sizes: threads of a row, by default one for 64 bytes of it; vector, its elements at most; rows
    of a block, by default as many as make 64 threads.
    """
    plan = RowPlan(threads, vector, rows, in_registers=True, tail=tail)
    yield from schedule_rows(sch, ONLINE, plan)
