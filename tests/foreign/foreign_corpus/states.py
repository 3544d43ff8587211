"""States in which a function is found: as it is written, on threads, in tiles, staged, in rows."""

from __future__ import annotations

from collections.abc import Callable

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from tirstep import transforms
from tirstep.transforms import TransformError, queries
from tirstep.transforms.plans.roles import is_bound, list_sblocks


def bind_flat(sch: Schedule, block: SBlockRV) -> None:
    """Spread the spatial loops of a block over threads, and leave its reduction serial."""
    spatial = queries.get_spatial_loops(sch, block)
    reduced = queries.get_reduction_loops(sch, block)
    if not spatial:
        loops = sch.get_loops(block)
        spatial = [sch.add_unit_loop(loops[0] if loops else block)]
    elif reduced:
        transforms.reorder_loops(sch, [*spatial, *reduced])
    fused = transforms.fuse_loops(sch, spatial) if len(spatial) > 1 else spatial[0]
    split = transforms.split_loop(sch, fused, inner=8, tail="guard")
    transforms.bind_loop(sch, split.outer, axis="blockIdx.x")
    transforms.bind_loop(sch, split.inner, axis="threadIdx.x")


def bind_rest(sch: Schedule) -> None:
    """Bind all blocks of the function that are in no kernel yet."""
    for block in list_sblocks(sch):
        if not is_bound(sch, block):
            bind_flat(sch, block)


def find_anchor(sch: Schedule) -> SBlockRV:
    """The last block that reduces; the last one where none does."""
    blocks = list_sblocks(sch)
    return next((it for it in reversed(blocks) if queries.is_reduction(sch, it)), blocks[-1])


def as_written(sch: Schedule) -> None:
    """Leave the function as it is."""


def on_threads(sch: Schedule) -> None:
    """Each block a kernel of its own."""
    bind_rest(sch)


def in_tiles(sch: Schedule) -> None:
    """The anchor in tiles of threads, with guards, and its sums in registers."""
    _tile(sch)
    bind_rest(sch)


def staged(sch: Schedule) -> None:
    """The anchor in tiles, its reduction in steps, and its operands in shared memory."""
    block = find_anchor(sch)
    tile = _tile(sch)
    steps = transforms.split_reduction(sch, block, inner=8, tail="guard")
    for operand in range(len(sch.get(block).reads)):
        transforms.stage_operand_at(sch, block, steps.outer, operand=operand, threads=tile)
    transforms.decompose_reduction_at(sch, block, steps.outer)
    bind_rest(sch)


def in_rows(sch: Schedule) -> None:
    """All blocks under the first loop of the last one, which is a row of a GPU's block."""
    *others, last = list_sblocks(sch)
    row = sch.get_loops(last)[0]
    transforms.bind_loop(sch, row, axis="blockIdx.x")
    for block in reversed(others):
        transforms.compute_block_at(sch, block, row)
    for block in [*others, last]:
        transforms.spread_over_threads(sch, block, threads=8, tail="guard")


def _tile(sch: Schedule) -> tuple[int, ...]:
    """Tile the anchor; the threads of a tile."""
    block = find_anchor(sch)
    count = min(2, len(queries.get_spatial_loops(sch, block)))
    threads = (4, 4)[:count]
    tile = transforms.tile_block(
        sch, block, threads=threads, per_thread=(2, 2)[:count], tail="guard"
    )
    if queries.is_reduction(sch, block):
        transforms.accumulate_in_registers(sch, block, tile.threads[-1])
    return threads


STATES: dict[str, Callable[[Schedule], None]] = {
    "as written": as_written,
    "on threads": on_threads,
    "in tiles": in_tiles,
    "staged": staged,
    "in rows": in_rows,
}


def make_state(function: object, state: str) -> Schedule | None:
    """A schedule of a function in a state; None where it cannot be brought there."""
    sch = Schedule(function)
    try:
        STATES[state](sch)
    except (TransformError, RuntimeError, IndexError):
        return None
    return sch
