"""Memory that threads share: races, uninitialized loads and misaligned accesses are found here.

Two threads of one thread block that access the same cell within one barrier interval, at least one
of them storing, race; so do threads of two blocks at any time. Storing the value that is there
already is no race: its order does not matter. A store that hardware does asynchronously occupies
its cells from the instruction that begins it until its thread has waited for it: any access in
between races; it counts as a store at the wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tirstep.transforms.gpu_limits import WARP

from ...device import Array
from .memory import LOAD, STORE, Arrive, Memory, differ, get_garbage
from .run_state import UNSTORED, UnsupportedError, spread_to
from .shadow import BY_PROXY, CHANGED, NO_THREAD, OPAQUE, Shadow

COPY, MATRIX = "asynchronous copy from", "wgmma of"
TENSOR_CORES = (MATRIX, "tcgen05.mma of", "tcgen05.cp of")
"""What reads matrices in shared memory, on another way than loads do."""
BULK_LOAD, BULK_STORE, MAP = "bulk copy from", "bulk copy to", "tensor map at"
ATOMIC = "atomic operation on"
AND_ATOMIC = "and atomic operation by {rival}{near} with no barrier in between"
AND_LOAD = "and load by {rival}{near} with no barrier in between"
AND_STORE = "and store by {rival}{near} with no barrier in between"
IN_FLIGHT = "while an asynchronous copy to it by {rival} is in flight"
DURING_STORE = "in flight during a store by {rival}"
CONSTANT = (
    "which the kernel stores only by a tensor map: NVIDIA's compiler takes it for constant, "
    "and loads earlier values; load it in another kernel"
)
UNFENCED = "stored by {rival} with no fence.proxy.async in between"


class _CellAccess(NamedTuple):
    """A load or store of all lanes, and what it accesses in the memory and in its shadow.

    Attributes
    ----------
    kind : as `LOAD`
    mask : of the lanes; None for all
    elements, active : places in the memory, and which of them are accessed; (lanes, vector)
    cells, threads, touched : the same in the shadow, and the thread of each cell
    """

    kind: str
    location: str
    mask: Array | None
    elements: Array
    active: Array
    cells: Array
    threads: Array
    touched: Array

    def pick_elements(self, values: Array) -> tuple[Array, Array]:
        """The elements that are accessed, and their values, in a row."""
        if self.mask is None:
            return self.elements.ravel(), values.ravel()
        return self.elements[self.active], values[self.active]

    def pick_cells(self, *arrays: Array) -> tuple[Array, ...]:
        """What is accessed of arrays of the shape of the cells, in a row."""
        return tuple(
            array.ravel() if self.mask is None else array[self.touched] for array in arrays
        )


class Rows(NamedTuple):
    """Elements of a few lanes, a row for each lane: of shape (lanes, n), and which are accessed.

    Attributes
    ----------
    ranks : of the blocks in their cluster in whose shared memory they lie; None for lanes' own
    """

    lanes: Sequence[int]
    elements: Array
    active: Array
    ranks: Sequence[int] | None = None

    @classmethod
    def of(cls, lane: int, elements: Array, rank: int | None = None) -> Rows:
        """All these elements for one lane."""
        row, ranks = elements.reshape(1, -1), None if rank is None else [rank]
        return cls([lane], row, np.ones(row.shape, bool), ranks)


class SharedMemory(Memory):
    """Cells that threads share: within a thread block ("shared"), or over the grid ("global").

    `data` holds the elements of all blocks that run, as one type; the shadow may be that of an
    allocation that other buffers lie in, too. A memory that no thread stores to keeps no account.
    `buffer_id` is the buffer's own where another one lies in the same place, otherwise 0. An index
    may be `Rows` of a few lanes, too, with a `kind` of access that says what accesses them.
    """

    def __init__(
        self,
        name: str,
        data: Array,
        shadow: Shadow,
        *,
        low: int = 0,
        size: int | None = None,
        buffer_id: int = 0,
    ) -> None:
        self.ratio = data.dtype.itemsize // shadow.unit
        self.span = shadow.span // self.ratio
        super().__init__(name, self.span if size is None else size, data.dtype, shadow.state, low)
        self.data, self.shadow, self.buffer_id = data, shadow, buffer_id
        self._stored_by_map: Array | None = None  # the launch that did so last, by element
        if buffer_id:
            shadow.track_owners()

    def view(
        self, name: str, dtype: np.dtype[Any], size: int, low: int, buffer_id: int = 0
    ) -> Memory:
        buffer_id = buffer_id or self.buffer_id
        if (dtype, size, low, buffer_id) == (self.dtype, self.size, self.low, self.buffer_id):
            return self
        shadow = self.shadow
        if dtype.itemsize % shadow.unit and shadow.is_global and not shadow.is_tracked:
            # Nobody stores here, so that nothing is to be remembered of it.
            data = self.data.view(dtype)
            known: Any = {"is_written": False, "starts_written": True}
            finer = Shadow(data.size, dtype.itemsize, self.state, **known)
            return SharedMemory(name, data, finer, low=low, size=size)
        if dtype.itemsize % self.shadow.unit:
            raise UnsupportedError(
                f"the simulator does not support {name}, a view of type {dtype} of {self.name}, "
                f"which is viewed in units of {self.shadow.unit} bytes"
            )
        if (size_of_block := self.span * self.data.itemsize) % dtype.itemsize:
            raise UnsupportedError(
                f"the simulator does not support {name}, a view of type {dtype} of {self.name}, "
                f"whose {size_of_block} bytes must be a multiple of {dtype.itemsize}"
            )
        view = self.data.view(dtype)
        return SharedMemory(name, view, self.shadow, low=low, size=size, buffer_id=buffer_id)

    def load(
        self,
        index: Any,
        mask: Array | None,
        location: str,
        *,
        is_vector: bool = False,
        kind: str = LOAD,
    ) -> Any:
        if self.state.running is None:
            cells = self._clip(index, mask, location, LOAD)
            if (written := self.shadow.written).size and not (known := written[cells]).all():
                what = ("uninitialized read", ~known, mask, cells, location, LOAD)
                self._report_host(*what, "before any store to it")
            return self.data[cells]
        access = self._locate_cells(kind, index, mask, location)
        if is_vector:
            self._check_aligned(access)
        shadow, cells, threads = self.shadow, access.cells, access.threads
        if kind in TENSOR_CORES:
            lanes = threads - self.state.batch.first * self.state.batch.threads
            unfenced = shadow.find_unfenced(cells, lanes)
            self._report_race(access, unfenced, shadow.writer, UNFENCED, "missing fence")
        self._report_opaque(access)
        # What NVIDIA's compiler takes for constant is loaded at any time, and by its own cache.
        is_constant = kind == LOAD and self.name in self.state.read_only
        if self._stored_by_map is not None and is_constant:
            wrong = self._per_cell(self._stored_by_map[access.elements] == self.state.launch)
            self._report("race", access, wrong, CONSTANT)
        in_flight = shadow.find_in_flight(cells)
        if in_flight is not None:
            self._report_race(access, in_flight, shadow.copier, IN_FLIGHT)
        if shadow.written.size:
            self._check_written(access, in_flight)
        if shadow.is_tracked:
            changed = shadow.find_changers(cells, threads)
            if changed is not None:
                self._report_race(access, changed, shadow.changer, AND_STORE)
            self._check_accessors(access, shadow.atomics, True, AND_ATOMIC)
            shadow.record_read(*access.pick_cells(cells, threads))
            if access.kind == LOAD and self.state.has_proxies and not shadow.is_global:
                shadow.mark_loaded(*access.pick_cells(cells, threads))
        return self.data[access.elements]

    def store(
        self, index: Any, value: Any, mask: Array | None, location: str, *, is_vector: bool = True
    ) -> None:
        if self.state.running is None:
            cells = self._clip(index, mask, location, STORE)
            if isinstance(cells, np.ndarray) and mask is not None:
                kept = np.broadcast_to(mask, cells.shape)
                cells, value = cells[kept], np.broadcast_to(value, kept.shape)[kept]
            is_one = not isinstance(value, np.generic) and not np.ndim(cells)
            self.data[cells] = np.ravel(value)[-1] if is_one else value
            if self.shadow.written.size:
                self.shadow.written[cells] = True
            return
        access, values = self._prepare_store(STORE, index, value, mask, location, is_vector)
        changes = self._check_store(access, values)
        at, new = access.pick_elements(values)
        self.data[at] = new
        self._set_owner(access)
        written = access.pick_cells(access.cells, access.threads, changes)
        if self.shadow.record_write(*written) is not None:
            self._check_lost(access, differ(self.data[at], new), self.shadow.writer)

    def change_atomically(
        self,
        index: Any,
        mask: Array | None,
        location: str,
        change: Callable[[Array, Array], None],
        *,
        reads: bool = True,
    ) -> None:
        access, shadow = self._locate_cells(ATOMIC, index, mask, location), self.shadow
        if not shadow.is_tracked:
            shadow.track()
        self._report_opaque(access)
        in_flight = shadow.find_in_flight(access.cells)
        if in_flight is not None:
            if CHANGED in shadow.marks:  # by other atomic changes, which come in any order
                in_flight = in_flight & ~shadow.marks[CHANGED][access.cells]
            self._report_race(access, in_flight, shadow.copier, IN_FLIGHT)
        if shadow.written.size and reads:
            self._check_written(access, in_flight)
        self._check_rivals(access, access.touched)
        change(self.data, access.elements)
        shadow.record_atomic(*access.pick_cells(access.cells, access.threads))

    def begin_change(
        self, index: Any, value: Any, mask: Array | None, location: str, change: Any
    ) -> Arrive:
        """Begin to change elements atomically by values, as a ufunc does: when that arrives. Until
        then any access but another such change races; the last that began is told."""
        self.change_atomically(index, mask, location, lambda data, at: None)
        access, shadow = self._locate_cells(ATOMIC, index, mask, location), self.shadow
        at, cells = access.elements[access.active], access.cells[access.touched]
        shadow.get_incoming(self.dtype)[at] = get_garbage(self.dtype)
        shadow.copier[cells] = threads = access.threads[access.touched]
        shadow.mark(CHANGED, cells)

        def arrive(lanes: Array | None = None) -> None:
            change.at(self.data, at, value[access.active])
            mine = cells[shadow.copier[cells] == threads]
            shadow.copier[mine] = NO_THREAD
            shadow.mark(CHANGED, mine, False)
            shadow.record_atomic(*access.pick_cells(access.cells, access.threads))

        return arrive

    def begin_store(
        self, index: Any, value: Any, mask: Array | None, location: str, kind: str = STORE
    ) -> Arrive:
        access, values = self._prepare_store(kind, index, value, mask, location, kind == STORE)
        shadow = self.shadow
        self._check_store(access, values)
        at, new = access.elements[access.active], values[access.active]
        incoming = shadow.get_incoming(self.dtype)
        incoming[at] = new
        shadow.copier[access.cells[access.touched]] = access.threads[access.touched]
        self._check_lost(access, differ(incoming[at], new), shadow.copier)

        def arrive(lanes: Array | None = None) -> None:
            here = access
            if lanes is not None:
                ready, touched = access.active & lanes, access.touched & lanes
                here = access._replace(mask=lanes, active=ready, touched=touched)
            changes = self._find_changes(here, values)
            self.data[here.elements[here.active]] = values[here.active]
            self._set_owner(here)
            cells, threads, changes = here.pick_cells(here.cells, here.threads, changes)
            shadow.copier[cells[shadow.copier[cells] == threads]] = NO_THREAD
            shadow.record_write(cells, threads, changes)
            if kind == BULK_STORE:
                shadow.mark(BY_PROXY, here.cells[here.touched])

        return arrive

    def check_unchanged(
        self, index: Any, value: Any, mask: Array | None, location: str, kind: str = COPY
    ) -> None:
        shadow = self.shadow
        if not shadow.is_tracked:
            return
        access = self._locate_cells(kind, index, mask, location, is_checked=True)
        changed = self._per_cell(differ(self.data[access.elements], value))
        self._report_race(access, changed, shadow.writer, DURING_STORE)
        self._check_in_flight(access, value)

    def end_matrix(
        self, index: Any, values: Array, mask: Array | None, location: str, kind: str = MATRIX
    ) -> None:
        """Tensor cores have read all: nothing may have changed, or be stored now."""
        if not isinstance(index, Rows):
            index = np.clip(index, self.low, self.low + self.size - 1)  # as it was read
        self.check_unchanged(index, values, mask, location, kind)
        access = self._locate_cells(kind, index, mask, location, is_checked=True)
        if self.shadow.is_tracked:
            self.shadow.record_read(*access.pick_cells(access.cells, access.threads))

    # ---- What a few lanes access, each a row of elements

    def mark_stored_by_map(self, elements: Array) -> None:
        """A tensor map's store changes elements in the launch that runs, which no compiler sees."""
        if self._stored_by_map is None:
            self._stored_by_map = np.zeros(self.data.size, np.int32)
        inside = np.clip(elements, self.low, self.low + self.size - 1)
        self._stored_by_map[inside] = self.state.launch

    def find_unfenced(self, rows: Rows, *, loads: bool, fence: str = "") -> tuple[int, int] | None:
        """A thread that stored to, or loaded, elements of a lane with no proxy fence since, or no
        other `fence`, and one of them; None for none."""
        access, shadow = self._locate_cells("", rows, None, "", is_checked=True), self.shadow
        cells = access.cells[access.touched]
        lanes = np.full(cells.shape, rows.lanes[0])
        wrong = shadow.find_unfenced(cells, lanes, loads=loads, fence=fence)
        if not np.count_nonzero(wrong):
            return None
        at = int(np.argmax(wrong))
        accessors = shadow.loader if loads else shadow.writer
        assert accessors is not None
        element = rows.elements[rows.active][at // self.ratio]
        return int(accessors[cells[at]]), int(element) - self.low

    def locate_cell(self, element: int, lane: int, *, rank: int | None = None) -> tuple[Any, int]:
        ranks = None if rank is None else [rank]
        block = 0 if self.shadow.is_global else int(self._find_blocks([lane], ranks)[0, 0])
        return self.shadow, (element + block * self.span) * self.ratio

    def _locate_rows(
        self, kind: str, rows: Rows, location: str, *, is_checked: bool
    ) -> _CellAccess:
        batch, is_global, lanes = self.state.batch, self.shadow.is_global, rows.lanes
        elements, active, end = rows.elements, rows.active, self.low + self.size
        wrong = active & ((elements < self.low) | (elements >= end))

        def describe(at: tuple[int, ...]) -> str:
            thread = self.state.describe_lane(lanes[at[0]])
            place = self.name_place(int(elements[at]) - self.low)
            return f"{kind} {place} by {thread} {self.describe_size()}"

        if not is_checked:
            self.state.log.add("out of bounds", self.name, location, wrong, describe)
        places = np.clip(elements, self.low, end - 1)
        if batch.first == 0 and not kind.startswith(("tcgen05", MAP)) and not is_checked:
            for row in range(len(lanes)):
                if lanes[row] < batch.threads:
                    scope, picked = "global" if is_global else "shared", places[row][active[row]]
                    self.state.counts.add_bulk_access(scope, picked, self.dtype.itemsize)
        if not is_global:
            places = places + self._find_blocks(lanes, rows.ranks) * self.span
        return self._access(kind, location, active, places, active, batch.thread[lanes])

    def _find_blocks(self, lanes: Sequence[int], ranks: Sequence[int] | None) -> Array:
        """The blocks whose copies of shared memory lanes access; of shape (lanes, 1)."""
        batch = self.state.batch
        if ranks is None:
            return batch.block[lanes]
        return np.array([[batch.get_block(*pair)] for pair in zip(lanes, ranks, strict=True)])

    def _prepare_store(
        self,
        kind: str,
        index: Any,
        value: Any,
        mask: Array | None,
        location: str,
        is_vector: bool,
    ) -> tuple[_CellAccess, Array]:
        access = self._locate_cells(kind, index, mask, location)
        if is_vector:
            self._check_aligned(access)
        return access, spread_to(value, access.elements.shape).astype(self.dtype, copy=False)

    def _check_store(self, access: _CellAccess, values: Array) -> Array:
        """No other thread may access the cells at the same time, unless nothing changes.

        Returns where something does.
        """
        if not self.shadow.is_tracked:
            self.shadow.track()
        self._report_opaque(access)
        changes = self._find_changes(access, values)
        self._check_rivals(access, changes)
        self._check_accessors(access, self.shadow.atomics, True, AND_ATOMIC)
        self._check_in_flight(access, values)
        return changes

    def _check_accessors(self, access: _CellAccess, kinds: Any, where: Any, text: str) -> None:
        """No other thread may load, or change atomically, cells meanwhile."""
        rivals = self.shadow.find_rivals(kinds, access.cells, access.threads)
        if rivals is not None:
            self._report_race(access, where & (rivals != NO_THREAD), rivals, text)

    def _check_rivals(self, access: _CellAccess, changes: Array) -> None:
        """No other thread may load or store meanwhile what changes."""
        self._check_readers(access, changes)
        self._check_writers(access, changes)

    def _check_readers(self, access: _CellAccess, changes: Array) -> None:
        self.shadow.apply_pending_reads()
        self._check_accessors(access, self.shadow.readers, changes, AND_LOAD)

    def _check_writers(self, access: _CellAccess, changes: Array) -> None:
        shadow, cells, threads = self.shadow, access.cells, access.threads
        written = shadow.find_writers(cells, threads)
        if written is not None:
            self._report_race(access, changes & written, shadow.writer, AND_STORE)
        silent = shadow.silent if np.count_nonzero(changes) else []
        co_writers = shadow.find_rivals(silent, cells, threads)
        if co_writers is not None:
            wrong = changes & (co_writers != NO_THREAD)
            wrong = wrong if written is None else wrong & ~written
            self._report_race(access, wrong, co_writers, AND_STORE)

    def _check_in_flight(self, access: _CellAccess, values: Any) -> None:
        """No copy in flight to the cells may bring other values."""
        shadow = self.shadow
        in_flight = shadow.find_in_flight(access.cells)
        if in_flight is not None:
            incoming = shadow.get_incoming(self.dtype)[access.elements]
            wrong = in_flight & self._per_cell(differ(incoming, values))
            self._report_race(access, wrong, shadow.copier, IN_FLIGHT)

    def _find_changes(self, access: _CellAccess, values: Array) -> Array:
        """Where a store changes the value that a thread stored there."""
        differs = self._per_cell(differ(self.data[access.elements], values))
        shadow, cells = self.shadow, access.cells
        if shadow.written.size and np.count_nonzero(differs) < differs.size:
            holds = shadow.written[cells]
            if shadow.written_before is not None:
                holds |= shadow.written_before[cells]
            differs |= ~holds
        changes: Array = access.touched & differs
        return changes

    def _check_written(self, access: _CellAccess, in_flight: Array | None) -> None:
        """What is loaded must have been stored before, and as this buffer."""
        shadow, cells = self.shadow, access.cells
        written = shadow.written[cells]
        kind, before = "uninitialized read", "before any store to it"
        if self.buffer_id:
            foreign = written & (shadow.owner[cells] != self.buffer_id)
            text = f"{before} (another buffer's value is in its place)"
            self._report(kind, access, foreign, text)
        if np.count_nonzero(written) < written.size:
            wrong = ~written if in_flight is None else ~written & ~in_flight
            self._report(kind if shadow.is_global else UNSTORED, access, wrong, before)

    def _set_owner(self, access: _CellAccess) -> None:
        """Remember that the cells were written as this buffer."""
        if self.buffer_id:
            (cells,) = access.pick_cells(access.cells)
            self.shadow.owner[cells] = self.buffer_id

    def _check_lost(self, access: _CellAccess, lost: Array, winner: Array) -> None:
        """Check stores of several threads to one element: one wins; `lost` is sorted."""
        if np.count_nonzero(lost):
            overwritten = np.zeros(access.elements.shape, bool)
            overwritten[access.active] = lost
            wrong = self._per_cell(overwritten) & (winner[access.cells] != access.threads)
            self._report_race(access, wrong, winner, AND_STORE)

    def _locate_cells(
        self,
        kind: str,
        index: Any,
        mask: Array | None,
        location: str,
        *,
        is_checked: bool = False,
    ) -> _CellAccess:
        """An access, within bounds and counted, unless both `is_checked` already.

        What matrices read costs no request of threads.
        """
        if isinstance(index, Rows):
            return self._locate_rows(kind, index, location, is_checked=is_checked)
        batch, is_global = self.state.batch, self.shadow.is_global
        elements, active = self._locate(index, mask, location, "" if is_checked else kind)
        if batch.first == 0 and kind not in TENSOR_CORES and not is_checked:
            first, scope = slice(0, batch.threads), "global" if is_global else "shared"
            counts = self.state.counts
            counts.add_access(scope, elements[first], active[first], self.dtype.itemsize)
        elements = elements if is_global else elements + batch.block * self.span
        return self._access(kind, location, mask, elements, active, batch.thread)

    def _access(
        self,
        kind: str,
        location: str,
        mask: Array | None,
        elements: Array,
        active: Array,
        thread: Array,
    ) -> _CellAccess:
        """An access of places in the memory, with those in its shadow."""
        cells = elements
        if self.ratio > 1:
            cells = elements[:, :, None] * self.ratio + np.arange(self.ratio)
            cells = cells.reshape(len(elements), -1)
        threads, touched = spread_to(thread, cells.shape), self._per_cell(active)
        return _CellAccess(kind, location, mask, elements, active, cells, threads, touched)

    def _per_cell(self, per_element: Array) -> Array:
        return per_element if self.ratio == 1 else np.repeat(per_element, self.ratio, axis=1)

    def _check_aligned(self, access: _CellAccess) -> None:
        """A vector of neighbours is one access, which must begin at a multiple of its size.

        One that is spread over several rows is as many accesses as it has elements.
        """
        elements, lanes = access.elements, access.elements.shape[1]
        if lanes > 1:
            neighbours = (np.diff(elements, axis=1) == 1).all(axis=1, keepdims=True)
            wrong = neighbours & (elements[:, :1] % self.span % lanes != 0)
            rule = f"({lanes} elements must begin at a multiple of {lanes})"
            vectors = access._replace(
                kind="vector access at", cells=elements * self.ratio, touched=access.active[:, :1]
            )
            self._report("misaligned access", vectors, wrong, rule)

    def _report_race(
        self, access: _CellAccess, wrong: Array, rivals: Array, text: str, kind: str = "race"
    ) -> None:
        """`rivals` are the other threads, of each access or of each cell of the memory."""
        wrong = access.touched & wrong
        if np.count_nonzero(wrong):
            at = int(np.argmax(wrong))
            place = at if rivals.shape == access.cells.shape else access.cells.ravel()[at]
            rival, batch = int(rivals.ravel()[place]), self.state.batch
            pair = rival, int(access.threads.ravel()[at])
            warps = {(it // batch.threads, it % batch.threads // WARP) for it in pair}
            text = text.replace("{near}", ", within one warp," if len(warps) == 1 else "")
            text = text.replace("{rival}", self.state.describe_thread(rival))
            self._report(kind, access, wrong, text)

    def _report_opaque(self, access: _CellAccess) -> None:
        if OPAQUE in self.shadow.marks:
            wrong = self.shadow.marks[OPAQUE][access.cells]
            self._report(OPAQUE, access, wrong, "where an mbarrier is: invalidate it first")

    def _report(self, kind: str, access: _CellAccess, wrong: Array, text: str) -> None:
        def describe(at: tuple[int, ...]) -> str:
            element = int(access.cells[at]) // self.ratio % self.span - self.low
            thread = self.state.describe_thread(int(access.threads[at[0], 0]))
            return f"{access.kind} {self.name_place(element)} by {thread} {text}"

        self.state.log.add(kind, self.name, access.location, access.touched & wrong, describe)

    # ---- What the host accesses, element by element

    def _clip(self, index: Any, mask: Array | None, location: str, access: str) -> Any:
        if not isinstance(index, np.ndarray):
            if 0 <= index < self.size:
                return index
        elif mask is None and index.min() >= 0 and index.max() < self.size:
            return index
        wrong = (np.asarray(index) < 0) | (np.asarray(index) >= self.size)
        text = self.describe_size()
        self._report_host("out of bounds", wrong, mask, index, location, access, text)
        return np.clip(index, 0, self.size - 1)

    def _report_host(
        self,
        kind: str,
        wrong: Any,
        mask: Array | None,
        cells: Any,
        location: str,
        access: str,
        text: str,
    ) -> None:
        wrong = np.atleast_1d(wrong if mask is None else wrong & mask)
        places = np.broadcast_to(np.atleast_1d(cells), wrong.shape)

        def describe(at: tuple[int, ...]) -> str:
            return f"{access} {self.name_place(int(places[at]))} on the host {text}"

        self.state.log.add(kind, self.name, location, wrong, describe)
