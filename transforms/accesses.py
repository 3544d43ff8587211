"""Accesses: what a block reads and writes, element by element, in the variables of its loops."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import BufferStore, Evaluate, For, IfThenElse, Not, Select

from .places import Place, is_among
from .queries import find_all, find_elements, find_regions, is_choice, substitute


class Pattern(NamedTuple):
    """An access in a block's own iterators, whatever stands around the block.

    Attributes
    ----------
    conditions : of choices in the block's body, that the loops alone decide, and that all hold
    is_conditional : whether another condition decides over it: it may be no access
    """

    buffer: Any
    ranges: tuple[Range, ...]
    conditions: tuple[Any, ...]
    is_conditional: bool


@dataclass(frozen=True)
class Access:
    """What one block writes or reads of a buffer, in loop variables."""

    place: Place
    pattern: Pattern

    @property
    def buffer(self) -> Any:
        """The buffer that it is an access of."""
        return self.pattern.buffer

    @functools.cached_property
    def ranges(self) -> list[Range]:
        """One for each dimension."""
        return [substitute(part, self.place.values) for part in self.pattern.ranges]

    @functools.cached_property
    def guards(self) -> list[Any]:
        """The conditions that all hold where it is done."""
        inner = [substitute(one, self.place.values) for one in self.pattern.conditions]
        return [*self.place.guards, *inner]


def find_accesses(place: Place) -> tuple[list[Access], list[Access]]:
    """What a block writes and what it reads, its initialization apart; it holds no other blocks.

    Of a body whose elements cannot be told, such as an intrinsic's, the regions that the block
    declares are taken.
    """
    writes, reads = find_patterns(place.block)
    return [Access(place, one) for one in writes], [Access(place, one) for one in reads]


@functools.lru_cache(maxsize=64)  # a transform leaves most blocks as they are
def find_patterns(block: SBlock) -> tuple[list[Pattern], list[Pattern]]:
    """What a block writes and what it reads, as `find_accesses`."""
    body = block.body
    elements = find_elements(body)
    stores = len(find_all(body, BufferStore))
    branch = bool(find_all(body, IfThenElse))
    found = []
    for at, (buffer, indices) in enumerate(elements):
        conditions = _find_conditions(body, indices) if at >= stores else []
        known = tuple(one for one in conditions if _is_known(one))
        ranges = tuple(Range.from_min_extent(one, 1) for one in indices)
        found.append(Pattern(buffer, ranges, known, branch or len(known) < len(conditions)))
    opaque = block.match_buffers or find_all(body, Evaluate) or find_all(body, For)
    if not opaque and not any(_depends_on_data(one) for one in found):
        return found[:stores], found[stores:]
    is_chosen = bool(_find_choices(body))
    regions = [
        Pattern(region.source, tuple(region.region), (), branch or is_chosen)
        for region in find_regions(block)
    ]
    reads = len(block.reads)
    return regions[reads:], regions[:reads]


def _depends_on_data(pattern: Pattern) -> bool:
    return any(find_all(part.min, TensorLoad) for part in pattern.ranges)


def _find_choices(body: Any) -> list[tuple[Any, ...]]:
    """The condition and both arms of each ``T.if_then_else`` and Select."""
    calls = [(call.args[0], *call.args[1:3]) for call in find_all(body, Call) if is_choice(call)]
    return calls + [
        (node.condition, node.true_value, node.false_value) for node in find_all(body, Select)
    ]


def _find_conditions(body: Any, indices: Any) -> list[Any]:
    """What must hold where the load with these indices is done, in arms of one choice or more."""
    return [
        Not(condition) if is_second else condition
        for condition, *arms in _find_choices(body)
        for is_second, arm in enumerate(arms)
        if is_among(indices, [load.indices for load in find_all(arm, TensorLoad)])
    ]


def _is_known(condition: Any) -> bool:
    """Whether the loops alone decide a condition."""
    return not find_all(condition, TensorLoad) and not find_all(condition, Call)
