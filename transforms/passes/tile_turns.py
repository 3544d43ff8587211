"""Warpgroups that compute a tile each, in turn, by the named barriers of a thread block.

The ping-pong kernels of NVIDIA's CUTLASS 3. One warpgroup multiplies its tile while another one
stores the tile before. Products of a tile begin when those of the tile before have been issued: by
then all stages of that one have been waited for, so that the parity of an mbarrier says which of
its uses is meant. A tile is stored when the one before has been: both use the same shared memory.

Each warpgroup has a barrier for either, at which it waits, and at which the one before it arrives.
In front of all tiles the last warpgroup arrives at those of the first one; the arrivals behind the
last tile are taken by the warpgroup whose turn it would be: every barrier is complete then.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    Evaluate,
    FloorMod,
    For,
    IfThenElse,
    IntImm,
    SeqStmt,
    Var,
)

from ..schedule import TransformError
from ..tir import find_all, substitute
from .pingpong import arrive_at, wait_at
from .tma_pipeline import Pipeline, join
from .uses import SHARED

TURN = "tirstep_turn"
"""Key of our mark: an AttrStmt around what a warpgroup does, whose value is the warpgroup's."""


@dataclass(frozen=True)
class TileTurns:
    """The turns of a pipeline's warpgroups; nothing at all where they take none.

    Attributes
    ----------
    pipeline : whose tiles these are
    turn : the variable of a warpgroup's number; None where all compute one tile together
    """

    pipeline: Pipeline
    turn: Any

    @classmethod
    def of(cls, pipeline: Pipeline) -> TileTurns:
        """The turns that `alternate_tiles` asked for."""
        axis = pipeline.threads[-1][0]
        return cls(pipeline, Var("turn", axis.ty) if pipeline.rounds.turns > 1 else None)

    def require_own_memory(self, kernel: Any) -> None:
        """Refuse what threads store to shared memory before products end, in no turn to store."""
        loop = self.pipeline.loop
        if self.turn is None:
            return
        # The statements of a kernel that stand before a loop.

        def is_elsewhere(part: Any) -> bool:
            return not any(loop.same_as(each) for each in find_all(part, For))

        around = [each for each in find_all(kernel, SeqStmt) if not is_elsewhere(each)]
        parts = [
            *[part for each in around for part in itertools.takewhile(is_elsewhere, each.seq)],
            *self.pipeline.rest,
        ]
        stored = [store.buffer for part in parts for store in find_all(part, BufferStore)]
        shared = [buffer.name for buffer in stored if str(buffer.scope()) in SHARED]
        if shared or self.pipeline.fence_others():
            raise TransformError(
                f"warpgroups share {shared[0] if shared else 'memory'}, which threads store to "
                f"before the end of loop '{loop.loop_var.name}'",
                "lower the module as alternate_tiles left it",
            )

    def go_around(self, tile: list[Any]) -> list[Any]:
        """The turns around the products of a tile, of which the loop comes first, and in front of
        what stores it."""
        if self.turn is None:
            return tile
        issue, *rest = tile
        begin, end = wait_at(self.turn), arrive_at(self._next)
        return [begin, issue, end, *rest, wait_at(self.turn + self._count)]

    def end_tile(self, tile: Any) -> Any:
        """A tile, behind which the next one may be stored: bulk stores have read this one."""
        if self.turn is None:
            return tile
        read = Evaluate(T.ptx["cp.async.bulk.wait_group.read"](0))
        stored = arrive_at(self._next + self._count)
        return join([tile, read, Evaluate(T.cuda.warp_sync()), stored])

    def go_through(self, tiles: Any) -> Any:
        """All tiles, in front of which the first one may begin, as each warpgroup does them.

        It was alone on its thread axis before.
        """
        if self.turn is None:
            return tiles
        first, second = IntImm("int32", 0), IntImm("int32", self._count)
        last = self.turn.equal(self._count - 1)
        left = self.turn.equal(FloorMod(self.pipeline.rounds.count_tiles(), self._count))
        opened = IfThenElse(last, SeqStmt([arrive_at(first), arrive_at(second)]), None)
        closed = [wait_at(self.turn), wait_at(self.turn + self._count)]
        body = SeqStmt([opened, tiles, IfThenElse(left, SeqStmt(closed), None)])
        axis = self.pipeline.threads[-1][0]
        made = substitute(body, {axis: IntImm("int32", 0), self.turn: axis})
        return AttrStmt(IntImm("int32", 0), TURN, axis, made)

    @property
    def _count(self) -> int:
        return self.pipeline.rounds.turns

    @property
    def _next(self) -> Any:
        return FloorMod(self.turn + 1, self._count)
