"""A pass that keeps vectors where a guard asks about each of their elements.

A tensor whose length no vector divides has a guard at its end: ``if t * 4 + v < n``. TVM then loads
and stores one element at a time, everywhere. All vectors but the last one are whole, and the pass
gives them a branch of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm.sym import detect_linear_equation
from tvm.tirx import LT, And, For, ForKind, IfThenElse, Var
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass

from ..queries import constant, substitute


@prim_func_pass(opt_level=0, name="tirstep.SplitGuardedVectors")
def SplitGuardedVectors(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Split a vectorized loop around a guard in a whole vector, and in elements one by one.

    It runs before loops are vectorized. The guard is one of an end, ``index < end``, with an index
    that grows along the vector; it may ask for other things that are the same for all elements.

    rewrite: ``for v in T.vectorized(4): if i * 4 + v < n: body`` ->
        ``if i * 4 + 3 < n: for v in T.vectorized(4): body``
        ``else: for v in range(4): if i * 4 + v < n: body``
    """
    return function.with_body(tvm_ffi.structural_map(function.body, (For, _split)))


def _split(loop: Any) -> Any:
    guarded = loop.body
    if loop.kind != ForKind.VECTORIZED or constant(loop.extent) is None:
        return loop
    if not isinstance(guarded, IfThenElse) or guarded.else_case is not None:
        return loop
    parts = list(_find_parts(guarded.condition))
    about = [part for part in parts if _has(part, loop.loop_var)]
    if not about or not all(_is_end(part, loop.loop_var) for part in about):
        return loop
    last = substitute(guarded.condition, {loop.loop_var: loop.min + loop.extent - 1})
    variable = Var(loop.loop_var.name, loop.loop_var.ty)
    alone = substitute(guarded, {loop.loop_var: variable})
    return IfThenElse(
        last,
        _make_loop(loop, loop.loop_var, loop.kind, guarded.then_case),
        _make_loop(loop, variable, ForKind.SERIAL, alone),
    )


def _find_parts(condition: Any) -> Iterator[Any]:
    """What is asked at the same time."""
    if isinstance(condition, And):
        yield from _find_parts(condition.a)
        yield from _find_parts(condition.b)
    else:
        yield condition


def _is_end(part: Any, variable: Var) -> bool:
    """Whether what holds for one value of a variable holds for all smaller ones."""
    if not isinstance(part, LT) or _has(part.b, variable):
        return False
    linear = detect_linear_equation(part.a, [variable])
    step = constant(linear[0]) if len(linear) == 2 else None
    return step is not None and step > 0


def _has(expression: Any, variable: Var) -> bool:
    return any(variable.same_as(used) for used in undefined_vars(expression))


def _make_loop(loop: Any, variable: Var, kind: ForKind, body: Any) -> For:
    return For(variable, loop.min, loop.extent, kind, body, None, loop.annotations)
