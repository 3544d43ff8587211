"""Warpgroups that take turns at the tensor cores, by the named barriers of a thread block.

Instructions from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
bar". Barrier 0 is that of all threads; the others are free. Each warpgroup has one, at which it
waits, and at which the warpgroup before it arrives when it has issued its products. The last one
arrives in front of the first one's first turn, and the first one takes the arrival that is left
when all turns are over: every barrier is complete when the loop has ended.

Turns change what runs when, and no value: mbarriers still say which tiles are there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as T
from tvm.tirx import Evaluate, FloorDiv, FloorMod, IfThenElse, IntImm

from ..gpu_limits import WARP
from ..tir import number_threads
from .tma_pipeline import Pipeline

WARPGROUP = 4 * WARP
FIRST = 1
"""The number of the first warpgroup's barrier."""
BOTH = 2 * WARPGROUP
"""Threads that complete a barrier: those that wait, and those that let them go on."""


@dataclass(frozen=True)
class PingPong:
    """The turns of a pipeline's warpgroups; nothing at all where they take none.

    Attributes
    ----------
    groups : how many warpgroups take turns; 1 for no turns
    number : of the warpgroup that a thread is in
    """

    groups: int
    number: Any

    @classmethod
    def of(cls, pipeline: Pipeline) -> PingPong:
        """The turns of the warpgroups that compute, where `alternate_warpgroups` asked for them."""
        groups = math.prod(count for _, count in pipeline.threads) // WARPGROUP
        number, analyzer = number_threads(pipeline.threads)
        number = analyzer.simplify(FloorDiv(number, WARPGROUP))
        return cls(groups if pipeline.alternates else 1, number)

    def open(self) -> list[Any]:
        """In front of all turns: the first warpgroup may begin."""
        last = self.number.equal(self.groups - 1)
        return self._take([IfThenElse(last, arrive_at(IntImm("int32", 0)), None)])

    def begin_turn(self) -> list[Any]:
        """Wait until the warpgroup before has issued its products."""
        return self._take([wait_at(self.number)])

    def end_turn(self) -> list[Any]:
        """Let the next warpgroup go on."""
        return self._take([arrive_at(FloorMod(self.number + 1, self.groups))])

    def close(self) -> list[Any]:
        """Behind all turns: no arrival is left over."""
        first = self.number.equal(0)
        return self._take([IfThenElse(first, wait_at(IntImm("int32", 0)), None)])

    def _take(self, statements: list[Any]) -> list[Any]:
        return statements if self.groups > 1 else []


def wait_at(group: Any) -> Evaluate:
    """Wait at a warpgroup's barrier, until another one has arrived there."""
    return Evaluate(T.ptx.bar.sync(_name(group), T.uint32(BOTH)))


def arrive_at(group: Any) -> Evaluate:
    """Let the warpgroup go on that waits at its barrier."""
    return Evaluate(T.ptx.bar.arrive(_name(group), T.uint32(BOTH)))


def _name(group: Any) -> Any:
    return (group + FIRST).astype("uint32")
