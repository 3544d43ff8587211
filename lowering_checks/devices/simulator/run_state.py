"""The state of a run: the threads in flight, their barrier intervals, and what was found.

A launch runs in batches of thread blocks, all threads of which are evaluated at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tirstep.files import show_path
from tirstep.transforms.tir import find_location

from ...device import BLOCK_AXES, CLUSTER_AXIS, THREAD_AXES, Array, DeviceFinding
from .access_counts import Counts

LANES = 1 << 15
"""About how many threads are evaluated at once: enough to hide Python, few enough for the cache."""
MOST_JOINT = 1 << 13
"""Of threads each of which may know of each other one by itself."""
CLUSTER_AXES = tuple(f"{CLUSTER_AXIS[:-1]}{it}" for it in "xyz")
MOST_OF_CLUSTER = 16
"""CUDA's programming guide, "Thread Block Clusters": 8 blocks on every GPU that has them, and 16
where a launch allows what is not portable, as those of TVM's runtime do."""
IN_ORDER = "in order"
"""The scope of barriers behind every store, of modules in which TVM has not ordered threads yet."""
Shapes = dict[tuple[str, int], tuple[int, ...]]
"""Buffers' names and sizes, to their shapes."""
UNSTORED = "uninitialized read on chip"
"""Kind of uninitialized reads of registers or shared memory; reported if a stored value depends on
one."""
Describe = Callable[[tuple[int, ...]], str]
"""A finding's message, for the position of its first occurrence in an array."""


class UnsupportedError(NotImplementedError):
    """The simulator does not support something in a module: one sentence that names it."""


class UnknownFunctionError(UnsupportedError):
    """A call of a function whose semantics are not registered."""


@dataclass
class FindingLog:
    """Collects findings: the first of each kind, buffer and location in words, the others counted.

    `muted` is a kind that is not recorded for the time being.
    """

    muted: str = ""
    _found: dict[tuple[str, str, str], DeviceFinding] = field(default_factory=dict)

    def add(self, kind: str, buffer: str, location: str, wrong: Array, describe: Describe) -> None:
        """Record the places where `wrong` holds; `describe` gets the position of the first."""
        count = 0 if self.muted and kind.startswith(self.muted) else int(np.count_nonzero(wrong))
        if not count:
            return
        key = (kind, buffer, location)
        if (found := self._found.get(key)) is not None:
            self._found[key] = replace(found, count=found.count + count)
            return
        first = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        message = describe(tuple(int(position) for position in first))
        self._found[key] = DeviceFinding(kind, buffer, message, location, count)

    def add_sentence(self, kind: str, message: str, location: str = "") -> None:
        """Record a finding that has no place in a buffer."""
        self._found[kind, location, message] = DeviceFinding(kind, "", message, location, 1)

    @property
    def has_only_unstored(self) -> bool:
        """Whether nothing was found but loads of memory on chip that nobody stored to."""
        return bool(self._found) and all(kind == UNSTORED for kind, *_ in self._found)

    def get_findings(self) -> list[DeviceFinding]:
        """All findings, in the order in which they were first seen."""
        found = self._found.values()
        return [replace(it, kind=it.kind.removesuffix(" on chip")) for it in found]


def get_location(node: Any) -> str:
    """A node's ``file:line`` in the kernel; empty where TVM dropped it."""
    location = find_location(node)
    return "" if location is None else f"{show_path(location[0])}:{location[1]}"


def spread_to(value: Any, shape: tuple[int, ...]) -> Array:
    """As `np.broadcast_to`, which takes ten times as long to find that there is nothing to do."""
    is_spread = isinstance(value, np.ndarray) and value.shape == shape
    return value if is_spread else np.broadcast_to(value, shape)


