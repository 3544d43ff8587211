"""What all memories share, and where the machine stands that they belong to."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirstep.modules.dtypes import dtype_facts

from .counts import Counts
from .faults import FaultLog, UnsupportedError
from .grid import Array, Batch, describe_thread

Arrive = Callable[[Array], None]
"""Makes a store that hardware began arrive, for some lanes: a mask of shape (lanes, 1)."""


@dataclass
class Moment:
    """Where a machine stands: its memories look here who runs, and in which barrier interval.

    Attributes
    ----------
    interval : the number of barriers and batches so far
    begun : the interval in which the GPU blocks that run passed their last barrier; an array of all
        blocks of the batch where they did not pass the same ones
    ended : the lanes whose threads have returned, of shape (lanes, 1); None for none of them
    """

    log: FaultLog
    interval: int = 0
    begun: int | Array = 0
    ended: Array | None = None
    extents: Mapping[str, int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    running: Batch | None = None

    @property
    def batch(self) -> Batch:
        """The threads that run."""
        assert self.running is not None
        return self.running

    @property
    def oldest(self) -> int:
        """The earliest interval that lasts for a GPU block that runs."""
        return self.begun if isinstance(self.begun, int) else int(self.begun.min())

    def begun_of(self, threads: Array) -> int | Array:
        """The interval in which the GPU blocks of threads that run passed their last barrier."""
        if isinstance(self.begun, int):
            return self.begun
        found: Array = self.begun[threads // self.batch.threads - self.batch.first]
        return found

    def begin_interval(self, passed: Array | None = None) -> None:
        """Begin an interval, for all blocks or for those of a mask."""
        self.interval += 1
        if passed is None:
            self.begun = self.interval
        else:
            before = np.broadcast_to(self.begun, passed.shape)
            self.begun = np.where(passed, self.interval, before)

    def begin_batch(self, batch: Batch) -> None:
        """Begin with other GPU blocks."""
        self.running, self.ended = batch, None
        self.begin_interval()

    def end_threads(self, mask: Array | None) -> None:
        """Threads return: they do nothing more."""
        here = np.broadcast_to(True if mask is None else mask, (self.batch.lanes, 1))
        self.ended = here if self.ended is None else self.ended | here

    def describe(self, lane: int) -> str:
        """The thread of a lane, in words."""
        return describe_thread(self.batch.thread[lane, 0], self.extents)


class Memory:
    """Cells and their shadows; the scopes differ in how a thread's index finds its cell.

    `low` is the first index that may be used, and `size` the number of elements from there on.
    """

    def __init__(
        self, name: str, size: int, dtype: np.dtype[Any], now: Moment, low: int = 0
    ) -> None:
        self.name, self.size, self.dtype, self.now, self.low = name, size, dtype, now, low

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        """The values at an index of shape (lanes or 1, vector), for the lanes of a mask."""
        raise NotImplementedError

    def load_vector(self, index: Any, mask: Array | None, line: str) -> Any:
        """The same, as one instruction of the GPU: neighbours in a row must be aligned."""
        return self.load(index, mask, line)

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        """Store values at an index, for the lanes of a mask."""
        raise NotImplementedError

    def begin_store(self, index: Any, value: Any, mask: Array | None, line: str) -> Arrive:
        """Begin a store that hardware does beside the threads."""
        raise UnsupportedError(
            f"the simulator knows asynchronous copies into shared memory alone, and {self.name} "
            "lies elsewhere"
        )

    def check_unchanged(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        """Note where a value that hardware reads beside the threads is another one by now."""

    def view(self, name: str, dtype: np.dtype[Any], size: int, low: int, mark: int = 0) -> Memory:
        """The same cells as another buffer; itself if that is no other one.

        `mark` is a number of the other buffer's own where several lie in the same place.
        """
        if dtype != self.dtype:
            raise UnsupportedError(
                f"the simulator does not know {name}, a view of type {dtype} of {self.name}, which "
                f"has type {self.dtype}"
            )
        return self

    def seen_as(self, dtype: np.dtype[Any]) -> Memory:
        """The same cells as elements of another type."""
        if dtype == self.dtype:
            return self
        size, low = (n * self.dtype.itemsize // dtype.itemsize for n in (self.size, self.low))
        return self.view(self.name, dtype, size, low)

    def _inside(self, index: Array, active: Array, line: str, verb: str) -> Array:
        """The index with what is out of bounds clipped, and noted."""
        end = self.low + self.size
        if index.size and (index.min() < self.low or index.max() >= end):
            wrong = active & ((index < self.low) | (index >= end))

            def describe(at: tuple[int, ...]) -> str:
                place = f"{self.name}[{index[at] - self.low}]"
                who = self.now.describe(at[0])
                return f"{who} {verb} {place}, which has {self.size} elements"

            self.now.log.add("out of bounds", self.name, line, wrong, describe)
            return np.clip(index, self.low, end - 1)
        return index


class VectorMemory(Memory):
    """A buffer of vectors: element i is `lanes` neighbouring elements of another memory."""

    def __init__(self, scalars: Memory, lanes: int) -> None:
        super().__init__(scalars.name, scalars.size // lanes, scalars.dtype, scalars.now)
        self.scalars, self.lanes = scalars, lanes

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        return self.scalars.load(self.spread(index), mask, line)

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        self.scalars.store(self.spread(index), value, mask, line)

    def spread(self, index: Any) -> Array:
        """The indices of the scalars, in a row for each thread."""
        first: Array = np.atleast_2d(index)
        places = first[:, :, None] * self.lanes + np.arange(self.lanes)
        return places.reshape(len(first), -1)


def numpy_type(dtype: object) -> np.dtype[Any]:
    """NumPy's name of a scalar or vector type of TVM; predicates are bool."""
    return _find_type(str(dtype))


@functools.cache
def _find_type(dtype: str) -> np.dtype[Any]:
    name = re.sub(r"x\d+$", "", dtype)
    if name.startswith(("bfloat", "float8")):
        return dtype_facts(name).numpy
    return np.dtype("bool" if name == "uint1" else name)


def count_lanes(dtype: object) -> int:
    """4 for ``"float32x4"``, 1 for a scalar type."""
    return _find_lanes(str(dtype))


@functools.cache
def _find_lanes(dtype: str) -> int:
    return int(dtype.rpartition("x")[2]) if re.search(r"x\d+$", dtype) else 1


def differ(old: Array, new: Array) -> Array:
    """Where two arrays differ in their bits, NaN being equal to NaN."""
    return (old != new) & ~((old != old) & (new != new))


def garbage(dtype: np.dtype[Any]) -> Any:
    """What a cell holds before anybody wrote it: NaN, for an integer the smallest one."""
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else np.nan
