"""Reductions: splitting them, taking their initialization apart from their updates, wider sums."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer
from tvm.tirx import BufferLoad, BufferStore, Cast, Mul, const, floormod

from .coverage import require_single_terms
from .fusion.factors import read_lone_sum
from .loops import Split, Tail, require_factors, require_serial
from .placement import require_around
from .queries import (
    get_loop_name,
    get_outer_loops,
    get_realize,
    get_reduction_loops,
    get_sblock_name,
    is_reduction,
)
from .rewriting import edit_block, replace_blocks
from .schedule import TransformError, transform
from .tir import constant, get_axis, get_fed_iterators, is_used, replace_fields

FLOAT = "float32"


class PartialSums(NamedTuple):
    """The block that sums the parts of a reduction, and the loop over the parts."""

    block: SBlockRV
    parts: LoopRV


@transform
def split_reduction(sch: Schedule, block: SBlockRV, *, inner: int, tail: Tail = "refuse") -> Split:
    """Split the only reduction loop of a block; the inner loop has `inner` iterations.

    rewrite: ``for k in n: C += ...`` -> ``for k_0 in n / inner: for k_1 in inner: C += ...``
    consumes: the reduction loop
    returns: the two loops, outer and inner
    requires: exactly one reduction loop, serial; `inner` a divisor of its extent, or
        ``tail="guard"``
    guarded: quotients that TVM lowers as they stand
    """
    loops = get_reduction_loops(sch, block)
    if len(loops) != 1:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has {len(loops)} reduction loops, not one",
            "use split_loop on the one that you mean",
        )
    require_serial(sch, loops[0])
    require_factors(sch, loops[0], {"inner": inner}, tail)
    return Split(*sch.split(loops[0], [None, inner]))


@transform
def decompose_reduction_at(sch: Schedule, block: SBlockRV, loop: LoopRV) -> SBlockRV:
    """Move the initialization of a reduction out of it, in front of a loop.

    The block's handle stays valid; its name becomes ``<name>_update``.

    rewrite: ``for k: (if k == 0: C = 0); C += ...`` -> ``C = 0; for k: C += ...``
    consumes: nothing
    returns: the new block that initializes
    requires: a block that reduces and is not decomposed yet; a loop around it, with no reduction
        loop further out; inside of it no loop that repeats the sum, as a consumer's loop may (the
        sum would be initialized once, and added to in each iteration), and no thread loop that only
        a guard restricts, unless the sum is in registers; outside of it no loop with a guard that
        lets only some iterations sum; reduction loops that are not bound (TVM reduces over threads
        only if the block still has its initialization, and otherwise silently creates a race)
    guarded: each thread initializes the sums to which it adds
    """
    name = get_sblock_name(sch, block)
    if not is_reduction(sch, block) or sch.get(block).init is None:
        raise TransformError(
            f"block '{name}' has no initialization to take out",
            "call this once, on a block with T.init",
        )
    require_around(sch, loop, block)
    outer = get_outer_loops(sch, loop)
    for reduction in get_reduction_loops(sch, block):
        if any(node.same_as(sch.get(reduction)) for node in outer):
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' is inside of the reduction loop "
                f"'{get_loop_name(sch, reduction)}', so the sum would be reset in each of its "
                "iterations",
                "choose the reduction loop, or one outside of it",
            )
        axis = get_axis(sch.get(reduction))
        if axis is not None:
            raise TransformError(
                f"the reduction loop '{get_loop_name(sch, reduction)}' is bound to '{axis}', and "
                "without its initialization its threads would race for the sum",
                "leave the initialization in the block, or bind another loop",
            )
    # Refuse threads inside of the place that no iterator knows: all would initialize one cell.
    # In registers each thread has a cell of its own.
    loops = [sch.get(it) for it in sch.get_loops(block)][len(outer) :]
    if not all(str(it.source.scope()).startswith("local") for it in sch.get(block).writes):
        for each in loops:
            axis = get_axis(each)
            is_own = bool(list(get_fed_iterators(get_realize(sch, block), each)))
            if axis is not None and constant(each.extent) != 1 and not is_own:
                raise TransformError(
                    f"loop '{each.loop_var.name}' on '{axis}' lets only one thread sum in block "
                    f"'{get_sblock_name(sch, block)}', and all its threads would initialize the "
                    "sum in front of it",
                    "choose a loop inside of it",
                )
    init = sch.decompose_reduction(block, loop)
    # Refuse loops around the place of which a guard lets some iterations sum, and the others
    # initialize the same cell, before or after that. In registers each thread has a cell of its
    # own.
    first, realize = get_realize(sch, init), get_realize(sch, block)
    in_registers = all(str(it.source.scope()).startswith("local") for it in realize.block.writes)
    for around in outer:
        used = (is_used(around.loop_var, each.predicate) for each in (first, realize))
        is_lost = tuple(used) == (False, True) and constant(around.extent) != 1
        is_own = in_registers and get_axis(around) is not None
        if is_lost and not is_own and not list(get_fed_iterators(realize, around)):
            raise TransformError(
                f"a guard lets only some iterations of loop '{around.loop_var.name}' sum in block "
                f"'{name}', and all of them would initialize the same sum",
                "leave the initialization in the block, or split that loop without a guard",
            )
    require_single_terms(sch, block, name)
    old = [sch.get(init), sch.get(block)]
    new = [edit_block(node, node.body) for node in old]
    if len(new[0].writes) != len(old[0].writes):  # TVM says that it writes all that the block does
        made = dict(zip(old, new, strict=True))
        replace_blocks(sch, init, made, [], who="decompose_reduction_at")
    return init


@transform
def rfactor_reduction(sch: Schedule, block: SBlockRV, *, parts: int) -> PartialSums:
    """Factor a reduction into partial sums, which are added up afterwards.

    Partial sums can be computed by different thread blocks (split-K) or threads.

    rewrite: ``for k in n: C += A[k]`` -> ``for k_0 in parts: for k_1: C_rf[k_0] += A[k_0, k_1]``
        and ``for k_0 in parts: C += C_rf[k_0]``
    consumes: the reduction loop
    returns: the block of the partial sums and the loop over them, outermost; `block` adds them up
    requires: a block with serial loops, one of which is a reduction, with an initialization and no
        predicate (TVM omits the predicate where partial sums are added up, and writes out of
        bounds); results that are not booleans (TVM does not know their identity); `parts` of at
        least 2 that divide the extent of the reduction
    """
    loops = get_reduction_loops(sch, block)
    if len(loops) != 1 or sch.get(block).init is None:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has {len(loops)} reduction loops"
            + ("" if sch.get(block).init is not None else " and no initialization"),
            "split a block with one reduction loop, before it is decomposed",
        )
    for loop in sch.get_loops(block):
        require_serial(sch, loop)
    predicate = get_realize(sch, block).predicate
    if constant(predicate) != 1:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has the predicate {predicate}, which TVM "
            "leaves out where the parts are added up",
            "call this before its loops are split, or pad the block first with pad_block",
        )
    for region in sch.get(block).writes:
        if str(region.source.dtype) == "bool":
            raise TransformError(
                f"block '{get_sblock_name(sch, block)}' reduces booleans into "
                f"'{region.source.name}', whose identity TVM does not know",
                "reduce integers, with T.min for 'and' and T.max for 'or'",
            )
    if parts < 2:
        raise TransformError(f"parts={parts} is too few parts", "use 2 or more")
    require_factors(sch, loops[0], {"parts": parts}, "guard")
    extent = sch.get(loops[0]).extent
    if not Analyzer().can_prove_equal(floormod(extent, parts), 0):
        raise TransformError(
            f"loop '{get_loop_name(sch, loops[0])}' runs {extent} times, which parts={parts} "
            f"{'does' if constant(extent) else 'may'} not divide",
            "choose a divisor, or pad the block first with pad_block",
        )
    outer, _ = sch.split(loops[0], [parts, None])
    partial = sch.rfactor(outer, 0)
    loops = sch.get_loops(partial)
    realize, first = get_realize(sch, partial), sch.get(partial).writes[0].region[0].min
    over_parts = next(
        loop
        for loop in loops
        if any(
            iterator.var.same_as(first) for iterator in get_fed_iterators(realize, sch.get(loop))
        )
    )
    rest = [loop for loop in loops if not sch.get(loop).same_as(sch.get(over_parts))]
    sch.reorder(over_parts, *rest)
    return PartialSums(partial, over_parts)


def combine_softmax(ours: Sequence[Any], theirs: Sequence[Any]) -> list[Any]:
    """Sum and maximum of two parts of a row: (sum of exp(a - maximum), maximum).

    The sum comes first: TVM stores each value before it computes the next one, and the sum needs
    the old maxima (M. Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018).
    """
    if any(str(value.ty.dtype) != FLOAT for value in (*ours, *theirs)):
        return list(ours)  # a reduction of other types, such as the place of a maximum: not this
    (total, largest), (other_total, other_largest) = ours, theirs
    both = tirx.max(largest, other_largest)
    scaled = total * tirx.exp(largest - both)
    return [scaled + other_total * tirx.exp(other_largest - both), both]


def identify_softmax(_values: Sequence[Any]) -> list[Any]:
    """Sum and maximum of nothing."""
    return [tirx.const(0, FLOAT), tirx.min_value(FLOAT)]


def register_reducer(combine: Any, identify: Any, *, values: int) -> None:
    """Tell TVM of a reduction of so many values; for the whole process, and for good.

    `combine` gets the values of both sides and returns theirs together; `identify` those of
    nothing.
    """
    functions = [tvm_ffi.convert(function) for function in (combine, identify)]
    for function in functions:
        # TVM drops them when Python has ended already, and crashes if nobody else holds them.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    tvm_ffi.get_global_func("s_tir.schedule.RegisterReducer")(values, *functions)


register_reducer(combine_softmax, identify_softmax, values=2)


HALVES = ("float16", "bfloat16")


@transform
def widen_sums(sch: Schedule, block: SBlockRV) -> SBlockRV:
    """Accumulate half-precision sums in float32, and round each of them once.

    The error of a sum of n terms in float16 is up to n * 2^-11 times the sum of their magnitudes.
    Summed in float32 and rounded once, it is 2^-11 times the result plus n * 2^-24 times the sum of
    magnitudes. (For bfloat16 read 2^-8 instead of 2^-11.) Vendors' libraries also sum in float32
    where a model declares float16. The product of two halves is exact in float32. Results change:
    comparisons with sums in half precision need the tolerance of those. A trace cannot replay this,
    since no TVM primitive does it, and says so.

    rewrite: ``for i, j, k: C[i, j] += A[i, k] * B[k, j]`` -> ``for i, j, k: C_global[i, j] +=
        float32(A[i, k]) * float32(B[k, j])`` and ``for i, j: C[i, j] = float16(C_global[i, j])``
    consumes: nothing
    returns: the block that rounds
    requires: a block of float16 or bfloat16, with its initialization to zero, that adds one term,
        which does not read the sums; each of its spatial iterators is one index of the sums; no
        predicate; serial loops around it that contain no other block (which could use a sum before
        it is rounded)
    """
    reduction = read_lone_sum(sch, block)
    if reduction.dtype not in HALVES:
        raise TransformError(
            f"block '{reduction.name}' is a sum of {reduction.dtype}, not of {' or '.join(HALVES)}",
            "leave its sums as they are",
        )
    if constant(get_realize(sch, block).predicate) != 1:
        raise TransformError(
            f"block '{reduction.name}' runs under a predicate, which leaves elements as they were",
            "widen sums before loops are split",
        )
    rounded = sch.cache_write(block, 0, "global")
    sch.unsafe_set_dtype(block, 0, FLOAT)
    node = sch.get(block)
    (region,) = node.writes
    wide, place = region.source, list(node.body.indices)
    store = BufferStore(wide, BufferLoad(wide, place) + _widen(reduction.term), place)
    zero = BufferStore(wide, const(0, FLOAT), list(node.init.indices))
    made = replace_fields(node, body=store, init=zero)
    replace_blocks(sch, block, {node: made}, [], who="widen_sums")
    return rounded


def _widen(term: Any) -> Any:
    """A term in float32: a product of halves by its factors."""
    if isinstance(term, Mul):
        return _widen(term.a) * _widen(term.b)
    return Cast(FLOAT, term)
