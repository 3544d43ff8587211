"""From where the results of a product by wgmma are written, as types and memory let them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from ..gpu_limits import MAX_SHARED_BYTES
from ..passes.store_slots import SLOTS
from ..queries import find_epilogue
from ..tir import constant
from ..tma_tiles import ATOM, PITCH
from .mma import choose_store
from .tile_choice import VECTOR_BYTES

if TYPE_CHECKING:
    from .wgmma import WgmmaConfig

WgmmaStore = Literal["registers", "shared", "tma"]
"""From where a result is written: registers, shared memory, or that by the TMA."""
ROW_BYTES = 128
"""Of a slab of a tile that the TMA stores."""


def choose_wgmma_store(sch: Schedule, total: SBlockRV, config: WgmmaConfig) -> WgmmaStore:
    """From where a result is written: by threads, where the TMA cannot address its rows.

    Where blocks stay, shared memory must hold it beside the stages, or it is written from registers
    if nothing else is to be done with it.
    """
    stays = config.persistent and config.roles and config.copies == "tma"
    result = _get_result(sch, total, config)
    pitch = (constant(result.shape[-1]) or 1) * result.dtype.itemsize
    fits = pitch % PITCH == 0 and constant(result.shape[-2]) != 1  # a tile has rows
    wanted = config.store if config.store != "tma" or fits else "shared"
    if stays and not has_room_beside_stages(sch, total, replace(config, store=wanted)):
        wanted = "registers"
    return "tma" if wanted == "tma" else choose_store(sch, total, wanted, config.tail)


def _get_result(sch: Schedule, total: SBlockRV, config: WgmmaConfig) -> Any:
    """What a tile is stored to: the result of an epilogue, or sums."""
    epilogue = find_epilogue(sch, total) if config.split_k == 1 else None
    return sch.get(epilogue or total).writes[0].source


def has_room_beside_stages(sch: Schedule, total: SBlockRV, config: WgmmaConfig) -> bool:
    """Whether shared memory holds what is stored of a tile beside all stages."""
    node = sch.get(total)
    rows, columns = config.tile
    stages = (rows + columns) * config.tile_k * config.stages * node.reads[-1].source.dtype.itemsize
    stored = rows * columns * node.writes[0].source.dtype.itemsize + rows * 2 * VECTOR_BYTES
    if config.store == "tma":
        stored = rows * count_slot_bytes(columns * _get_result(sch, total, config).dtype.itemsize)
    return stages + stored + ATOM <= MAX_SHARED_BYTES["shared.dyn"]


def count_slot_bytes(row: int) -> int:
    """Of a row of so many bytes of a tile, those that slots of its slabs have room for at least."""
    slabs, is_even = row // ROW_BYTES, row % (SLOTS * ROW_BYTES) == 0
    return SLOTS * ROW_BYTES if slabs > SLOTS and is_even else row
