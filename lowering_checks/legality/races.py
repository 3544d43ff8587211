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

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
    memo: dict[Any, Any] = {}  # what is known of one pair serves thousands of others
    stored = {use.place: _list_elements(uses, use) for use in shared if use.is_write}
    for first, last in itertools.combinations_with_replacement(shared, 2):
        if first.launch != last.launch or not first.buffer.same_as(last.buffer):
            continue
        one, other = stored.get(first.place), stored.get(last.place)
        if one is not None and other is not None and one.isdisjoint(other):
            continue  # as copies of a loop's body are
        # TVM leaves out barriers between stores, and between accesses at one index.
        is_one_index = (
            first.is_write != last.is_write
            and not first.statement.same_as(last.statement)
            and bool(structural_equal(first.indices, last.indices))
        )
        if not (first.is_write and last.is_write) and not is_one_index:
            continue
        try:
            if _Pair(uses, first, last, memo).races():
                yield str(first.buffer.name)
        except TypeError:
            continue  # an expression that is not known, a loaded one, say, or too many threads


def _list_elements(uses: Uses, use: Use) -> set[tuple[int, ...]] | None:
    """The elements of a store in all iterations and threads; None where these are too many, or not
    known.
    """
    loops = {loop.loop_var: constant(loop.extent) for loop in use.loops}
    extents: dict[Any, Any] = loops | uses.threads[use.launch]
    asked = (*use.indices, *use.guards)
    counts = {it: n for it, n in extents.items() if any(is_used(it, each) for each in asked)}
    if None in counts.values() or math.prod(counts.values()) > _ROOM:
        return None
    ranges = {variable: range(count) for variable, count in counts.items()}
    rows = tabulate(use.indices, use.guards, ranges, others=0)
    return None if rows is None else set(map(tuple, rows.tolist()))


