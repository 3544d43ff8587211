"""Whether a block computes what the block beside it reads, and takes each term of a sum once."""

from __future__ import annotations

import itertools
from typing import Any

from tvm.ir import Range
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import (
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_upper_bound,
)
from tvm.tirx import Add, And, BufferStore, FloorDiv, For, IterVar, Max, Min, Mul, Or, Sub

from .enumeration import escapes, group_linked, meets_again, misses
from .queries import get_outer_loops, get_realize, get_root, get_sblock_name
from .schedule import TransformError
from .tir import (
    bind_ranges,
    constant,
    find_all,
    get_iterator_values,
    is_among,
    is_at_most,
    is_used,
    substitute,
)


def require_computed(sch: Schedule, writer: SBlockRV, reader: SBlockRV) -> None:
    """Refuse a reader of elements that the block beside it does not compute.

    Behind a guard TVM may read more than the guard lets be written; and where a block reads at
    ``(i + 3) // 4``, TVM may take it for one that reads at ``i // 4``, without a guard.
    """
    predicate, node = get_realize(sch, writer).predicate, sch.get(writer)
    others = [item for item in find_all(get_root(sch, writer), SBlock) if not item.same_as(node)]
    written = [region.source for other in others for region in other.writes]
    for region, used in itertools.product(node.writes, sch.get(reader).reads):
        is_guarded = constant(predicate) != 1
        is_shared = not is_guarded and is_among(region.source, written)
        if not used.source.same_as(region.source) or is_shared:
            continue
        excess = _find_excess(sch, (writer, region), (reader, used), is_guarded=is_guarded)
        if not excess:
            continue
        own, name = get_sblock_name(sch, writer), get_sblock_name(sch, reader)
        if not is_guarded:
            raise TransformError(
                f"block '{name}' would use elements of '{used.source.name}' that block '{own}' "
                f"does not compute {excess}",
                "choose a loop further out",
            )
        raise TransformError(
            f"block '{own}' computes only elements of '{used.source.name}' where {predicate}, "
            f"and block '{name}' would use more of them, {excess}",
            "do this before the loops are split with a guard, or choose sizes that divide",
        )


def _find_excess(
    sch: Schedule,
    writing: tuple[SBlockRV, Any],
    reading: tuple[SBlockRV, Any],
    *,
    is_guarded: bool,
) -> str:
    """How a reader uses more of a buffer than its writer computes, or "".

    What is compared is what both do in one iteration of the loops that they share, with their
    predicates; what lies behind the buffer's end does not count, and what cannot be told from the
    writer's indices is taken for whole. Of a writer without a guard only what is tried counts.
    """
    outer, around = (get_outer_loops(sch, block) for block, _ in (writing, reading))
    shared = [loop for loop in outer if is_among(loop, around)]
    have, need = (_describe_region(sch, *it, shared) for it in (writing, reading))
    # In the first iteration of the loops that are their own.
    needs, has = (
        substitute(predicate, {var: domain.min for var, domain in domains.items()})
        for _, domains, predicate in (need, have)
    )
    if escapes(needs, has, shared):
        return "in iterations in which it computes none"
    analyzer, shape, excess = bind_ranges(shared), writing[1].source.shape, ""
    own = estimate_region_lower_bound(*have, analyzer)
    needed = estimate_region_upper_bound(*need, analyzer)
    for dimension, (mine, theirs) in enumerate(zip(own or [], needed or [], strict=False)):
        begins = is_at_most(analyzer, mine.min_value, theirs.min_value)
        ends = [*_find_least(theirs.max_value), shape[dimension] - 1]
        reaches = all(  # the minimum of several expressions
            any(is_at_most(analyzer, expression, least) for expression in ends)
            for least in _find_least(mine.max_value)
        )
        if not (begins and reaches):
            excess = f"along dimension {dimension}"
            break
    if own is not None and (is_guarded or not excess):
        return excess
    # Single elements are tried one by one.
    extents = [constant(extent) for extent in shape]
    if None in extents or any(constant(it.extent) != 1 for it in (*have[0], *need[0])):
        return ""
    written, needs = ([*(it.min for it in region), last] for region, _, last in (have, need))
    loops = [[item for item in each if not is_among(item, shared)] for each in (outer, around)]
    if misses(written, needs, shared, loops, [extent or 0 for extent in extents]):
        return "in the same iteration of the loops around both"
    return ""


