"""Recipes of the elementwise functions relu and gelu."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import tile_block
from ..loops import Tail
from .flat_plan import FlatPlan, schedule_flat
from .flat_rungs import batch_per_thread, element_per_thread, grid_in_rounds, vector_per_thread


@element_per_thread(kernel="relu", blocks=("B",))
def relu_bound(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One element for each thread.

    Sizes: threads of a block.
    """
    tile_block(sch, sch.get_sblock("B"), threads=(threads,), tail=tail)
    yield "bound"


@vector_per_thread(kernel="relu", blocks=("B",))
def relu_vectors(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """One vector for each thread: 16 bytes with one load.

    Sizes: threads of a block; vector, its elements at most.
    """
    plan = FlatPlan(threads, vector, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("B"), plan)


@batch_per_thread(kernel="relu", blocks=("B",))
def relu_batches(
    sch: Schedule, *, threads: int = 512, vector: int = 8, each: int = 4, tail: Tail = "refuse"
) -> Iterator[str]:
    """Several vectors for each thread, all of them on their way at the same time.

    Sizes: threads of a block; vector, its elements at most; each, the vectors of a thread.
    """
    plan = FlatPlan(threads, vector, each=each, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("B"), plan)


@grid_in_rounds(kernel="relu", blocks=("B",))
def relu_persistent(
    sch: Schedule,
    *,
    threads: int = 256,
    vector: int = 8,
    each: int = 1,
    blocks: int = 1056,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """As many blocks as the GPU runs at the same time, which go over the tensor in rounds.

    Sizes: threads, vector and each, as above; blocks of the grid.
    """
    plan = FlatPlan(threads, vector, each=each, blocks=blocks, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("B"), plan)


@element_per_thread(kernel="gelu", blocks=("B",))
def gelu_bound(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
    """One element for each thread.

    Sizes: threads of a block.
    """
    tile_block(sch, sch.get_sblock("B"), threads=(threads,), tail=tail)
    yield "bound"


@vector_per_thread(kernel="gelu", blocks=("B",))
def gelu_vectors(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """One vector for each thread: 16 bytes with one load.

    Sizes: threads of a block; vector, its elements at most.
    """
    plan = FlatPlan(threads, vector, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("B"), plan)


@batch_per_thread(kernel="gelu", blocks=("B",))
def gelu_batches(
    sch: Schedule, *, threads: int = 512, vector: int = 8, each: int = 4, tail: Tail = "refuse"
) -> Iterator[str]:
    """Several vectors for each thread, all of them on their way at the same time.

    Sizes: threads of a block; vector, its elements at most; each, the vectors of a thread.
    """
    plan = FlatPlan(threads, vector, each=each, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("B"), plan)


@grid_in_rounds(kernel="gelu", blocks=("B",))
def gelu_persistent(
    sch: Schedule,
    *,
    threads: int = 256,
    vector: int = 8,
    each: int = 1,
    blocks: int = 1056,
    tail: Tail = "refuse",
) -> Iterator[str]:
    """As many blocks as the GPU runs at the same time, which go over the tensor in rounds.

    Sizes: threads, vector and each, as above; blocks of the grid.
    """
    plan = FlatPlan(threads, vector, each=each, blocks=blocks, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("B"), plan)
