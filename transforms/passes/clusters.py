"""The pieces of a pipeline whose tiles the thread blocks of a cluster copy for one another.

Instructions from the PTX ISA, sections "cp.async.bulk.tensor" (``.multicast::cluster``), "mapa",
"mbarrier.arrive" (``.shared::cluster``) and "barrier.cluster". A copy to several blocks writes to
the same place in the shared memory of each, and arrives at the mbarrier in the same place there.

TVM launches a kernel in clusters that has the thread axis clusterCtaIdx.x, whose value is a block's
rank in its cluster. A cluster lies along blockIdx.x, so that the rank is also the rest of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import (
    LT,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    SeqStmt,
    Var,
    decl_buffer,
)

from ..tir import find_all, get_axis
from ..tma_tiles import TMA_CLUSTER, TmaTile

GRID, AXIS = "blockIdx.x", "clusterCtaIdx.x"


@dataclass
class Cluster:
    """The blocks of a cluster, of which each has a rank: columns first, then rows.

    Attributes
    ----------
    shape : blocks along rows and along columns
    shared : for each copy along which of these blocks share its tile
    rank : of a block, an expression
    scratch : registers for an address in another block
    """

    shape: tuple[int, int]
    shared: list[int]
    rank: Any
    scratch: list[Any]

    @classmethod
    def of(cls, loop: For, body: Any) -> Cluster:
        """The cluster that `multicast_in_clusters` asked for; of one block where it did not."""
        if TMA_CLUSTER not in loop.annotations:
            return cls((1, 1), [], None, [])
        rows, columns, *shared = map(int, loop.annotations[TMA_CLUSTER])
        around = [
            each
            for each in find_all(body, For)
            if get_axis(each) == GRID and any(loop.same_as(it) for it in find_all(each, For))
        ]
        grid = around[0].loop_var
        place = decl_buffer((1,), "uint32", "place_in_cluster", scope="local")
        return cls((rows, columns), shared, FloorMod(grid, rows * columns), [place])

    @property
    def size(self) -> int:
        """How many blocks it has."""
        return math.prod(self.shape)

    def take_slice(self, copy: int, tile: TmaTile) -> TmaTile:
        """What a block copies of a tile."""
        parts = self._count_parts(copy)
        return tile if parts == 1 else tile.take_slice(self._get_number(copy), parts)

    def place(self, copy: int, elements: int) -> Any:
        """Where that lies in a panel of so many elements."""
        parts = self._count_parts(copy)
        return 0 if parts == 1 else self._get_number(copy) * (elements // parts)

    def get_mask(self, copy: int) -> list[Any]:
        """The blocks that get a copy, a bit for each; nothing where that is the own one alone."""
        if self._count_parts(copy) == 1:
            return []
        rows, columns = self.shape
        if self.shared[copy] == 0:  # those of its column
            bits, first = sum(1 << row * columns for row in range(rows)), self.rank % columns
            is_first = columns == 1
        else:  # those of its row
            bits, first = (1 << columns) - 1, FloorDiv(self.rank, columns) * columns
            is_first = rows == 1
        if is_first:
            return [T.uint16(bits)]
        return [(IntImm("int32", bits) << first).astype("uint16")]

    def begin(self) -> list[Any]:
        """A barrier of the cluster, with the axis by which TVM launches the kernel so.

        All blocks have begun behind it, and made their mbarriers, which the fence of the
        initialization releases. It stands around that alone: around reductions over threads, TVM
        takes no such axis.
        """
        if self.size == 1:
            return []
        rank = Var("rank", "int32")
        axis = IterVar(None, rank, IterVar.ThreadIndex, AXIS)
        names = "barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.wait.acquire.aligned"
        body = SeqStmt([Evaluate(T.ptx[name]()) for name in names])
        return [For(rank, 0, self.size, ForKind.THREAD_BINDING, body, axis)]

    def arrive(self, lane: Any, pointer: Any, *, releases: bool) -> IfThenElse:
        """Each of a warp's first lanes arrives at an mbarrier of another block.

        What tensor cores read themselves is over when threads have waited for it. There is nothing
        to release, then, and a release to the cluster waits for all that a thread ever stored.
        """
        (place,) = self.scratch
        order = "release" if releases else "relaxed"
        own = T.cuda.cvta_generic_to_shared(pointer)
        rank = lane.astype("uint32")
        calls = [
            T.ptx["mapa.shared::cluster.u32"](place[0], own, rank),
            T.ptx[f"mbarrier.arrive.{order}.cluster.shared::cluster.b64"](place[0]),
        ]
        return IfThenElse(LT(lane, self.size), SeqStmt([Evaluate(each) for each in calls]), None)

    def wait(self, pointer: Any, parity: Any, *, acquires: bool) -> Evaluate:
        """Wait at an mbarrier, where blocks of the cluster arrive."""
        if self.size == 1 or not acquires:
            return Evaluate(T.cuda.mbarrier_wait(pointer, parity))
        return Evaluate(T.cuda.mbarrier_wait_acquire_cluster(pointer, parity))

    def _count_parts(self, copy: int) -> int:
        return 1 if self.size == 1 else self.shape[self.shared[copy]]

    def _get_number(self, copy: int) -> Any:
        """Which of the slices a block copies."""
        rows, columns = self.shape
        if self.shared[copy] == 0:
            return self.rank if columns == 1 else FloorDiv(self.rank, columns)
        return self.rank if rows == 1 else FloorMod(self.rank, columns)
