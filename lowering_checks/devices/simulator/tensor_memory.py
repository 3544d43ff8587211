"""Tensor memory: 128 lanes of 512 columns of 32 bits, of each thread block of Blackwell.

From the PTX ISA, sections 9.7.16.1 "Tensor Memory" (addresses, allocation) and 9.7.16.6 "Memory
Consistency Model for 5th generation of TensorCore operations". Instructions that access it are
asynchronous. What one stores may not be accessed, and what it loads may not be stored to, until it
is known to have ended: by ``tcgen05.wait`` in the warp of a ``tcgen05.ld`` or ``.st``, through the
mbarrier of a ``tcgen05.commit`` of an ``.mma`` or a ``.cp``. Some pairs of one thread run in order
(9.7.16.6.2), and of several threads between ``tcgen05.fence::before_thread_sync`` and
``::after_thread_sync`` (9.7.16.6.3).

Of others' that have ended a thread knows through barriers that release and acquire; where either
side is relaxed, that side needs its fence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...device import Array
from .memory import fill
from .run_state import RunState
from .shadow import NO_THREAD, Shadow
from .shared_memory import Rows, SharedMemory

LANES, COLUMNS = 128, 512
FEWEST_COLUMNS, KIND = 32, "tensor memory"
"""Least columns of an allocation, a power of two; and the kind of findings about it."""
BEFORE, AFTER = "before_thread_sync", "after_thread_sync"
"""The fences of tcgen05."""
MOST_BLOCKS = 16
"""Thread blocks that run at once: each has as much tensor memory as a GPU's."""
STORED = "while an instruction of {rival} that stores to it is in flight"
LOADED = "while an instruction of {rival} that loads it is in flight"


@dataclass
class Operation:
    """What tensor cores do for a lane, until its commit has arrived or its warp has waited.

    Attributes
    ----------
    kind : of which those of one accumulator, shape and type run in order
    begun : the interval in which it was issued
    ends : what is done when it has ended
    """

    number: int
    lane: int
    kind: tuple[Any, ...]
    begun: int
    is_over: bool = False
    ends: list[Callable[[], None]] = field(default_factory=list)

    def end(self) -> None:
        """All that it loads and stores is done."""
        self.is_over = True
        while self.ends:
            self.ends.pop()()


class _TensorShadow(Shadow):
    """Who accessed tensor memory. What tensor cores store they store for no thread: that thread
    knows of it no sooner than others.
    """

    def __init__(self, state: RunState) -> None:
        size = LANES * COLUMNS
        super().__init__(size * state.batch.blocks, 4, state, span=size)
        self.by_cores, self.loaded_by_cores = np.zeros((2, self.cells), bool)

    def _are_others(self, cells: Array, threads: Array, found: Array) -> Array:
        others: Array = (found != threads) | self.by_cores[cells]
        return others

    def _are_unordered(
        self, cells: Array, threads: Array, others: Array, times: Any, *, loads: bool = False
    ) -> Array:
        """As 9.7.16.6.4 has it: a commit is a fence itself for what tensor cores did."""
        state, first = self.state, self.state.batch.first * self.state.batch.threads
        assert state.known is not None
        lanes, their = threads - first, np.maximum(others - first, 0)
        knows = state.known[0, lanes, their % state.batch.group] > times
        heard = state.get_fences(AFTER).get_known(lanes, their) > times
        heard &= (self.loaded_by_cores if loads else self.by_cores)[cells] | (
            state.get_fences(BEFORE).last[their, 0] > times
        )
        unordered: Array = ~(knows | heard)
        return unordered


