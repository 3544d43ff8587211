"""Memories: what all of them share, the registers of a thread, and those that a warp shares."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tirstep.modules.dtypes import dtype_facts
from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .run_state import UNSTORED, RunState, UnsupportedError, spread_to

Arrive = Callable[..., None]
"""Completes a store that hardware began, for some lanes: a mask of shape (lanes, 1)."""
LOAD, STORE = "load of", "store to"
REGISTERS = "registers"
"""The fence between threads' accesses of registers and those of hardware."""


class BufferKey(int):
    """A buffer as a key: its hash, which is its identity.

    Where TVM's buffers themselves are keys, each look-up asks == of two of them, which asks for
    their types and takes as long as a load.
    """

    buffer: Any

    def __new__(cls, buffer: Any) -> BufferKey:
        key = super().__new__(cls, hash(buffer))
        key.buffer = buffer
        return key


class Memory:
    """Cells and their shadows; the scopes differ in how a thread's index finds its cell.

    `low` is the first index that may be used, and `size` the number of elements from there on.
    """

    def __init__(
        self, name: str, size: int, dtype: np.dtype[Any], state: RunState, low: int = 0
    ) -> None:
        self.name, self.size, self.dtype, self.state, self.low = name, size, dtype, state, low

    def name_place(self, element: int) -> str:
        """An element in words, by the indices that it has in the program where these are known."""
        indices = list[int]()
        for extent in reversed(self._shape[1:]):
            element, index = divmod(element, extent)
            indices.insert(0, index)
        return f"{self.name}[{', '.join(map(str, (element, *indices)))}]"

    def describe_size(self) -> str:
        """``(A has 16x16 elements)``."""
        return f"({self.name} has {'x'.join(map(str, self._shape))} elements)"

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.state.shapes.get((self.name, self.size), (self.size,))

    def load(
        self, index: Any, mask: Array | None, location: str, *, is_vector: bool = False
    ) -> Any:
        """The values at an index of shape (lanes or 1, vector), for the lanes of a mask.

        With `is_vector` as one instruction of the GPU: neighbours in a row must be aligned.
        """
        raise NotImplementedError

    def store(
        self, index: Any, value: Any, mask: Array | None, location: str, *, is_vector: bool = True
    ) -> None:
        """Store values at an index, for the lanes of a mask; alignment as of `load`."""
        raise NotImplementedError

    def change_atomically(
        self,
        index: Any,
        mask: Array | None,
        location: str,
        change: Callable[[Array, Array], None],
        *,
        reads: bool = True,
    ) -> None:
        """Have a function change elements of `data` at places, for the lanes of a mask."""
        raise UnsupportedError(
            f"{self.name} lies in registers, and atomic operations change shared or global memory"
        )

    def begin_store(self, index: Any, value: Any, mask: Array | None, location: str) -> Arrive:
        """Begin a store that hardware does asynchronously."""
        raise UnsupportedError(
            f"the simulator supports asynchronous copies into shared memory only, and {self.name} "
            "lies elsewhere"
        )

    def locate_cell(self, element: int, lane: int, *, rank: int | None = None) -> tuple[Any, int]:
        """What names an element of a lane's thread block: the shadow, and the cell in it."""
        raise UnsupportedError(f"{self.name} lies in registers, where no mbarrier can be")

    def check_unchanged(self, index: Any, value: Any, mask: Array | None, location: str) -> None:
        """Record where a value that hardware loads asynchronously is another one by now."""

    def view(
        self, name: str, dtype: np.dtype[Any], size: int, low: int, buffer_id: int = 0
    ) -> Memory:
        """The same cells as another buffer; itself if that is no other one.

        `buffer_id` is the other buffer's own where several lie in the same place.
        """
        if dtype != self.dtype:
            raise UnsupportedError(
                f"the simulator does not support {name}, a view of type {dtype} of {self.name}, "
                f"which has type {self.dtype}"
            )
        return self

    def reinterpret(self, dtype: np.dtype[Any]) -> Memory:
        """The same cells as elements of another type."""
        if dtype == self.dtype:
            return self
        size, low = (n * self.dtype.itemsize // dtype.itemsize for n in (self.size, self.low))
        return self.view(self.name, dtype, size, low)

    def _locate(
        self, index: Any, mask: Array | None, location: str, access: str
    ) -> tuple[Array, Array]:
        """An index within bounds, and the active lanes, both of shape (lanes, vector).

        Records what is out of bounds; without the name of an `access`, that was done before.
        """
        lanes = (self.state.batch.lanes, 1)
        given = index.shape if isinstance(index, np.ndarray) else (1, 1)
        shape = given
        if mask is not None or given != lanes:
            own = (1, 1) if mask is None else mask.shape
            shape = np.broadcast_shapes(given or (1, 1), own, lanes)
        active = spread_to(self.state.batch.everywhere if mask is None else mask, shape)
        places = spread_to(index, shape)
        if mask is not None:
            places = np.where(active, places, self.low)
        end = self.low + self.size
        if not access or (index.__class__ is int and self.low <= index < end):
            return places, active
        if places.size and leaves(places, self.low, end):
            wrong = active & ((places < self.low) | (places >= end))

            def describe(at: tuple[int, ...]) -> str:
                place = self.name_place(int(places[at]) - self.low)
                thread = self.state.describe_lane(at[0])
                return f"{access} {place} by {thread} {self.describe_size()}"

            self.state.log.add("out of bounds", self.name, location, wrong, describe)
            return np.clip(places, self.low, end - 1), active
        return places, active


class LocalMemory(Memory):
    """Registers: every thread has cells of its own. Laid out with a cell's threads in a row.

    What no thread stores to takes no memory: fragments of matrices are declared for a whole warp,
    and each thread uses one row of them. Or every warp has (scope "warp", as TVM's own tensor
    intrinsics use it): TVM distributes the elements later, each to one thread's registers, and lets
    others load them with shuffles; lanes of a warp run in step, so that nothing can race.
    """

    def __init__(
        self,
        name: str,
        size: int,
        dtype: np.dtype[Any],
        state: RunState,
        *,
        is_of_warps: bool = False,
    ) -> None:
        super().__init__(name, size, dtype, state)
        batch, self.is_of_warps = state.batch, is_of_warps
        self._owner, owners = batch.lane, batch.lanes
        if is_of_warps:
            per_block = -(-batch.threads // WARP)
            self._owner = batch.block * per_block + batch.lane % batch.threads // WARP
            owners = batch.blocks * per_block
        self.data = np.zeros((size, owners), dtype)
        fill(self.data, state.garbage)
        self.written = np.zeros((size, owners), bool)
        # Of instructions that change registers while threads go on: how many will, and in which
        # interval threads used them last.
        self._in_flight: Array | None = None
        self._used = "adds to"
        self._last_use = 0
        self._fillers: list[tuple[Array, Array, Callable[[], None]]] = []

    def view(
        self, name: str, dtype: np.dtype[Any], size: int, low: int, buffer_id: int = 0
    ) -> Memory:
        if dtype == self.dtype or self.is_of_warps or dtype.itemsize % self.dtype.itemsize:
            return super().view(name, dtype, size, low)
        return RegisterView(name, size, dtype, self)

    def load(
        self, index: Any, mask: Array | None, location: str, *, is_vector: bool = False
    ) -> Any:
        self._use(LOAD, index, mask, location)
        if self._fillers:
            self._end_filling(index, mask)
        rows = self._find_rows(index)
        if rows is not None:
            cells, values, written = rows[None, :], self.data[rows].T, self.written[rows].T
        else:
            cells, _ = self._locate(index, mask, location, LOAD)
            at = cells, self._owner
            values, written = self.data[at], self.written[at]
        wrong = ~written if mask is None else ~written & mask
        if not np.count_nonzero(wrong):
            return values
        self._report_uninitialized(wrong, spread_to(cells, wrong.shape), location)
        if self.state.garbage is not None:
            return values
        return np.where(written, values, self.dtype.type(get_garbage(self.dtype)))

    def store(
        self, index: Any, value: Any, mask: Array | None, location: str, *, is_vector: bool = True
    ) -> None:
        self._use(STORE, index, mask, location)
        rows = self._find_rows(index)
        if rows is not None and (mask is None or mask.shape[1] == 1):
            at: Any = rows
            values = spread_to(value, (self.state.batch.lanes, len(rows))).T
            if mask is not None:
                lanes = np.flatnonzero(spread_to(mask, (self.state.batch.lanes, 1)))
                at, values = (rows[:, None], lanes), values[:, lanes]
            self.data[at], self.written[at] = values, True
            return
        cells, active = self._locate(index, mask, location, STORE)
        place = cells[active], spread_to(self._owner, cells.shape)[active]
        self.data[place] = spread_to(value, cells.shape)[active]
        self.written[place] = True

    def _use(self, access: str, index: Any, mask: Array | None, location: str) -> None:
        """Record an access of what an instruction in flight changes."""
        if not self.state.has_proxies:
            return
        self._last_use = self.state.interval
        if self._in_flight is None:
            return
        cells, active = self._locate(index, mask, location, "")
        wrong = active & (self._in_flight[cells, self.state.batch.lane] > 0)

        def describe(at: tuple[int, ...]) -> str:
            thread = self.state.describe_lane(at[0])
            return (
                f"{access} {self.name_place(int(cells[at]))} by {thread} while a wgmma that "
                f"{self._used} it is in flight"
            )

        self.state.log.add("race", self.name, location, wrong, describe)

    def require_fence(self, lanes: Array, location: str) -> None:
        """Record lanes that have used the registers since their last fence."""
        wrong = lanes & (self.state.get_fences(REGISTERS).last <= self._last_use)

        def describe(at: tuple[int, ...]) -> str:
            thread = self.state.describe_lane(at[0])
            return f"wgmma uses {self.name} of {thread} with no wgmma.fence after its last use"

        self.state.log.add("missing fence", self.name, location, wrong, describe)

    def begin_update(
        self,
        cells: Array,
        terms: Array,
        is_added: bool,
        lanes: Array,
        location: str,
        keep: Callable[[Array], Array] = np.asarray,
    ) -> None:
        """Hardware changes cells of some lanes from now on, by terms of shape (lanes, cells).

        `cells` have the shape (cells, lanes): lanes of several thread blocks may have others.
        `keep` is what it keeps of the bits of a result.
        """
        at = self._pick(cells, lanes)
        changed = terms[lanes[:, 0]].T
        if is_added:
            wrong = lanes & ~self.written[cells, np.arange(len(lanes))].T
            self._report_uninitialized(wrong, cells.T, location)
            changed = changed + self.data[at].astype(terms.dtype)
        self.data[at] = keep(changed.astype(self.dtype))
        self.written[at] = True
        if self._in_flight is None:
            self._in_flight = np.zeros(self.data.shape, np.int16)
        self._in_flight[at] += 1

    def begin_filling(
        self, cells: Array, values: Array, lanes: Array, end: Callable[[], None]
    ) -> None:
        """An instruction fills cells of some lanes, as of `begin_update`; it has ended where a lane
        uses one of them, which it is in order with (9.7.16.6.4.5)."""
        at = self._pick(cells, lanes)
        self.data[at], self.written[at] = values[lanes[:, 0]].T, True
        self._fillers.append((cells, lanes, end))

    def _end_filling(self, index: Any, mask: Array | None) -> None:
        left = []
        for cells, lanes, end in self._fillers:
            is_used = (
                (cells == index).any() if index.__class__ is int else np.isin(index, cells).any()
            )
            if is_used and (mask is None or (mask & lanes).any()):
                end()
            else:
                left.append((cells, lanes, end))
        self._fillers = left

    def begin_reading(self, cells: Array, lanes: Array, location: str) -> Array:
        """Hardware reads cells of some lanes from now on; what they hold, of shape (lanes, cells).

        `cells` have the shape (cells, lanes), as of `begin_update`.
        """
        wrong = lanes & ~self.written[cells, np.arange(len(lanes))].T
        self._report_uninitialized(wrong, cells.T, location)
        if self._in_flight is None:
            self._in_flight = np.zeros(self.data.shape, np.int16)
        self._in_flight[self._pick(cells, lanes)] += 1
        self._used = "reads"
        return self.data[cells, np.arange(len(lanes))].T

    def end_update(self, cells: Array, lanes: Array) -> None:
        """Threads have waited for what `begin_update` or `begin_reading` began."""
        assert self._in_flight is not None
        self._in_flight[self._pick(cells, lanes)] -= 1

    @staticmethod
    def _pick(cells: Array, lanes: Array) -> tuple[Array, Array]:
        """The cells of some lanes, of shape (cells, these lanes), and the lanes."""
        picked = np.flatnonzero(lanes)
        return cells[:, picked], picked[None, :]

    def _find_rows(self, index: Any) -> Array | None:
        """The cells of an index in which all threads agree, if it is within bounds."""
        if self.is_of_warps:
            return None
        if isinstance(index, int):
            return np.array([index]) if 0 <= index < self.size else None
        places: Array = np.atleast_2d(index)
        return None if len(places) > 1 or leaves(places, 0, self.size) else places[0]

    def _report_uninitialized(self, wrong: Array, cells: Array, location: str) -> None:
        def describe(at: tuple[int, ...]) -> str:
            cell, thread = int(cells[at]), self.state.describe_lane(at[0])
            who = "whose warp" if self.is_of_warps else "which"
            message = f"load of {self.name_place(cell)} by {thread}, {who} never stored to it"
            others = np.flatnonzero(self.written[cell])
            if others.size and not self.is_of_warps:
                message += f": {self.state.describe_lane(others[0])} did, in a register of its own"
            return message

        self.state.log.add(UNSTORED, self.name, location, wrong, describe)


class RegisterView(Memory):
    """Registers as elements of a type as large, or of several times that size."""

    def __init__(self, name: str, size: int, dtype: np.dtype[Any], base: LocalMemory) -> None:
        super().__init__(name, size, dtype, base.state)
        self.base, self._count = base, dtype.itemsize // base.dtype.itemsize

    def view(
        self, name: str, dtype: np.dtype[Any], size: int, low: int, buffer_id: int = 0
    ) -> Memory:
        return self.base.view(name, dtype, size, low)

    def locate_base(self, index: Any) -> Array:
        """Where the parts of elements lie in the registers: of shape (lanes or 1, parts)."""
        places = np.atleast_2d(index)[..., None] * self._count + np.arange(self._count)
        return places.reshape(len(places), -1)

    def load(
        self, index: Any, mask: Array | None, location: str, *, is_vector: bool = False
    ) -> Any:
        values = np.ascontiguousarray(self.base.load(self.locate_base(index), mask, location))
        return values.view(self.dtype)

    def store(
        self, index: Any, value: Any, mask: Array | None, location: str, *, is_vector: bool = True
    ) -> None:
        shape = self.state.batch.lanes, np.atleast_2d(index).shape[1]
        made = np.ascontiguousarray(spread_to(value, shape).astype(self.dtype, copy=False))
        self.base.store(self.locate_base(index), made.view(self.base.dtype), mask, location)


def get_numpy_dtype(dtype: object) -> np.dtype[Any]:
    """NumPy's scalar type of a scalar or vector type of TVM; predicates are bool."""
    return _read_dtype(str(dtype))[0]


def count_lanes(dtype: object) -> int:
    """4 for ``"float32x4"``, 1 for a scalar type."""
    return _read_dtype(str(dtype))[1]


@functools.cache
def _read_dtype(dtype: str) -> tuple[np.dtype[Any], int]:
    name, _, lanes = dtype.partition("x")
    if name.startswith(("bfloat", "float8")):
        return dtype_facts(name).numpy, int(lanes or 1)
    # Registers of 128 bits are moved, and never computed with.
    carriers = {"uint1": "bool", "uint128": "complex128"}
    return np.dtype(carriers.get(name, name)), int(lanes or 1)


def leaves(places: Array, low: int, end: int) -> bool:
    """Whether some are not ``low <= i < end``; of a few, a place is sooner found than a minimum."""
    return bool(places.item(places.argmin()) < low or places.item(places.argmax()) >= end)


def differ(old: Array, new: Array) -> Array:
    """Where two arrays differ in their bits, NaN being equal to NaN."""
    return (old != new) & ~((old != old) & (new != new))


def fill(data: Array, byte: int | None) -> None:
    """Make all bytes of numbers this one, of booleans the highest bit of it; None leaves them."""
    if byte is not None:
        data.view(np.uint8).fill(byte if data.dtype.kind != "b" else byte >> 7)


def get_garbage(dtype: np.dtype[Any]) -> Any:
    """What an uninitialized cell holds: NaN, for an integer the smallest one."""
    if np.issubdtype(dtype, np.integer):
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else np.nan
