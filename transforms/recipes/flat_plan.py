"""What the recipes of elementwise kernels have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import Cast

from ..binding import bind_loop
from ..loops import Tail, reorder_loops, split_loop, unroll_loop
from ..pass_options import set_pipeline
from ..queries import get_extent as find_extent
from ..rows import find_vector, find_widest, spread_over_threads
from ..tir import find_all
from ..vectorize import vectorize_loop


class FlatPlan(NamedTuple):
    """How the elements of a vector are dealt out.

    Attributes
    ----------
    threads : of a GPU block
    vector : elements of a vector at most
    each : vectors of a thread
    blocks : of a grid that goes over the tensor several times; 0 for a grid as large as the tensor
    """

    threads: int
    vector: int
    each: int = 1
    blocks: int = 0
    tail: Tail = "refuse"


def schedule_flat(sch: Schedule, block: SBlockRV, plan: FlatPlan) -> Iterator[str]:
    """A block with one loop, over all elements, in vectors and batches of them."""
    (loop,) = sch.get_loops(block)
    dtype = sch.get(block).reads[0].source.dtype
    # Constants of eight float32 or int8 in a vector: TVM writes what CUDA does not compile.
    is_plain = dtype.itemsize > 1 and not find_all(sch.get(block).body, Cast)
    most = plan.vector if is_plain else min(plan.vector, 4)
    extent = find_extent(sch, loop)
    vector, widest = find_vector(extent, dtype, most=most), find_widest(dtype, most=most)
    if plan.tail == "guard" and extent is not None and vector < widest:
        vector = widest
        set_pipeline(sch)  # it makes whole vectors of all but the last one
    spread = spread_over_threads(sch, block, threads=plan.threads, vector=vector, tail=plan.tail)
    if vector > 1:
        vectorize_loop(sch, spread.elements)
    yield "vectorized"
    steps, batch = split_loop(sch, spread.steps, inner=plan.each, tail=plan.tail)
    if plan.blocks:
        rounds, steps = split_loop(sch, steps, inner=plan.blocks, tail=plan.tail)
        reorder_loops(sch, [steps, rounds])
    bind_loop(sch, steps, axis="blockIdx.x")
    unroll_loop(sch, batch)
    yield "bound"
