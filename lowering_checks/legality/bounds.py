"""Accesses of elements that a buffer does not have.

TVM estimates what a block writes from its loops, and forgets guards of loops that were fused and
split: a copy of what such a block writes would go over all of the rounded-up tile.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from tvm.ir import IRModule

from tirstep.transforms.tir import bind_ranges, cached_by_module, constant

from .accesses import Access, list_accesses

_TRIED = 2048
"""Iterations of a block that are tried."""


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


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_outside(module: IRModule) -> dict[tuple[str, str, str], Outside]:
    """What blocks use beyond the ends of buffers, by block, verb and buffer.

    Iterations are tried: what is found is so, and what is not found may be there, at sizes that are
    open, in loops of many iterations, or with indices from data.
    """
    found = {}
    for accesses in list_accesses(module):
        for access in accesses:
            dimension = find_left_dimension(access, range(len(access.buffer.shape)))
            if dimension is not None:
                verb = "write" if access.element.is_written else "read"
                key = (access.place.name, verb, str(access.buffer.name))
                length = constant(access.buffer.shape[dimension]) or 0
                found[key] = Outside(*key, dimension, length)
    return found


@functools.lru_cache(maxsize=1024)
def find_left_dimension(access: Access, dimensions: Iterable[int]) -> int | None:
    """The first of some dimensions along which an access leaves its buffer; None for none."""
    if access.element.is_conditional or not access.element.is_told:
        return None
    analyzer, table = bind_ranges((*access.place.loops, *access.counts)), None
    for dimension in dimensions:
        size = constant(access.buffer.shape[dimension])
        if size is None:
            continue
        bound = analyzer.const_int_bound(access.cells[dimension])
        if bound.min_value >= 0 and bound.max_value < size:
            continue
        table = access.tabulate(tried=_TRIED) if table is None else table
        if table is None:
            return None
        column = table[:, dimension]
        if ((column < 0) | (column >= size)).any():
            return dimension
    return None
