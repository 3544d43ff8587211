"""Races: threads that use shared memory of a lowered function in an order that nothing decides.

TVM takes accesses at one index, such as ``S[threadIdx.x]``, for those of one thread, and puts no
barrier between them. In a kernel with threads along threadIdx.y, too, all of these have that index.
Nor does it put one between two stores: a load between them brings the barriers. Where TVM unrolls a
loop and finds that a copy of its body loads nothing, other threads' stores of the copies follow one
another with none.

`lowered_memory.find_missing_barriers` runs this on a module that is lowered as far as its barriers.
What is asked is enumerated: two uses of a buffer clash where one thread's elements are another's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm.ir import Call, TensorLoad
from tvm.sym import detect_linear_equation
from tvm.tirx import Cast, FloatImm, For, ForKind, IntImm
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import choose_values, tabulate
from tirstep.transforms.gpu_limits import MAX_THREADS
from tirstep.transforms.passes.barriers import Use, Uses
from tirstep.transforms.tir import constant, find_all, is_among, is_choice, is_used

_ROOM = 1 << 14
"""Iterations, of all threads together, that are tried: some hundredths of a second."""
_Cells = dict[tuple[int, ...], dict[tuple[int, ...], set[int]]]
"""The numbers of the threads that use an element, for each source from which they copy it."""


def find_races(uses: Uses) -> Iterator[str]:
    """The shared buffers of a lowered function that lack a barrier."""
    shared = [
        use
        for use in uses.uses
        if use.buffer.scope().startswith("shared")
        and use.launch
        and all(index.ty.dtype.lanes == 1 for index in use.indices)
    ]
    known = _Known.of(uses)
    for first, last in itertools.combinations_with_replacement(shared, 2):
        if first.launch != last.launch or not first.buffer.same_as(last.buffer):
            continue
        if not _needs_barrier(first, last):
            continue
        try:
            if _Pair(uses, first, last, known).races():
                yield str(first.buffer.name)
        except TypeError:
            continue  # an expression that is not known, a loaded one, say, or too many threads


def _needs_barrier(first: Use, last: Use) -> bool:
    """Whether TVM may have left out a barrier between two uses of a buffer, in whatever order."""
    if first.is_write and last.is_write:
        return True
    return (
        first.is_write != last.is_write
        and not first.statement.same_as(last.statement)
        and bool(structural_equal(first.indices, last.indices))
    )


@dataclass
class _Touched:
    """What is known of a use beside others in the same loops.

    Attributes
    ----------
    own : the iterations of loops that it does not share
    cells : its elements in iterations of the shared loops
    elements : all that are in `cells`, once those of all iterations are
    """

    own: dict[Any, list[int]] | None = None
    cells: dict[tuple[int, ...], _Cells] = field(default_factory=dict)
    elements: set[tuple[int, ...]] | None = None


class _View(NamedTuple):
    """The places of the thread axes and of the common loops that decide what a use touches."""

    axes: list[int]
    moving: list[int]


@dataclass
class _Known:
    """What was found for one pair of uses, and serves others: there are thousands of them.

    Attributes
    ----------
    written : the buffers that something is stored into, each once
    copies : of each use, what `_read_copy` says of its value
    touched, views : of a use beside others in the same loops
    chosen : of the loops around both uses, the iterations that are tried
    """

    written: list[Any]
    copies: dict[int, tuple[Any, ...] | None] = field(default_factory=dict)
    touched: dict[Any, _Touched] = field(default_factory=dict)
    views: dict[Any, _View] = field(default_factory=dict)
    chosen: dict[Any, list[list[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, uses: Uses) -> _Known:
        written: list[Any] = []
        for use in uses.uses:
            if use.is_write and not is_among(use.buffer, written):
                written.append(use.buffer)
        return cls(written)

    def read_copy(self, use: Use) -> tuple[Any, ...] | None:
        """What the value of a use copies."""
        if id(use) not in self.copies:
            self.copies[id(use)] = _read_copy(use.value)
        return self.copies[id(use)]

    def choose(self, key: Any, loops: Sequence[For], room: int) -> list[list[int]]:
        """The iterations of common loops that are tried."""
        if key not in self.chosen:
            self.chosen[key] = [list(values) for values in choose_values(loops, max(2, room))]
        return self.chosen[key]


class _Pair:
    """Two uses of a buffer, the first one earlier in the program, or a store and itself.

    What is `known` of each serves its pairs with all copies of an unrolled loop's body.

    Of loops and of threads those are tried that decide what a use touches. Threads along other
    axes all do the same, and are `several` where there are any.
    """

    def __init__(self, uses: Uses, first: Use, last: Use, known: _Known) -> None:
        self.uses, self.first, self.last = uses, first, last
        self.common = [loop for loop in first.loops if is_among(loop, last.loops)]
        self._sources = self._get_sources(known)
        if any(constant(loop.min) != 0 for loop in (*first.loops, *last.loops)):
            raise TypeError("loops that begin elsewhere are not tried")
        extents = uses.threads[first.launch]
        count = math.prod(extents.values())
        if count > MAX_THREADS:
            raise TypeError("threads that no GPU takes are not tried")
        around = tuple(map(id, self.common))
        self._chosen = known.choose((first.launch, around), self.common, _ROOM // count)
        views = {id(use): self._view(use, known, around) for use in (first, last)}
        self._moving = {use: view.moving for use, view in views.items()}
        places = {place for view in views.values() for place in view.axes}
        self._axes = [axis for place, axis in enumerate(extents) if place in places]
        self._counts = [extents[axis] for axis in self._axes]
        self._several = count > math.prod(self._counts)
        beside = (around, tuple(sorted(places)), bool(self._sources))
        self._known = {
            id(use): known.touched.setdefault((id(use), *beside), _Touched())
            for use in (first, last)
        }

    def _view(self, use: Use, known: _Known, around: tuple[int, ...]) -> _View:
        """What decides about a use, the same beside all others in the same loops."""
        key = (id(use), around, bool(self._sources))
        if key not in known.views:
            asked = self._find_asked(use)
            axes, loops = self.uses.threads[use.launch], [loop.loop_var for loop in self.common]
            known.views[key] = _View(*(_find_used(each, asked) for each in (axes, loops)))
        return known.views[key]

    def _find_asked(self, use: Use) -> tuple[Any, ...]:
        """The expressions that decide what a use touches."""
        return (*use.indices, *use.guards, *self._sources.get(id(use), ()))

    def races(self) -> bool:
        """Whether some thread uses an element too early or too late for another one."""
        is_open = not self.uses.has_barrier(self.first.place, self.last.place)
        if is_open and not self._writes_the_same() and self._clashes_at_once():
            return True
        return not self._is_apart() and any(
            self._races_around(depth, *uses)
            for depth in range(self.uses.outer[self.first.launch], len(self.common))
            for uses in ((self.last, self.first), (self.first, self.last))
        )

    def _clashes_at_once(self) -> bool:
        """Whether the uses clash in one iteration of the loops around both."""
        return not self._is_apart() and any(
            self._clashes(
                self._find_cells(self.first, at),
                self._find_cells(self.last, at),
                is_passed=self.first.is_write and not self.last.is_write,
            )
            for at in itertools.product(*self._choose())
        )

    def _is_apart(self) -> bool:
        """Whether both are stores, and use no element in common: copies of a loop's body do so."""
        if not (self.first.is_write and self.last.is_write) or self.first.place == self.last.place:
            return False
        return self._list_elements(self.first).isdisjoint(self._list_elements(self.last))

    def _list_elements(self, use: Use) -> set[tuple[int, ...]]:
        """All elements of a use that are tried."""
        known = self._known[id(use)]
        if known.elements is None:
            moving = self._moving[id(use)]
            tried = [v if at in moving else v[:1] for at, v in enumerate(self._chosen)]
            found = (self._find_cells(use, at) for at in itertools.product(*tried))
            known.elements = set(itertools.chain.from_iterable(found))
        return known.elements

    def _choose(self) -> list[list[int]]:
        """The iterations of each common loop that are tried: of those that decide nothing, one."""
        moving = {depth for depths in self._moving.values() for depth in depths}
        return [
            values if depth in moving else values[:1] for depth, values in enumerate(self._chosen)
        ]

    def _writes_the_same(self) -> bool:
        """Whether both are stores, and of one value that no loop changes."""
        first, last = self.first.value, self.last.value
        if first is None or last is None:
            return False
        return self.first.place == self.last.place or bool(
            structural_equal(first, last) and isinstance(first, IntImm | FloatImm)
        )

    def _get_sources(self, known: _Known) -> dict[int, tuple[Any, ...]]:
        """What decides about the value of each store, where both copy one buffer; empty otherwise.

        Stores of one element with the same source write the same. A buffer that is written, too,
        may hold something else by then.
        """
        early, late = known.read_copy(self.first), known.read_copy(self.last)
        if early is None or late is None:
            return {}
        if not early[0].same_as(late[0]) or is_among(early[0], known.written):
            return {}
        return {id(self.first): early[1:], id(self.last): late[1:]}

    def _races_around(self, depth: int, early: Use, late: Use) -> bool:
        """Whether a use clashes with one in the next iteration of a loop around both.

        Copies in neighbouring iterations may bring the same, so that all earlier ones are tried.
        """
        loop = self.common[depth]
        begin, end = self.uses.spans[loop]
        if (
            loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED)
            or self.uses.has_barrier(early.place, end)
            or self.uses.has_barrier(begin, late.place)
            or (late.is_write and not self._varies(late, loop))
            or self._moves_on(loop, early, late)
        ):
            return False
        around = self._choose()
        around[depth] = [0]
        return any(
            self._races_along(depth, early, late, list(at)) for at in itertools.product(*around)
        )

    def _moves_on(self, loop: For, early: Use, late: Use) -> bool:
        """Whether no element is used in two iterations of a loop: the others' stand in no index."""
        own = {*self.uses.threads[self.first.launch]}
        own |= {other.loop_var for use in (early, late) for other in use.loops}
        own -= {other.loop_var for other in self.common}
        for index, other in zip(early.indices, late.indices, strict=True):
            if is_used(loop.loop_var, index) and structural_equal(index, other):
                linear = detect_linear_equation(index, [loop.loop_var])
                if (
                    len(linear) == 2
                    and constant(linear[0])
                    and own.isdisjoint(undefined_vars(index))
                ):
                    return True
        return False

    def _races_along(self, depth: int, early: Use, late: Use, at: list[int]) -> bool:
        """The same, where the other loops stand still."""
        moves = any(depth in depths for depths in self._moving.values())
        is_passed = early.is_write and not late.is_write
        earlier: _Cells = {}
        last = None
        for value in self._chosen[depth] if moves else self._chosen[depth][:2]:
            at[depth] = value
            is_next = self._sources or last == value - 1
            if is_next and self._clashes(earlier, self._find_cells(late, at), is_passed=is_passed):
                return True
            cells = self._find_cells(early, at)
            earlier = _merge(earlier, cells) if self._sources else cells
            last = value
        return False

    def _varies(self, write: Use, loop: For) -> bool:
        """Whether what is written may be something else in the next iteration of a loop."""
        begin, end = self.uses.spans[loop]
        inside = [use.buffer for use in self.uses.uses if use.is_write and begin <= use.place < end]
        loads = find_all(write.value, TensorLoad)
        return is_used(loop.loop_var, write.value) or any(
            is_among(load.source, inside) for load in loads
        )

    def _clashes(self, before: _Cells, after: _Cells, *, is_passed: bool) -> bool:
        """Whether a thread uses an element of another one; none that `is_passed` on to itself.

        A thread may read what it wrote itself: all that write an element at once write the same.
        Copies of one source bring the same.
        """
        for element in before.keys() & after.keys():
            for source, threads in after[element].items():
                for other, others in before[element].items():
                    if self._sources and other == source:
                        continue
                    left = threads - others if is_passed else threads
                    if left and (self._several or len(others) > 1 or left != others):
                        return True
        return False

    def _find_cells(self, use: Use, at: Sequence[int]) -> _Cells:
        """The elements of a use, and of copies their sources, in one iteration of common loops."""
        known = self._known[id(use)].cells
        key = tuple(at[depth] for depth in self._moving[id(use)])
        if key not in known:
            known[key] = self._collect(use, at)
        return known[key]

    def _collect(self, use: Use, at: Sequence[int]) -> _Cells:
        known = self._known[id(use)]
        if known.own is None:  # of loops that decide nothing one iteration is tried
            loops = [loop for loop in use.loops if not is_among(loop, self.common)]
            asked = self._find_asked(use)
            known.own = {
                loop.loop_var: values
                if any(is_used(loop.loop_var, each) for each in asked)
                else values[:1]
                for loop, values in zip(loops, choose_values(loops, 8), strict=True)
            }
        common = {loop.loop_var: [value] for loop, value in zip(self.common, at, strict=True)}
        counts = dict(zip(self._axes, map(range, self._counts), strict=True))
        number: Any = 0
        for axis, count in counts.items():
            number = number * len(count) + axis
        columns = [number, *use.indices, *self._sources.get(id(use), ())]
        rows = tabulate(columns, use.guards, {**common, **known.own, **counts}, others=0)
        if rows is None:
            raise TypeError("an expression that is not known, a loaded one, say")
        width = 1 + len(use.indices)
        found: _Cells = {}
        for thread, *row in rows.tolist():
            element, source = tuple(row[: width - 1]), tuple(row[width - 1 :])
            found.setdefault(element, {}).setdefault(source, set()).add(thread)
        return found


def _find_used(variables: Iterable[Any], expressions: Sequence[Any]) -> list[int]:
    """The places of the variables that stand in some expression."""
    return [
        place
        for place, variable in enumerate(variables)
        if any(is_used(variable, each) for each in expressions)
    ]


def _merge(cells: _Cells, more: _Cells) -> _Cells:
    """What either has; the first one is changed."""
    for element, sources in more.items():
        merged = cells.setdefault(element, {})
        for source, threads in sources.items():
            merged.setdefault(source, set()).update(threads)
    return cells


def _read_copy(value: Any) -> tuple[Any, ...] | None:
    """The buffer that a value is an element of, and its indices; None of any other value.

    Of a choice between an element and a constant, the condition and the constant, too.
    """
    while isinstance(value, Cast):
        value = value.value
    if isinstance(value, Call) and is_choice(value):
        condition, chosen, other = value.args
        copy = _read_copy(chosen)
        if copy is None or not isinstance(other, IntImm | FloatImm) or other.value != 0:
            return None
        return (*copy, condition)
    return (value.source, *value.indices) if isinstance(value, TensorLoad) else None
