"""What functions mean to the simulator, and how one brings a meaning of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from tvm.tirx import Var

from tirstep.transforms.gpu_limits import WARP

from .faults import UnknownFunctionError
from .grid import Array
from .memory import Arrive, Memory, Moment
from .queues import Queue
from .warp_memory import WarpMemory

Meaning = Callable[..., Any]
_REGISTERED: dict[str, Meaning] = {}
_GROUPS = {WARP: "warp", 4 * WARP: "warpgroup"}


class Machine(Protocol):
    """What an expression needs of the machine that runs it."""

    now: Moment
    values: dict[Var, Any]
    memories: dict[Var, Memory]
    line: str

    def queue(self, name: str) -> Queue:
        """The queue of a name, of the threads that run."""


def register_meaning(name: str) -> Callable[[Meaning], Meaning]:
    """Say what a function means that kernels call, as ``T.cuda.func_call(name, ...)`` does.

    The decorated function runs once for each call, for all threads at once, and stands for what
    each of them does. It gets the `Threads` that come to the call, and then the call's arguments
    (without the source code): a `Pointer` for a pointer, a str for a string, and for any other
    value a number where all threads agree, else an array of shape (threads, 1). What it returns is
    the value of the call, in the same form. Pointers load and store through the simulator's
    memories, so that races, bounds, alignment and what nobody wrote are checked. Another meaning
    of the same name replaces the first; an operator of TVM has its name without ``tirx.``, as
    ``"ptx_legacy.mma"``.

    >>> @register_meaning("scale_in_place")
    ... def scale_in_place(threads, target, count, factor):
    ...     offsets = np.arange(count)  # of one thread: its elements in a row
    ...     target.store(offsets, target.load(offsets) * factor)

    What hardware does beside the threads is deferred, and comes to pass when they wait for it:

    >>> @register_meaning("begin_scaling")
    ... def begin_scaling(threads, target, count, factor):
    ...     offsets = np.arange(count)
    ...     def arrive(lanes):  # a mask of the threads that have waited
    ...         target.store(offsets, target.load(offsets, lanes) * factor, lanes)
    ...     threads.defer("scaling", arrive)
    ...     threads.commit("scaling")
    >>> @register_meaning("wait_for_scaling")
    ... def wait_for_scaling(threads):
    ...     threads.wait("scaling")
    """

    def register(meaning: Meaning) -> Meaning:
        _REGISTERED[name] = meaning
        return meaning

    return register


def find_meaning(name: str, built_in: dict[str, Meaning]) -> Meaning:
    """The meaning of a function; raises `UnknownFunctionError` where nobody brought one."""
    meaning = _REGISTERED.get(name, built_in.get(name))
    if meaning is None:
        raise UnknownFunctionError(
            f"the simulator does not know the function '{name}'; bring its meaning with "
            f"register_meaning('{name}') of tirstep.lowering_checks.devices.simulator, or choose "
            "another device"
        )
    return meaning


class Threads:
    """The threads that come to a call; those of all GPU blocks that run, which are the lanes.

    Attributes
    ----------
    name : of the function
    lanes : how many lanes there are
    here : which of them come to the call; of shape (lanes, 1)
    numbers : each lane's number within its GPU block, x running fastest; of shape (lanes, 1)
    """

    def __init__(self, machine: Machine, mask: Array | None, name: str, line: str) -> None:
        self._machine, self._mask, self.name, self.line = machine, mask, name, line
        batch = machine.now.batch
        self.lanes = batch.lanes
        self.here = np.broadcast_to(True if mask is None else mask, (batch.lanes, 1))
        self.numbers = batch.lane % batch.threads

    def narrow(self, lanes: Array | None) -> Array | None:
        """A mask of lanes, narrowed to those that are here; None for all there are."""
        if lanes is None or lanes.all():
            return self._mask
        return lanes if self._mask is None else lanes & self._mask

    def groups(self, size: int = WARP) -> Array:
        """The lanes of groups of neighbouring threads that must all come together.

        Returns an array of shape (groups, size) of lane numbers, with the groups all of whose
        threads are here; those of which only some are here are a fault, and left out.
        """
        batch = self._machine.now.batch
        if self._mask is None and batch.threads % size == 0:
            return batch.lane.reshape(-1, size)
        width = -(-batch.threads // size) * size
        lanes, here = np.zeros((2, batch.blocks, width), np.int64)
        lanes[:, : batch.threads] = batch.lane.reshape(batch.blocks, -1)
        here[:, : batch.threads] = self.here.reshape(batch.blocks, -1)
        lanes, count = lanes.reshape(-1, size), here.reshape(-1, size).sum(axis=1)
        first = lanes[np.arange(len(lanes)), here.reshape(-1, size).argmax(axis=1)]

        def describe(at: tuple[int, ...]) -> str:
            group = _GROUPS.get(size, "group")
            return (
                f"{self._machine.now.describe(first[at])} comes to {self.name} with {count[at]} "
                f"threads of its {group}, and all {size} must"
            )

        wrong = (count > 0) & (count < size)
        kind = "divergent warp instruction"
        self._machine.now.log.add(kind, self.name, self.line, wrong, describe)
        return lanes[count == size]

    def mask(self, groups: Array) -> Array:
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
        here = self.here if lanes is None else self.here & lanes
        self._machine.queue(queue).defer(here, arrive)

    def commit(self, queue: str) -> None:
        """Close each thread's group of work in a queue."""
        self._machine.queue(queue).commit(self.here)

    def wait(self, queue: str, in_flight: int | Array = 0) -> None:
        """Wait for a queue's committed groups, but for the last `in_flight` ones."""
        self._machine.queue(queue).wait(self.here, in_flight)

    def count(self, what: str) -> None:
        """Count an instruction in `Counts`, once for each warp of the first GPU block."""
        batch, counts = self._machine.now.batch, self._machine.now.counts
        if batch.first == 0:
            here = np.flatnonzero(self.here[: batch.threads])
            setattr(counts, what, getattr(counts, what) + len(np.unique(here // WARP)))


class Pointer:
    """A pointer that each thread of a call has, into memory that is checked.

    Offsets count elements of the pointer's type: a number or an array of shape (n,), the same for
    all threads, or an array of shape (lanes, n). Neighbours in a row are one vector access, which
    must be aligned to its size. `lanes` narrows an access to a mask of shape (lanes, 1).
    """

    def __init__(self, threads: Threads, memory: Memory, offset: Any) -> None:
        self._threads, self._memory, self._offset = threads, memory, offset

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._memory.dtype

    @property
    def is_of_warp(self) -> bool:
        """Whether it points into scope "warp", which the threads of a warp hold together."""
        return isinstance(self._memory, WarpMemory)

    @property
    def name(self) -> str:
        """The buffer's name."""
        return self._memory.name

    def load(self, offset: Any = 0, lanes: Array | None = None) -> Array:
        """The elements at an offset: an array of shape (lanes, n)."""
        mask = self._threads.narrow(lanes)
        values = self._memory.load_vector(self._index(offset), mask, self._threads.line)
        return np.broadcast_to(values, (self._threads.lanes, values.shape[1]))

    def store(self, offset: Any, value: Any, lanes: Array | None = None) -> None:
        """Store a number or an array of shape (lanes, n) at an offset."""
        mask = self._threads.narrow(lanes)
        self._memory.store(self._index(offset), value, mask, self._threads.line)

    def begin_store(self, offset: Any, value: Any, lanes: Array | None = None) -> Arrive:
        """Begin a store into shared memory that hardware does beside the threads.

        Until it arrives whoever touches the elements races. Returns the function that makes it
        arrive, for `Threads.defer`.
        """
        mask = self._threads.narrow(lanes)
        return self._memory.begin_store(self._index(offset), value, mask, self._threads.line)

    def check_unchanged(self, offset: Any, value: Any, lanes: Array | None = None) -> None:
        """Note a race where the elements are no longer what hardware began to read."""
        mask = self._threads.narrow(lanes)
        self._memory.check_unchanged(self._index(offset), value, mask, self._threads.line)

    def _index(self, offset: Any) -> Any:
        index = self._offset + offset
        return index if isinstance(index, int) else np.atleast_2d(index)
