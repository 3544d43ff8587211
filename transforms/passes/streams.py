"""The pass that lets GPU blocks share the steps of all tiles, one after the other: stream-K."""

from __future__ import annotations

from typing import Any

from tvm.tirx import For
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..rewriting import with_annotations
from ..schedule import Fault
from ..streams import STREAMS, plan_stream
from ..tir import constant, find_all


@prim_func_pass(opt_level=0, name="tirstep.StreamSteps")
def StreamSteps(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Give each GPU block an equal share of the steps of all tiles, as `stream_steps` has asked.

    The steps of a tile that are one worker's are one part of its sum. Where fewer workers meet in
    a tile than its sum has parts, the last part is zeros.

    A loop that cannot be part of a stream any more stays as it is, which computes the same.

    rewrite: ``for p in blockIdx.y of 2: for t in blockIdx.x of 3: for s in 4: C[p, t] += A[t, p * 4
        + s]`` for 4 workers -> ``for w in blockIdx.x of 4: for t in tiles of w: for s in its steps
        there: C[w - t * 8 // 6, t] += A[t, max(w * 6 - t * 8, 0) + s]``
    """
    kept: list[Any] = []
    for loop in find_all(function.body, For):
        if STREAMS not in loop.annotations:
            continue
        planned = plan_stream(function.body, loop, constant(loop.annotations[STREAMS]) or 1)
        if not isinstance(planned, Fault):
            stream, kernel = planned
            outer = stream.nest[0].loop_var

            def replace(node: For, outer: Any = outer, kernel: Any = kernel) -> For:
                return kernel if node.loop_var.same_as(outer) else node

            function = function.with_body(structural_map(function.body, (For, replace)))
        else:
            kept.append(loop.loop_var)

    def forget(loop: For) -> For:
        if STREAMS not in loop.annotations:
            return loop
        rest = {key: it for key, it in loop.annotations.items() if str(key) != STREAMS}
        return with_annotations(loop, rest)

    return function.with_body(structural_map(function.body, (For, forget))) if kept else function
