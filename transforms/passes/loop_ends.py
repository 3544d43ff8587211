"""A pass that ends loops where masks hide all that is left."""

from __future__ import annotations

from typing import Any

from tvm.tirx import For
from tvm.tirx.transform import prim_func_pass

from tirstep.tvm_compat import structural_map

from ..mask_bounds import ENDS_AT_MASK, read_masks
from ..tir import find_all, get_loops_around


@prim_func_pass(opt_level=0, name="tirstep.EndLoopsAtMasks")
def EndLoopsAtMasks(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """End the loops that `end_loop_at_mask` has marked.

    The bound depends on GPU blocks and outer loops alone, so that all threads of a block leave the
    loop together: barriers may stand in it. It comes when reductions over threads are lowered.

    rewrite: ``for j in n: ... if_then_else(j * 4 + t <= i * 8, x, 0)`` of threads t < 4 ->
        the same with ``for j in min(n, max(1, i * 2 + 1))``
    """
    loops = find_all(function.body, For)

    counts = {
        loop.loop_var: read_masks(loop, get_loops_around(loop, loops)).count_iterations()
        for loop in loops
        if ENDS_AT_MASK in loop.annotations
    }

    def shorten(loop: For) -> For:
        if ENDS_AT_MASK not in loop.annotations:
            return loop
        count = counts[loop.loop_var]
        rest = {key: it for key, it in loop.annotations.items() if key != ENDS_AT_MASK}
        return For(
            loop.loop_var,
            loop.min,
            loop.extent if count is None else count,
            loop.kind,
            loop.body,
            loop.thread_binding,
            rest,
            loop.step,
        )

    return function.with_body(structural_map(function.body, (For, shorten)))
