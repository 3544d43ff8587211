"""Some thread blocks of a launch in place of all: how long all take, which are chosen, and whether
what these compute hangs on others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import Call
from tvm.tirx import Bind, BufferStore, For

from tirstep.transforms.fusion.factors import UnknownOperationError, evaluate
from tirstep.transforms.tir import constant, find_all, find_axes, is_used, substitute
from tirstep.tvm_compat import get_op_name

from ...compile.compiling import count_iterations
from ...device import BLOCK_AXES, THREAD_AXES, Array, NotRunError
from .merged_memory import find_private, find_written_buffers
from .operators import COMPARISONS
from .run_state import CLUSTER_AXES, LANES, count_places, locate_blocks

SECONDS_EACH, SECONDS_PER_LANE = 4e-5, 2e-8
"""Seconds per statement (a multiply-add of loaded values, say): for any number of threads, and for
each of those that run at once, up to `LANES`."""


@dataclass
class BlockSample:
    """Chooses about `most` thread blocks of each launch, and counts them.

    These are the first and the last with their neighbors, those at which a guard begins or ends to
    hold, the corners of the grid, and others that are drawn; of clusters whole ones.
    """

    most: int
    ran: int = 0
    total: int = 0

    def __call__(self, extents: Mapping[str, int], launch: Any) -> Array | None:
        """The numbers of the chosen blocks of a launch, in their order; None for all of them."""
        blocks, cluster = (count_places(extents, axes) for axes in (BLOCK_AXES, CLUSTER_AXES))
        self.total += blocks
        if blocks <= self.most:
            self.ran += blocks
            return None
        places = locate_blocks(np.arange(blocks), extents)
        sides = ((places[axis], extents.get(axis, 1) - 1) for axis in BLOCK_AXES)
        corners = np.flatnonzero(np.all([(at == 0) | (at == last) for at, last in sides], axis=0))
        drawn = np.random.default_rng(blocks).permutation(blocks)
        edges = itertools.islice(_find_edges(launch, extents, blocks), self.most // 2)
        ends = [0, blocks - 1, *edges, 1, blocks - 2, *map(int, corners)]
        wanted = dict.fromkeys([*ends, *map(int, drawn)])
        heads = dict.fromkeys(number // cluster for number in wanted)
        chosen = sorted(itertools.islice(heads, max(self.most // cluster, 1)))
        found = np.add.outer(np.array(chosen) * cluster, np.arange(cluster)).reshape(-1)
        self.ran += len(found)
        return found

    def __str__(self) -> str:
        return f"{self.ran:,} of {self.total:,} thread blocks"


def _find_edges(launch: Any, extents: Mapping[str, int], blocks: int) -> Iterator[int]:
    """Thread blocks on both sides of where a comparison begins or ends to hold, of the first or of
    the last threads and iterations; each once.
    """

    def refuse(load: Any, _where: Any) -> Any:
        raise UnknownOperationError(str(load))

    numbers, values = np.arange(blocks), [dict[int, Any](), dict[int, Any]()]
    places = locate_blocks(numbers, extents)
    for axis in (launch, *find_axes(launch.body)):
        name = str(axis.node.thread_tag)
        side = extents.get(name, 1)
        for last, known in enumerate(values):
            known[axis.node.var.__chandle__()] = places.get(name, last * (side - 1))
    for loop in find_all(launch.body, For):
        for last, known in enumerate(values):
            known[loop.loop_var.__chandle__()] = last * ((constant(loop.extent) or 1) - 1)
    bound = {each.var: each.value for each in find_all(launch.body, Bind)}
    seen = set[int]()
    for node in (it for kind in COMPARISONS for it in find_all(launch.body, getattr(tirx, kind))):
        for _ in bound if any(is_used(it, node) for it in bound) else ():
            node = substitute(node, bound)
        for known in values:
            with suppress(UnknownOperationError, TypeError):  # the latter of bits
                holds = np.broadcast_to(evaluate(node, known, refuse) != 0, numbers.shape)
                changes = np.flatnonzero(holds[1:] != holds[:-1])
                for edge in (*changes[:1], *changes[-1:]):
                    yield from (it for it in (int(edge), int(edge) + 1) if it not in seen)
                    seen |= {int(edge), int(edge) + 1}


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
            "it takes too long to simulate all of its thread blocks, and some of them do not "
            f"suffice, since they may exchange values through {ways[0]}; choose smaller sizes"
        )
