"""Accesses of elements that a buffer does not have.

TVM estimates what a block writes from its loops, and forgets guards of loops that were fused and
split: a copy of what such a block writes would go over all of the rounded-up tile.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm.ir import IRModule
from tvm.sym import Analyzer
from tvm.tirx import And, For, PrimFunc, const
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.enumeration import escapes
from tirstep.transforms.tir import (
    Access,
    bind_ranges,
    cached_by_module,
    constant,
    find_accesses,
    get_places,
    is_among,
)


class Outside(NamedTuple):
    """A block that uses elements beyond those of a buffer.

    Attributes
    ----------
    verb : what it does to them, ``"read"`` or ``"write"``
    dimension : of the buffer, along which they are beyond
    """

    block: str
    verb: str
    buffer: str
    dimension: int
    length: int


@dataclass(frozen=True)
class _Use:
    """An access; the key is what makes it the same in another module."""

    key: tuple[Any, ...]
    access: Access = field(compare=False)

    @classmethod
    def of(cls, access: Access, verb: str) -> _Use:
        place, pattern = access.place, access.pattern
        parts = (item for part in pattern.ranges for item in (part.min, part.extent))
        loops = (item for loop in place.loops for item in (loop.loop_var, *_read_extent(loop)))
        return cls((verb, pattern.buffer, *place.key, *parts, *loops), access)


def _read_extent(loop: For) -> tuple[Any, Any]:
    first, extent = constant(loop.min), constant(loop.extent)
    return (
        loop.min if first is None else first,
        loop.extent if extent is None else extent,
    )


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_outside(module: IRModule) -> dict[tuple[str, str, str], Outside]:
    """What blocks use beyond the ends of buffers, by block, verb and buffer.

    Iterations are tried: what is found is so, and what is not found may be there, at sizes that are
    open, in loops of many iterations, or with indices from data.
    """
    found = {}
    for _, function in module.functions_items():
        if not isinstance(function, PrimFunc):
            continue
        for place in get_places(function.body):
            for verb, accesses in zip(
                ("write", "read"), find_accesses(place) if place.is_innermost else (), strict=False
            ):
                for access in accesses:
                    dimension = _find_dimension(_Use.of(access, verb))
                    if dimension is not None:
                        name = str(access.buffer.name)
                        length = constant(access.buffer.shape[dimension]) or 0
                        key = (place.name, verb, name)
                        found[key] = Outside(*key, dimension, length)
    return found


@functools.lru_cache(maxsize=1024)
def _find_dimension(use: _Use) -> int | None:
    """The first dimension along which an access leaves its buffer; None where none is found."""
    access = use.access
    if access.pattern.is_conditional:
        return None
    analyzer = bind_ranges(access.place.loops)
    for dimension, is_inside in _list_doubts(access, analyzer):
        if is_left(access, is_inside):
            return dimension
    return None


def _list_doubts(access: Access, analyzer: Analyzer) -> Iterator[tuple[int, Any]]:
    """The dimensions in which an index may be outside, guards apart, and when it is inside."""
    for dimension, (part, length) in enumerate(
        zip(access.ranges, access.buffer.shape, strict=True)
    ):
        wide, size = constant(part.extent), constant(length)
        if wide is None or size is None:
            continue
        bound = analyzer.const_int_bound(part.min)
        if bound.min_value < 0 or bound.max_value > size - wide:
            yield dimension, And(part.min >= 0, part.min <= size - wide)


def is_left(access: Access, is_inside: Any) -> bool:
    """Whether an access is done where a condition does not hold, in the iterations tried."""
    # Of an extent that is no constant all iterations would be tried, and more.
    within = [
        loop.loop_var < loop.extent for loop in access.place.loops if constant(loop.extent) is None
    ]
    lets = [*access.guards, *within]
    is_let = functools.reduce(And, lets) if lets else const(True)
    used = [*undefined_vars(is_inside), *undefined_vars(is_let)]
    loops = [loop for loop in access.place.loops if is_among(loop.loop_var, used)]
    return all(constant(loop.min) == 0 for loop in loops) and escapes(is_let, is_inside, loops)