class Batch:
    """Some thread blocks with all their threads, which are the lanes; columns of shape (lanes, 1).

    Attributes
    ----------
    first : the number of the first of these thread blocks
    blocks, threads : how many thread blocks, and threads in each of them
    cluster : how many neighbouring blocks form a cluster
    span : how many may know of one another: those of a cluster, or all there are
    coordinates : thread axis, as ``"threadIdx.x"``, to each lane's place on it
    block : each lane's thread block, counted within this batch
    thread : each lane's thread, counted over the whole grid
    lane : 0, 1, 2, ...
    lanes, everywhere : how many there are, and the mask of all of them
    """

    def __init__(
        self,
        extents: Mapping[str, int],
        first: int,
        blocks: int,
        chosen: Array | None,
        *,
        is_joint: bool,
    ) -> None:
        self.first, self.blocks = first, blocks
        self.threads = count_places(extents, THREAD_AXES)
        self.cluster, self.lanes = count_places(extents, CLUSTER_AXES), blocks * self.threads
        self.span = blocks if is_joint else self.cluster
        self.lane: Array = np.arange(self.lanes, dtype=np.int64)[:, None]
        self.block, inside = np.divmod(self.lane, self.threads)
        own = first + self.block if chosen is None else chosen[first + self.block]
        self.coordinates = {**locate_blocks(own, extents), **_unravel(inside, extents, THREAD_AXES)}
        self.thread = first * self.threads + self.lane
        self.everywhere = np.broadcast_to(True, self.lane.shape)

    @property
    def group(self) -> int:
        """Threads that may know of one another."""
        return self.threads * self.span

    def get_block(self, lane: int, rank: int) -> int:
        """The block of a rank in a lane's cluster, counted within this batch."""
        return int(self.block[lane, 0]) // self.cluster * self.cluster + rank


