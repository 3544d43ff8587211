"""Counts of launches: what their memory accesses cost, seen in the first thread block of each.

Every thread block of a schedule does about the same, so the first is counted exactly rather than
all of them roughly. Banks and sectors are those of NVIDIA's GPUs since compute capability 5: 32
banks of 4 bytes, sectors of 32 bytes (CUDA C++ Programming Guide, "Shared Memory" and "Device
Memory Accesses").
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from ...device import Array

BANKS, BANK_BYTES, SECTOR_BYTES = 32, 4, 32
_GROUP_BIT = 44
"""Above the addresses of a GPU, so that a group and an address fit into one integer."""


@dataclass
class AccessCounts:
    """Accesses of one block to one scope, loads and stores together.

    Attributes
    ----------
    requests : instructions, counted once for each warp
    bytes : what the threads load and store
    wavefronts : passes of shared memory
    bank_conflicts : wavefronts beyond those that a request needs at least (shared memory)
    sectors : sectors of 32 bytes touched, summed over the requests (global memory)
    """

    requests: int = 0
    bytes: int = 0
    wavefronts: int = 0
    bank_conflicts: int = 0
    sectors: int = 0

    def add(self, other: AccessCounts) -> None:
        """Count these, too."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    @property
    def sectors_per_request(self) -> float:
        """4 for a warp that reads 32 neighbouring float32, 32 for one that reads a column."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def wavefronts_per_request(self) -> float:
        """4 for a warp that reads 32 vectors of 16 bytes, 2 where pairs of threads share them."""
        return self.wavefronts / self.requests if self.requests else 0.0


@dataclass
class Counts:
    """Counts of all launches of a run; see the module's docstring.

    Attributes
    ----------
    barriers : that the first block passed
    async_copies, matrix_loads, matrix_multiplies : cp.async, ldmatrix and mma, counted once for
        each warp; what they load and store is counted with the scopes
    scopes : "global", "shared": the accesses there
    blocks : thread blocks of all launches together
    traffic : bytes of the sectors of global memory that all blocks touch, each launch by its first
        block: a multiple of the least that must be moved, where blocks read the same again
    """

    barriers: int = 0
    async_copies: int = 0
    matrix_loads: int = 0
    matrix_multiplies: int = 0
    scopes: dict[str, AccessCounts] = field(default_factory=dict)
    blocks: int = 0
    traffic: int = 0

    @property
    def sectors(self) -> int:
        """Sectors of global memory touched so far, by first blocks."""
        return self.scopes["global"].sectors if "global" in self.scopes else 0

    def copy(self) -> Counts:
        """The counts as they are now."""
        scopes = {name: replace(counts) for name, counts in self.scopes.items()}
        return replace(self, scopes=scopes)

    def repeat_since(self, before: Counts, times: int) -> None:
        """Count all that came since `before` so many times more."""
        scopes = self.scopes.items()
        pairs = [(each, before.scopes.get(name, AccessCounts())) for name, each in scopes]
        for now, then in (*pairs, (self, before)):
            for name, count in vars(now).items():
                if isinstance(count, int):
                    setattr(now, name, count + (count - getattr(then, name)) * times)

    def add_launch(self, blocks: int, sectors_before: int) -> None:
        """Add a launch of so many thread blocks, the first of which has been counted."""
        self.blocks += blocks
        self.traffic += (self.sectors - sectors_before) * SECTOR_BYTES * blocks

    def add_access(self, scope: str, cells: Array, active: Array, itemsize: int) -> None:
        """Add an access: cells of shape (threads of the block, vector), and which are active."""
        counts = self.scopes.setdefault(scope, AccessCounts())
        lanes = np.flatnonzero(active[:, 0])
        if lanes.size:
            near = cells if len(lanes) == len(cells) else cells[lanes]
            # Sectors and banks come again every 128 bytes, so what is counted is where the cells
            # are from the last multiple of that on: the next iteration mostly comes there again.
            line = max(1, BANKS * BANK_BYTES // itemsize)
            near = near - near.item(near.argmin()) // line * line
            key = lanes.tobytes(), near.tobytes(), near.dtype, near.shape
            counts.add(_count_access(scope, itemsize, *key))

    def add_bulk_access(self, scope: str, cells: Array, itemsize: int) -> None:
        """Add a side of a bulk copy, one request whatever its size, at these cells; without bank
        conflicts, of which nothing is known."""
        counts = self.scopes.setdefault(scope, AccessCounts())
        counts.requests += 1
        counts.bytes += int(cells.size) * itemsize
        if scope == "global":
            counts.sectors += len(np.unique(cells * itemsize // SECTOR_BYTES))


@functools.lru_cache(maxsize=512)
def _count_access(
    scope: str, itemsize: int, lane_bytes: bytes, near: bytes, dtype: Any, shape: tuple[int, ...]
) -> AccessCounts:
    """The counts of one access of some lanes."""
    lanes = np.frombuffer(lane_bytes, np.int64)
    warps, addresses = lanes // WARP, np.frombuffer(near, dtype).reshape(shape) * itemsize
    counts = AccessCounts(requests=len(np.unique(warps)), bytes=int(addresses.size) * itemsize)
    if scope == "global":
        counts.sectors = len(_get_unique_pairs(warps, addresses // SECTOR_BYTES))
        return counts
    # Wide accesses go in parts, 8 bytes in halves of a warp and 16 bytes in quarters; in half as
    # many where the threads t and t ^ 1 of all pairs have the same address, or t and t ^ 2; idle
    # threads are no matter.
    lane, width = lanes % WARP, addresses.shape[1] * itemsize
    parts = np.full(len(warps), max(1, width // BANK_BYTES))
    if width > BANK_BYTES:
        names, numbers = np.unique(warps, return_inverse=True)
        table = np.full((len(names), WARP), -1, dtype=np.int64)
        table[numbers, lane] = addresses[:, 0]
        paired = np.zeros(len(names), dtype=bool)
        for distance in (1, 2):
            other = table[:, np.arange(WARP) ^ distance]
            paired |= ((table == other) | (table < 0) | (other < 0)).all(axis=1)
        parts[paired[numbers]] //= 2
    pairs = _get_unique_pairs(warps * WARP + lane // (WARP // parts), addresses // BANK_BYTES)
    _, numbers = np.unique(pairs >> _GROUP_BIT, return_inverse=True)
    banks = np.bincount(numbers * BANKS + pairs % BANKS, minlength=(numbers.max() + 1) * BANKS)
    worst = banks.reshape(-1, BANKS).max(axis=1)
    counts.wavefronts, counts.bank_conflicts = int(worst.sum()), int((worst - 1).sum())
    return counts


def _get_unique_pairs(groups: Array, values: Array) -> Array:
    """The different pairs of a group and one of its values, as one integer each."""
    return np.unique((groups[:, None] << _GROUP_BIT) + values)
