"""Masks that become bounds of loops: what they hide is not computed at all.

Masks are conditions of ``if_then_else``. The transforms mark a loop, and the passes end it where
masks hide all that is left, or split it where they begin.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import (
    GE,
    GT,
    LE,
    LT,
    And,
    Bind,
    BufferStore,
    For,
    ForKind,
    Let,
    Mul,
    SeqStmt,
    Var,
    const,
    if_then_else,
)
from tvm.tirx import max as larger
from tvm.tirx import min as smaller
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_equal, structural_map

from .caching import require_operand
from .fusion.blocks import Point, loads_of
from .layout import is_zero
from .loops import require_constant, require_serial
from .pass_options import set_pipeline
from .queries import get_enclosing_loops, get_loop_name, get_sblock_name
from .rewriting import edit_loop, get_scope, replace_block
from .schedule import TransformError, transform
from .tir import (
    bind_ranges,
    constant,
    find_all,
    find_choices,
    get_axis,
    get_iterator_values,
    get_loops_around,
    get_operands,
    is_among,
    is_choice,
    is_used,
    substitute,
)

ENDS_AT_MASK = "tirstep_ends_at_mask"
"""The annotation of a loop that the pass EndLoopsAtMasks ends early."""
SPLITS_AT_MASKS = "tirstep_splits_at_masks"
"""The annotation of a loop that the pass SplitLoopsAtMasks splits."""

LONGEST_FIRST = "tirstep_longest_first"
"""The annotation of such a loop: thread blocks in which it goes on longest are launched first."""


def find_growing_axis(loop: For, around: list[For], count: Any) -> For | None:
    """The one loop of thread blocks around along which a loop gets longer; None for none."""
    axes = [
        each
        for each in around
        if (get_axis(each) or "").startswith("blockIdx") and is_used(each.loop_var, count)
    ]
    if len(axes) != 1 or (extent := constant(axes[0].extent)) is None:
        return None
    analyzer, variable = Analyzer(), axes[0].loop_var
    first, last = (
        constant(analyzer.simplify(substitute(count, {variable: const(at)})))
        for at in (0, extent - 1)
    )
    if first is None or last is None or constant(axes[0].min) != 0:
        return None
    return axes[0] if last > first else None


class Masks(NamedTuple):
    """The conditions under a loop that hide all behind some iteration.

    Attributes
    ----------
    iterations : those in which some mask lets something through, one at least; None without a bound
    hiding : the conditions
    """

    iterations: Any | None
    hiding: list[Any]


def read_masks(loop: For, around: list[For]) -> Masks:
    """The masks under a loop, of which some of `around` are the threads of a block."""
    threads = [each for each in around if (get_axis(each) or "").startswith("threadIdx")]
    inside = [*threads, *(it for it in find_all(loop.body, For) if not is_among(it, threads))]
    units = {each.loop_var: each.min for each in inside if constant(each.extent) == 1}
    values = {it: substitute(of, units) for it, of in get_iterator_values(loop.body).items()}
    hiding, least = list[Any](), const(1)
    is_bounded = all(constant(each.extent) is not None for each in inside)
    for realize in find_all(loop.body, SBlockRealize) if is_bounded else ():
        for condition, *_ in find_choices(realize.block):
            for part in get_operands(condition, And):
                # Of each mask the first comparison that may hold in first iterations alone.
                read = _read_comparison(substitute(part, values), loop, inside, min)
                if read is None:
                    continue
                step, rest, is_strict = read
                bound = (1 - is_strict - rest + step - 1) // step
                if is_known_before(bound, loop, around):
                    hiding.append(condition)
                    least = larger(least, bound)
                    break
    count = Analyzer().simplify(smaller(loop.extent, least)) if hiding else None
    return Masks(count, hiding)


def _read_comparison(
    condition: Any, loop: For, inside: list[For], extreme: Callable[[int, int], int]
) -> tuple[int, Any, bool] | None:
    """A comparison as ``step * iteration + rest <= 0`` of a loop, or as ``< 0``; None for others.

    Of the loops inside the rest has the `extreme` values, the least or the largest.
    """
    if not isinstance(condition, LE | LT | GE | GT):
        return None
    low, high = condition.a, condition.b
    if isinstance(condition, GE | GT):
        low, high = high, low
    variables = [loop.loop_var, *(each.loop_var for each in inside)]
    parts = detect_linear_equation(low - high, variables)
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
        rest = rest + each.min * factor + extreme(0, (factor or 0) * ((last or 1) - 1))
    return step, rest, isinstance(condition, LT | GT)


def is_known_before(bound: Any, loop: For, around: list[For]) -> bool:
    """Whether a bound is known in front of its loop: what it loads is there, and nothing under the
    loop stores it; its loops are those around, and nothing under the loop defines its variables.
    """
    own = [each.loop_var for each in (loop, *find_all(loop.body, For))]
    own += [each.var for kind in (Bind, Let) for each in find_all(loop.body, kind)]
    own += [item.var for block in find_all(loop.body, SBlock) for item in block.iter_vars]
    if any(is_used(each, bound) for each in own):
        return False
    stored = [store.buffer for store in find_all(loop.body, BufferStore)]
    stored += [region.source for block in find_all(loop.body, SBlock) for region in block.writes]
    analyzer = bind_ranges(around)
    return not any(
        is_among(load.source, stored)
        or not all(
            analyzer.can_prove(And(index >= 0, index < size))
            for index, size in zip(load.indices, load.source.shape, strict=True)
        )
        for load in find_all(bound, TensorLoad)
    )


@transform
def end_loop_at_mask(sch: Schedule, loop: LoopRV) -> None:
    """End a loop after the last iteration that a mask does not hide.

    Masks are conditions of ``if_then_else``. A test on random numbers makes sure that a fully
    masked iteration changes nothing: in attention, the maximum and the sums accumulate nothing, and
    are rescaled by 1. NaN and infinite values are masked like all others, although a product with 0
    would keep them.

    The loop is only marked. The pipeline "tirstep" ends it early once reductions over threads are
    lowered, which TVM does only in loops of constant extent. Blocks that are moved under the loop
    later are tested as well.

    rewrite: ``for j_0 in n: (for j_1 in 4: m = max(m, x[j] if j_0 * 4 + j_1 <= i_0 * 8 + i_1 else
        least))`` -> the same with ``for j_0 in min(n, max(1, (i_0 * 8 + 7) // 4 + 1))``
    consumes: nothing
    requires: a serial loop of a constant extent that begins at 0
    guarded: a condition under the loop that holds up to some iteration, which depends only on
        thread blocks and outer serial loops, so that all threads of a block continue together; an
        iteration beyond it that changes nothing
    """
    require_serial(sch, loop)
    require_constant(sch, loop)
    node = sch.get(loop)
    if constant(node.min) != 0:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' begins at {node.min}", "choose one that begins at 0"
        )
    sch.annotate(loop, ENDS_AT_MASK, 1)
    set_pipeline(sch)


@transform
def launch_longest_first(sch: Schedule, loop: LoopRV) -> None:
    """Launch the thread blocks first whose loop runs longest before it ends at its mask.

    A GPU starts blocks in the order of their numbers, and while the last ones run, multiprocessors
    are idle: so the last ones should be short. Only the order changes.

    rewrite: ``for i in blockIdx.x: for j in min(n, i * 2 + 1): C[i] += A[i, j]`` ->
        ``for i in blockIdx.x: for j in min(n, (m - 1 - i) * 2 + 1): C[m - 1 - i] += ...``, when the
        module is lowered
    consumes: nothing
    requires: a loop that `end_loop_at_mask` has marked, whose number of iterations grows along one
        axis of thread blocks, and depends on no other
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    if ENDS_AT_MASK not in node.annotations or LONGEST_FIRST in node.annotations:
        raise TransformError(
            f"loop '{name}' does not end at a mask, or its longest blocks come first already",
            "call end_loop_at_mask first, and this once",
        )
    around = get_enclosing_loops(sch, loop)
    count = read_masks(node, around).iterations
    if count is None or find_growing_axis(node, around, count) is None:
        raise TransformError(
            f"loop '{name}' does not grow along one axis of thread blocks only",
            "bind the loop that its mask depends on to blockIdx",
        )
    sch.annotate(loop, LONGEST_FIRST, 1)


@transform
def split_loop_at_mask(sch: Schedule, loop: LoopRV) -> None:
    """Drop the masks from the first iterations of a loop, where they hide nothing.

    Masks are conditions of ``if_then_else``. The loop is only marked, and split after pipelines are
    lowered, so that the copies of a pipeline continue from one part to the other.

    rewrite: ``for j_0 in n: (for j_1 in 4: m = max(m, x[j] if j_0 * 4 + j_1 <= i_0 * 8 + i_1 else
        least))`` -> ``for j_0 in (i_0 * 8 - 3) // 4 + 1: (for j_1 in 4: m = max(m, x[j]))`` and the
        rest as it was, when the module is lowered
    consumes: nothing
    requires: a serial loop of constant extent that starts at 0, and a condition under it that holds
        up to some iteration
    """
    require_serial(sch, loop)
    require_constant(sch, loop)
    node = sch.get(loop)
    if read_masks(node, get_enclosing_loops(sch, loop)).iterations is None:
        raise TransformError(
            f"no condition under loop '{get_loop_name(sch, loop)}' holds up to some iteration",
            "leave the loop as it is, or choose the serial loop over what a mask hides",
        )
    sch.annotate(loop, SPLITS_AT_MASKS, 1)
    set_pipeline(sch)


@prim_func_pass(opt_level=0, name="tirstep.EndLoopsAtMasks")
def EndLoopsAtMasks(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
    """End the loops that `end_loop_at_mask` has marked.

    The bound depends on only thread blocks and outer loops, so that all threads of a block leave
    the loop together: barriers may stand in it. It comes when reductions over threads are lowered.

    With `launch_longest_first` the blocks along its axis change places, last for first.

    rewrite: ``for j in n: ... if_then_else(j * 4 + t <= i * 8, x, 0)`` of threads t < 4 ->
        the same with ``for j in min(n, max(1, i * 2 + 1))``
    """
    loops = find_all(function.body, For)
    counts: dict[Any, Any] = {}
    turned: list[Any] = []  # variables of thread blocks
    for loop in loops:
        if ENDS_AT_MASK in loop.annotations:
            around = get_loops_around(loop, loops)
            count = counts[loop.loop_var] = read_masks(loop, around).iterations
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
        return edit_loop(loop, extent=extent, body=body, annotations=rest)

    return function.with_body(structural_map(function.body, (For, shorten)))


@prim_func_pass(opt_level=0, name="tirstep.SplitLoopsAtMasks")
def SplitLoopsAtMasks(function: Any, *_: Any) -> Any:  # noqa: N802 - named like TVM's
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
        # The choices, and how many of the first iterations choose the first value.
        inside, count, whole = [*threads, *find_all(loop.body, For)], loop.extent, {}
        for choice in find_all(loop.body, Call):
            if not is_choice(choice) or not is_used(loop.loop_var, choice.args[0]):
                continue
            parts = list(get_operands(choice.args[0], And))
            read = [_read_comparison(part, loop, inside, max) for part in parts]
            bounds = [(-it[2] - it[1]) // it[0] + 1 for it in read if it is not None]
            if len(bounds) == len(read):
                bound = functools.reduce(smaller, bounds)
                if is_known_before(bound, loop, around):
                    whole[choice], count = choice.args[1], smaller(count, bound)
        if not whole or loop.kind != ForKind.SERIAL or constant(loop.min) != 0:
            return edit_loop(loop, annotations=kept)
        count = Analyzer().simplify(larger(count, const(0)))
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


@transform
def mask_operand(sch: Schedule, block: SBlockRV, *, operand: int) -> SBlockRV:
    """Read an operand through a copy that is zero where a mask hides every use of it.

    Inlined into the fetch of tiles, the copy becomes a guard of its loads; `pad_axis`, called
    later, adds the end of an axis to the guard. Infinite elements are hidden like all others,
    although a product with zero would keep them.

    A trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``p[j] = exp(x[j] - m) if j < n else 0`` and ``s += p[j] * v[j]`` -> the same of
        ``v_global[j] = v[j] if j < n else 0``
    consumes: nothing
    returns: the copy block
    requires: `operand` counts the buffers that the block reads, from 0; a single load of it,
        multiplied by a masked value, or in a block whose results are all masked with the same mask
        where they are read; a mask that depends only on indices of the load and on tensors
    """
    require_operand(sch, block, operand)
    node, scope = sch.get(block), get_scope(sch, block).stmt
    blocks, buffer = find_all(scope.body, SBlock), node.reads[operand].source
    loads = loads_of(node.body, buffer) if isinstance(node.body, BufferStore) else []
    mask = _find_mask(blocks, node, buffer) if len(loads) == 1 else None
    indices = list(loads[0].indices) if loads else []
    hidden = [item.var for item in node.iter_vars if not is_among(item.var, indices)]
    if (
        mask is None
        or any(is_used(variable, mask) for variable in hidden)
        or any(is_among(it.source, scope.alloc_buffers) for it in find_all(mask, TensorLoad))
    ):
        raise TransformError(
            f"no mask that depends only on indices of '{buffer.name}' hides what block "
            f"'{get_sblock_name(sch, block)}' computes from its elements",
            "leave the operand as it is",
        )
    copy = sch.cache_read(block, operand, "global")
    made = sch.get(copy)
    store = made.body
    mask = substitute(mask, dict(zip(indices, store.indices, strict=True)))
    value = if_then_else(mask, store.value, const(0, store.buffer.dtype))
    body = BufferStore(store.buffer, value, store.indices)
    new = Point(list(made.iter_vars)).make_block(str(made.name_hint), body, like=made)
    replace_block(sch, copy, new, who="mask_operand")
    return copy


def _find_mask(blocks: list[SBlock], block: SBlock, buffer: Any) -> Any:
    """The condition in which what a block makes of a buffer is used, in its iterators; None for
    always: it multiplies that by a chosen zero, or all its readers choose another value.
    """
    own, masks, variables = block.body, list[Any](), [item.var for item in block.iter_vars]
    stores = [it.body for it in blocks if isinstance(it.body, BufferStore)]
    chosen = [it for it in stores if is_choice(it.value) and is_zero(it.value.args[2], [])]
    for product in find_all(own.value, Mul):
        for side, factor in ((product.a, product.b), (product.b, product.a)):
            for store in chosen if loads_of(side, buffer) else ():
                if is_zero(factor, variables, [store.buffer]):
                    (load, *_) = loads_of(factor, store.buffer)
                    places = dict(zip(store.indices, load.indices, strict=True))
                    return substitute(store.value.args[0], places)
    for store in (it for it in stores if not it.same_as(own)):
        choices = find_choices(store.value)
        for load in loads_of(store.value, own.buffer):
            around = [it[0] for it in choices if is_among(load, find_all(it[1], TensorLoad))]
            places = dict(zip(load.indices, own.indices, strict=True))
            masks.append(substitute(around[0], places) if around else None)
    is_same = all(it is not None and structural_equal(it, masks[0]) for it in masks)
    return masks[0] if masks and is_same else None
