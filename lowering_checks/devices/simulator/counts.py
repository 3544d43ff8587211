"""Counts of a launch: what its memory accesses cost, seen in the first GPU block.

Every block of a schedule does about the same, so one block is counted exactly rather than all of
them roughly. Banks and sectors are those of NVIDIA's GPUs since compute capability 5: 32 banks of
4 bytes, sectors of 32 bytes (CUDA C++ Programming Guide, "Shared Memory" and "Device Memory
Accesses").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .grid import Array

WARP, BANKS, BANK_BYTES, SECTOR_BYTES = 32, 32, 4, 32


@dataclass
class AccessCounts:
    """Accesses of one block to one scope, loads and stores together.

    Attributes
    ----------
    requests : instructions, counted once for each warp
    bytes : what the threads asked for
    bank_conflicts : wavefronts beyond those that a request needs at least (shared memory)
    sectors : sectors of 32 bytes touched, summed over the requests (global memory)
    """

    requests: int = 0
    bytes: int = 0
    bank_conflicts: int = 0
    sectors: int = 0

    @property
    def sectors_per_request(self) -> float:
        """4 for a warp that reads 32 neighbouring float32, 32 for one that reads a column."""
        return self.sectors / self.requests if self.requests else 0.0


@dataclass
class Counts:
    """Counts of one launch; see the module's docstring."""

    barriers: int = 0
    scopes: dict[str, AccessCounts] = field(default_factory=dict)

    def note(self, scope: str, cells: Array, active: Array, itemsize: int) -> None:
        """Note one access: cells of shape (threads of the block, vector), and who takes part."""
        counts = self.scopes.setdefault(scope, AccessCounts())
        here = np.broadcast_to(active, cells.shape)[:, 0]
        if not here.any():
            return
        warps = np.flatnonzero(here) // WARP
        addresses = cells[here] * itemsize
        counts.requests += len(np.unique(warps))
        counts.bytes += int(addresses.size) * itemsize
        if scope == "global":
            counts.sectors += _count_pairs(warps, addresses // SECTOR_BYTES)
        elif scope == "shared":
            lane = np.flatnonzero(here) % WARP
            counts.bank_conflicts += _count_conflicts(warps, lane, addresses, itemsize)


def _count_pairs(groups: Array, values: Array) -> int:
    pairs = np.stack([np.broadcast_to(groups[:, None], values.shape), values], axis=-1)
    return len(np.unique(pairs.reshape(-1, 2), axis=0))


def _count_conflicts(warps: Array, lane: Array, addresses: Array, itemsize: int) -> int:
    """Wide accesses go in parts: 8 bytes in halves of a warp, 16 bytes in quarters."""
    width = addresses.shape[1] * itemsize
    parts = max(1, width // BANK_BYTES)
    group = warps * parts + lane // max(1, WARP // parts)
    words = addresses // BANK_BYTES
    pairs: np.ndarray[Any, Any] = np.stack(
        [np.broadcast_to(group[:, None], words.shape), words], axis=-1
    ).reshape(-1, 2)
    pairs = np.unique(pairs, axis=0)
    places, wavefronts = np.unique(
        np.stack([pairs[:, 0], pairs[:, 1] % BANKS], axis=-1), axis=0, return_counts=True
    )
    worst = np.zeros(int(places[:, 0].max()) + 1, np.int64)
    np.maximum.at(worst, places[:, 0], wavefronts)
    return int(np.maximum(worst - 1, 0).sum())
