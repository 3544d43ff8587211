"""Axes: which loops may run on one, of those around a block, in its guards and in its body."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For

from ..errors import TransformError
from ..queries import get_enclosing_loops, get_root
from ..tir import Place, find_all, get_axis, get_places, is_among, is_used


def require_axis_free(sch: Schedule, loop: LoopRV, axis: str) -> None:
    """Refuse an axis on which another loop of the same block runs already."""
    node = sch.get(loop)
    lineage = [*get_enclosing_loops(sch, loop), *find_all(node.body, For)]
    rivals = [other for other in lineage if get_axis(other) == axis]
    if rivals and axis.startswith("vthread"):
        raise TransformError(
            f"loop '{node.loop_var.name}': '{axis}' already drives loop "
            f"'{rivals[0].loop_var.name}' around or inside, and a virtual thread would do its own "
            "share of both only",
            "bind it to another axis, or leave it serial",
        )
    if not rivals:
        return
    for place in get_places(get_root(sch, loop)):
        if not is_among(node, place.loops):
            continue
        guards = place.find_real_guards()
        _require_no_instruction(place, guards, node, rivals)
        mine = [rival for rival in rivals if is_among(rival, place.loops)]
        if mine and _is_used(place, guards, node):
            _require_unused(place, guards, node, mine)


def _require_no_instruction(place: Place, guards: list[Any], loop: For, rivals: list[For]) -> None:
    """Refuse a loop of an instruction's block, whose own loops are all threads of the axis."""
    own = find_all(place.block.body, For)
    taken = [rival for rival in rivals if place.is_innermost and is_among(rival, own)]
    if taken and _is_used(place, guards, loop):
        raise TransformError(
            f"loop '{loop.loop_var.name}': block '{place.name}' is an instruction of all threads "
            f"on '{get_axis(taken[0])}', of which each would do its own share of the loop only",
            "bind it to another axis, or leave it serial",
        )


def _require_unused(place: Place, guards: list[Any], loop: For, rivals: list[For]) -> None:
    """Refuse rivals that a block uses: a thread would do its own share of both loops only."""
    for rival in rivals:
        if not _is_used(place, guards, rival):
            continue
        what = f"loop '{loop.loop_var.name}': '{get_axis(rival)}' already drives loop "
        what += f"'{rival.loop_var.name}' of block '{place.name}', "
        guarded = [item for item in (loop, rival) if not place.is_fed(item)]
        if not guarded:
            raise TransformError(
                f"{what}so that only the diagonal would run",
                "bind it to another axis, or fuse the two loops first",
            )
        name = guarded[0].loop_var.name
        guard = next(guard for guard in guards if is_used(guarded[0].loop_var, guard))
        raise TransformError(
            f"{what}where '{name}' decides through the guard {guard} alone which threads run: "
            "each would do its own share, and those that the guard keeps out none",
            "bind it to another axis, or bind the outer loop first, and fetch or spread what is "
            "inside of it afterwards",
        )


def _is_used(place: Place, guards: list[Any], loop: For) -> bool:
    """Whether a loop decides what a block works on, or whether it runs: guards are uses, too."""
    return place.is_fed(loop) or any(is_used(loop.loop_var, guard) for guard in guards)
