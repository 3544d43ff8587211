"""Named barriers of a thread block: bar.sync and bar.arrive with a number and a count of threads.

Semantics from the PTX ISA, section "Parallel Synchronization and Communication Instructions: bar,
barrier". A barrier is complete when as many threads have come to it as its instructions say, and is
there again then. A warp comes as a whole, whether it waits (sync) or not (arrive). Warps of one
instruction come in their order. Threads that waited know of what all that came had done before.
Barrier 0 is that of all threads, ``__syncthreads``, and none here.

Warps run apart where there are such barriers (see `apart`). A wait that nothing can end any
more is a finding, and its threads return; so is a barrier at which some threads have come when the
kernel ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .function_semantics import Semantics, Threads, pick
from .mbarriers import DEADLOCK
from .run_state import UnsupportedError

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

KIND = "named barrier"
"""Of findings about the use of named barriers."""
MAX_BARRIERS = 16
"""Of a thread block."""


@dataclass
class NamedBarrier:
    """One barrier of a thread block.

    Attributes
    ----------
    expected : threads that complete it
    come : how many have come
    phase : how often it was complete
    first : a lane of those that came first
    gathered : for each thread of the block, before which interval all that it did is known to one
        of those that have come
    released : the same of all times that it was complete
    is_stuck : whether its threads were found to wait forever
    """

    expected: int
    gathered: Array
    released: Array
    come: int = 0
    phase: int = 0
    first: int = 0
    is_stuck: bool = False


@dataclass
class NamedBarriers:
    """The named barriers of the thread blocks that run, by block and number."""

    gpu: SimulatedGpu
    _made: dict[tuple[int, int], NamedBarrier] = field(default_factory=dict)

    def arrive(
        self, threads: Threads, warp: Array, number: int, count: int
    ) -> tuple[tuple[int, int], int]:
        """A warp comes; returns what names the barrier, and how often it was complete before."""
        batch, lane = threads.state.batch, int(warp[0])
        key = int(batch.block[lane, 0]), number
        if key not in self._made:
            zeros = np.zeros(batch.group, np.int64)
            self._made[key] = NamedBarrier(count, zeros, zeros.copy())
        barrier = self._made[key]
        if barrier.come == 0:
            barrier.expected, barrier.first = count, lane
        elif barrier.expected != count:
            others = threads.state.describe_lane(barrier.first)
            text = f"for {count} threads, and {others} has come for {barrier.expected}"
            self.report(threads, lane, number, text)
        phase = barrier.phase
        self._gather(barrier, warp)
        barrier.come += WARP
        if barrier.come >= barrier.expected:
            barrier.released = np.maximum(barrier.released, barrier.gathered)
            barrier.come, barrier.phase = 0, barrier.phase + 1
            self.gpu.mbarriers.progress += 1
        return key, phase

    def _gather(self, barrier: NamedBarrier, warp: Array) -> None:
        """What the threads of a warp did before, and what they know of others."""
        state = self.gpu.state
        assert state.known is not None
        known = np.maximum(state.known[0, warp].max(axis=0), state.get_all_since(int(warp[0])))
        barrier.gathered = np.maximum(barrier.gathered, known)
        barrier.gathered[warp % state.batch.group] = state.interval + 1

    def is_over(self, warp: Array, key: tuple[int, int], phase: int) -> bool:
        """Whether a warp's wait ends, which makes known to it what was done before."""
        barrier, known = self._made[key], self.gpu.state.known
        if barrier.phase == phase:
            return False
        assert known is not None
        known[0, warp] = np.maximum(known[0, warp], barrier.released)
        return True

    def report_deadlock(self, threads: Threads, warp: Array, key: tuple[int, int]) -> None:
        """A warp waits forever."""
        barrier = self._made[key]
        barrier.is_stuck = True
        text = f"waits forever: {barrier.come} of {barrier.expected} threads have come"
        self.report(threads, int(warp[0]), key[1], text, kind=DEADLOCK)

    def report(self, threads: Threads, lane: int, number: int, text: str, kind: str = KIND) -> None:
        """A finding about what a lane does at a barrier."""
        who = threads.state.describe_lane(lane)
        message = f"{threads.name} of barrier {number} by {who} {text}"
        threads.report(kind, f"barrier {number}", message)

    def report_left(self) -> None:
        """Findings about barriers at which threads have come, and that nobody waits for."""
        for (_, number), barrier in self._made.items():
            if barrier.come and not barrier.is_stuck:
                who = self.gpu.state.describe_lane(barrier.first)
                message = (
                    f"barrier {number}, to which {who} came, has {barrier.come} of "
                    f"{barrier.expected} threads when the kernel ends"
                )
                self.gpu.state.log.add_sentence(KIND, message)


