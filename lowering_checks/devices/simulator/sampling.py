"""Some thread blocks of a launch in place of all: how long all take, which are chosen, and whether
what these compute hangs on others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.ir import Call
from tvm.tirx import BufferStore

from tirstep.transforms.tir import constant, find_all, find_axes
from tirstep.tvm_compat import get_op_name

from ...compile.compiling import count_iterations
from ...device import BLOCK_AXES, CLUSTER_AXIS, THREAD_AXES, Array, NotRunError
from .merged_memory import find_private, find_written_buffers
from .run_state import LANES, count_places

SECONDS_EACH, SECONDS_PER_LANE = 4e-5, 2e-8
"""Of a statement, a multiplication and addition of what is loaded, say: for any threads, and for
each of those that run at once, up to `LANES`."""


@dataclass
class BlockSample:
    """Chooses about `most` thread blocks of each launch, and counts them.

    These are the corners of the grid, where guards have their edges, the neighbors of the first and
    the last, and others that are drawn; of clusters whole ones.
    """

    most: int
    ran: int = 0
    total: int = 0

    def __call__(self, extents: Mapping[str, int]) -> Array | None:
        """The numbers of the chosen blocks of a launch, in their order; None for all of them."""
        blocks, cluster = count_places(extents, BLOCK_AXES), extents.get(CLUSTER_AXIS, 1)
        self.total += blocks
        if blocks <= self.most:
            self.ran += blocks
            return None
        sides = [extents.get(axis, 1) for axis in BLOCK_AXES]
        steps = [1, *itertools.accumulate(sides[:-1], lambda one, other: one * other)]
        corners = {
            sum(place * step for place, step in zip(corner, steps, strict=True))
            for corner in itertools.product(*({0, side - 1} for side in sides))
        }
        drawn = np.random.default_rng(blocks).permutation(blocks)
        wanted = dict.fromkeys([0, blocks - 1, 1, blocks - 2, *sorted(corners), *map(int, drawn)])
        heads = dict.fromkeys(number // cluster for number in wanted)
        chosen = sorted(itertools.islice(heads, max(self.most // cluster, 1)))
        found = np.add.outer(np.array(chosen) * cluster, np.arange(cluster)).reshape(-1)
        self.ran += len(found)
        return found

    def __str__(self) -> str:
        return f"{self.ran:,} of {self.total:,} thread blocks"


def estimate_seconds(body: Any, most_blocks: int | None = None) -> float:
    """About how long a lowered function's simulation takes, whole or of about so many blocks."""
    axes = find_axes(body)
    inner = {each for axis in axes for each in find_axes(axis.body)}
    seconds = 0.0
    for launch in (axis for axis in axes if axis not in inner):
        axes_of = (launch, *find_axes(launch.body))
        extents = {str(it.node.thread_tag): constant(it.value) or 1 for it in axes_of}
        blocks = min(count_places(extents, BLOCK_AXES), most_blocks or math.inf)
        lanes = blocks * count_places(extents, THREAD_AXES)
        each = math.ceil(lanes / LANES) * SECONDS_EACH + lanes * SECONDS_PER_LANE
        seconds += each * count_iterations(launch, open_extent=1)
    return seconds


def require_separate_blocks(body: Any) -> None:
    """Raise `NotRunError` where thread blocks of a lowered function may hand values to others."""
    stored = {it.buffer for it in find_all(body, BufferStore)} | find_written_buffers(body)
    shared = {it for it in stored if str(it.scope()) == "global"}
    ways = [f"'{it.name}'" for it in shared - find_private(body, shared)]
    for call in find_all(body, Call):
        if "atomic" in " ".join([get_op_name(call), *map(str, call.args[:1])]).lower():
            ways.insert(0, "atomic operations")
    if ways:
        raise NotRunError(
            "it takes too long to simulate all of its thread blocks, and some of them alone do not "
            f"show it, since they may exchange values through {ways[0]}; choose smaller sizes"
        )
