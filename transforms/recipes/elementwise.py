"""Recipes of the elementwise kernels."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import bind_loop
from ..loops import Tail, split_loop
from .flat_plan import FlatPlan, schedule_flat
from .flat_rungs import batch_per_thread, grid_in_rounds, vector_per_thread
from .recipe import Example, recipe


@recipe(
    kernel="vector_add",
    blocks=("C",),
    seed=Example({"n": 1024}),
    golden=Example({"n": 1024}),
    choices={"threads": (32, 64, 128, 256, 512)},
    symbolic=("n",),
    expects={"bound": ("threads == 128", "guards == 0")},
)
def vector_add_bound(sch: Schedule, *, threads: int = 128, tail: Tail = "refuse") -> Iterator[str]:
    """One element for each thread: split and bind, as the "GPU and hardware acceleration" notes do.

    Sizes: threads of a block.
    """
    block = sch.get_sblock("C")
    (i,) = sch.get_loops(block)
    outer, inner = split_loop(sch, i, inner=threads, tail=tail)
    yield "split"
    bind_loop(sch, outer, axis="blockIdx.x")
    bind_loop(sch, inner, axis="threadIdx.x")
    yield "bound"


@vector_per_thread(kernel="vector_add", blocks=("C",))
def vector_add_vectors(
    sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
) -> Iterator[str]:
    """One vector for each thread: 16 bytes with one load.

    Sizes: threads of a block; vector, its elements at most.
    """
    plan = FlatPlan(threads, vector, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("C"), plan)


@batch_per_thread(kernel="vector_add", blocks=("C",))
def vector_add_batches(
    sch: Schedule, *, threads: int = 512, vector: int = 8, each: int = 4, tail: Tail = "refuse"
) -> Iterator[str]:
    """Several vectors for each thread, all of them on their way at the same time.

    Sizes: threads of a block; vector, its elements at most; each, the vectors of a thread.
    """
    plan = FlatPlan(threads, vector, each=each, tail=tail)
    yield from schedule_flat(sch, sch.get_sblock("C"), plan)


@grid_in_rounds(kernel="vector_add", blocks=("C",))
def vector_add_persistent(
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
    yield from schedule_flat(sch, sch.get_sblock("C"), plan)
