"""Coverage: whether a block computes all elements that another one beside it uses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tvm.ir import Range
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer, estimate_region_lower_bound, estimate_region_upper_bound
from tvm.tirx import Add, FloorDiv, For, Min, Mul, Sub

from .enumeration import escapes, misses
from .errors import TransformError
from .places import is_among
from .queries import (
    constant,
    find_all,
    find_block_name,
    find_iterator_values,
    find_outer_loops,
    find_realize,
    find_root,
    substitute,
)

_Description = tuple[list[Range], dict[Any, Range], Any]
"""A region in loop variables, the domains of the loops that vary, and a predicate."""


def require_computed(sch: Schedule, who: str, writer: SBlockRV, reader: SBlockRV) -> None:
    """Refuse a reader of elements that the block beside it does not compute.

    Behind a guard TVM may read more than the guard lets be written; and where a block reads at
    ``(i + 3) // 4``, TVM may take it for one that reads at ``i // 4``, without a guard.
    """
    predicate = find_realize(sch, writer).predicate
    for region in sch.get(writer).writes:
        for used in sch.get(reader).reads:
            if not used.source.same_as(region.source):
                continue
            is_guarded = constant(predicate) != 1
            if not is_guarded and _is_shared(sch, writer, region.source):
                continue
            excess = _find_excess(sch, writer, region, reader, used)
            if not excess:
                continue
            own, name = find_block_name(sch, writer), find_block_name(sch, reader)
            if not is_guarded:
                raise TransformError(
                    who,
                    f"block '{name}' would use elements of '{used.source.name}' that block '{own}' "
                    f"does not compute {excess}",
                    "choose a loop further out",
                )
            raise TransformError(
                who,
                f"block '{own}' computes only elements of '{used.source.name}' where {predicate}, "
                f"and block '{name}' would use more of them, {excess}",
                "do this before the loops are split with a guard, or choose sizes that divide",
            )


def _is_shared(sch: Schedule, writer: SBlockRV, buffer: Any) -> bool:
    """Whether another block writes a buffer, too."""
    node = sch.get(writer)
    others = [one for one in find_all(find_root(sch, writer), SBlock) if not one.same_as(node)]
    return any(region.source.same_as(buffer) for one in others for region in one.writes)


def _find_excess(sch: Schedule, writer: SBlockRV, region: Any, reader: SBlockRV, used: Any) -> str:
    """How a reader uses more of a buffer than its writer computes, or "".

    What is compared is what both do in one iteration of the loops that they share, with their
    predicates; what lies behind the buffer's end does not count, and what cannot be told from the
    writer's indices is taken for whole. Of a writer without a guard only what is tried counts.
    """
    outer, around = find_outer_loops(sch, writer), find_outer_loops(sch, reader)
    shared = [loop for loop in outer if is_among(loop, around)]
    have, need = _describe(sch, writer, region, shared), _describe(sch, reader, used, shared)
    if escapes(_begin(need), _begin(have), shared):
        return "in iterations in which it computes none"
    own_loops = ([one for one in each if not is_among(one, shared)] for each in (outer, around))
    loops = [shared, *own_loops]
    is_known, excess = _estimate_excess(have, need, shared, region.source.shape)
    is_guarded = constant(find_realize(sch, writer).predicate) != 1
    if not is_known or (excess and not is_guarded):
        is_missed = _misses(have, need, loops, region.source.shape)
        return "in the same iteration of the loops around both" if is_missed else ""
    return excess


def _estimate_excess(
    have: _Description, need: _Description, shared: list[For], shape: Sequence[Any]
) -> tuple[bool, str]:
    """Whether TVM can estimate what a writer computes, and how a reader may use more than that."""
    analyzer = Analyzer()
    for loop in shared:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    own = estimate_region_lower_bound(*have, analyzer)
    needed = estimate_region_upper_bound(*need, analyzer)
    for dimension, (mine, theirs) in enumerate(zip(own or [], needed or [], strict=False)):
        begins = analyzer.can_prove(mine.min_value <= theirs.min_value)
        ends = [*_find_least(theirs.max_value), shape[dimension] - 1]
        if not (begins and _reaches(analyzer, mine.max_value, ends)):
            return True, f"along dimension {dimension}"
    return own is not None, ""


def _misses(
    have: _Description, need: _Description, loops: list[list[For]], shape: Sequence[Any]
) -> bool:
    """Whether a reader uses single elements that a writer does not compute, tried one by one.

    `loops` are those that both share, then the writer's own and the reader's.
    """
    extents = [constant(extent) for extent in shape]
    ranges = [each for described in (have, need) for each in described[0]]
    if None in extents or any(constant(each.extent) != 1 for each in ranges):
        return False
    written, needed = ([*(each.min for each in one[0]), one[2]] for one in (have, need))
    shared, *own = loops
    return misses(written, needed, shared, own, [extent or 0 for extent in extents])


def _begin(described: _Description) -> Any:
    """A block's predicate in the first iteration of the loops that are its own."""
    _, domains, predicate = described
    return substitute(predicate, {var: domain.min for var, domain in domains.items()})


def _reaches(analyzer: Analyzer, have: Any, needed: list[Any]) -> bool:
    """Whether a minimum is at least the minimum of several expressions."""
    return all(
        any(analyzer.can_prove(least >= one) for one in needed) for least in _find_least(have)
    )


def _find_least(expression: Any) -> list[Any]:
    """The expressions whose minimum an expression is: TVM does not compare minima of sums."""
    if isinstance(expression, Min):
        return [*_find_least(expression.a), *_find_least(expression.b)]
    if isinstance(expression, Add):
        pairs = itertools.product(_find_least(expression.a), _find_least(expression.b))
        return [one + other for one, other in pairs]
    if isinstance(expression, Sub):
        return [one - expression.b for one in _find_least(expression.a)]
    if isinstance(expression, (Mul, FloorDiv)) and (constant(expression.b) or 0) > 0:
        make = type(expression)
        return [make(one, expression.b) for one in _find_least(expression.a)]
    return [expression]


def _describe(sch: Schedule, block: SBlockRV, region: Any, fixed: list[For]) -> _Description:
    """What a block uses of a buffer, in iterations of the loops that are fixed."""
    values = find_iterator_values(find_root(sch, block))
    domains = {
        loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
        for loop in find_outer_loops(sch, block)
        if not is_among(loop, fixed)
    }
    predicate = substitute(find_realize(sch, block).predicate, values)
    return [substitute(each, values) for each in region.region], domains, predicate
