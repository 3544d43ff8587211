"""Named barriers of a thread block: bar.sync, bar.arrive and bar.red with a number and a count of
threads.

Semantics from the PTX ISA, section "Parallel Synchronization and Communication Instructions: bar,
barrier". A barrier is complete when as many threads have arrived at it as its instructions say, and
is there again then. A warp comes as a whole, whether it waits (sync) or not (arrive); but to a
``barrier`` that is not ``.aligned`` its lanes come one by one, until all are there. Threads that
waited know of what all that came had done before. Barrier 0 is ``__syncthreads``, too.

Which warps complete a phase is the same in every order of arrival if each that comes to one knows
that all have come to the phase before: else it may come first, and complete that in the place of
another. What comes with no such order is a finding, so that one order of arrival stands for all.

Warps run apart where there are such barriers (see statements.py); where there are instructions of a
warpgroup, its four warps stay in step. A wait that nothing can end any more is a finding, and its
threads return.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.backend.cuda.ptx.table import TABLE

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .function_semantics import Semantics, Threads, pick
from .mbarriers import DEADLOCK
from .ptx_calls import PREFIX, fill_register, name_operands
from .run_state import UnsupportedError

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

KIND = "named barrier"
"""Kind of findings about the use of named barriers."""
MAX_BARRIERS = 16
"""Named barriers per thread block."""


class NamedBarrier:
    """One barrier of a thread block, of so many threads that may know of one another.

    Attributes
    ----------
    expected : threads that complete it
    come : how many have come
    phase : how often it was complete
    first : a lane of those that came first
    gathered : for each thread of the block, before which interval all that it did is known to one
        of those that have come
    released : the same of all times that it was complete
    arrived : for each thread of the block, the interval before which all that it did must be known
        to know of its last arrival; 0 where it has not come
    before : the same when the last phase was complete
    """

    def __init__(self, expected: int, group: int) -> None:
        self.expected, self.come, self.phase, self.first = expected, 0, 0, 0
        self.gathered, self.released, self.arrived, self.before = np.zeros((4, group), np.int64)


@dataclass
class NamedBarriers:
    """The named barriers of the thread blocks that run, by block and number; and what threads said
    at a phase of one.
    """

    gpu: SimulatedGpu
    _made: dict[tuple[int, int], NamedBarrier] = field(default_factory=dict)
    votes: dict[tuple[Any, ...], list[bool]] = field(default_factory=dict)
    _lanes: dict[tuple[Any, int], Array] = field(default_factory=dict)

    def come(self, threads: Threads, number: Any, *rest: Any) -> list[_Waiting]:
        """Each warp comes to the barrier that its threads name, and says what it has done before,
        and what it knows of others.
        """
        state, batch = threads.state, threads.state.batch
        assert state.known is not None
        everybody = -(-batch.threads // WARP) * WARP
        asked = next((each for each in rest if not isinstance(each, str)), everybody)
        may_part = threads.name.startswith("ptx.barrier") and "aligned" not in map(str, rest)
        come, lanes = [], np.flatnonzero(threads.active if may_part else [])
        firsts = lanes - lanes % batch.threads % WARP
        parts = [lanes[firsts == first] for first in np.unique(firsts)]
        for warp in parts if may_part else threads.groups(WARP, is_barrier=True):
            lane = int(warp[0])
            at, count = (int(pick(each, lane)) for each in (number, asked))
            wrong = []
            if not 0 <= at < MAX_BARRIERS:
                wrong.append(f"which is none (0 to {MAX_BARRIERS - 1} can be)")
            if count <= 0 or count % WARP:
                wrong.append(f"for {count} threads, which are not whole warps")
            for text in wrong:
                self._report(threads, lane, at, text)
            if wrong:
                continue
            key = int(batch.block[lane, 0]), at
            barrier = self._made.setdefault(key, NamedBarrier(count, batch.group))
            if barrier.come == 0:
                barrier.expected, barrier.first = count, lane
            elif barrier.expected != count:
                others = state.describe_lane(barrier.first)
                text = f"for {count} threads, and {others} arrived for {barrier.expected}"
                self._report(threads, lane, at, text)
            come.append((warp, key, barrier.phase))
            if may_part:  # a warp has come when all its lanes have that have not returned
                first = lane - lane % batch.threads % WARP
                there = self._lanes.setdefault((key, first), np.zeros((batch.lanes, 1), bool))
                there[warp] = True
                last = min(first + WARP, first - first % batch.threads + batch.threads)
                warp = np.arange(first, last)
                if not (there if state.exited is None else there | state.exited)[warp].all():
                    continue
                there[warp] = False
            known, inside = state.known[0, warp].max(axis=0), warp % batch.group
            unknown = barrier.before > known
            unknown[inside] = False
            if unknown.any() and count > WARP:  # one warp alone completes its own phase
                block = lane // batch.group * batch.group
                other = state.describe_lane(block + int(np.argmax(unknown)))
                text = f"may come before {other} does in phase {barrier.phase - 1}, and complete it"
                self._report(threads, lane, at, f"{text}: wait for that phase first")
            np.maximum(barrier.gathered, known, out=barrier.gathered)
            barrier.gathered[inside] = barrier.arrived[inside] = state.interval + 1
            barrier.come += WARP
            if barrier.come >= barrier.expected:
                np.maximum(barrier.released, barrier.gathered, out=barrier.released)
                barrier.come, barrier.phase = 0, barrier.phase + 1
                barrier.before = barrier.arrived.copy()
                self.gpu.mbarriers.progress += 1
        self.gpu.state.interval += 1
        return come

    def require_none_at_zero(self, passed: Array | None) -> None:
        """``__syncthreads`` is barrier 0, for all threads: nobody else may have arrived there."""
        for (block, number), barrier in self._made.items():
            if number == 0 and barrier.come and (passed is None or passed[block]):
                who = self.gpu.state.describe_lane(barrier.first)
                message = f"{who} arrived at barrier 0 for {barrier.expected} threads, and then all"
                self.gpu.state.log.add_sentence(KIND, f"{message} reach __syncthreads, which is it")

    def wait(self, threads: Threads, waiting: list[_Waiting]) -> None:
        """All warps that wait go on together, and know then of what was done before; meanwhile
        other parts of the kernel run. Those that would wait forever return, so that the run goes
        on.
        """
        state = threads.state
        assert state.known is not None
        while waiting:
            over = [it for it in waiting if self._made[it[1]].phase != it[2]]
            for warp, key, _ in over:
                released = self._made[key].released
                state.known[0, warp] = np.maximum(state.known[0, warp], released)
            waiting = [it for it in waiting if self._made[it[1]].phase == it[2]]
            if not waiting or self.gpu.let_others_run():
                continue
            # Warps of one warpgroup run in step: that some wait for others need be no deadlock.
            inside = state.get_active(self.gpu.part)
            if state.exited is not None:
                inside = inside & ~state.exited
            blocks = state.batch.block[threads.active]
            if (inside & ~threads.active & np.isin(state.batch.block, blocks)).any():
                raise UnsupportedError(
                    "the simulator runs the warps of a warpgroup in step, and some of one "
                    f"wait at {threads.name} while others do not reach it"
                )
            for warp, key, _ in waiting:
                barrier = self._made[key]
                text = f"waits forever: {barrier.come} of {barrier.expected} threads have arrived"
                self._report(threads, int(warp[0]), key[1], text, kind=DEADLOCK)
            threads.state.exit_threads(threads.get_mask(np.concatenate([it[0] for it in waiting])))
            return

    def _report(
        self, threads: Threads, lane: int, number: int, text: str, kind: str = KIND
    ) -> None:
        """A finding about what a lane does at a barrier."""
        who = threads.state.describe_lane(lane)
        message = f"{threads.name} of barrier {number} by {who} {text}"
        threads.report(kind, f"barrier {number}", message)


_Waiting = tuple[Array, tuple[int, int], int]
"""Lanes of a warp, the barrier that it waits at, and how often that was complete before."""


def _sync(threads: Threads, *arguments: Any) -> None:
    barriers = threads.gpu.named_barriers
    barriers.wait(threads, barriers.come(threads, *arguments))


def _reduce(threads: Threads, *given: Any) -> None:
    """``bar.red``: what all threads say that have come, to those; how many say yes, all or any."""
    words, operands = name_operands(threads.name, given)
    barriers, holds = threads.gpu.named_barriers, np.asarray(operands["c"][0]) != 0
    holds = np.broadcast_to(holds, (threads.lanes, 1))[:, 0]
    come = barriers.come(threads, operands["a"][0], *operands.get("b", ()))
    for warp, *phase in come:
        said = barriers.votes.setdefault(tuple(phase), [])
        said += [*holds[warp[threads.active[warp, 0]]]]
    barriers.wait(threads, come)
    choose: Any = {"popc": sum, "and": all, "or": any}[words["op"]]
    for warp, *phase in come:
        found = np.full((threads.lanes, 1), choose(barriers.votes[tuple(phase)]), np.uint32)
        lanes = threads.get_mask(warp) & threads.active
        fill_register(operands["d"][0], found, lanes)


PARTING = {"ptx.barrier_sync", "ptx.barrier_sync_count"}
"""Those to which lanes of a warp may come from both sides of a branch."""
NAMED_BARRIERS: dict[str, Semantics] = {
    **{
        PREFIX + name: semantics
        for action, semantics in (
            ("sync", _sync),
            ("arrive", lambda threads, *it: threads.gpu.named_barriers.come(threads, *it)),
            ("red", _reduce),
        )
        for name in TABLE
        if name.startswith((f"bar_{action}", f"barrier_{action}"))
    },
    "cuda.warpgroup_sync": lambda threads, number: _sync(threads, number, 4 * WARP),
}
