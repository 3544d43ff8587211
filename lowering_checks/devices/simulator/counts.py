"""Counts of a launch: what its memory accesses cost, seen in the first GPU block.

Every block of a schedule does about the same, so one block is counted exactly rather than all of
them roughly. Banks and sectors are those of NVIDIA's GPUs since compute capability 5: 32 banks of
4 bytes, sectors of 32 bytes (CUDA C++ Programming Guide, "Shared Memory" and "Device Memory
Accesses").
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from .grid import Array

BANKS, BANK_BYTES, SECTOR_BYTES = 32, 4, 32
_GROUP_BIT = 44
"""Above the addresses of a GPU, so that a group and an address fit into one number."""


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
    """Counts of one launch; see the module's docstring.

    Attributes
    ----------
    barriers : that the block passed
    async_copies, matrix_loads, matrix_multiplies : cp.async, ldmatrix and mma, counted once for
        each warp; what they load and store is counted with the scopes
    scopes : "global", "shared": the accesses there
    """

    barriers: int = 0
    async_copies: int = 0
    matrix_loads: int = 0
    matrix_multiplies: int = 0
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
    return len(_unique_pairs(groups, values))


def _unique_pairs(groups: Array, values: Array) -> Array:
    """The different pairs of a group and one of its values, as one number each."""
    return np.unique((groups[:, None] << _GROUP_BIT) + values)


def _count_conflicts(warps: Array, lane: Array, addresses: Array, itemsize: int) -> int:
    """Wide accesses go in parts: 8 bytes in halves of a warp, 16 bytes in quarters."""
    width = addresses.shape[1] * itemsize
    parts = max(1, width // BANK_BYTES)
    group = warps * parts + lane // max(1, WARP // parts)
    pairs = _unique_pairs(group, addresses // BANK_BYTES)
    places = (pairs >> _GROUP_BIT) * BANKS + pairs % BANKS
    wavefronts = np.bincount(places, minlength=(int(places.max()) // BANKS + 1) * BANKS)
    worst = wavefronts.reshape(-1, BANKS).max(axis=1)
    return int(np.maximum(worst - 1, 0).sum())