def _arrive(threads: Threads, number: Any, *rest: Any) -> None:
    _come(threads, number, rest)


def _sync(threads: Threads, number: Any, *rest: Any) -> None:
    """All lanes that wait go on together; meanwhile other parts of the kernel run."""
    barriers, waiting = threads.gpu.named_barriers, _come(threads, number, rest)
    while waiting:
        waiting = [it for it in waiting if not barriers.is_over(*it)]
        if waiting and not threads.gpu.let_others_run():
            _require_whole(threads)
            _report_deadlocks(threads, waiting)
            return


_Waiting = tuple[Array, tuple[int, int], int]
"""A warp, the barrier that it waits at, and how often that was complete before."""


def _come(threads: Threads, number: Any, rest: tuple[Any, ...]) -> list[_Waiting]:
    """Each warp comes to the barrier that its threads name."""
    gpu = threads.gpu
    gpu.begin_knowing()
    everybody = -(-threads.state.batch.threads // WARP) * WARP
    count = next((each for each in rest if not isinstance(each, str)), everybody)
    come = []
    for warp in threads.groups(WARP):
        at, size = (int(pick(each, int(warp[0]))) for each in (number, count))
        if _is_right(threads, warp, at, size):
            come.append((warp, *gpu.named_barriers.arrive(threads, warp, at, size)))
    gpu.begin_step()
    return come


def _is_right(threads: Threads, warp: Array, number: int, count: int) -> bool:
    """Whether a barrier can be named so; a finding where not."""
    if number == 0:
        raise UnsupportedError(
            f"the simulator keeps barrier 0, which {threads.name} names, for __syncthreads: name "
            "another one"
        )
    wrong = []
    if not 0 < number < MAX_BARRIERS:
        wrong.append(f"which is none (1 to {MAX_BARRIERS - 1} can be)")
    if count <= 0 or count % WARP:
        wrong.append(f"for {count} threads, which are no whole warps")
    for text in wrong:
        threads.gpu.named_barriers.report(threads, int(warp[0]), number, text)
    return not wrong


def _require_whole(threads: Threads) -> None:
    """Warps of one warpgroup run in step: that some wait for others need be no deadlock."""
    state, part = threads.state, threads.gpu.part
    inside = state.get_active(part)
    if state.exited is not None:
        inside = inside & ~state.exited
    blocks = state.batch.block[threads.active]
    missing = inside & ~threads.active & np.isin(state.batch.block, blocks)
    if missing.any():
        raise UnsupportedError(
            f"the simulator runs the warps of a warpgroup in step, and some of one wait at "
            f"{threads.name} while others do not come to it"
        )


def _report_deadlocks(threads: Threads, waiting: list[_Waiting]) -> None:
    """These warps would wait forever; they return, so that the run goes on."""
    stuck = np.zeros((threads.lanes, 1), bool)
    for warp, key, _ in waiting:
        threads.gpu.named_barriers.report_deadlock(threads, warp, key)
        stuck[warp] = True
    threads.state.exit_threads(stuck)


NAMED_BARRIERS: dict[str, Semantics] = {
    "ptx.bar_sync": _sync,
    "ptx.bar_sync_count": _sync,
    "ptx.bar_arrive": _arrive,
    "ptx.barrier_sync": _sync,
    "ptx.barrier_sync_count": _sync,
    "ptx.barrier_arrive": _arrive,
}
