"""Which blocks compute with elements of fragments that lie in registers of their own threads.

The lanes of a warp hold a fragment together: a matrix in registers with a row for each lane, of
which instructions of the warp take the first row of each lane for its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm.tirx import For

from .gpu_limits import WARP
from .tir import Place, bind_ranges, constant, find_all, get_axis, get_elements, substitute

OWN_LANES = "tirstep_own_lanes"
"""The annotation of the root block of a function that computes with elements of fragments."""


def number_lane(loops: Iterable[For]) -> Any:
    """The number of a thread in its warp, of loops of which some are those of thread axes."""
    axes = {get_axis(loop): loop for loop in loops}
    number: Any = 0
    for axis in ("threadIdx.z", "threadIdx.y", "threadIdx.x"):
        if axis in axes:
            number = number * axes[axis].extent + axes[axis].loop_var
    return number % WARP


def has_lane_rows(buffer: Any) -> bool:
    """Whether a buffer in registers has a row for each lane of a warp."""
    shape = list(buffer.shape)
    return str(buffer.scope()) == "local" and len(shape) > 1 and constant(shape[-2]) == WARP


def uses_own_lane(place: Place) -> bool:
    """Whether each thread takes the row of its own lane of all fragments that a block uses."""
    lane, analyzer = number_lane(place.loops), bind_ranges(place.loops)
    block = place.block
    statements = [block.body] if block.init is None else [block.body, block.init]
    return all(
        constant(analyzer.simplify(substitute(indices[-2], place.values) - lane)) == 0
        for statement in statements
        for buffer, indices in get_elements(statement)
        if has_lane_rows(buffer)
    )


def stay_in_lanes(buffer: Any, writer: Place, reader: Place) -> bool:
    """Whether each lane writes its own row of a fragment, and reads no other one.

    Instructions of a warp, whose blocks hold its threads, take the rows of their lanes themselves;
    between two of them there is nothing to ask.
    """
    if not has_lane_rows(buffer):
        return False
    plain = [
        place
        for place in (writer, reader)
        if all(get_axis(loop) is None for loop in find_all(place.block.body, For))
    ]
    return bool(plain) and all(map(uses_own_lane, plain))
