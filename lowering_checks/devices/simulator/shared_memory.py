"""Memory that threads share.

Two threads of one GPU block that touch the same cell within one barrier interval, at least one of
them writing, race; so do threads of two blocks at any time. Writing the value that is there already
is not counted as a race: its order does not matter. A store that hardware does beside the threads
occupies its cells from the instruction that begins it until its thread has waited for it: whoever
touches them in between races; it counts as written at the wait.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .faults import UnsupportedError
from .grid import Array, describe_thread
from .memory import Arrive, Memory, Moment, differ
from .shadow import NOBODY, Shadow


class SharedMemory(Memory):
    """Cells that threads share: within a block ("shared"), or over the grid ("global").

    `data` holds the elements of all blocks that run, as one type; the shadow may be that of an
    allocation that other buffers lie in, too. A memory that nobody writes keeps no account. `mark`
    is a number of the buffer's own where another one lies in the same place, otherwise 0.
    """

    def __init__(
        self,
        name: str,
        data: Array,
        shadow: Shadow,
        *,
        low: int = 0,
        size: int | None = None,
        mark: int = 0,
    ) -> None:
        self.ratio = data.dtype.itemsize // shadow.unit
        self.span = shadow.span // self.ratio
        super().__init__(name, self.span if size is None else size, data.dtype, shadow.now, low)
        self.data, self.shadow, self.mark = data, shadow, mark
        if mark:
            shadow.mark_owners()

    def view(self, name: str, dtype: np.dtype[Any], size: int, low: int, mark: int = 0) -> Memory:
        mark = mark or self.mark
        if (dtype, size, low, mark) == (self.dtype, self.size, self.low, self.mark):
            return self
        if dtype.itemsize % self.shadow.unit:
            raise UnsupportedError(
                f"the simulator does not know {name}, a view of type {dtype} of {self.name}, which "
                f"is seen in steps of {self.shadow.unit} bytes"
            )
        view = self.data.view(dtype)
        return SharedMemory(name, view, self.shadow, low=low, size=size, mark=mark)

    def load(self, index: Any, mask: Array | None, line: str) -> Any:
        return self._read(index, mask, line, is_vector=False)

    def load_vector(self, index: Any, mask: Array | None, line: str) -> Any:
        return self._read(index, mask, line, is_vector=True)

    def _read(self, index: Any, mask: Array | None, line: str, *, is_vector: bool) -> Any:
        elements, active = self._elements(index, mask, line, "reads")
        if is_vector:
            self._check_aligned(elements, active, line)
        cells, threads, touched = self._cells(elements, active)
        shadow = self.shadow
        flying = shadow.find_flying(cells)
        if flying is not None:
            text = "reads {}, to which a copy that {rival} began is still on its way"
            self._note_race(touched & flying, cells, shadow.courier, line, text)
        if shadow.written.size:
            self._check_written(cells, touched, flying, line)
        if shadow.is_tracked:
            writers = shadow.find_changers(cells, threads)
            if writers is not None:
                text = "reads {}, which {rival} wrote with no barrier between"
                self._note_race(touched & writers, cells, shadow.changer, line, text)
            shadow.note_read(*_pick(mask, touched, cells, threads))
        return self.data[elements]

    def store(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        elements, active = self._elements(index, mask, line, "writes")
        self._check_aligned(elements, active, line)
        values = np.broadcast_to(value, elements.shape).astype(self.dtype, copy=False)
        cells, threads, touched = self._cells(elements, active)
        differs = self._check_write(elements, values, cells, threads, touched, line)
        at, new = _pick(mask, active, elements, values)
        self.data[at] = new
        self._mark(cells, mask, touched)
        lost = self.shadow.note_write(*_pick(mask, touched, cells, threads, differs))
        if lost is not None:
            differs = np.zeros(elements.shape, bool)
            differs[active] = differ(self.data[at], new)
            self._check_lost(differs, cells, threads, self.shadow.writer, line)

    def begin_store(self, index: Any, value: Any, mask: Array | None, line: str) -> Arrive:
        shadow = self.shadow
        elements, active = self._elements(index, mask, line, "writes")
        self._check_aligned(elements, active, line)
        values = np.broadcast_to(value, elements.shape).astype(self.dtype, copy=False)
        cells, threads, touched = self._cells(elements, active)
        self._check_write(elements, values, cells, threads, touched, line)
        at, new = elements[active], values[active]
        incoming = shadow.incoming(self.dtype)
        incoming[at] = new
        shadow.courier[cells[touched]] = threads[touched]
        lost = np.zeros(elements.shape, bool)
        lost[active] = differ(incoming[at], new)
        self._check_lost(lost, cells, threads, shadow.courier, line)

        def arrive(lanes: Array) -> None:
            ready = active & lanes
            landed = touched & lanes
            changes = self._find_changes(elements, values, cells, landed)
            self.data[elements[ready]] = values[ready]
            self._mark(cells, landed, landed)
            shadow.land(cells[landed], threads[landed], changes[landed])

        return arrive

    def check_unchanged(self, index: Any, value: Any, mask: Array | None, line: str) -> None:
        shadow = self.shadow
        if not shadow.is_tracked:
            return
        elements, active = self._elements(index, mask, line, "")
        cells, _, touched = self._cells(elements, active)
        wrong = touched & self._each_cell(differ(self.data[elements], value))
        text = "is still reading {} beside its program, and {rival} wrote it"
        self._note_race(wrong, cells, shadow.writer, line, text)
        flying = shadow.find_flying(cells)
        if flying is not None:
            changes = self._each_cell(differ(shadow.incoming(self.dtype)[elements], value))
            text = "is still reading {} beside its program, and {rival} began a copy to there"
            self._note_race(touched & flying & changes, cells, shadow.courier, line, text)

    def _check_write(
        self,
        elements: Array,
        values: Array,
        cells: Array,
        threads: Array,
        touched: Array,
        line: str,
    ) -> Array:
        """Nobody may read or write the cells at the same time, unless nothing changes.

        Returns where something does.
        """
        shadow = self.shadow
        if not shadow.is_tracked:
            shadow.track()
        shadow.settle_reads()
        differs = self._find_changes(elements, values, cells, touched)
        text = "writes {}, which {rival} {verb} with no barrier between"
        readers = shadow.find_readers(cells, threads)
        if readers is not None:
            wrong = differs & (readers != NOBODY)
            self._note_race(wrong, cells, readers, line, text.replace("{verb}", "read"))
        wrote = text.replace("{verb}", "wrote")
        writers = shadow.find_writers(cells, threads)
        if writers is not None:
            self._note_race(writers & differs, cells, shadow.writer, line, wrote)
        crowd = shadow.find_crowd(cells, threads)
        if crowd is not None:
            alone = differs & (crowd != NOBODY)
            alone = alone if writers is None else alone & ~writers
            self._note_race(alone, cells, crowd, line, wrote)
        flying = shadow.find_flying(cells)
        if flying is not None:
            text = "writes {}, to which a copy that {rival} began is still on its way"
            changes = self._each_cell(differ(shadow.incoming(self.dtype)[elements], values))
            self._note_race(touched & flying & changes, cells, shadow.courier, line, text)
        return differs

    def _find_changes(self, elements: Array, values: Array, cells: Array, touched: Array) -> Array:
        """Where a store writes something else than what somebody wrote there."""
        differs = self._each_cell(differ(self.data[elements], values))
        if self.shadow.written.size and not differs.all():
            differs |= ~self.shadow.written[cells]
        changes: Array = touched & differs
        return changes

    def _check_written(self, cells: Array, touched: Array, flying: Array | None, line: str) -> None:
        """Somebody must have written what is read, and as this buffer."""
        shadow = self.shadow
        written = shadow.written[cells]
        if self.mark:
            foreign = written & (shadow.owner[cells] != self.mark)
            text = "reads {}, which nobody has written: what lies in its place is another buffer's"
            self._note("uninitialized read", touched & foreign, cells, line, text)
        if not written.all():
            wrong = touched & ~written
            wrong = wrong if flying is None else wrong & ~flying
            text = "reads {}, which nobody has written"
            self._note("uninitialized read", wrong, cells, line, text)

    def _mark(self, cells: Array, mask: Array | None, touched: Array) -> None:
        """Remember that the cells were written as this buffer."""
        if self.mark:
            self.shadow.owner[cells if mask is None else cells[touched]] = self.mark

    def _check_lost(
        self, lost: Array, cells: Array, threads: Array, winner: Array, line: str
    ) -> None:
        """Of several threads that write a cell at once, one wins."""
        if lost.any():
            wrong = self._each_cell(lost) & (winner[cells] != threads)
            text = "writes {}, which {rival} wrote with no barrier between"
            self._note_race(wrong, cells, winner, line, text)

    def _elements(
        self, index: Any, mask: Array | None, line: str, verb: str
    ) -> tuple[Array, Array]:
        """Places in `data`, and who takes part, both of shape (lanes, vector); without a verb for
        an access that was checked and counted before."""
        batch = self.now.batch
        shape = np.broadcast_shapes(np.shape(index) or (1, 1), (batch.lanes, 1))
        active = np.broadcast_to(True if mask is None else mask, shape)
        places = np.broadcast_to(index, shape)
        places = places if mask is None else np.where(active, places, self.low)
        if verb:
            places = self._inside(places, active, line, verb)
        if verb and batch.first == 0:
            first = slice(0, batch.threads)
            scope = "global" if self.shadow.is_global else "shared"
            self.now.counts.note(scope, places[first], active[first], self.dtype.itemsize)
        return places if self.shadow.is_global else places + batch.block * self.span, active

    def _cells(self, elements: Array, active: Array) -> tuple[Array, Array, Array]:
        """The shadow's cells of the elements, with the threads and who takes part."""
        cells = elements
        if self.ratio > 1:
            cells = elements[:, :, None] * self.ratio + np.arange(self.ratio)
            cells = cells.reshape(len(elements), -1)
        threads = np.broadcast_to(self.now.batch.thread, cells.shape)
        return cells, threads, self._each_cell(active)

    def _each_cell(self, each_element: Array) -> Array:
        return each_element if self.ratio == 1 else np.repeat(each_element, self.ratio, axis=1)

    def _check_aligned(self, elements: Array, active: Array, line: str) -> None:
        """A vector of neighbours is one access, which must begin at a multiple of its size."""
        lanes = elements.shape[1]
        if lanes > 1:
            neighbours = elements[:, 1:2] - elements[:, :1] == 1
            wrong = active[:, :1] & neighbours & (elements[:, :1] % self.span % lanes != 0)
            text = f"touches {{}} with a vector of {lanes}, which must begin at a multiple of it"
            self._note("misaligned access", wrong, elements * self.ratio, line, text)

    def _note_race(self, wrong: Array, cells: Array, who: Array, line: str, text: str) -> None:
        """`who` are the other threads, of each access or of each cell of the memory."""
        if wrong.any():
            at = int(np.argmax(wrong))
            place = at if who.shape == cells.shape else cells.ravel()[at]
            rival = describe_thread(int(who.ravel()[place]), self.now.extents)
            self._note("race", wrong, cells, line, text.replace("{rival}", rival))

    def _note(self, kind: str, wrong: Array, cells: Array, line: str, text: str) -> None:
        def describe(at: tuple[int, ...]) -> str:
            element = int(cells[at]) // self.ratio % self.span - self.low
            return f"{self.now.describe(at[0])} {text.format(f'{self.name}[{element}]')}"

        self.now.log.add(kind, self.name, line, wrong, describe)


def _pick(mask: Array | None, kept: Array, *arrays: Array) -> tuple[Array, ...]:
    """What is kept of arrays in a row; all of them where there is no mask."""
    return tuple(array.ravel() if mask is None else array[kept] for array in arrays)


def make_global(
    name: str, data: Array, now: Moment, *, is_written: bool, starts_written: bool
) -> SharedMemory:
    """A buffer in global memory over its data."""
    return SharedMemory(
        name,
        data,
        Shadow(
            data.size,
            data.size,
            data.dtype.itemsize,
            now,
            is_global=True,
            is_written=is_written,
            starts_written=starts_written,
        ),
    )
