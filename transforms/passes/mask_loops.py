"""Passes that end loops where masks hide all that is left, or split them where masks begin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm.ir import Call
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import GE, GT, LE, LT, And, For, ForKind, SeqStmt, Var, const
from tvm.tirx import max as larger
from tvm.tirx import min as smaller
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from ..mask_bounds import (
    ENDS_AT_MASK,
    LONGEST_FIRST,
    SPLITS_AT_MASKS,
    find_growing_axis,
    is_known_before,
    read_masks,
)
from ..rewriting import with_annotations
from ..tir import (
    constant,
    find_all,
    get_axis,
    get_loops_around,
    get_operands,
    is_among,
    is_choice,
    is_used,
    substitute,
)


@prim_func_pass(opt_level=0, name="tirstep.EndLoopsAtMasks")
def EndLoopsAtMasks(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """End the loops that `end_loop_at_mask` has marked.

    The bound depends on GPU blocks and outer loops alone, so that all threads of a block leave the
    loop together: barriers may stand in it. It comes when reductions over threads are lowered.

    With `launch_longest_first` the blocks along its axis change places, last for first.

    rewrite: ``for j in n: ... if_then_else(j * 4 + t <= i * 8, x, 0)`` of threads t < 4 ->
        the same with ``for j in min(n, max(1, i * 2 + 1))``
    """
    loops = find_all(function.body, For)
    counts: dict[Any, Any] = {}
    turned: list[Any] = []  # variables of GPU blocks
    for loop in loops:
        if ENDS_AT_MASK in loop.annotations:
            around = get_loops_around(loop, loops)
            count = counts[loop.loop_var] = read_masks(loop, around).count_iterations()
            axis = None if count is None else find_growing_axis(loop, around, count)
            if axis is not None and LONGEST_FIRST in loop.annotations:
                turned.append(axis.loop_var)

    def shorten(loop: For) -> For:
        variable, count = loop.loop_var, counts.get(loop.loop_var)
        body, extent = loop.body, loop.extent if count is None else count
        if is_among(variable, turned):
            body = substitute(body, {variable: extent - 1 - variable})
        elif ENDS_AT_MASK not in loop.annotations:
            return loop
        ours = (ENDS_AT_MASK, LONGEST_FIRST)
        rest = {key: it for key, it in loop.annotations.items() if str(key) not in ours}
        axis = loop.thread_binding
        return For(variable, loop.min, extent, loop.kind, body, axis, rest, loop.step)

    return function.with_body(structural_map(function.body, (For, shorten)))


@prim_func_pass(opt_level=0, name="tirstep.SplitLoopsAtMasks")
def SplitLoopsAtMasks(  # noqa: N802 - a pass is named like TVM's
    function: Any, _module: Any, _context: Any
) -> Any:
    """Make two loops of one: the first iterations, of which masks hide nothing, and all others.

    It runs where pipelines are loops already, on those that `split_loop_at_mask` has marked.

    rewrite: ``for j in n: ... if_then_else(j * 4 + t <= i * 8, x, 0)`` of threads t < 4 ->
        ``for j in max(0, (i * 8 - 3) // 4 + 1): ... x`` and ``for j: ...`` for the rest
    """
    loops = find_all(function.body, For)
    threads = [each for each in loops if (get_axis(each) or "").startswith("threadIdx")]

    def split(loop: For) -> Any:
        if SPLITS_AT_MASKS not in loop.annotations:
            return loop
        kept = {key: it for key, it in loop.annotations.items() if key != SPLITS_AT_MASKS}
        around = get_loops_around(loop, loops)
        masks = [
            (choice, whole)
            for choice, whole in _find_masks(loop, [*threads, *find_all(loop.body, For)])
            if is_known_before(whole, loop, around)
        ]
        if not masks or loop.kind != ForKind.SERIAL or constant(loop.min) != 0:
            return with_annotations(loop, kept)
        count: Any = loop.extent
        for _, whole in masks:
            count = smaller(count, whole)
        count = Analyzer().simplify(larger(count, const(0)))
        whole = {choice: choice.args[1] for choice, _ in masks}
        first = structural_map(loop.body, (Call, lambda node: whole.get(node, node)))
        variable = Var(loop.loop_var.name, loop.loop_var.ty)
        rest = substitute(loop.body, {loop.loop_var: variable + count})
        return SeqStmt(
            [
                For(loop.loop_var, loop.min, count, loop.kind, first, None, kept),
                For(variable, loop.min, loop.extent - count, loop.kind, rest, None, kept),
            ]
        )

    return function.with_body(structural_map(function.body, (For, split)))


def _find_masks(loop: For, inside: list[For]) -> Iterator[tuple[Call, Any]]:
    """The choices under a loop, and how many of its first iterations choose the first value."""
    for choice in find_all(loop.body, Call):
        if is_choice(choice) and is_used(loop.loop_var, choice.args[0]):
            parts = list(get_operands(choice.args[0], And))
            bounds = [_count_whole(part, loop, inside) for part in parts]
            if all(bound is not None for bound in bounds):
                whole = bounds[0]
                for bound in bounds[1:]:
                    whole = smaller(whole, bound)
                yield choice, whole


def _count_whole(condition: Any, loop: For, inside: list[For]) -> Any | None:
    """In how many first iterations a comparison holds for all others' values; None if unknown."""
    if not isinstance(condition, LE | LT | GE | GT):
        return None
    low, high = condition.a, condition.b
    if isinstance(condition, GE | GT):
        low, high = high, low
    most = 0 if isinstance(condition, LE | GE) else -1  # of low - high, where it holds
    parts = detect_linear_equation(low - high, [loop.loop_var, *(it.loop_var for it in inside)])
    if not parts:
        return None
    *factors, rest = parts
    numbers = [constant(factor) for factor in factors]
    step = numbers[0]
    if None in numbers or step is None or step < 1:
        return None
    for factor, each in zip(numbers[1:], inside, strict=True):
        last = constant(each.extent)
        if factor and last is None:
            return None
        rest = rest + each.min * factor + max(0, (factor or 0) * ((last or 1) - 1))
    return (most - rest) // step + 1
