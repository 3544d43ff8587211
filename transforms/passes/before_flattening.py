"""Passes directly before FlattenBuffer, while buffers have dimensions and vectors are loops.

`DropThreadDimensions` simplifies indices to those of one thread, `DropImpliedConditions` removes
conditions that an enclosing one implies, and `SplitGuardedVectors` keeps vectors whole under
guards.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm.ir import Call, TensorLoad
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import (
    LT,
    AllocBuffer,
    And,
    For,
    ForKind,
    IfThenElse,
    Not,
    Or,
    Var,
    decl_buffer,
)
from tvm.tirx.analysis import undefined_vars
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..rewriting import edit_loop, map_elements
from ..tir import (
    constant,
    find_all,
    find_axes,
    get_elements,
    get_operands,
    is_choice,
    is_used,
    substitute,
)
from ..vectorize import begin_aligned
from .barriers import Variables


@prim_func_pass(opt_level=0, name="tirstep.DropThreadDimensions")
def DropThreadDimensions(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Drop each dimension of a "local" buffer whose index is the same thread index everywhere.

    It runs where blocks are gone and buffers still have dimensions, before FlattenBuffer.

    rewrite: ``A = alloc((4, 256, 4)); A[j, threadIdx.x, v]`` ->
        ``A = alloc((4, 1, 4)); A[j, 0, v]``
    """
    analyzer = Analyzer()
    for variable, extent in Variables.of(function).ranges.items():
        analyzer.bind(variable, extent)
    threads = [axis.node.var for axis in find_axes(function.body)]
    allocated = [
        node.buffer
        for node in find_all(function.body, AllocBuffer)
        if str(node.buffer.scope()) == "local"
    ]
    accesses = get_elements(function.body)
    smaller: dict[Any, tuple[Any, list[int]]] = {}
    for buffer in allocated:
        uses = [indices for used, indices in accesses if used.same_as(buffer)]
        dimensions = []
        for at, size in enumerate(buffer.shape):
            if constant(size) == 1 or not uses:
                continue
            indices = [analyzer.simplify(indices[at]) for indices in uses]
            used = undefined_vars(indices[0])
            of_thread = used and all(any(var.same_as(thread) for thread in threads) for var in used)
            if of_thread and all(tvm_ffi.structural_equal(index, indices[0]) for index in indices):
                dimensions.append(at)
        if dimensions:
            shape = [1 if at in dimensions else size for at, size in enumerate(buffer.shape)]
            made = decl_buffer(shape, buffer.dtype, str(buffer.name), scope="local")
            smaller[buffer] = (made, dimensions)

    def allocate(node: Any) -> Any:
        made = smaller.get(node.buffer)
        return node if made is None else AllocBuffer(made[0], node.annotations)

    def move(buffer: Any, indices: Any) -> Any:
        if buffer not in smaller:
            return None
        made, dropped = smaller[buffer]
        return made, [0 if at in dropped else index for at, index in enumerate(indices)]

    body = structural_map(function.body, (AllocBuffer, allocate))
    return function.with_body(map_elements(body, move))


@prim_func_pass(opt_level=0, name="tirstep.DropImpliedConditions")
def DropImpliedConditions(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Drop a condition where the one inside of it yields the same value.

    It runs before loops are vectorized. The one inside loads nothing: the other may have kept it
    from a place out of bounds.

    rewrite: ``if_then_else(a, c, if_then_else(b, x, c))`` -> ``if_then_else(b, x, c)`` where a
        implies that b is false
    """
    analyzer = Analyzer()
    for variable, span in Variables.of(function).ranges.items():
        analyzer.bind(variable, span)

    def exclude(one: Any, other: Any) -> bool:  # are provably never true together
        for case in get_operands(one, Or):
            with analyzer.constraint_scope(case):
                if not any(analyzer.can_prove(Not(part)) for part in get_operands(other, And)):
                    return False
        return True

    def simplify(node: Any) -> Any:
        if not (is_choice(node) and is_choice(node.args[2])):
            return node
        outer, same, (inner, _, other) = node.args[0], node.args[1], node.args[2].args
        if find_all(inner, TensorLoad) or find_all(inner, Call):
            return node
        is_same = tvm_ffi.structural_equal(same, other) and exclude(outer, inner)
        return node.args[2] if is_same else node

    return function.with_body(structural_map(function.body, (Call, simplify)))


@prim_func_pass(opt_level=0, name="tirstep.SplitGuardedVectors")
def SplitGuardedVectors(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """Split a vectorized loop around a guard in a whole vector, and in elements one by one.

    It runs before loops are vectorized. The guard is one of an end, ``index < end``, with an index
    that grows along the vector; it may ask for other things that are the same for all elements.
    Every vector must begin where a vector of its buffer does: rows of 37 elements have others.

    rewrite: ``for v in T.vectorized(4): if i * 4 + v < n: body`` ->
        ``if i * 4 + 3 < n: for v in T.vectorized(4): body``
        ``else: for v in range(4): if i * 4 + v < n: body``
    """

    def is_end(part: Any, variable: Var) -> bool:  # which holds for all smaller values, too
        if not isinstance(part, LT) or is_used(variable, part.b):
            return False
        linear = detect_linear_equation(part.a, [variable])
        step = constant(linear[0]) if len(linear) == 2 else None
        return step is not None and step > 0

    def split(loop: Any) -> Any:
        guarded = loop.body
        if (
            loop.kind != ForKind.VECTORIZED
            or constant(loop.extent) is None
            or loop.step is not None
        ):
            return loop
        if not isinstance(guarded, IfThenElse) or guarded.else_case is not None:
            return loop
        parts = get_operands(guarded.condition, And)
        about = [part for part in parts if is_used(loop.loop_var, part)]
        if not about or not all(is_end(part, loop.loop_var) for part in about):
            return loop
        analyzer = Analyzer()
        if not all(
            begin_aligned(buffer, indices, loop, analyzer)
            for buffer, indices in get_elements(guarded.then_case)
            if any(is_used(loop.loop_var, index) for index in indices)
        ):
            return loop
        last = substitute(guarded.condition, {loop.loop_var: loop.min + loop.extent - 1})
        variable = Var(loop.loop_var.name, loop.loop_var.ty)
        alone = substitute(guarded, {loop.loop_var: variable})
        return IfThenElse(
            last,
            edit_loop(loop, body=guarded.then_case),
            edit_loop(loop, loop_var=variable, kind=ForKind.SERIAL, body=alone),
        )

    return function.with_body(structural_map(function.body, (For, split)))
