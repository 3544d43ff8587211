"""Repetition: whether loops would add the same terms to a sum more than once.

A block that runs several times for one point is harmless while it computes the same again. A sum is
not, unless its initialization is repeated, too.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import Range
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.sym import Analyzer, detect_iter_map, detect_linear_equation
from tvm.tirx import And, BufferStore, For, IterVar, Max, Min, Or
from tvm.tirx.analysis import undefined_vars

from .enumeration import meets_again
from .errors import TransformError
from .places import is_among
from .queries import (
    constant,
    find_all,
    find_block_name,
    find_outer_loops,
    find_realize,
    find_root,
    is_used,
)


def require_single_terms(sch: Schedule, who: str, block: SBlockRV, name: str = "") -> None:
    """Refuse a schedule in which a reduction would take one of its terms several times.

    `name` is the block's, where it had another one before.
    """
    repeating = find_repetition(sch, block)
    if repeating is not None:
        raise TransformError(
            who,
            f"loop '{repeating.loop_var.name}', which runs {repeating.extent} times, would add the "
            f"same terms to the sums of block '{name or find_block_name(sch, block)}' again in "
            "each iteration",
            "keep the initialization and the whole reduction inside of that loop",
        )


def find_repetition(sch: Schedule, block: SBlockRV) -> For | None:
    """A loop that has a reduction take its terms again; None for maxima, which do not mind."""
    if _is_idempotent(sch.get(block)):
        return None
    realize = find_realize(sch, block)
    return find_repeating_loop(realize, _find_summing_loops(sch, block, realize))


def find_repeating_loop(realize: SBlockRealize, loops: list[For]) -> For | None:
    """A loop, of some around a block, that has it compute a point again; None if none is seen to.

    A loop that feeds none of the iterators does, and loops that feed one with overlaps do, as
    the windows ``i + r`` of neighbouring ``i``.
    """
    running = [loop for loop in loops if constant(loop.extent) != 1]
    names = [loop.loop_var for loop in running]
    left = list(running)
    for values in _group(list(realize.iter_values), names):
        feeding = [
            loop for loop in running if any(is_used(loop.loop_var, value) for value in values)
        ]
        left = [loop for loop in left if not is_among(loop, feeding)]
        if not _is_injective(values, feeding) and meets_again(values, realize.predicate, feeding):
            return feeding[0]
    for loop in left:
        if meets_again([], realize.predicate, [loop]):
            return loop
    return None


def _is_idempotent(block: SBlock) -> bool:
    """Whether a term that is taken twice changes nothing."""
    stores = find_all(block.body, BufferStore)
    return all(isinstance(store.value, (Max, Min, And, Or)) for store in stores)


def _find_summing_loops(sch: Schedule, block: SBlockRV, realize: SBlockRealize) -> list[For]:
    """The loops around a block over which it adds to sums that were initialized once."""
    reducing = [
        value
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if iterator.iter_type == IterVar.CommReduce
    ]
    if not reducing:
        return []
    loops = find_outer_loops(sch, block)
    if realize.block.init is None:
        starts = _find_starts(sch, block)
        return [loop for loop in loops if not any(_holds(loop, start) for start in starts)]
    for place, loop in enumerate(loops):
        if any(is_used(loop.loop_var, value) for value in reducing):
            return loops[place:]
    return []


def _find_starts(sch: Schedule, block: SBlockRV) -> list[SBlock]:
    """The other blocks that write what a block sums up: they initialize it."""
    node, outputs = sch.get(block), [region.source for region in sch.get(block).writes]
    return [
        other
        for other in find_all(find_root(sch, block), SBlock)
        if not other.same_as(node)
        and any(is_among(region.source, outputs) for region in other.writes)
    ]


def _holds(loop: For, block: SBlock) -> bool:
    return is_among(block, find_all(loop, SBlock))


def _group(values: list[Any], names: list[Any]) -> list[list[Any]]:
    """The values, those that share a variable together."""
    groups: list[tuple[list[Any], list[Any]]] = []
    for value in values:
        used = [var for var in undefined_vars(value) if is_among(var, names)]
        near = [group for group in groups if any(is_among(var, group[1]) for var in used)]
        groups = [group for group in groups if not any(group is other for other in near)]
        merged = [one for group in near for one in group[0]], [v for g in near for v in g[1]]
        groups.append(([*merged[0], value], [*merged[1], *used]))
    return [group[0] for group in groups]


def _is_injective(values: list[Any], loops: list[For]) -> bool:
    """Whether it can be shown that each iteration of the loops has values of its own."""
    domains = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    if not loops or len(detect_iter_map(values, domains, True, "bijective").indices):
        return True
    return len(values) == 1 and _is_mixed_radix(values[0], loops)


def _is_mixed_radix(value: Any, loops: list[For]) -> bool:
    """Whether a sum of strides is one of digits: each stride beyond what the smaller ones reach."""
    factors = detect_linear_equation(value, [loop.loop_var for loop in loops])
    if not len(factors):
        return False
    strides = [constant(Analyzer().simplify(factor)) for factor in list(factors)[:-1]]
    extents = [constant(loop.extent) for loop in loops]
    reach = 0
    for stride, extent in sorted(
        zip(strides, extents, strict=True), key=lambda digit: abs(digit[0] or 0)
    ):
        if stride is None or extent is None or abs(stride) <= reach:
            return False
        reach += abs(stride) * (extent - 1)
    return True
