"""Dynamic shared memory, of which TVM makes one buffer where its own storage rewrite is off.

MergeSharedMemoryAllocations gives the place of a buffer that is not used any more to a later one.
Where that is larger, it may reach into a third one behind it that is still in use: TVM 0.27 counts
the offsets of both from the smaller one's end. With the storage rewrite on, buffers come to that
pass one behind the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm.tirx import PrimFunc

from ..tir import Place, cached_by_module, find_all, get_places

SCOPE = "shared.dyn"
OPTION = "pass_config.tirx.disable_storage_rewrite"


class _Life(NamedTuple):
    """A buffer, and the first and the last place in program order that uses it."""

    buffer: Any
    first: int
    last: int


@cached_by_module(2)
def find_overlaps(module: IRModule) -> list[str]:
    """The buffers in use into whose place TVM may let a larger one reach."""
    return [
        str(life.buffer.name)
        for _, function in module.functions_items()
        if isinstance(function, PrimFunc) and _is_rewrite_off(function)
        for life in _find_overlaps(get_places(function.body))
    ]


def _is_rewrite_off(function: PrimFunc) -> bool:
    roots = find_all(function.body, SBlock)[:1]
    return any(bool(root.annotations.get(OPTION, False)) for root in roots)


def _find_overlaps(places: list[Place]) -> Iterator[_Life]:
    """Buffers that are in use where one that began before them is not any more, and one begins."""
    lives = _find_lives(places)
    for before, within, after in itertools.permutations(lives, 3):
        is_free = before.last < after.first
        if is_free and before.first < within.first < after.first <= within.last:
            yield within


def _find_lives(places: list[Place]) -> list[_Life]:
    lives: list[_Life] = []
    for at, place in enumerate(places):
        used = [region.source for region in (*place.block.reads, *place.block.writes)]
        for buffer in used:
            if str(buffer.scope()) != SCOPE or place.kernel is None:
                continue
            known = next((n for n, life in enumerate(lives) if life.buffer.same_as(buffer)), None)
            if known is None:
                lives.append(_Life(buffer, at, at))
            else:
                lives[known] = lives[known]._replace(last=at)
    return lives
