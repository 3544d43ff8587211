"""The semantics of functions that kernels call, and how to register those of a function of one's
own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tirstep.transforms.gpu_limits import WARP
from tirstep.tvm_compat import get_op_name

from ...device import Array
from .memory import Arrive, Memory
from .run_state import UnknownFunctionError

if TYPE_CHECKING:
    from .simulated_gpu import SimulatedGpu

Semantics = Callable[..., Any]
_REGISTERED: dict[str, Semantics] = {}
_NAMED_BY_ARGUMENT = ("cuda.func_call", "call_extern", "call_pure_extern")
_GROUPS = {WARP: "warp", 4 * WARP: "warpgroup"}


def register_semantics(name: str) -> Callable[[Semantics], Semantics]:
    """Define what a function does that kernels call, as ``T.cuda.func_call(name, ...)`` does.

    The decorated function runs once for each call, for all threads at once, and stands for what
    each of them does. It gets the `Threads` of the call, and then the call's arguments (without the
    source code): a `Pointer` for a pointer, a str for a string, and for any other value a number
    where all threads agree, else an array of shape (threads, 1). What it returns is the value of
    the call, in the same form. Pointers load and store through the simulator's memories, so that
    races, bounds, alignment and uninitialized loads are checked. Other semantics of the same name
    replace the first; an operator of TVM has its name without ``tirx.``, as ``"ptx_legacy.mma"``.

    >>> @register_semantics("scale_in_place")
    ... def scale_in_place(threads, target, count, factor):
    ...     offsets = np.arange(count)  # of one thread: its elements in a row
    ...     target.store(offsets, target.load(offsets) * factor)

    What hardware does asynchronously is deferred, and takes place when threads wait for it:

    >>> @register_semantics("begin_scaling")
    ... def begin_scaling(threads, target, count, factor):
    ...     offsets = np.arange(count)
    ...     def arrive(lanes):  # a mask of the threads that have waited
    ...         target.store(offsets, target.load(offsets, lanes) * factor, lanes)
    ...     threads.defer("scaling", arrive)
    ...     threads.commit("scaling")
    >>> @register_semantics("wait_for_scaling")
    ... def wait_for_scaling(threads):
    ...     threads.wait("scaling")
    """

    def register(semantics: Semantics) -> Semantics:
        _REGISTERED[name] = semantics
        return semantics

    return register


def get_semantics(name: str, built_in: dict[str, Semantics]) -> Semantics:
    """The semantics of a function; raises `UnknownFunctionError` where there are none."""
    semantics = _REGISTERED.get(name, built_in.get(name))
    if semantics is None:
        raise UnknownFunctionError(
            f"the simulator does not know the function '{name}'; define it with "
            f"register_semantics('{name}') of tirstep.lowering_checks.devices.simulator, or choose "
            "another device"
        )
    return semantics


def name_call(call: Any) -> str:
    """The name of the function that a call calls, without TVM's prefix."""
    return read_call(call)[0]


def read_call(call: Any) -> tuple[str, list[Any]]:
    """The same, and its arguments."""
    name, arguments = (get_op_name(call) or str(call.op)).removeprefix("tirx."), list(call.args)
    if name not in _NAMED_BY_ARGUMENT:
        return name, arguments
    source = name == "cuda.func_call"
    return str(arguments[0].value), arguments[1 : len(arguments) - source]


def pick(value: Any, lane: int) -> Any:
    """A lane's own of an argument."""
    return value[lane if len(value) > 1 else 0, 0] if isinstance(value, np.ndarray) else value


def require(threads: Threads, condition: Any) -> None:
    """A thread of which a condition does not hold ends the launch by a trap."""
    wrong = threads.active & (np.broadcast_to(condition, threads.active.shape) == 0)

    def describe(at: tuple[int, ...]) -> str:
        return f"{threads.state.describe_lane(at[0])} traps: what it asserts does not hold"

    threads.state.log.add("trap", "", threads.location, wrong, describe)
    if wrong.any():
        threads.state.exit_threads(wrong)


def get_lanes(threads: Threads) -> list[int]:
    """The numbers of the lanes that reach a call."""
    return [int(lane) for lane in np.flatnonzero(threads.active[:, 0])]


