"""What the threads of a warp exchange with each other: shuffles, and who of them is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from .calls import Evaluate
from .grid import Array, Batch
from .meanings import Machine

SHUFFLES: dict[str, Callable[..., Any]] = {
    "tvm_warp_shuffle": lambda lane, source, width: source % width + 0 * lane,
    "tvm_warp_shuffle_down": lambda lane, by, width: np.where(
        lane % width + by < width, lane % width + by, lane % width
    ),
    "tvm_warp_shuffle_up": lambda lane, by, width: np.where(
        lane % width >= by, lane % width - by, lane % width
    ),
    # It may read the segments before its own, and none behind it.
    "tvm_warp_shuffle_xor": lambda lane, bits, width: np.where(
        lane ^ bits < lane - lane % width + width, (lane ^ bits) - lane + lane % width, lane % width
    ),
}
"""The source of each lane of a warp, counted from the beginning of its segment of `width` lanes."""


def translate_shuffle(name: str, arguments: Sequence[Evaluate]) -> Evaluate:
    """The function of a shuffle of a mask, a value, an offset and a width."""
    named, value, offset, width = arguments
    find_source = SHUFFLES[name]

    def run(machine: Machine, mask: Array | None) -> Any:
        batch = machine.now.batch
        given = np.broadcast_to(value(machine, mask), (batch.lanes, 1))
        lane, size = batch.lane % batch.threads % WARP, width(machine, mask)
        source = find_source(lane, offset(machine, mask), size) + (lane // size * size)
        there = batch.lane - lane + source
        ended = there // batch.threads != batch.block  # beyond the last thread: one's own value
        there = np.where(ended, batch.lane, there)
        source = np.where(ended, lane, source)
        members = np.asarray(named(machine, mask)).astype(np.int64)
        here = np.broadcast_to(True if mask is None else mask, (batch.lanes, 1))
        _require_partners(machine, here, members >> lane & members >> source & 1 == 1, there)
        if mask is not None:
            _require_members(machine, members, here)
        return given[there[:, 0]]

    return run


def find_active_mask(machine: Machine, mask: Array | None) -> Any:
    """The lanes of a thread's warp that are here, a bit for each."""
    batch = machine.now.batch
    if mask is None and batch.threads % WARP == 0:
        return 0xFFFFFFFF
    here = np.broadcast_to(True if mask is None else mask, (batch.lanes, 1))
    rows = _in_warps(batch, here)
    bits = (rows.astype(np.int64) << np.arange(WARP)).sum(axis=-1, keepdims=True)
    spread = np.broadcast_to(bits, rows.shape).reshape(batch.blocks, -1)[:, : batch.threads]
    return spread.reshape(-1, 1).astype(np.uint32)


def _require_members(machine: Machine, members: Array, here: Array) -> None:
    """All lanes that a mask names must come to the shuffle, which waits for them."""
    batch = machine.now.batch
    named = np.where(here, np.broadcast_to(members, here.shape), 0)
    wanted = np.bitwise_or.reduce(_in_warps(batch, named), axis=-1, keepdims=True)
    rows = wanted >> np.arange(WARP) & 1 == 1
    absent = rows.reshape(batch.blocks, -1)[:, : batch.threads].reshape(-1, 1) & ~here
    if machine.now.ended is not None:
        absent &= ~machine.now.ended
    machine.now.log.add(
        "divergent shuffle",
        "",
        machine.line,
        absent,
        lambda at: f"{machine.now.describe(at[0])} does not come to a shuffle whose mask names it",
    )


def _in_warps(batch: Batch, column: Array) -> Array:
    """A column of the lanes as (blocks, warps, 32), filled up with zeros."""
    warps = -(-batch.threads // WARP)
    rows = np.zeros((batch.blocks, warps * WARP), column.dtype)
    rows[:, : batch.threads] = column.reshape(batch.blocks, batch.threads)
    return rows.reshape(batch.blocks, warps, WARP)


def _require_partners(machine: Machine, here: Array, named: Array, there: Array) -> None:
    """A lane and its source must both come to a shuffle, and its mask must name them."""
    alone = here & ~(named & here[there[:, 0]])

    def describe(at: tuple[int, ...]) -> str:
        mine, other = (machine.now.describe(lane) for lane in (at[0], int(there[at])))
        return f"{mine} takes a value from {other}, and not both take part in the shuffle"

    machine.now.log.add("divergent shuffle", "", machine.line, alone, describe)
