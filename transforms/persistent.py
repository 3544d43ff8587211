"""Thread blocks that stay: as many as run at once, which go through the tiles of a grid.

A transform only annotates the loop: `transforms.passes.persistent` makes the loop over a block's
tiles of it.
"""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For

from .gpu_limits import MAX_SHARED_BYTES
from .intrinsics.mma import SCOPE
from .pass_options import lower_around
from .passes.persistent import measure_room
from .passes.store_slots import measure_saved
from .passes.tma_pipeline import ROOM
from .queries import get_enclosing_kernel, get_enclosing_loops, get_loop_name
from .schedule import Int64, TransformError, transform
from .tir import constant, find_all, get_axis
from .tma_tiles import TMA_PERSISTENT, TMA_ROLES, TMA_STAGES

_PASS = "tirstep.LowerTmaPipelines"


@transform
def make_persistent(
    sch: Schedule, loop: LoopRV, *, blocks: Int64, stages: Int64 | None = None
) -> None:
    """Let as many thread blocks stay as run at once, and go through the tiles of the grid.

    Block number b computes the tiles b, b + `blocks`, b + 2 * `blocks`, …: those that run at the
    same time are neighbours in the order of the grid, as they were. Where a mask ends loops, every
    other round of tiles goes back: no block has all of the long ones. The warps that copy go from
    tile to tile without a break, and fetch the next one while the others store theirs; mbarriers
    are made once, and their stages and parities follow the steps of all tiles. The memory that a
    result is stored through lies beside the stages, not in their place, and barriers of the warps
    that compute are those of their threads alone (bar.sync with a number). A grid of several axes
    is gone through as a GPU numbers its blocks, along blockIdx.x first. `blocks` are the
    multiprocessors of a GPU, 132 of an H200, times those that one has room for. With `stages` the
    pipeline has so many, more than its loop has iterations if need be: those of the next tiles are
    copied, too.

    rewrite: ``for tile in blockIdx.x: for k: wait for full[k % stages]; compute; store`` ->
        ``for block in blockIdx.x: for tile in range(block, tiles, blocks): for k: wait for
        full[step % stages]; compute; store``, step counting on from tile to tile, when the module
        is lowered
    consumes: nothing
    requires: a loop to which `specialize_warps` has given roles, the one pipeline of its kernel;
        a grid of known size; no fewer `stages` than it has, and room in shared memory for
        them beside the tile that is stored; one block or more
    """
    name, node = get_loop_name(sch, loop), sch.get(loop)
    _require_alone(sch, loop)
    if blocks < 1:
        raise TransformError(
            f"blocks={blocks} is no number of thread blocks",
            "give those that run at once: the multiprocessors of the GPU, 132 of an H200",
        )
    has = int(node.annotations[TMA_STAGES])
    wanted = has if stages is None else stages
    if wanted < has:
        raise TransformError(
            f"stages={wanted} are fewer than the {has} that loop '{name}' has",
            "tell prefetch_by_tma of so few",
        )
    _require_known_grid(name, get_enclosing_loops(sch, loop))
    around = lower_around(sch.mod, [_PASS]).get(_PASS)
    used = measure_room(around.before, sch.get(loop).loop_var.name, wanted) if around else 0
    used -= measure_saved(around.before, used) if around else 0
    most = MAX_SHARED_BYTES[SCOPE]
    if 2 * wanted + 1 > ROOM:
        raise TransformError(
            f"stages={wanted} have {2 * wanted + 1} mbarriers, and there is room for {ROOM}",
            f"use {(ROOM - 1) // 2} stages at most",
        )
    if used > most:
        raise TransformError(
            f"{wanted} stages of loop '{get_loop_name(sch, loop)}' and the tile that is stored "
            f"take {-(-used >> 10)} KiB of shared memory, and a block has {most >> 10}",
            "use fewer stages or smaller tiles, or store from registers",
        )
    if wanted != has:
        sch.unannotate(loop, TMA_STAGES)
        sch.annotate(loop, TMA_STAGES, wanted)
    sch.annotate(loop, TMA_PERSISTENT, blocks)


def _require_alone(sch: Schedule, loop: LoopRV) -> None:
    """Refuse a loop but one with roles, of which a tile does nothing that the next one cannot."""
    name, notes = get_loop_name(sch, loop), sch.get(loop).annotations
    if TMA_ROLES not in notes or TMA_PERSISTENT in notes:
        raise TransformError(
            f"loop '{name}' is no pipeline in which warps have roles, or its blocks stay already",
            "call specialize_warps first, and this once: without roles nothing is copied while "
            "a tile is stored",
        )
    kernel = find_all(get_enclosing_kernel(sch, loop), For)
    if sum(TMA_STAGES in each.annotations for each in kernel) > 1:
        raise TransformError(
            f"the kernel of loop '{name}' has another pipeline of bulk copies",
            "leave one tile to each block there",
        )


def _require_known_grid(name: str, around: list[For]) -> None:
    grid = [loop for loop in around if (get_axis(loop) or "").startswith("blockIdx")]
    if not grid:
        raise TransformError(
            f"the tiles of loop '{name}' are on no thread blocks", "bind them to blockIdx.x"
        )
    for loop in grid:
        if constant(loop.extent) is None:
            raise TransformError(
                f"loop '{loop.loop_var.name}' around loop '{name}' has {loop.extent} tiles, an "
                "open number",
                "give the sizes of the problem",
            )