class Threads:
    """The threads of a call; those of all thread blocks that run, which are the lanes.

    Attributes
    ----------
    name : of the function
    lanes : how many lanes there are
    mask : which of them reach the call, of shape (lanes, 1); None for all
    """

    def __init__(self, gpu: SimulatedGpu, mask: Array | None, name: str, location: str) -> None:
        self.gpu, self.state, self.mask = gpu, gpu.state, mask
        self.name, self.location = name, location
        self.lanes = self.state.batch.lanes

    @functools.cached_property
    def active(self) -> Array:
        """Which of the lanes reach the call; of shape (lanes, 1)."""
        return self.state.get_active(self.mask)

    @functools.cached_property
    def numbers(self) -> Array:
        """Each lane's number within its thread block, x running fastest; of shape (lanes, 1)."""
        return self.state.batch.lane % self.state.batch.threads

    def narrow(self, lanes: Array | None) -> Array | None:
        """A mask of lanes, narrowed to those that reach the call; None for all there are."""
        if lanes is None or lanes.all():
            return self.mask
        return lanes if self.mask is None else lanes & self.mask

    def groups(self, size: int = WARP, *, is_barrier: bool = False) -> Array:
        """The lanes of groups of neighbouring threads that must all reach the call together.

        Returns an array of shape (groups, size) of lane numbers, with the groups all of whose
        threads do; those of which only some do are a finding, and left out. A barrier waits for
        those alone that are there and have not returned; a lane stands for one that is not there.
        """
        batch, exited = self.state.batch, self.state.exited
        if self.mask is None and batch.threads % size == 0:
            return batch.lane.reshape(-1, size)
        inside = np.arange(-(-batch.threads // size) * size)
        lanes = batch.lane.reshape(batch.blocks, -1)[:, np.minimum(inside, batch.threads - 1)]
        is_there = np.broadcast_to(inside < batch.threads, lanes.shape)
        active, missing = is_there & self.active[lanes, 0], ~is_there & (not is_barrier)
        left = False if exited is None or not is_barrier else exited[lanes, 0]
        missing |= is_there & ~active & ~np.asarray(left)
        lanes, active, missing = (it.reshape(-1, size) for it in (lanes, active, missing))
        count, is_whole = active.sum(axis=1), ~missing.any(axis=1)
        first = lanes[np.arange(len(lanes)), active.argmax(axis=1)]

        def describe(at: tuple[int, ...]) -> str:
            return (
                f"{self.name} reached by {count[at]} threads of the {_GROUPS.get(size, 'group')} "
                f"of {self.state.describe_lane(first[at])}, and not by all {size}"
            )

        kind, wrong = "divergent warp instruction", (count > 0) & ~is_whole
        self.state.log.add(kind, self.name, self.location, wrong, describe)
        return lanes[(count > 0) & is_whole]

    def get_mask(self, groups: Array) -> Array:
        """The mask of some lanes, of shape (lanes, 1)."""
        mask = np.zeros((self.lanes, 1), bool)
        mask[groups.ravel()] = True
        return mask

    def spread(self, groups: Array, values: Array) -> Array:
        """Values of shape (groups, size, n) as a row for each lane: (lanes, n)."""
        rows = np.zeros((self.lanes, values.shape[-1]), values.dtype)
        rows[groups.ravel()] = values.reshape(groups.size, values.shape[-1])
        return rows

    def defer(self, queue: str, arrive: Arrive, lanes: Array | None = None) -> None:
        """Leave work to hardware: it is done, for the lanes of a mask, when they wait for it."""
        active = self.active if lanes is None else self.active & lanes
        self.gpu.get_queue(queue).defer(active, arrive)

    def commit(self, queue: str) -> None:
        """Close each thread's group of work in a queue."""
        self.gpu.get_queue(queue).commit(self.active)

    def wait(self, queue: str, in_flight: int | Array = 0) -> None:
        """Wait for a queue's committed groups, but for the last `in_flight` ones."""
        self.gpu.get_queue(queue).wait(self.active, in_flight)

    def report(self, kind: str, buffer: str, message: str) -> None:
        """Record a finding of one lane, in words."""
        self.state.log.add(kind, buffer, self.location, np.ones(1, bool), lambda at: message)

    def count(self, name: str) -> None:
        """Count an instruction in `Counts`, once for each warp of the first thread block."""
        batch, counts = self.state.batch, self.state.counts
        if batch.first == 0:
            active = np.flatnonzero(self.active[: batch.threads])
            setattr(counts, name, getattr(counts, name) + len(np.unique(active // WARP)))


def _round_to_halves(threads: Threads, target: Pointer, source: Pointer) -> None:
    """``__float22half2_rn`` of two floats at a pointer, which are two halves at another one."""
    floats = np.ascontiguousarray(source.load(np.arange(8 // source.dtype.itemsize)))
    made = floats.view(np.float32).astype(np.float16).view(target.dtype)
    target.store(np.arange(made.shape[1]), made)


ALONE: dict[str, Semantics] = {
    "cuda.float22half2": _round_to_halves,
    "cuda.trap_when_assert_failed": require,
    # What takes time, and what measures it, changes no value.
    **dict.fromkeys(
        (
            *("cuda.nano_sleep", "cuda.clock64", "cuda.printf"),
            *(f"cuda.iket_range_{it}" for it in ("start", "end", "push", "pop")),
            *("cuda.iket_mark", "cuda.iket_sentinel_token"),
        ),
        lambda threads, *_: 0,
    ),
}
"""Of a thread by itself."""


@dataclass(frozen=True)
class Pointer:
    """A pointer that each thread of a call has, into memory that is checked.

    Offsets count elements of the pointer's type: a number or an array of shape (n,), the same for
    all threads, or an array of shape (lanes, n). Neighbours in a row are one vector access, which
    must be aligned to its size. `lanes` narrows an access to a mask of shape (lanes, 1). One into
    the shared memory of another block has the `rank` of that in its cluster.

    Attributes
    ----------
    memory, offset : what it points into, and where in elements: a number, or of shape (lanes, 1)
    """

    threads: Threads
    memory: Memory
    offset: Any
    rank: int | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.memory.dtype

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self.memory.name

    def get_place(self, lane: int) -> int:
        """The element of the memory that a lane's pointer points at."""
        return int(pick(self.offset, lane))

    def name_place(self, lane: int) -> str:
        """The element that a lane's pointer points at, in words."""
        return self.memory.name_place(self.get_place(lane) - self.memory.low)

    def locate(self, lane: int) -> tuple[Any, int]:
        """What names that element among those of all thread blocks."""
        return self.memory.locate_cell(self.get_place(lane), lane, rank=self.rank)

    def shift(self, offset: Any) -> Pointer:
        """The pointer so many elements further on, for each thread."""
        return Pointer(self.threads, self.memory, self.offset + offset)

    def load(self, offset: Any = 0, lanes: Array | None = None) -> Array:
        """The elements at an offset: an array of shape (lanes, n)."""
        values = self.memory.load(*self._get_access(offset, lanes), is_vector=True)
        return np.broadcast_to(values, (self.threads.lanes, values.shape[1]))

    def store(self, offset: Any, value: Any, lanes: Array | None = None) -> None:
        """Store a number or an array of shape (lanes, n) at an offset."""
        index, mask, location = self._get_access(offset, lanes)
        self.memory.store(index, value, mask, location)

    def begin_store(self, offset: Any, value: Any, lanes: Array | None = None) -> Arrive:
        """Begin a store into shared memory that hardware does asynchronously.

        Until it arrives any other access to the elements races. Returns the function that makes it
        arrive, for `Threads.defer`.
        """
        index, mask, location = self._get_access(offset, lanes)
        return self.memory.begin_store(index, value, mask, location)

    def check_unchanged(self, offset: Any, value: Any, lanes: Array | None = None) -> None:
        """Record a race where the elements are no longer what hardware began to load."""
        index, mask, location = self._get_access(offset, lanes)
        self.memory.check_unchanged(index, value, mask, location)

    def change_atomically(
        self, change: Callable[[Array, Array], None], offset: Any = 0, *, reads: bool = True
    ) -> None:
        """Have a function change elements of the memory's data at places of shape (lanes, n)."""
        index, mask, location = self._get_access(offset, None)
        self.memory.change_atomically(index, mask, location, change, reads=reads)

    def _get_access(self, offset: Any, lanes: Array | None) -> tuple[Any, Array | None, str]:
        own = self.offset
        if isinstance(own, np.ndarray | np.generic):
            own = own.astype(np.int64)  # unsigned ones and those of a row would become floats
        index = own + offset
        index = index if isinstance(index, int) else np.atleast_2d(index)
        return index, self.threads.narrow(lanes), self.threads.location
