"""Coverage: whether a block computes all elements that another one beside it uses."""

from __future__ import annotations

import itertools
from typing import Any

from tvm.ir import Range
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer, estimate_region_lower_bound, estimate_region_upper_bound
from tvm.tirx import Add, FloorDiv, For, Min, Mul, Sub

from .queries import (
    constant,
    find_iterator_values,
    find_outer_loops,
    find_realize,
    find_root,
    substitute,
)


def find_uncovered(sch: Schedule, writer: SBlockRV, reader: SBlockRV) -> int | None:
    """A dimension along which a reader uses more of a buffer than its writer computes, or None.

    `writer` writes one buffer. What is compared is what both do in one iteration of the loops that
    they share, with their predicates; what lies behind the buffer's end does not count, and what
    cannot be told from the writer's indices is taken for whole.
    """
    region = sch.get(writer).writes[0]
    used = next(one for one in sch.get(reader).reads if one.source.same_as(region.source))
    around = find_outer_loops(sch, reader)
    shared = [loop for loop in find_outer_loops(sch, writer) if _is_among(loop, around)]
    analyzer = Analyzer()
    for loop in shared:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    own = estimate_region_lower_bound(*_describe(sch, writer, region, shared), analyzer)
    needed = estimate_region_upper_bound(*_describe(sch, reader, used, shared), analyzer)
    if own is None or needed is None:
        return None
    for dimension, (have, need) in enumerate(zip(own, needed, strict=True)):
        end = region.source.shape[dimension] - 1
        begins = analyzer.can_prove(have.min_value <= need.min_value)
        if not (begins and _reaches(analyzer, have.max_value, [*_find_least(need.max_value), end])):
            return dimension
    return None


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


def _describe(
    sch: Schedule, block: SBlockRV, region: Any, fixed: list[For]
) -> tuple[list[Range], dict[Any, Range], Any]:
    """A block's region in loop variables, the domains of the loops that vary, and its predicate."""
    values = find_iterator_values(find_root(sch, block))
    domains = {
        loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
        for loop in find_outer_loops(sch, block)
        if not _is_among(loop, fixed)
    }
    predicate = substitute(find_realize(sch, block).predicate, values)
    return [substitute(each, values) for each in region.region], domains, predicate


def _is_among(node: Any, nodes: list[Any]) -> bool:
    return any(node.same_as(other) for other in nodes)
