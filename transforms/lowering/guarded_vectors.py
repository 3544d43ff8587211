"""A pass that keeps vectors where a guard asks about each of their elements.

A tensor whose length no vector divides has a guard at its end: ``if t * 4 + v < n``. TVM then loads
and stores one element at a time, everywhere. All vectors but the last one are whole, and the pass
gives them a branch of their own.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import LT, And, For, ForKind, IfThenElse, Var
from tvm.tirx.transform import prim_func_pass

from ..neighbours import begin_aligned
from ..queries import constant, find_elements, find_operands, is_used, substitute


@prim_func_pass(opt_level=0, name="tirstep.SplitGuardedVectors")
def SplitGuardedVectors(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Split a vectorized loop around a guard in a whole vector, and in elements one by one.

    It runs before loops are vectorized. The guard is one of an end, ``index < end``, with an index
    that grows along the vector; it may ask for other things that are the same for all elements.
    Every vector must begin where a vector of its buffer does: rows of 37 elements have others.

    rewrite: ``for v in T.vectorized(4): if i * 4 + v < n: body`` ->
        ``if i * 4 + 3 < n: for v in T.vectorized(4): body``
        ``else: for v in range(4): if i * 4 + v < n: body``
    """
    return function.with_body(tvm_ffi.structural_map(function.body, (For, _split)))


def _split(loop: Any) -> Any:
    guarded = loop.body
    if loop.kind != ForKind.VECTORIZED or constant(loop.extent) is None or loop.step is not None:
        return loop
    if not isinstance(guarded, IfThenElse) or guarded.else_case is not None:
        return loop
    parts = find_operands(guarded.condition, And)
    about = [part for part in parts if is_used(loop.loop_var, part)]
    if not about or not all(_is_end(part, loop.loop_var) for part in about):
        return loop
    if not _is_aligned(loop, guarded.then_case):
        return loop
    last = substitute(guarded.condition, {loop.loop_var: loop.min + loop.extent - 1})
    variable = Var(loop.loop_var.name, loop.loop_var.ty)
    alone = substitute(guarded, {loop.loop_var: variable})
    return IfThenElse(
        last,
        _make_loop(loop, loop.loop_var, loop.kind, guarded.then_case),
        _make_loop(loop, variable, ForKind.SERIAL, alone),
    )


def _is_end(part: Any, variable: Var) -> bool:
    """Whether what holds for one value of a variable holds for all smaller ones."""
    if not isinstance(part, LT) or is_used(variable, part.b):
        return False
    linear = detect_linear_equation(part.a, [variable])
    step = constant(linear[0]) if len(linear) == 2 else None
    return step is not None and step > 0


def _is_aligned(loop: Any, body: Any) -> bool:
    """Whether all vectors of a loop begin aligned."""
    analyzer = Analyzer()
    return all(
        begin_aligned(buffer, indices, loop, analyzer)
        for buffer, indices in find_elements(body)
        if any(is_used(loop.loop_var, index) for index in indices)
    )


def _make_loop(loop: Any, variable: Var, kind: ForKind, body: Any) -> For:
    return For(variable, loop.min, loop.extent, kind, body, None, loop.annotations)
