"""Values that each iteration of a loop overwrites: what reads them has to stay inside of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from ..errors import TransformError
from ..queries import get_enclosing_loops, get_root
from ..tir import Place, find_accesses, get_places, is_among, is_used


def require_in_iteration(sch: Schedule, block: SBlockRV, loop: LoopRV) -> None:
    """Refuse a place for a block outside of a loop in which another one overwrites what it reads.

    `fuse_reductions` makes such blocks; TVM, for which a buffer is written once, moves them.
    """
    places, node = get_places(get_root(sch, block)), sch.get(block)
    reader = next(place for place in places if place.block.same_as(node))
    stays = [*get_enclosing_loops(sch, loop), sch.get(loop)]
    left = [it for it in reader.loops if not is_among(it, stays)]
    reads = [read.buffer for read in find_accesses(reader)[1]]
    for writer in places if left else ():
        if writer.block.same_as(node):
            continue
        for buffer, it in _find_overwritten(writer, left):
            if is_among(buffer, reads):
                raise TransformError(
                    f"block '{reader.name}' reads '{buffer.name}' in each iteration of loop "
                    f"'{it.loop_var.name}', where block '{writer.name}' overwrites it, and outside "
                    "of that loop it would find what the last one left",
                    "place it at a loop inside of that one",
                )


def _find_overwritten(writer: Place, loops: list[For]) -> Iterator[tuple[Any, For]]:
    """What a block writes anew, and otherwise, in each iteration of some loops around it."""
    outer = [it for it in loops if is_among(it, writer.loops) and writer.is_fed(it)]
    for write in find_accesses(writer)[0] if outer else ():
        for it in outer:
            if not any(is_used(it.loop_var, part.min) for part in write.ranges):
                yield write.buffer, it
