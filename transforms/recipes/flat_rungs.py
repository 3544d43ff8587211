"""The rungs that every ladder of an elementwise kernel has, as recipes of any such kernel.

Each takes the name of a kernel and that of its one block, and makes the kernel's recipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm.s_tir import Schedule

from ..binding import tile_block
from ..loops import Tail
from .flat_plan import FlatPlan, schedule_flat
from .recipe import Example, Recipe, recipe

SEED = Example({"n": 4096 * 4096})
THREADS = (64, 128, 256, 512)
SIZES = {"threads": THREADS, "vector": (2, 4, 8)}
BATCHED = {**SIZES, "each": (1, 2, 4, 8)}
IN_VECTORS = {"bound": ("scalar_loads == 0", "scalar_stores == 0")}


def element_per_thread(kernel: str, *, block: str) -> Recipe:
    """The recipe ``<kernel>_bound``."""

    @recipe(
        kernel=kernel,
        blocks=(block,),
        default_example=SEED,
        golden=Example({"n": 96}, config={"threads": 32}),
        choices={"threads": THREADS},
        symbolic=("n",),
        expects={"bound": ("barriers == 0",)},
    )
    def bound(sch: Schedule, *, threads: int = 256, tail: Tail = "refuse") -> Iterator[str]:
        """One element for each thread.

        Sizes: threads of a block.
        """
        tile_block(sch, sch.get_sblock(block), threads=(threads,), tail=tail)
        yield "bound"

    return replace(bound, name=f"{kernel}_bound")


def vector_per_thread(kernel: str, *, block: str) -> Recipe:
    """The recipe ``<kernel>_vectors``."""

    @recipe(
        kernel=kernel,
        blocks=(block,),
        default_example=SEED,
        golden=Example({"n": 256}, config={"threads": 32, "vector": 4}),
        choices=SIZES,
        expects=IN_VECTORS,
    )
    def vectors(
        sch: Schedule, *, threads: int = 256, vector: int = 8, tail: Tail = "refuse"
    ) -> Iterator[str]:
        """One vector for each thread: 16 bytes with one load.

        Sizes: threads of a block; vector, its elements at most.
        """
        plan = FlatPlan(threads, vector, tail=tail)
        yield from schedule_flat(sch, sch.get_sblock(block), plan)

    return replace(vectors, name=f"{kernel}_vectors")


def batch_per_thread(kernel: str, *, block: str) -> Recipe:
    """The recipe ``<kernel>_batches``."""

    @recipe(
        kernel=kernel,
        blocks=(block,),
        default_example=SEED,
        golden=Example({"n": 512}, config={"threads": 32, "vector": 4, "each": 2}),
        choices=BATCHED,
        expects=IN_VECTORS,
    )
    def batches(
        sch: Schedule, *, threads: int = 512, vector: int = 8, each: int = 4, tail: Tail = "refuse"
    ) -> Iterator[str]:
        """Several vectors for each thread, all of them on their way at the same time.

        Sizes: threads of a block; vector, its elements at most; each, the vectors of a thread.
        """
        plan = FlatPlan(threads, vector, each=each, tail=tail)
        yield from schedule_flat(sch, sch.get_sblock(block), plan)

    return replace(batches, name=f"{kernel}_batches")


def grid_in_rounds(kernel: str, *, block: str) -> Recipe:
    """The recipe ``<kernel>_persistent``."""

    @recipe(
        kernel=kernel,
        blocks=(block,),
        # As many blocks as 132 multiprocessors run: they do not divide.
        default_example=Example(SEED.shape, config={"tail": "guard"}),
        golden=Example({"n": 1536}, config={"threads": 32, "vector": 4, "each": 2, "blocks": 3}),
        choices={**BATCHED, "blocks": (264, 528, 1056, 2112)},
        expects=IN_VECTORS,
    )
    def persistent(
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
        yield from schedule_flat(sch, sch.get_sblock(block), plan)

    return replace(persistent, name=f"{kernel}_persistent")