class _Pair:
    """Two uses of a buffer, the first one earlier in the program, or a store and itself.

    Of loops and of threads those are tried that decide what a use touches. Threads along other
    axes all do the same, and are `several` where there are any.
    """

    def __init__(self, uses: Uses, first: Use, last: Use, memo: dict[Any, Any]) -> None:
        self.uses, self.first, self.last, self._memo = uses, first, last, memo
        self.common = [loop for loop in first.loops if is_among(loop, last.loops)]
        self._sources = self._get_sources()
        if any(constant(loop.min) != 0 for loop in (*first.loops, *last.loops)):
            raise TypeError("loops that begin elsewhere are not tried")
        extents = uses.threads[first.launch]
        count = math.prod(extents.values())
        if count > MAX_THREADS:
            raise TypeError("threads that no GPU takes are not tried")
        around, room = tuple(map(id, self.common)), max(2, _ROOM // count)
        self._chosen = self._recall((around, room), lambda: choose_values(self.common, room))
        views = [self._view(use, around) for use in (first, last)]
        places = sorted({place for axes, _ in views for place in axes})
        axes = [axis for place, axis in enumerate(extents) if place in places]
        self._counts = {axis: range(extents[axis]) for axis in axes}
        self._several = count > math.prod(map(len, self._counts.values()))
        self._moving = {id(use): view[1] for use, view in zip((first, last), views, strict=True)}
        self._beside = (around, *places, bool(self._sources))

    def _recall(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def _view(self, use: Use, around: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """The places of the thread axes and of the common loops that decide what a use touches."""
        parts = self.uses.threads[use.launch], [loop.loop_var for loop in self.common]
        asked = self._find_asked(use)

        def find() -> tuple[list[int], ...]:
            return tuple(
                [at for at, it in enumerate(part) if any(is_used(it, each) for each in asked)]
                for part in parts
            )

        return self._recall(("view", id(use), around, bool(self._sources)), find)

    def _find_asked(self, use: Use) -> tuple[Any, ...]:
        """The expressions that decide what a use touches."""
        return (*use.indices, *use.guards, *self._sources.get(id(use), ()))

    def _collect(self, use: Use) -> dict[tuple[int, ...], _Cells]:
        """The elements of a use, and of copies their sources, by iterations of common loops.

        Of loops that decide nothing one iteration is tried.
        """
        loops = [loop for loop in use.loops if not is_among(loop, self.common)]
        asked = self._find_asked(use)
        moving = self._moving[id(use)]
        tried = [v if at in moving else v[:1] for at, v in enumerate(self._chosen)]
        for loop, values in zip(loops, choose_values(loops, 8), strict=True):
            moves = any(is_used(loop.loop_var, each) for each in asked)
            tried.append(values if moves else values[:1])
        names = [loop.loop_var for loop in (*self.common, *loops)]
        number: Any = 0
        for axis, count in self._counts.items():
            number = number * len(count) + axis
        common = [names[at] for at in moving]
        columns = [*common, number, *use.indices, *self._sources.get(id(use), ())]
        variables = dict(zip(names, tried, strict=True)) | self._counts
        rows = tabulate(columns, use.guards, variables, others=0)
        if rows is None:
            raise TypeError("an expression that is not known, a loaded one, say")
        first, last = len(common), len(common) + 1 + len(use.indices)
        found: dict[tuple[int, ...], _Cells] = {}
        for row in rows.tolist():
            element, source = tuple(row[first + 1 : last]), tuple(row[last:])
            cells = found.setdefault(tuple(row[:first]), {}).setdefault(element, {})
            cells.setdefault(source, set()).add(row[first])
        return found

    def races(self) -> bool:
        """Whether some thread uses an element too early or too late for another one."""
        is_open = not self.uses.has_barrier(self.first.place, self.last.place)
        is_passed = self.first.is_write and not self.last.is_write
        for at in itertools.product(*self._choose()) if is_open and not self._write_one() else ():
            cells = (self._find_cells(use, at) for use in (self.first, self.last))
            if self._clashes(*cells, is_passed=is_passed):
                return True
        return any(
            self._races_around(depth, *uses)
            for depth in range(self.uses.outer[self.first.launch], len(self.common))
            for uses in ((self.last, self.first), (self.first, self.last))
        )

    def _choose(self) -> list[list[int]]:
        """The iterations of each common loop that are tried: of those that decide nothing, one."""
        moving = {depth for depths in self._moving.values() for depth in depths}
        return [
            values if depth in moving else values[:1] for depth, values in enumerate(self._chosen)
        ]

    def _write_one(self) -> bool:
        """Whether both are stores, and of one value that no loop changes."""
        first, last = self.first.value, self.last.value
        if first is None or last is None:
            return False
        return self.first.place == self.last.place or bool(
            structural_equal(first, last) and isinstance(first, IntImm | FloatImm)
        )

    def _get_sources(self) -> dict[int, tuple[Any, ...]]:
        """What decides about the value of each store, where both copy one buffer; empty otherwise.

        Stores of one element with the same source write the same. A buffer that is written, too,
        may hold something else by then.
        """
        early, late = (
            self._recall(("copy", id(use)), functools.partial(_read_copy, use.value))
            for use in (self.first, self.last)
        )
        if early is None or late is None or not early[0].same_as(late[0]):
            return {}
        if any(use.is_write and use.buffer.same_as(early[0]) for use in self.uses.uses):
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
        ):
            return False
        if late.is_write and not is_used(loop.loop_var, late.value):
            # What is written may be something else in the next iteration where it is loaded.
            writes = (it for it in self.uses.uses if it.is_write and begin <= it.place < end)
            inside, loads = [it.buffer for it in writes], find_all(late.value, TensorLoad)
            if not any(is_among(load.source, inside) for load in loads):
                return False
        if self._moves_on(loop, early, late):
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
            if not self._sources:
                earlier = cells
            for element, sources in cells.items() if self._sources else ():
                for source, threads in sources.items():
                    earlier.setdefault(element, {}).setdefault(source, set()).update(threads)
            last = value
        return False

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
        key = tuple(at[depth] for depth in self._moving[id(use)])
        found = self._recall((id(use), *self._beside), lambda: self._collect(use))
        return found.get(key, {})


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
