"""Virtual threads: what a loop on a vthread axis does to the rest of its kernel."""

from __future__ import annotations

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from .errors import TransformError
from .queries import find_all, find_axis, get_enclosing_kernel


def require_virtual_threads_around_all(sch: Schedule, who: str, handle: LoopRV | SBlockRV) -> None:
    """Refuse a kernel of which a virtual thread does a part only.

    TVM hoists the loops of a vthread axis to the top of their kernel, so that blocks outside of
    them run once for each virtual thread, on buffers of its own.
    """
    kernel = get_enclosing_kernel(sch, handle)
    blocks = find_all(kernel, SBlock)
    for loop in find_all(kernel, For):
        axis = find_axis(loop) or ""
        if not axis.startswith("vthread"):
            continue
        inside = find_all(loop, SBlock)
        for block in blocks:
            if not any(block.same_as(other) for other in [*inside, *_around(blocks, loop)]):
                raise TransformError(
                    who,
                    f"block '{block.name_hint}' stands outside of loop '{loop.loop_var.name}' on "
                    f"'{axis}', and TVM would repeat it for each virtual thread",
                    "keep all blocks of the kernel inside of that loop",
                )


def _around(blocks: list[SBlock], loop: For) -> list[SBlock]:
    """The blocks that enclose a loop themselves."""
    return [
        block for block in blocks if any(loop.same_as(other) for other in find_all(block.body, For))
    ]