def _find_least(expression: Any) -> list[Any]:
    """The expressions whose minimum an expression is: TVM does not compare minima of sums."""
    if isinstance(expression, Min):
        return [*_find_least(expression.a), *_find_least(expression.b)]
    if isinstance(expression, Add):
        pairs = itertools.product(_find_least(expression.a), _find_least(expression.b))
        return [item + other for item, other in pairs]
    if isinstance(expression, Sub):
        return [item - expression.b for item in _find_least(expression.a)]
    if isinstance(expression, (Mul, FloorDiv)) and (constant(expression.b) or 0) > 0:
        make = type(expression)
        return [make(item, expression.b) for item in _find_least(expression.a)]
    return [expression]


def _describe_region(
    sch: Schedule, block: SBlockRV, region: Any, fixed: list[For]
) -> tuple[list[Range], dict[Any, Range], Any]:
    """The region of a buffer that a block uses, with the given loops fixed, in loop
    variables, the domains of the loops that vary, and a predicate.
    """
    values = get_iterator_values(get_root(sch, block))
    domains = {
        loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
        for loop in get_outer_loops(sch, block)
        if not is_among(loop, fixed)
    }
    predicate = substitute(get_realize(sch, block).predicate, values)
    return [substitute(each, values) for each in region.region], domains, predicate


def require_single_terms(sch: Schedule, block: SBlockRV, name: str = "") -> None:
    """Refuse a schedule in which a reduction would take one of its terms several times.

    Maxima do not mind. A loop that feeds none of the iterators repeats all terms, and loops that
    feed one with overlaps some, as the windows ``i + r`` of neighbouring ``i``. `name` is the
    block's, where it had another one before.
    """
    stores = find_all(sch.get(block).body, BufferStore)
    if all(isinstance(store.value, (Max, Min, And, Or)) for store in stores):
        return
    # The loops around a block over which it adds to sums that were initialized once.
    realize, node, loops = get_realize(sch, block), sch.get(block), get_outer_loops(sch, block)
    reducing = [
        value
        for iterator, value in zip(node.iter_vars, realize.iter_values, strict=True)
        if iterator.iter_type == IterVar.CommReduce
    ]
    if not reducing:
        return
    if node.init is None:
        # The other blocks that write what it sums up: they initialize it.
        outputs = [region.source for region in node.writes]
        starts = [
            other
            for other in find_all(get_root(sch, block), SBlock)
            if not other.same_as(node)
            and any(is_among(region.source, outputs) for region in other.writes)
        ]
        summing = [
            loop for loop in loops if not any(is_among(it, find_all(loop, SBlock)) for it in starts)
        ]
    else:
        feeds = [any(is_used(loop.loop_var, value) for value in reducing) for loop in loops]
        summing = loops[feeds.index(True) :] if any(feeds) else []
    running = [loop for loop in summing if constant(loop.extent) != 1]
    left, repeating = list(running), list[For]()
    for values in group_linked(list(realize.iter_values), running):
        feeding = [
            loop for loop in running if any(is_used(loop.loop_var, value) for value in values)
        ]
        left = [loop for loop in left if not is_among(loop, feeding)]
        domains = {it.loop_var: Range.from_min_extent(it.min, it.extent) for it in feeding}
        # Whether each iteration is shown to have values of its own.
        is_shown = not feeding or detect_iter_map(values, domains, True, "bijective").indices
        if not is_shown and meets_again(values, realize.predicate, feeding):
            repeating += feeding
    repeating += [loop for loop in left if meets_again([], realize.predicate, [loop])]
    if repeating:
        raise TransformError(
            f"loop '{repeating[0].loop_var.name}', which runs {repeating[0].extent} times, would "
            f"add the same terms to the sums of block '{name or get_sblock_name(sch, block)}' "
            "again in each iteration",
            "keep the initialization and the whole reduction inside of that loop",
        )
