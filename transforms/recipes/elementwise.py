"""Recipes of the elementwise kernels."""

from __future__ import annotations

from collections.abc import Iterator

from tvm.s_tir import Schedule

from ..binding import bind_loop
from ..loops import Tail, split_loop
from .flat_rungs import batch_per_thread, grid_in_rounds, vector_per_thread
from .recipe import Example, recipe


@recipe(
    kernel="vector_add",
    blocks=("C",),
    default_example=Example({"n": 1024}),
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


vector_add_vectors = vector_per_thread("vector_add", block="C")
vector_add_batches = batch_per_thread("vector_add", block="C")
vector_add_persistent = grid_in_rounds("vector_add", block="C")
