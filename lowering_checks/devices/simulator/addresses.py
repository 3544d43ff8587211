"""Addresses in the shared memory of a cluster's blocks, as threads keep them in registers.

An address of mapa is a number: of the memory, of the block in its cluster, and of the byte in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .function_semantics import Pointer, Threads, pick
from .run_state import UnsupportedError

UNDEFINED = "undefined operation"
_BYTE_BITS, _RANK_BITS = 19, 4


def get_lanes(threads: Threads) -> list[int]:
    """The numbers of the lanes that reach a call."""
    return [int(lane) for lane in np.flatnonzero(threads.active[:, 0])]


def map_address(
    threads: Threads, result: Pointer, own: Pointer, rank: Any, *modifiers: str
) -> None:
    """mapa: where what an address names lies in another block of the cluster."""
    if "u32" not in modifiers or not isinstance(own, Pointer):
        raise UnsupportedError(f"the simulator supports {threads.name} of 32 bits alone")
    number = threads.gpu.number_memory(own.memory)  # type: ignore[arg-type]
    place = np.asarray(own.offset, np.int64) * own.dtype.itemsize
    ranks = np.asarray(rank, np.int64)
    above = 1 << _RANK_BITS
    if place.size and (place.max() >= 1 << _BYTE_BITS or number >= 1 << 9):
        raise UnsupportedError(f"{own.name} is too large for addresses of {threads.name}")
    ranks = np.where((ranks < 0) | (ranks >= above), above - 1, ranks)
    value = ((number << _RANK_BITS | ranks) << _BYTE_BITS) | place
    result.store(0, np.broadcast_to(value, (threads.lanes, 1)).astype(np.uint32))


def find_pointer(threads: Threads, address: Any, lane: int) -> Pointer | None:
    """What a lane's address of mapa points at; None, and a finding, where there is no block."""
    value = int(pick(address, lane))
    rank = value >> _BYTE_BITS & (1 << _RANK_BITS) - 1
    memory = threads.gpu.get_numbered_memory(value >> _BYTE_BITS + _RANK_BITS)
    place = (value & (1 << _BYTE_BITS) - 1) // memory.dtype.itemsize
    return Pointer(threads, memory, place, rank) if has_block(threads, rank, lane) else None


def has_block(threads: Threads, rank: int, lane: int) -> bool:
    """Whether there is a block of that rank in a lane's cluster; a finding where there is none."""
    size = threads.state.batch.cluster
    if 0 <= rank < size:
        return True
    message = (
        f"{threads.name} to block {rank} of a cluster of {size} by "
        f"{threads.state.describe_lane(lane)}"
    )
    threads.report(UNDEFINED, threads.name, message)
    return False