class TensorMemory(SharedMemory):
    """The tensor memory of the thread blocks that run, as an element for each lane and column.

    Attributes
    ----------
    allocated : of each block and column the number of the allocation, from 1 on; 0 without one
    may_allocate : of each block, whether it has kept its permit
    group : of how many blocks its instructions are, as PTX has it; empty before the first one
    issued : of a lane, its operations that a commit tells of
    """

    def __init__(self, state: RunState) -> None:
        shadow, blocks = _TensorShadow(state), state.batch.blocks
        self._cores = shadow
        super().__init__(KIND, np.full(shadow.cells, np.iinfo(np.uint32).max, np.uint32), shadow)
        fill(self.data, state.garbage)
        self.allocated = np.zeros((blocks, COLUMNS), np.int64)
        self.may_allocate, self.group = np.ones(blocks, bool), ""
        self.issued: dict[int, list[Operation]] = {}
        self._operations: list[Operation] = []
        self._last = np.full(shadow.cells, -1, np.int64)  # the operation that stored to a cell last
        self._loads = np.zeros(shadow.cells, np.int16)  # how many of a thread are in flight
        self._loader = np.full(shadow.cells, NO_THREAD, np.int64)

    def name_place(self, element: int) -> str:
        return f"{KIND}[lane {element // COLUMNS}, column {element % COLUMNS}]"

    # ---- Instructions

    def begin(self, lane: int, kind: tuple[Any, ...]) -> Operation:
        """An instruction is issued."""
        number = len(self._operations)
        self._operations.append(Operation(number, lane, kind, self.state.interval))
        return self._operations[-1]

    def begin_load(self, operation: Operation, rows: Rows, location: str) -> Array:
        """What an instruction loads, whose cells may not change until it has ended."""
        access, in_flight, is_ordered = self._begin_access("of", operation, rows, location)
        cells, threads = access.pick_cells(access.cells, access.threads)
        shadow = self.shadow
        self._check_written(access, in_flight)
        changed = shadow.find_changers(access.cells, access.threads)
        if changed is not None:
            text = "and an instruction of {rival} that stores to it, in no order"
            self._report_race(access, changed & ~is_ordered & ~in_flight, shadow.changer, text)
        shadow.record_read(cells, threads)
        self._loads[cells] += 1
        self._loader[cells] = threads
        self._cores.loaded_by_cores[cells] = operation.kind[0] != "ld"

        def end() -> None:
            self._loads[cells] -= 1
            shadow.record_read(cells, threads)

        operation.ends.append(end)
        values: Array = self.data[access.elements]
        return values

    def begin_update(
        self,
        operation: Operation,
        rows: Rows,
        location: str,
        change: Callable[[Array], Array],
        *,
        is_added: bool = False,
    ) -> None:
        """An instruction stores what `change` makes of what is there; nothing may access it until
        it has ended, but those that run in order with it.
        """
        access, in_flight, is_ordered = self._begin_access("to", operation, rows, location)
        cells, threads = access.pick_cells(access.cells, access.threads)
        shadow = self.shadow
        if is_added:
            self._check_written(access, in_flight)
        is_others = self._loader[access.cells] != access.threads
        being_read = is_others & (self._loads[access.cells] > 0)
        self._report_race(access, being_read, self._loader, LOADED)
        self._check_readers(access, ~being_read)
        self._check_writers(access, ~is_ordered & ~in_flight)
        self.data[access.elements] = change(self.data[access.elements])
        shadow.copier[cells], self._last[cells] = threads, operation.number
        self._cores.by_cores[cells] = operation.kind[0] != "st"

        def end() -> None:
            mine = self._last[cells] == operation.number  # and no later one in order with it
            there, by = cells[mine], threads[mine]
            shadow.copier[there] = NO_THREAD
            shadow.record_write(there, by, np.ones(there.shape, bool))

        operation.ends.append(end)

    def _begin_access(
        self, to: str, operation: Operation, rows: Rows, location: str
    ) -> tuple[Any, Array, Array]:
        """An access, and where what stores to its cells is in flight, or runs before it."""
        what, copier = f"tcgen05.{operation.kind[0]} {to}", self.shadow.copier
        access = self._locate_cells(what, rows, None, location)
        is_ordered = self._are_ordered(access.cells, operation)
        in_flight = copier[access.cells] != NO_THREAD
        self._report_race(access, in_flight & ~is_ordered, copier, STORED)
        return access, in_flight, is_ordered

    def _are_ordered(self, cells: Array, operation: Operation) -> Array:
        """Where what stored to a cell last runs before an operation, if both are in flight, too.

        9.7.16.6.2: an mma before one of the same accumulator, shape and type, and a cp before an
        mma; 9.7.16.6.3: of another thread, where fences stand on both sides. Beyond the ISA's
        pairs, a cp before a cp of the same thread: NVIDIA's kernels, which bring the factors of
        each step where the last ones are, rely on it.
        """
        last, found = self._last[cells], np.zeros(cells.shape, bool)
        for number in np.unique(last[last >= 0]) if operation.kind[0] in ("mma", "cp") else ():
            before = self._operations[number]
            if before.kind == operation.kind or before.kind[0] == "cp":
                lane, other = operation.lane, before.lane
                fenced = self.state.get_fences(BEFORE).last[other, 0]
                heard = self.state.get_fences(AFTER).get_known(np.array([lane]), np.array([other]))
                if lane == other or before.begun < fenced < heard[0]:
                    found |= last == number
                    operation.ends += [] if before.is_over else [before.end]
        return found

    # ---- Allocations

    def free(self, lane: int, columns: Array, location: str) -> None:
        """Columns are given back, which nobody may be using: as if something were stored there."""
        places = (np.arange(LANES)[:, None] * COLUMNS + columns).reshape(1, -1)
        operation, block = self.begin(lane, ("dealloc",)), self.state.batch.block[lane, 0]
        self.begin_update(operation, Rows.of(lane, places), location, lambda words: words)
        operation.end()
        self.shadow.written[places + block * self.span] = False
        self.allocated[block, columns] = 0

    def report_left(self) -> None:
        """Findings about what nobody waited for, or gave back, until the kernel ended."""
        state = self.state
        for operation in [it for it in self._operations if not it.is_over][:1]:
            what = f"tcgen05.{operation.kind[0]} by {state.describe_lane(operation.lane)}"
            text = f"a {what} is in flight when the kernel ends: no thread waits for it"
            state.log.add_sentence("race", text)
        for block in np.flatnonzero(self.allocated.any(axis=1))[:1]:
            count = int((self.allocated[block] > 0).sum())
            who = state.describe_lane(block * state.batch.threads).partition(" of ")[2]
            text = f"{count} columns of {who} are not deallocated when the kernel ends"
            state.log.add_sentence(KIND, text)

    def _locate_rows(self, kind: str, rows: Rows, location: str, *, is_checked: bool) -> Any:
        access = super()._locate_rows(kind, rows, location, is_checked=is_checked)
        blocks, inside = np.divmod(access.cells, self.span)
        wrong = self.allocated[blocks, inside % COLUMNS] == 0
        self._report(KIND, access, wrong, "whose column is not allocated")
        return access
