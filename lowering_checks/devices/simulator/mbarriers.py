"""mbarriers: objects in shared memory that threads and bulk copies arrive at, in phases.

Semantics from the PTX ISA, section "Parallel Synchronization and Communication Instructions:
mbarrier". A phase is complete when all arrivals that it expects were made and the bytes of its
transactions have arrived; a wait for a parity passes when the phase of that parity is the one
before the current one. What hardware brings arrives as late as it may: when a thread waits for it.

A thread that waits knows of what was done before the arrivals of that phase, and of no more
(`RunState.known`). A wait that nothing can end any more is a finding, and its threads return.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tirstep.transforms.gpu_limits import WARP, count_registers

from ...device import Array
from .async_copies import CP_ASYNC
from .clusters import list_pointers
from .function_semantics import Pointer, Semantics, Threads, get_lanes, pick
from .ptx_calls import fill_register
from .shadow import GLOBAL_PROXY, OPAQUE, PROXY, Shadow
from .tensor_memory import AFTER

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

KIND = "mbarrier"
"""Kind of findings about the use of mbarriers."""
DEADLOCK = "deadlock"
_INITIALIZED = "mbarrier_init"
"""Fences that make the initialization of mbarriers visible to bulk copies and other blocks."""
MAX_COUNT = 2**20 - 1
_BYTES = 8


class Arrival(NamedTuple):
    """What hardware brings to a phase for a lane: a bulk copy, or what a commit waits for."""

    lane: int
    bring: Callable[[], None]
    is_copy: bool = True


class MBarrier:
    """One mbarrier of a thread block.

    Attributes
    ----------
    name : as ``buffer[index]``
    expected, pending : arrivals of a phase, and those that it still lacks
    bytes : announced for this phase, less those of the copies that were asked for
    phase : how many phases are complete
    maker, made : the lane that initialized it, and when
    arriving : what completes this phase's copies, and instructions of tensor cores
    released : for each thread of the cluster, when the waiting thread knows of all it did before,
        and of what tensor cores read for it, which relaxed arrivals and waits of any scope make
        known, too; as `RunState.known`
    gathered : the same of the phase that is going on
    copied : the same of what copies brought, which a wait of any scope makes known
    visits : for each lane when it arrived or waited last
    """

    def __init__(self, name: str, count: int, maker: int, made: int, known: Array) -> None:
        self.name, self.maker, self.made = name, maker, made
        self.expected, self.pending, self.bytes, self.phase = count, count, 0, 0
        self.arriving, self.visits = list[Arrival](), dict[int, int]()
        self.released, self.gathered, self.copied = np.zeros((3, *known.shape), np.int64)

    @property
    def is_due(self) -> bool:
        """Whether nothing is missing in this phase but that hardware brings what is in flight."""
        return self.pending == 0 and self.bytes == 0

    def describe_lack(self) -> str:
        """What the phase that goes on waits for."""
        parts = []
        if self.pending:
            parts.append(f"{self.pending} of {self.expected} arrivals")
        if self.bytes > 0:
            parts.append(f"{self.bytes} of the bytes that were announced")
        lack = " and ".join(parts)
        if self.bytes < 0:
            too_many = f"got {-self.bytes} bytes more than were announced"
            return f"which lacks {lack} and {too_many}" if lack else f"which {too_many}"
        return f"which lacks {lack}"


class MBarriers:
    """The mbarriers of the thread blocks that run, and who knows of what through them.

    `progress` counts what may end a wait.
    """

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu, self.progress = gpu, 0
        self._made: dict[tuple[Shadow, int], MBarrier] = {}
        self._asked: dict[tuple[int, int], list[int]] = {}
        self._later: dict[int, list[MBarrier]] = {}  # a lane's arrivals that hardware brings

    def get(self, threads: Threads, pointer: Pointer, lane: int) -> MBarrier | None:
        """The mbarrier of a lane's pointer; None, and a finding, where there is none."""
        found = self._made.get(pointer.locate(lane))
        if found is None:
            self.report(threads, pointer, lane, "which was not initialized")
            return None
        known = int(threads.state.tell_known(lane)[found.maker % threads.state.batch.group])
        if lane != found.maker and found.made >= known and self.is_fenced(found):
            # A relaxed barrier of the cluster tells of it, too.
            pair = np.array([lane]), np.array([found.maker])
            known = int(self.gpu.state.get_fences(AFTER).get_known(*pair)[0])
        if lane != found.maker and found.made >= known:
            maker = threads.state.describe_lane(found.maker)
            why = f"with no barrier after its initialization by {maker}"
            kind = KIND if self._is_apart(found, lane) else "race"
            self.report(threads, pointer, lane, why, kind=kind)
        return found

    def tell_phase(self, pointer: Pointer, lane: int) -> int:
        """The phase that goes on; 0 where there is no mbarrier."""
        found = self._made.get(pointer.locate(lane))
        return 0 if found is None else found.phase

    def make(self, threads: Threads, pointer: Pointer, lane: int, count: int) -> None:
        key = pointer.locate(lane)
        if key in self._made:
            self.report(threads, pointer, lane, "which is one already: invalidate it first")
        if not 1 <= count <= MAX_COUNT:
            self.report(threads, pointer, lane, f"for {count} arrivals (1 to {MAX_COUNT} can be)")
        state = threads.state
        assert state.known is not None
        self._mark(pointer, lane, is_opaque=True)
        of_lane = pointer.name_place(lane), count, lane, state.interval, state.known[:, lane]
        self._made[key] = MBarrier(*of_lane)

    def forget(self, threads: Threads, pointer: Pointer, lane: int) -> None:
        """Invalidate an mbarrier; its memory is memory again."""
        found = self.get(threads, pointer, lane)
        if found is not None:
            if found.arriving:
                self.report(
                    threads, pointer, lane, "while a bulk copy to arrive there is in flight"
                )
            for other, time in found.visits.items():
                heard = threads.state.tell_heard(lane)[other % found.copied.shape[-1]]
                if other != lane and heard <= time:
                    visitor = threads.state.describe_lane(other)
                    why = f"where {visitor} arrives or waits, which nothing orders before it"
                    self.report(threads, pointer, lane, why, kind="race")
                    break
            self._mark(pointer, lane, is_opaque=False)
            del self._made[pointer.locate(lane)]

    def _mark(self, pointer: Pointer, lane: int, *, is_opaque: bool) -> None:
        """Threads may not load or store what an mbarrier is made of."""
        shadow, cell = pointer.locate(lane)
        shadow.mark(OPAQUE, slice(cell, cell + _BYTES // shadow.unit), is_opaque)

    def is_fenced(self, barrier: MBarrier) -> bool:
        """Whether its maker made it visible to bulk copies."""
        fences = self.gpu.state.get_fences(_INITIALIZED)
        return bool(fences.last[barrier.maker, 0] > barrier.made)

    def arrive(
        self,
        threads: Threads,
        pointer: Pointer,
        lane: int,
        count: int = 1,
        size: int = 0,
        *,
        releases: bool = True,
    ) -> None:
        """A thread's arrivals, with bytes that it announces; a relaxed one `releases` nothing."""
        barrier = self._get_pending(threads, pointer, lane, count)
        if barrier is None:
            return
        state = threads.state
        barrier.visits[lane] = state.interval
        if self._is_apart(barrier, lane):
            self.gpu.meetings.visit(lane, int(state.batch.block[barrier.maker, 0]))
        # One that is relaxed tells only, in a cluster, of what tensor cores have read.
        gathered = barrier.gathered if releases else barrier.gathered[-1:]
        self._tell(gathered, lane)
        gathered[:, lane % state.batch.group] = state.interval + 1
        barrier.pending -= count
        barrier.bytes += size
        self.progress += 1
        if barrier.is_due and not barrier.arriving:
            self.complete(barrier)

    def arrive_later(
        self, threads: Threads, pointer: Pointer, lane: int, bring: Callable[[], None]
    ) -> None:
        """One arrival that hardware makes for a lane when it has brought something, which began
        behind all that the lane knows of by now."""
        barrier = self._get_pending(threads, pointer, lane, 1)
        if barrier is not None:
            self._tell(barrier.gathered, lane)
            self._later.setdefault(lane, []).append(barrier)
            barrier.pending -= 1
            barrier.arriving.append(Arrival(lane, bring, is_copy=False))
            self.progress += 1

    def _tell(self, gathered: Array, lane: int) -> None:
        """Gather what a lane knows of others, of both kinds or of what tensor cores read alone."""
        told = np.stack([self.gpu.state.tell_known(lane), self.gpu.state.tell_heard(lane)])
        np.maximum(gathered, told[-len(gathered) :], out=gathered)

    def _get_pending(
        self, threads: Threads, pointer: Pointer, lane: int, count: int
    ) -> MBarrier | None:
        """The mbarrier, if its phase lacks so many arrivals; else None, and a finding."""
        barrier = self.get(threads, pointer, lane)
        if barrier is not None and barrier.pending < count:
            missing = "without a known wait" if barrier.is_due else "too often"
            self.report(threads, pointer, lane, f"in phase {barrier.phase} {missing}")
            return None
        return barrier

    def expect(self, threads: Threads, pointer: Pointer, lane: int, size: int) -> None:
        """Bytes that a thread announces; a negative number has arrived, as by a copy."""
        barrier = self.get(threads, pointer, lane)
        self.progress += 1
        if barrier is not None:
            barrier.bytes += size
            if barrier.is_due and not barrier.arriving:
                self.complete(barrier)

    def complete(self, barrier: MBarrier) -> None:
        """End a phase: what is in flight arrives, and the next phase begins.

        A thread's commits arrive in its order, so that those at other mbarriers have come before.
        """
        state = self.gpu.state
        for lane in {it.lane for it in barrier.arriving if not it.is_copy}:
            in_order = self._later.pop(lane, [])
            end = max((at + 1 for at, it in enumerate(in_order) if it is barrier), default=0)
            self._later[lane] = in_order[end:]
            for other in in_order[:end]:
                if other is not barrier and other.is_due:
                    self.complete(other)
        for arrival in barrier.arriving:
            arrival.bring()
        self.gpu.state.interval += 1
        for arrival in barrier.arriving:
            barrier.copied[0, arrival.lane % state.batch.group] = state.interval
        barrier.released = np.maximum(barrier.released, barrier.gathered)
        barrier.arriving, barrier.pending = [], barrier.expected
        barrier.phase += 1
        self.progress += 1

    def _is_apart(self, barrier: MBarrier, lane: int) -> bool:
        """Whether a lane is of another block than an mbarrier."""
        block = self.gpu.state.batch.block
        return bool(block[lane, 0] != block[barrier.maker, 0])

    def pass_wait(
        self,
        threads: Threads,
        pointer: Pointer,
        lane: int,
        parity: int,
        words: Sequence[str],
    ) -> bool:
        """Whether a lane's wait ends, which makes known to it what was done before.

        Of other blocks only where `words` say that the wait is one of the cluster. Where it is
        relaxed the lane hears of it alone.
        """
        barrier = self.get(threads, pointer, lane)
        if barrier is None:
            return True
        if barrier.phase % 2 == parity and barrier.is_due:
            self.complete(barrier)
        if barrier.phase % 2 == parity:
            return False
        released, batch, known = barrier.released.copy(), threads.state.batch, threads.state.known
        if batch.cluster > 1 and "cta" in words:
            own = np.arange(batch.group) // batch.threads == batch.block[lane] % batch.cluster
            released[0, ~own] = 0
        assert known is not None
        told = np.maximum(released, barrier.copied)
        if "relaxed" in words:
            told[-1], told[:-1] = told.max(axis=0), 0
        known[:, lane] = np.maximum(known[:, lane], told)
        barrier.visits[lane] = threads.state.interval
        return True

    def report(
        self, threads: Threads, pointer: Pointer, lane: int, text: str, kind: str = KIND
    ) -> None:
        """A finding about what a lane does to an mbarrier."""
        place, thread = pointer.name_place(lane), threads.state.describe_lane(lane)
        threads.report(kind, pointer.name, f"{threads.name} of {place} by {thread}, {text}")

    def ask_registers(self, threads: Threads, group: Array, count: int) -> None:
        """A warpgroup asks for so many registers a thread."""
        block = int(threads.state.batch.block[group[0], 0])
        self._asked.setdefault((block, int(group[0])), []).append(count * len(group))

    def report_left(self) -> None:
        """Findings about what nobody waited for until the kernel ended, or waited for in vain."""
        threads = self.gpu.state.batch.threads
        begun = count_registers(threads)
        for block in {block for block, _ in self._asked}:
            counts = [asked for (its, _), asked in self._asked.items() if its == block]
            first, last = (sum(asked[at] for asked in counts) for at in (0, -1))
            # A warpgroup that asks for none keeps those that it began with.
            kept = (threads - self.gpu.kernel.in_step * len(counts)) * begun
            if (asked := max(first, last) + kept) > threads * begun:
                message = (
                    f"setmaxnreg waits forever: the warpgroups of a thread block ask for {asked} "
                    f"registers, and its threads begin with {threads * begun}"
                )
                self.gpu.state.log.add_sentence(DEADLOCK, message)
        for barrier in self._made.values():
            for arrival in [it for it in barrier.arriving if it.is_copy][:1]:
                message = (
                    f"a bulk copy by {self.gpu.state.describe_lane(arrival.lane)} that arrives at "
                    f"{barrier.name} is in flight when the kernel ends"
                )
                self.gpu.state.log.add_sentence(KIND, message)


def _for_each(method: Callable[..., None], *before: int) -> Semantics:
    """What each thread does by itself, with integers `before` those that it gives; words are
    modifiers."""

    def run(threads: Threads, pointer: Any, *rest: Any) -> None:
        values = [*before, *(each for each in rest if not isinstance(each, str))]
        is_relaxed = any(isinstance(each, str) and each == "relaxed" for each in rest)
        words = {"releases": False} if is_relaxed and method is MBarriers.arrive else {}
        for lane, place in list_pointers(threads, pointer):
            numbers = (int(pick(value, lane)) for value in values)
            method(threads.gpu.mbarriers, threads, place, lane, *numbers, **words)
        threads.state.interval += 1

    return run


def _wait(threads: Threads, address: Any, parity: Any, *, words: Sequence[str] = ()) -> None:
    """All lanes that wait go on together; meanwhile other parts of the kernel may run.

    Threads that would wait forever return, so that the run goes on.
    """
    mbarriers, waiting = threads.gpu.mbarriers, [*list_pointers(threads, address)]
    while waiting:
        waiting = [
            (lane, it)
            for lane, it in waiting
            if not mbarriers.pass_wait(threads, it, lane, int(pick(parity, lane)), words)
        ]
        if waiting and not threads.gpu.let_others_run():
            lane, pointer = waiting[0]
            barrier = mbarriers.get(threads, pointer, lane)
            assert barrier is not None
            text = f"waits forever for the end of phase {barrier.phase}, {barrier.describe_lack()}"
            mbarriers.report(threads, pointer, lane, text, kind=DEADLOCK)
            threads.state.exit_threads(threads.get_mask(np.array([it for it, _ in waiting])))
            return


def _arrive_with_state(
    arrive: Semantics, threads: Threads, state: Pointer | None, pointer: Pointer, *rest: Any
) -> None:
    """An arrival that gives its phase, for a wait for the end of that."""
    barriers, phases = threads.gpu.mbarriers, np.zeros((threads.lanes, 1), np.uint64)
    for lane in get_lanes(threads):
        phases[lane] = barriers.tell_phase(pointer, lane)
    arrive(threads, pointer, *rest)
    fill_register(state, phases)


def _try_wait(
    threads: Threads, is_over: Pointer | None, pointer: Pointer, phase: Any, *rest: Any
) -> None:
    """try_wait and test_wait, by a parity or a state. Programs ask until the phase is over, and so
    long they wait here at once.
    """
    words = [each for each in rest if isinstance(each, str)]
    _wait(threads, pointer, np.asarray(phase).astype(np.int64) & 1, words=words)
    if is_over is not None:
        is_over.store(0, 1)


def _arrive_with_copies(threads: Threads, pointer: Any, *words: str) -> None:
    """cp.async.mbarrier.arrive: an arrival when the thread's cp.async before have brought all; the
    phase expects one more for it unless that is .noinc.
    """
    barriers, queue = threads.gpu.mbarriers, threads.gpu.get_queue(CP_ASYNC)
    for lane, place in list_pointers(threads, pointer):
        if (barrier := barriers.get(threads, place, lane)) is None:
            continue
        barrier.pending += "noinc" not in words
        bring = queue.track(threads.get_mask(np.array([lane])))
        barriers.arrive_later(threads, place, lane, bring)


def _fence_initialization(threads: Threads, *modifiers: str) -> None:
    threads.state.pass_fence(_INITIALIZED, threads.active)


def _fence_proxy(threads: Threads, *modifiers: str) -> None:
    """Stores of these threads before are there for bulk copies, and the other way round.

    Of global memory, of shared memory, or of both where it names none of them.
    """
    if "async" not in modifiers:
        return
    _fence_initialization(threads)
    is_shared = any(modifier.startswith("shared") for modifier in modifiers)
    if not is_shared:
        threads.state.pass_fence(GLOBAL_PROXY, threads.active)
    if is_shared or "global" not in modifiers:
        threads.state.pass_fence(PROXY, threads.active)


def _elect(threads: Threads) -> Array:
    """1 in one lane of each warp, all of whose lanes take part."""
    chosen = np.zeros((threads.lanes, 1), np.uint32)
    chosen[threads.groups(WARP)[:, 0]] = 1
    return chosen


def _set_registers(threads: Threads, *arguments: Any) -> None:
    """setmaxnreg changes no value; all threads of a warpgroup run it, and wait for registers."""
    counts = [each for each in arguments if not isinstance(each, str)]
    for group in threads.groups(threads.gpu.kernel.in_step):
        threads.gpu.mbarriers.ask_registers(threads, group, int(pick(counts[0], group[0])))


WAITS: dict[str, Semantics] = {
    "cuda.mbarrier_wait": _wait,
    "cuda.mbarrier_wait_acquire_cluster": functools.partial(_wait, words=("cluster",)),
    **dict.fromkeys(
        (
            "ptx.mbarrier_test_wait",
            "ptx.mbarrier_test_wait_parity",
            "ptx.mbarrier_try_wait",
            "ptx.mbarrier_try_wait_hint",
            "ptx.mbarrier_try_wait_parity",
            "ptx.mbarrier_try_wait_parity_no_hint",
        ),
        _try_wait,
    ),
}
_ARRIVE, _ARRIVE_EXPECT = _for_each(MBarriers.arrive), _for_each(MBarriers.arrive, 1)
MBARRIERS: dict[str, Semantics] = {
    "ptx.mbarrier_init": _for_each(MBarriers.make),
    "ptx.mbarrier_inval": _for_each(MBarriers.forget),
    **dict.fromkeys(("ptx.mbarrier_arrive", "ptx.mbarrier_arrive_nocount"), _ARRIVE),
    "ptx.mbarrier_arrive_expect_tx": _ARRIVE_EXPECT,
    **dict.fromkeys(
        ("ptx.mbarrier_arrive_state", "ptx.mbarrier_arrive_count_state"),
        functools.partial(_arrive_with_state, _ARRIVE),
    ),
    "ptx.mbarrier_arrive_expect_tx_state": functools.partial(_arrive_with_state, _ARRIVE_EXPECT),
    "ptx.griddepcontrol": lambda threads, *_: None,  # one kernel runs, after all before it
    "ptx.mbarrier_expect_tx": _for_each(MBarriers.expect),
    "ptx.mbarrier_complete_tx": _for_each(
        lambda self, threads, pointer, lane, size: self.expect(threads, pointer, lane, -size)
    ),
    "ptx.cp_async_mbarrier_arrive": _arrive_with_copies,
    "ptx.fence_mbarrier_init": _fence_initialization,
    "ptx.fence_proxy": _fence_proxy,
    "ptx.setmaxnreg": _set_registers,
    **WAITS,
    "cuda.elect_sync": _elect,
}
