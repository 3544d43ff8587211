"""TVM's LowerAsyncDMA, in a time that does not double with each thread axis.

TVM's pass visits the body of an attribute twice, and so that of an attribute within seven others
128 times: a second for a kernel of attention, more than all other passes take together. Around a
kernel such attributes are mostly thread axes. All of them but the outermost are loops here while
TVM's pass runs, which visits these once and knows of their variables what it knows of the axes'.
The outermost stays, for what the pass notes on its first visit.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir.transform import LowerAsyncDMA as LowerInTvm
from tvm.tirx import AttrStmt, For, ForKind, const
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..tir import THREAD_EXTENT, find_axes


@prim_func_pass(opt_level=0, name="s_tir.LowerAsyncDMA")
def LowerAsyncDMA(  # noqa: N802 - a pass is named like TVM's
    function: Any, module: Any, context: Any
) -> Any:
    """Lower a function as TVM's pass of this name does: its result, sooner.

    rewrite: none of its own
    """
    axes: dict[Any, AttrStmt] = {}
    outermost = next((each.node for each in find_axes(function.body)), None)

    def hide(node: AttrStmt) -> Any:
        if node.attr_key != THREAD_EXTENT or node.node.same_as(outermost):
            return node
        variable = node.node.var
        axes[variable] = node
        zero = const(0, variable.ty.dtype)
        return For(variable, zero, node.value, ForKind.SERIAL, node.body)

    def show(loop: For) -> Any:
        node = axes.get(loop.loop_var)
        if node is None:
            return loop
        return AttrStmt(node.node, node.attr_key, loop.extent, loop.body, node.span)

    hidden = function.with_body(structural_map(function.body, (AttrStmt, hide)))
    variable = tvm.ir.GlobalVar("main")
    with tvm.transform.PassContext(opt_level=context.opt_level, config=dict(context.config)):
        lowered = LowerInTvm()(tvm.IRModule({variable: hidden}))[variable]
    return function.with_body(structural_map(lowered.body, (For, show)))
