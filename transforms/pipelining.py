"""Software pipelines: the next tile is on its way while this one is computed."""

from __future__ import annotations

from collections.abc import Sequence

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from .errors import TransformError, composite
from .loops import ASYNC, UNROLL, require_constant
from .pass_options import set_pass_option
from .pipeline_rules import (
    STAGE,
    require_copies,
    require_own_tiles,
    require_pipeline,
    require_registers,
)
from .pipeline_upkeep import LOCAL_STAGE, count_statements
from .queries import find_enclosing_loops, find_loop_name

ORDER = "software_pipeline_order"
DOUBLE_BUFFER = "double_buffer_scope"


@composite
def prefetch_fragments(sch: Schedule, loop: LoopRV) -> None:
    """Load the fragments of a loop's next iteration into registers while this one computes.

    rewrite: ``for k: load(k); compute(k)`` -> ``load(0); for k: load(k + 1); compute(k)``, when
        the module is lowered
    consumes: nothing
    requires: a loop, not bound, whose body is copies into registers and, last, one computation,
        that runs twice or more and is not pipelined yet; called before the loop around it is
        pipelined; fragments that are used in the loop only, written by one copy each, and in each
        iteration all that it uses of them; sources that the loop does not write (TVM accepts
        others and computes with fragments of another iteration)
    """
    who = "prefetch_fragments"
    parts = require_pipeline(sch, who, loop)
    require_own_tiles(sch, who, loop, require_registers(who, parts[:-1]))
    copies, rest = len(parts) - 1, count_statements(parts[-1])
    sch.annotate(loop, STAGE, [0] * copies + [1] * rest)
    sch.annotate(loop, ORDER, list(range(copies + rest)))


@composite
def prefetch_through_registers(sch: Schedule, loop: LoopRV, copies: Sequence[SBlockRV]) -> None:
    """Fetch the next tiles into registers while these are computed, then store them as shared.

    The shared buffers become double. The loads of global memory are issued before the computation
    and used after it, so that their latency is hidden.

    rewrite: ``for k: A_shared = A[k]; compute(k)`` -> ``A_shared[0] = A[0]; for k: r = A[k + 1];
        compute(A_shared[k % 2]); A_shared[(k + 1) % 2] = r``, when the module is lowered
    consumes: nothing
    requires: a loop as for `prefetch_fragments`, whose body is the copies, in their order, and
        one statement that computes; copies of one store each into shared memory, and tiles as
        the fragments there
    """
    who = "prefetch_through_registers"
    parts = require_pipeline(sch, who, loop)
    require_copies(sch, who, loop, copies, parts)
    for copy in copies:
        sch.annotate(copy, LOCAL_STAGE, 1)
        sch.annotate(copy, DOUBLE_BUFFER, 0)
    count, is_nested = len(copies), count_statements(parts[-1]) == 3
    stages = [0, 0] * count + ([0, 1, 1] if is_nested else [1])
    loads = [place for index in range(count) for place in (index, count + 1 + index)]
    order = [*loads, *([2 * count + 1, count, 2 * count + 2] if is_nested else [count])]
    sch.annotate(loop, STAGE, stages)
    sch.annotate(loop, ORDER, order)


@composite
def prefetch_asynchronously(
    sch: Schedule, loop: LoopRV, copies: Sequence[SBlockRV], *, stages: int = 3
) -> None:
    """Keep tiles of the next iterations on their way to shared memory with asynchronous copies.

    The shared buffers become `stages` times as large. The module notes the pass options that it is
    to be compiled with (`set_pass_option`). Plain copies of 4, 8 or 16 bytes for each thread,
    zeros for a padding included, become cp.async, which needs compute capability 8.0; TVM makes
    loads and stores of all others, which is as right, and waits for global memory.

    rewrite: ``for k: A_shared = A[k]; compute(k)`` -> ``for k: copy A[k + stages - 1]; wait for
        A[k]; compute(k)``, when the module is lowered
    consumes: nothing
    requires: what `prefetch_through_registers` requires; stages from 2 to the iterations of the
        loop; vectors of neighbours in the source and in the tile (TVM copies others); something to
        copy in each iteration (TVM leaves out the groups of others, and counts them when it
        waits); no `suggest_unrolling` of the loop or around it
    """
    who = "prefetch_asynchronously"
    parts = require_pipeline(sch, who, loop)
    require_copies(sch, who, loop, copies, parts)
    _require_stages(sch, who, loop, stages)
    for node in [*find_enclosing_loops(sch, loop), sch.get(loop)]:
        if UNROLL in node.annotations:
            raise TransformError(
                who,
                f"loop '{node.loop_var.name}' is marked by suggest_unrolling, under which TVM "
                "cannot say how many copies to wait for",
                "suggest to unroll loops inside of the pipeline only",
            )
    last, rest = stages - 1, count_statements(parts[-1])
    sch.annotate(loop, STAGE, [0] * len(copies) + [last] * rest)
    sch.annotate(loop, ORDER, list(range(len(copies) + rest)))
    sch.annotate(loop, ASYNC, [0])
    if stages == 2:
        # TVM keeps one buffer for two stages where no thread reads what it wrote itself.
        for copy in copies:
            sch.annotate(copy, DOUBLE_BUFFER, 0)
    set_pass_option(sch, name="tirx.use_async_copy", value=True)
    if any(sch.get(copy).writes[0].source.dtype.itemsize == 4 for copy in copies):
        # Otherwise TVM retypes the buffers to vectors and then finds lanes that do not match.
        set_pass_option(sch, name="tirx.disable_storage_rewrite", value=True)


def _require_stages(sch: Schedule, who: str, loop: LoopRV, stages: int) -> None:
    extent = require_constant(sch, who, loop)
    if not 2 <= stages <= extent:
        raise TransformError(
            who,
            f"stages={stages} does not fit loop '{find_loop_name(sch, loop)}' of {extent} "
            "iterations",
            f"use 2 to {extent}" if extent > 2 else "use 2",
        )
