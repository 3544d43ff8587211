"""Equal shares of a sum's steps for all GPU blocks, whatever the number of tiles: stream-K.

The decomposition is that of M. Osama and others (Stream-K: Work-centric Parallel Decomposition for
Dense Matrix-Matrix Multiplication on the GPU, 2023).
"""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV

from .pass_options import set_pipeline
from .queries import get_loop_name, get_root
from .schedule import Fault, TransformError, transform
from .streams import STREAMS, plan_stream


@transform
def stream_steps(sch: Schedule, loop: LoopRV, *, workers: int) -> None:
    """Give GPU blocks equal shares of the steps of all tiles, one after the other.

    Tiles times parts seldom are a multiple of what a GPU runs at a time. Here each of `workers`
    GPU blocks has the same number of steps: the rest of a tile that another one began, whole tiles,
    and the beginning of one more. What it adds up of a tile is one part of the tile's sum; the
    block that adds up the parts stays as it is, and finds zeros where fewer workers meet in a tile
    than there are parts.

    The loop is marked, and its kernel becomes one of workers when the pipeline "tirstep" lowers it.
    Until then, and where a later step makes that impossible, parts are slices of one length, with
    the same sums. The order in which a sum adds up is another one. Of asynchronous copies none is
    in flight behind a step, since TVM counts them in loops of constant length alone: copies through
    registers (`prefetch_through_registers`) are faster here.

    rewrite: ``for p in blockIdx.y of 2: for t in blockIdx.x of 3: for s in 4: C[p, t] += A[t, p * 4
        + s]`` for 4 workers -> ``for w in blockIdx.x of 4: for t in tiles of w: for s in its steps
        there: C[w - t * 8 // 6, t] += A[t, max(w * 6 - t * 8, 0) + s]``, when the module is lowered
    consumes: nothing
    requires: a serial loop of two steps or more, under parts on blockIdx.y and tiles on blockIdx.x,
        one directly under the other, as `rfactor_reduction` and `bind_loop` make them; a sum that
        is initialized in front of it, of terms that use nothing of other steps, and that is copied
        at most before another block adds up all parts, which nobody else reads; no bulk copies; at
        least as many `workers` as parts, of which fewer are there where more than there are parts
        would meet in a tile
    """
    if workers < 1:
        raise TransformError(f"workers={workers} must be >= 1", "use an integer >= 1")
    node = sch.get(loop)
    if STREAMS in node.annotations:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is shared already", "call this once"
        )
    planned = plan_stream(get_root(sch, loop), node, workers)
    if isinstance(planned, Fault):
        raise TransformError(planned.problem, planned.advice)
    sch.annotate(loop, STREAMS, workers)
    set_pipeline(sch)
