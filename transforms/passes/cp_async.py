"""Passes of asynchronous copies: TVM's LowerAsyncDMA made faster, and the right waits.

TVM's pass visits the body of an attribute twice, and so that of an attribute within seven others
128 times: a second for a kernel of attention, more than all other passes take together. Around a
kernel such attributes are mostly thread axes. All of them but the outermost are loops here while
TVM's pass runs, which visits these once and knows of their variables what it knows of the axes'.
The outermost stays, for what the pass notes on its first visit.

Where the products of a tile come before the copies of a later one, TVM's InjectSoftwarePipeline
adds up what may be in flight for each copy, where all copies of an iteration are one group: of two
copies it lets ``2 * (stages - 2)`` groups be in flight, where ``stages - 2`` is right.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir.transform import LowerAsyncDMA as LowerInTvm
from tvm.sym import Analyzer
from tvm.tirx import AttrStmt, For, ForKind, const
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..tir import THREAD_EXTENT, bind_ranges, constant, find_all, find_axes, is_choice


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


WAIT, COMMIT = "async_wait_inflight_count", "async_commit_queue_scope"


@prim_func_pass(opt_level=0, name="tirstep.CorrectAsyncWaits")
def CorrectAsyncWaits(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Lower the number of copies in flight at a wait to that of the next wait, one group later.

    The next wait is for the next tile, and one more group is committed by then: as many may be in
    flight. Waiting for more copies than needed is right as well, so that the pass changes no
    result but those that were wrong.

    In a loop that ends at a mask TVM chooses the number by where the loop ends: it becomes the
    least one that may be chosen, as instructions want one that is known.

    rewrite: ``for k: (wait 4; compute(k); copy(k + 3)); wait 2; compute(...)`` ->
        ``for k: (wait 2; compute(k); copy(k + 3)); wait 2; compute(...)``
    """
    right: list[tuple[Any, int]] = []
    following: int | None = None  # what the next wait leaves in flight
    commits = 0  # groups until then
    analyzer = bind_ranges(find_all(function.body, For))
    # The waits of a function from the last one on, those of a loop once.
    for node in reversed(find_all(function.body, AttrStmt)):  # each before those within it
        if node.attr_key == COMMIT:
            commits += 1
        elif node.attr_key == WAIT:
            count = _find_least(node.value, analyzer)
            if constant(node.value) is None:
                right.append((node, count))
            if following is not None and commits == 1 and count > following:
                count = following
                right.append((node, count))
            following, commits = count, 0

    def rewrite(node: Any) -> Any:
        counts = [count for wait, count in right if wait.same_as(node)]
        if not counts:
            return node
        value = const(min(counts), node.value.ty.dtype)
        return AttrStmt(node.node, node.attr_key, value, node.body, node.span)

    if not right:
        return function
    return function.with_body(structural_map(function.body, (AttrStmt, rewrite)))


def _find_least(value: Any, analyzer: Analyzer) -> int:
    """The least that a number of copies in flight can be."""
    if not is_choice(value):
        return constant(analyzer.simplify(value)) or 0
    condition, first, second = value.args
    if _holds(condition, analyzer):
        return _find_least(first, analyzer)
    return min(_find_least(first, analyzer), _find_least(second, analyzer))


def _holds(condition: Any, analyzer: Analyzer) -> bool:
    """Whether a condition holds always; TVM's analyzer proves nothing of a bitwise and."""
    if type(condition).__name__ == "BitwiseAnd":
        return _holds(condition.a, analyzer) and _holds(condition.b, analyzer)
    return bool(analyzer.can_prove(condition))
