"""Recipes of row_sum and softmax: the rows of a matrix, reduced by the threads of a block.

A reduction over threads by warp shuffles is M. Harris's (Faster parallel reductions on Kepler,
2014), the row in registers that of the softmax of A. Dakkak and others and of Triton's tutorial.
"""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..loops import Tail
from .recipe import Example, recipe
from .row_plan import RowPlan, schedule_row_per_thread, schedule_rows

SEED = Example({"m": 4096, "n": 4096})
SHAPE = {"m": 6, "n": 64}
SMALL = Example(SHAPE, sizes={"threads": 2})
SPREAD = Example(SHAPE, sizes={"threads": 8})
WIDE = Example(SHAPE, sizes={"threads": 8, "vector": 4})
SEVERAL = Example(SHAPE, sizes={"threads": 8, "vector": 4, "rows": 2})
THREADS = (32, 64, 128, 256, 512, 1024)
VECTORS = {"threads": THREADS, "vector": (2, 4, 8)}
ROWS = {**VECTORS, "threads": (None, *THREADS), "rows": (None, 1, 2, 4, 8)}
ALONE = {"bound": ("barriers == 0",)}
BY_SHUFFLES = {"spread_over_threads": ("barriers >= 2",)}
IN_VECTORS = {"unrolled": ("scalar_loads == 0",)}


@recipe(
    kernel="row_sum",
    blocks=("B",),
    seed=SEED,
    golden=SMALL,
    choices={"threads": THREADS[:4]},
    expects=ALONE,
)
def row_sum_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread: neighbouring threads read a whole row apart.

    Sizes: threads of a block.
    """
    yield from schedule_row_per_thread(sch, [sch.get_sblock("B")], threads=threads, tail=tail)


@recipe(
    kernel="row_sum",
    blocks=("B",),
    seed=SEED,
    golden=SPREAD,
    choices={"threads": THREADS},
    expects=BY_SHUFFLES,
)
def row_sum_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, whose threads add up their sums by warp shuffles.

    Sizes: threads of a row.
    """
    yield from schedule_rows(sch, [sch.get_sblock("B")], RowPlan(threads, tail=tail))


@recipe(
    kernel="row_sum",
    blocks=("B",),
    seed=SEED,
    golden=WIDE,
    choices=VECTORS,
    expects=IN_VECTORS,
)
def row_sum_vectors(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row comes in vectors into registers, all of it on its way before the first sum.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, [sch.get_sblock("B")], plan)


@recipe(
    kernel="row_sum",
    blocks=("B",),
    seed=SEED,
    golden=SEVERAL,
    choices=ROWS,
    expects=IN_VECTORS,
)
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
    yield from schedule_rows(sch, [sch.get_sblock("B")], plan)


BLOCKS = "max exp sum B"


@recipe(
    kernel="softmax",
    blocks=(BLOCKS,),
    seed=SEED,
    golden=SMALL,
    choices={"threads": THREADS[:4]},
    expects=ALONE,
)
def softmax_naive(sch: Schedule, *, threads: int = 32, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each thread, read three times; exponentials are computed twice.

    Sizes: threads of a block.
    """
    largest, total, output = (sch.get_sblock(name) for name in ("max", "sum", "B"))
    sch.compute_inline(sch.get_sblock("exp"))
    yield "exponentials_inlined"
    blocks = [largest, total, output]
    yield from schedule_row_per_thread(sch, blocks, threads=threads, tail=tail)


@recipe(
    kernel="softmax",
    blocks=(BLOCKS,),
    seed=SEED,
    golden=SPREAD,
    choices={"threads": THREADS},
    expects=BY_SHUFFLES,
)
def softmax_threads(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One row for each block, read three times; maximum and sum by warp shuffles.

    Sizes: threads of a row.
    """
    largest, total, output = (sch.get_sblock(name) for name in ("max", "sum", "B"))
    sch.compute_inline(sch.get_sblock("exp"))
    yield "exponentials_inlined"
    yield from schedule_rows(sch, [largest, total, output], RowPlan(threads, tail=tail))


@recipe(
    kernel="softmax",
    blocks=(BLOCKS,),
    seed=SEED,
    golden=WIDE,
    choices=VECTORS,
    expects=IN_VECTORS,
)
def softmax_registers(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """The row is read once, into registers, and so are its exponentials kept; vectors both ways.

    Sizes: threads of a row; vector, its elements at most.
    """
    plan = RowPlan(threads, vector, in_registers=True, tail=tail)
    yield from schedule_rows(sch, [sch.get_sblock(name) for name in BLOCKS.split()], plan)


@recipe(
    kernel="softmax",
    blocks=(BLOCKS,),
    seed=SEED,
    golden=SEVERAL,
    choices=ROWS,
    expects=IN_VECTORS,
)
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
    yield from schedule_rows(sch, [sch.get_sblock(name) for name in BLOCKS.split()], plan)


@recipe(
    kernel="softmax",
    blocks=("wide statistics B",),
    seed=Example(SEED.shape, {"online": True}),
    golden=Example(SHAPE, {"online": True}, {"threads": 8, "vector": 4, "rows": 2}),
    choices=ROWS,
    expects=IN_VECTORS,
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
    blocks = [sch.get_sblock(name) for name in ("wide", "statistics", "B")]
    yield from schedule_rows(sch, blocks, plan)