def split_grid(
    extents: Mapping[str, int],
    *,
    first_only: bool = False,
    chosen: Array | None = None,
    most: int | None = None,
    is_joint: bool = False,
) -> Iterator[Batch]:
    """The batches of a launch with these extents of thread axes, in the order of thread blocks.

    There is one where it `is_joint`: any block may know of any other.
    With `first_only`, one batch of the first thread block alone, or of the first cluster. With
    `chosen`, these thread blocks alone, whose numbers are then their places in it.
    """
    cluster = count_places(extents, CLUSTER_AXES)
    blocks = cluster if first_only else count_places(extents, BLOCK_AXES)
    blocks = blocks if chosen is None else len(chosen)
    threads = count_places(extents, THREAD_AXES)
    size = max(1, min(LANES // threads, most or LANES) // cluster) * cluster
    if is_joint and blocks * threads > MOST_JOINT:
        raise UnsupportedError(
            f"the simulator runs {MOST_JOINT} threads that exchange values through global memory "
            f"at most, and not {blocks * threads}; choose a smaller shape"
        )
    for first in range(0, blocks, size):
        yield Batch(extents, first, min(size, blocks - first), chosen, is_joint=is_joint)


def count_places(extents: Mapping[str, int], axes: tuple[str, ...]) -> int:
    """The thread blocks of a grid, or the threads of a thread block."""
    return math.prod(extents.get(axis, 1) for axis in axes)


def locate_blocks(number: Any, extents: Mapping[str, int]) -> dict[str, Any]:
    """The places of thread blocks in the grid and in their clusters, by axis.

    Blocks are counted cluster by cluster, and in each by their rank, x running fastest (PTX ISA,
    section "Special Registers", ``%cluster_ctarank``).
    """
    number, rank = np.divmod(number, count_places(extents, CLUSTER_AXES))
    places = {}
    for axis, inner in zip(BLOCK_AXES, CLUSTER_AXES, strict=True):
        size = extents.get(inner, 1)
        rank, place = np.divmod(rank, size)
        number, cluster = np.divmod(number, extents.get(axis, 1) // size)
        places[axis] = (cluster * size + place).astype(np.int32)
        places[inner] = place.astype(np.int32)
    return places


def _unravel(number: Any, extents: Mapping[str, int], axes: tuple[str, ...]) -> dict[str, Array]:
    places = {}
    for axis in axes:
        if axis in extents:
            number, place = np.divmod(number, extents[axis])
            places[axis] = place.astype(np.int32)
    return places


NEVER = np.iinfo(np.int64).max
_KEPT_BARRIERS = 8


class Fences:
    """Fences of one kind: each thread passes them for itself.

    Attributes
    ----------
    last : the interval that began with each lane's last one; of shape (lanes, 1)
    known : the interval before which a lane knew, then, what others did: of shape (lanes, 1), or
        (lanes, threads of the cluster) as `RunState.known`
    first : by the interval of a barrier of the thread block, that of each lane's first one since
    """

    def __init__(self, lanes: int) -> None:
        self.last, self.known = np.zeros((2, lanes, 1), np.int64)
        self.first: dict[int, Array] = {}

    def get_known(self, lanes: Array, others: Array) -> Array:
        """Before which interval lanes knew, at their last fence, of what others of a block did."""
        known: Array = self.known[lanes, others % self.known.shape[1]]
        return known


@dataclass
class RunState:
    """Where a run stands: memories look here which threads run, and in which barrier interval.

    Attributes
    ----------
    interval : the number of barriers, fences and batches so far
    last_barrier : the interval that began with the last barrier of the thread blocks that run; an
        array of all blocks of the batch where they did not pass the same ones
    exited : the lanes whose threads have returned, of shape (lanes, 1); None for none of them
    extents : of the launch's thread axes
    running : the batch that runs; None between launches
    has_proxies : whether anything in the launch reads shared memory on another way than loads
    read_only : names of buffers that the launch loads and stores to by no statement, asked where
        it has bulk copies: TVM says of each kernel that no two buffers lie in the same place, so
        that NVIDIA's compiler takes what lies there for constant
    launch : the number of the launch that runs, from 1 on
    chosen : the thread blocks that run, where not all do; they are numbered by their places in it
    shapes : those that buffers have in the program, by their names and sizes
    garbage : each byte of registers and shared memory that nobody stored; None where it is NaN
    known : for each lane, and each thread of its cluster, the interval before which all that thread
        did is known to the lane through barriers of any kind; in clusters, and where there is
        tensor memory, also the same of what tensor cores did for that thread, of which it also
        hears through mbarriers that release or acquire no more; of shape (1 or 2, lanes, threads of
        the cluster), None in launches that have barriers of thread blocks alone
    """

    log: FindingLog = field(default_factory=FindingLog)
    interval: int = 0
    last_barrier: int | Array = 0
    exited: Array | None = None
    extents: Mapping[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    running: Batch | None = None
    has_proxies: bool = False
    read_only: frozenset[str] = frozenset()
    launch: int = 0
    known: Array | None = None
    chosen: Array | None = None
    garbage: int | None = None
    shapes: Shapes = field(default_factory=dict)
    _fences: dict[str, Fences] = field(default_factory=dict)

    def get_fences(self, kind: str) -> Fences:
        """The fences of a kind that the threads which run have passed."""
        if kind not in self._fences:
            self._fences[kind] = Fences(self.batch.lanes)
        return self._fences[kind]

    @property
    def batch(self) -> Batch:
        assert self.running is not None
        return self.running

    @property
    def is_joint(self) -> bool:
        """Whether threads of any two blocks may know of one another."""
        return self.running is not None and self.running.span > self.running.cluster

    @property
    def oldest_interval(self) -> int:
        """The earliest interval that lasts for a thread block that runs."""
        last = self.last_barrier if self.known is None else 0
        return last if isinstance(last, int) else int(last.min())

    def pass_fence(self, kind: str, active: Array, *, hears: bool = False) -> None:
        """These lanes pass a fence of a kind, which may order what they `hear` of alone, too."""
        self.interval += 1
        fences, last = self.get_fences(kind), self.get_last_barrier(self.batch.thread)
        fences.last = np.where(active, self.interval, fences.last)
        if self.known is None:
            fences.known = np.where(active, last, fences.known)
        else:  # of these lanes alone: of all threads it is a large table
            if fences.known.shape != self.known.shape[1:]:
                fences.known = np.zeros(self.known.shape[1:], np.int64)
            lanes = np.flatnonzero(active)
            told = self.known[: 2 if hears else 1, lanes].max(axis=0)
            fences.known[lanes] = np.maximum(fences.known[lanes], told)  # of the cluster's, too
        last = np.broadcast_to(last, active.shape)
        for barrier in np.unique(last[active]):
            while len(fences.first) > _KEPT_BARRIERS and barrier not in fences.first:
                del fences.first[min(fences.first)]
            first = fences.first.setdefault(int(barrier), np.full(len(active), NEVER))
            first[active[:, 0] & (last == barrier)[:, 0] & (first == NEVER)] = self.interval

    def get_last_barrier(self, threads: Array) -> int | Array:
        """The interval in which the thread blocks of threads that run passed their last barrier."""
        if isinstance(self.last_barrier, int):
            return self.last_barrier
        found: Array = self.last_barrier[threads // self.batch.threads - self.batch.first]
        return found

    def tell_known(self, lane: int) -> Array:
        """For each thread of a lane's cluster, the interval before which the lane knows of it."""
        assert self.known is not None
        known: Array = self.known[0, lane]
        return known

    def tell_heard(self, lane: int) -> Array:
        """The same of what the lane knows to have come, relaxed arrivals too."""
        assert self.known is not None
        return np.maximum(self.known[0, lane], self.known[-1, lane])

    def get_since(
        self, threads: Array, others: Array, are_reads: Array | None = None
    ) -> int | Array:
        """The interval before which threads know of what others did; of no others any value.

        Where `are_reads`, of what tensor cores read for the others.
        """
        if self.known is None:
            return self.get_last_barrier(threads)
        lanes = threads - self.batch.first * self.batch.threads
        known: Array = self.known[0, lanes, others % self.batch.group]
        if are_reads is None:
            return known
        reads = self.known[-1, lanes, others % self.batch.group]
        return np.where(are_reads, np.maximum(known, reads), known)

    def begin_interval(self, passed: Array | None = None, times: Array | None = None) -> None:
        """Begin an interval, for all thread blocks or for those of a mask.

        Their threads know of one another what was done before it, or before `times`, and of other
        blocks what any of them does.
        """
        self.interval += 1
        if passed is None:
            self.last_barrier = self.interval
        else:
            before = np.broadcast_to(self.last_barrier, passed.shape)
            now = self.interval if times is None else np.maximum(before, times)
            self.last_barrier = np.where(passed, now, before)
        if self.known is not None and times is None:
            batch, chosen = self.batch, slice(None) if passed is None else passed
            by_block = self.known.reshape(-1, batch.blocks, batch.threads, batch.group)
            told: Any = self.interval
            if batch.span > 1:
                own = np.arange(batch.group) // batch.threads
                is_own = own == np.arange(batch.blocks)[:, None, None] % batch.span
                told = np.where(is_own, told, by_block.max(axis=2, keepdims=True))[:, chosen]
            by_block[:, chosen] = told

    def begin_batch(self, batch: Batch, *, knows: bool = False, hears: bool = False) -> None:
        """Begin with other thread blocks, whose threads may know of one another each by itself,
        and may hear of what they do not know."""
        self.running, self.exited, self._fences = batch, None, {}
        self.known = None
        self.begin_interval()
        if knows:
            kinds = 1 if batch.cluster == 1 and not hears else 2
            dtype = np.int32 if self.is_joint else np.int64
            self.known = np.full((kinds, batch.lanes, batch.group), self.interval, dtype)

    def get_active(self, mask: Array | None) -> Array:
        """The lanes of a mask (None: all), of shape (lanes, 1); the host's code has one lane."""
        everywhere = np.ones((1, 1), bool) if self.running is None else self.running.everywhere
        return everywhere if mask is None else spread_to(mask, everywhere.shape)

    def exit_threads(self, mask: Array | None) -> None:
        """Threads return: they do nothing more."""
        active = self.get_active(mask)
        self.exited = active if self.exited is None else self.exited | active

    def describe_lane(self, lane: int) -> str:
        """The thread of a lane in words."""
        return self.describe_thread(self.batch.thread[lane, 0])

    def describe_thread(self, thread: int) -> str:
        """A thread of the grid in words: ``thread (3, 0, 0) of block (1, 2, 0)``."""
        block, inside = divmod(int(thread), count_places(self.extents, THREAD_AXES))
        block = block if self.chosen is None else int(self.chosen[block])
        at = {**_unravel(inside, self.extents, THREAD_AXES), **locate_blocks(block, self.extents)}
        places = ([int(at.get(it, 0)) for it in axes] for axes in (THREAD_AXES, BLOCK_AXES))
        return "thread ({}, {}, {}) of block ({}, {}, {})".format(*itertools.chain(*places))


OF_KERNELS = "tirstep_of_kernels"
"""Ours, of an allocation outside of launches, of memory that is not the host's."""
