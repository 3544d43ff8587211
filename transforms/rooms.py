"""Rooms: whether TVM keeps a room of shared memory for all elements that the threads put there."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir import transform as passes
from tvm.tirx import FloorMod, For

from .enumeration import takes_several_values
from .errors import TransformError
from .places import find_places
from .queries import find_all, find_axis, find_elements, substitute

_UNTIL_ROOMS = (
    passes.LowerInitBlock,
    passes.PlanAndUpdateBufferAllocationLocation,
    passes.ConvertBlocksToOpaque,
    passes.LiftThreadBinding,
)
"""What TVM does before it makes buffers as small as they can be."""


def require_one_room(sch: Schedule, who: str) -> None:
    """Refuse shared memory that TVM would make smaller, and begin elsewhere for each thread.

    Of remainders of remainders, x % 13 % 4, TVM takes those of one thread for all that there are.
    """
    if not any(_has_remainders_of_remainders(function.body) for function in _find_functions(sch)):
        return
    laid_out = sch.mod
    for lower in _UNTIL_ROOMS:
        laid_out = lower()(laid_out)
    compact = passes.CompactBufferAllocation()(laid_out)
    for name, function in laid_out.functions_items():
        before, after = (find_elements(body) for body in (function.body, compact[name].body))
        loops = [one for one in find_all(function.body, For) if _is_thread(one)]
        for (buffer, old), (_, new) in zip(before, after, strict=True):
            if not buffer.scope().startswith("shared"):
                continue
            begins = [one - other for one, other in zip(old, new, strict=True)]
            if any(takes_several_values(begin, loops) for begin in begins):
                raise TransformError(
                    who,
                    f"TVM would make '{buffer.name}' smaller, as if each thread had one of its own "
                    f"that begins elsewhere, since it reads and writes at {old[-1]} alone",
                    "fold it into rows that divide its length, or leave it as it is",
                )


def _find_functions(sch: Schedule) -> list[Any]:
    return [function for _, function in sch.mod.functions_items()]


def _is_thread(loop: For) -> bool:
    return (find_axis(loop) or "").startswith("threadIdx")


def _has_remainders_of_remainders(body: Any) -> bool:
    for place in find_places(body):
        for buffer, indices in find_elements(place.block.body):
            if not buffer.scope().startswith("shared"):
                continue
            for index in indices:
                whole = substitute(index, place.values)
                if any(find_all(one.a, FloorMod) for one in find_all(whole, FloorMod)):
                    return True
    return False
