"""Reads of elements that no block has written by then.

TVM allocates a buffer where all that uses it comes together, inside of the loops around that: each
of their iterations has a buffer of its own, with nothing in it of the one before. The threads of a
GPU block share one in shared memory, and wait for each other. All threads share global memory, and
do not wait: what a thread reads there it must have written itself, or an earlier kernel.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm.ir import IRModule, Range
from tvm.s_tir import transform as passes
from tvm.sym import estimate_region_lower_bound, estimate_region_upper_bound
from tvm.tirx import And, For, PrimFunc, const
from tvm_ffi import structural_equal

from tirstep.transforms.enumeration import choose_values, compile_expressions, is_of
from tirstep.transforms.tir import (
    Access,
    Place,
    bind_ranges,
    cached_by_module,
    constant,
    find_accesses,
    get_axis,
    get_places,
    is_among,
    is_at_most,
    is_less,
    is_used,
)

_MOST = 1 << 13
"""Iterations that are looked at for one reader: some hundredths of a second."""
_ELEMENTS = 1 << 20
"""Elements of these iterations: a second."""
_LIVES = 8
"""Lives that are looked at: the first and the last ones of each loop."""


class LostRead(NamedTuple):
    """An element that a block reads, and that no block has written by then.

    Attributes
    ----------
    element : such as ``X[0, 1]``
    loop : the innermost whose iterations do not find what others have written; empty if there is
        none
    axis : on which the iterations run side by side, with nothing that orders what they do to global
        memory; empty where each has a buffer of its own
    """

    element: str
    buffer: str
    reader: str
    writer: str
    loop: str
    axis: str


@dataclass(frozen=True)
class _Use:
    """An access, and where its block stands in program order.

    Attributes
    ----------
    key : what makes it the same in another module: its elements, and what stands around its block
    """

    key: tuple[Any, ...]
    order: int = field(compare=False)
    access: Access = field(compare=False)

    @classmethod
    def of(cls, access: Access, order: int) -> _Use:
        place, pattern = access.place, access.pattern
        parts = ((part.min, constant(part.extent) or part.extent) for part in pattern.ranges)
        around = (loop.loop_var for loop in place.loops)
        iterators = (place.values[var.var] for var in place.block.iter_vars)
        conditions = (*place.guards, *pattern.conditions)
        key = (pattern.buffer, *itertools.chain(*parts), *around, *iterators, *conditions)
        return cls(key, order, access)

    @property
    def loops(self) -> tuple[For, ...]:
        return self.access.place.loops


_Writers = tuple[tuple[_Use, bool], ...]
"""Those of one buffer, and whether each stands before its reader in program order."""


class _TooManyError(Exception):
    """More elements than are looked at, or some that the loops alone do not tell."""


@cached_by_module(2)  # what one transform leaves behind, the next one finds
def find_lost_reads(module: IRModule) -> dict[tuple[str, str], LostRead]:
    """What blocks read of buffers that was not written in the same life, by reader and buffer.

    First it is tried to prove that a writer in the same iteration writes all that is read; of the
    rest, elements are looked at one by one, in some lives. So what is found is so, and what is not
    found may be there: at sizes that are open, of many elements, or with indices from data.
    """
    found: dict[tuple[str, str], LostRead] = {}
    for _, function in module.functions_items():
        if isinstance(function, PrimFunc):
            _look_at(module, function, found)
    return found


def _look_at(module: IRModule, function: PrimFunc, found: dict[tuple[str, str], LostRead]) -> None:
    places = get_places(function.body)
    owned = {buffer for place in places for buffer in place.block.alloc_buffers}
    writes: dict[Any, list[_Use]] = {buffer: [] for buffer in owned}
    reads: list[_Use] = []
    for order, place in enumerate(places):
        if not place.is_innermost:
            continue
        written, read = find_accesses(place)
        for access in written:
            if access.buffer in owned:
                writes[access.buffer].append(_Use.of(access, order))
        reads += [_Use.of(item, order) for item in read if item.buffer in owned]
    for use in reads:
        writers = [write for write in writes[use.access.buffer] if write.order != use.order]
        begins = len(writers) < len(writes[use.access.buffer]) and use.access.place.block.init
        if begins or not writers or use.access.pattern.is_conditional:
            continue
        if not any(writer.order < use.order and _covers(writer, use) for writer in writers):
            before = tuple((writer, writer.order < use.order) for writer in writers)
            lost = _find_unwritten(use, before, _find_life(module, use.access.buffer))
            if lost is not None:
                found[lost.reader, lost.buffer] = lost


@functools.lru_cache(maxsize=256)
def _covers(write: _Use, read: _Use) -> bool:
    """Whether it can be shown that a writer writes all that is read in the same iteration."""
    shared = [loop for loop in write.loops if is_among(loop, read.loops)]
    analyzer = bind_ranges(shared)
    fixed = [loop.loop_var for loop in shared]
    for guard in write.access.guards:  # TVM's estimate takes account of those of other loops alone
        held = any(structural_equal(guard, own) for own in read.access.guards)
        if is_of(fixed, guard) and not held and not analyzer.can_prove(guard):
            return False
    written = estimate_region_lower_bound(*_describe(write, shared), analyzer)
    if written is None:
        return False
    needed = estimate_region_upper_bound(*_describe(read, shared), analyzer)
    return all(
        is_at_most(analyzer, own.min_value, need.min_value)
        and not is_less(analyzer, need.max_value, need.min_value)
        and (
            is_at_most(analyzer, need.max_value, own.max_value)
            or is_at_most(analyzer, extent - 1, own.max_value)
        )
        for own, need, extent in zip(written, needed, read.access.buffer.shape, strict=True)
    )


def _describe(use: _Use, shared: list[For]) -> tuple[list[Range], dict[Any, Range], Any]:
    """A region, the domains of the loops that vary, and a predicate."""
    domains = {
        loop.loop_var: Range.from_min_extent(loop.min, loop.extent)
        for loop in use.loops
        if not is_among(loop, shared)
    }
    guards = use.access.guards
    return use.access.ranges, domains, functools.reduce(And, guards) if guards else const(True)


def _find_life(module: IRModule, buffer: Any) -> tuple[Any, ...]:
    """The variables of the loops in each of whose iterations TVM allocates a new buffer."""
    common = ("threadIdx",) if str(buffer.scope()).startswith("shared") else ()
    for place in _allocate(module):
        if is_among(buffer, place.block.alloc_buffers):
            around = [loop for loop in place.loops if not (get_axis(loop) or "").startswith(common)]
            return tuple(loop.loop_var for loop in around)
    return ()


@cached_by_module(1)
def _allocate(module: IRModule) -> list[Place]:
    """The blocks of a module where TVM has put its allocations."""
    placed = passes.PlanAndUpdateBufferAllocationLocation()(passes.LowerInitBlock()(module))
    return [
        place
        for _, function in placed.functions_items()
        if isinstance(function, PrimFunc)
        for place in get_places(function.body)
        if place.block.alloc_buffers
    ]


@functools.lru_cache(maxsize=64)
def _find_unwritten(read: _Use, writers: _Writers, life: tuple[Any, ...]) -> LostRead | None:
    """The first element that is read and was not written before, in the lives that are tried."""
    try:
        return _try_lives(read, writers, life)
    except _TooManyError:
        return None


def _try_lives(read: _Use, writers: _Writers, life: tuple[Any, ...]) -> LostRead | None:
    fixed = [
        loop
        for loop in read.loops
        if is_among(loop.loop_var, life)
        or (_is_global(read) and get_axis(loop) and all(_is_in(loop, item) for item, _ in writers))
    ]
    budget = _Budget()
    reads = _Visits(read, read, fixed, budget)
    writes = [(_Visits(item, read, fixed, budget), is_before) for item, is_before in writers]
    lives = list(itertools.product(*choose_values(fixed, _LIVES)))
    for place in sorted(range(len(lives)), key=lambda at: min(at, len(lives) - 1 - at)):
        lost = _find_in_life(reads, writes, lives[place])
        if lost is not None:
            buffer = read.access.buffer
            return LostRead(
                f"{buffer.name}[{', '.join(map(str, lost))}]",
                str(buffer.name),
                read.access.place.name,
                writers[0][0].access.place.name,
                str(fixed[-1].loop_var.name) if fixed else "",
                str(get_axis(fixed[-1]) or "") if fixed and _is_global(read) else "",
            )
    return None


def _is_global(use: _Use) -> bool:
    return str(use.access.buffer.scope()) == "global"


def _is_in(loop: For, use: _Use) -> bool:
    return is_among(loop, use.loops)


def _find_in_life(
    reads: _Visits, writes: list[tuple[_Visits, bool]], life: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The first element that is read and was not written before, in one life.

    Threads wait for each other between writing and reading; so of those, each may be the first.
    """
    written = [
        (item.find_first(life), item.place_clock(reads), is_before) for item, is_before in writes
    ]
    for element, at in reads.visit(life):
        for first, clock, is_before in written:
            since = first.get(element)
            if since is not None:
                now = tuple(at[place] for place in clock)
                if since < now or (since == now and is_before):
                    break
        else:
            return element
    return None


@dataclass
class _Budget:
    """How many iterations may be looked at still, and how many elements in them."""

    iterations: int = _MOST
    elements: int = _ELEMENTS

    def take_iteration(self, elements: int = 0) -> None:
        self.iterations -= 1
        self.elements -= elements
        if self.iterations < 0 or self.elements < 0:
            raise _TooManyError


class _Visits:
    """The elements of an access in one life of its buffer, and the time of each.

    A time is the values of the serial loops that a reader is in, too. What no index and no guard
    uses runs once here: the earliest time of a writer is also that at which a reader needs most.
    """

    def __init__(self, use: _Use, read: _Use, fixed: list[For], budget: _Budget) -> None:
        access, self._budget = use.access, budget
        free = [loop for loop in use.loops if not is_among(loop, fixed)]
        self._clock = [
            loop.loop_var for loop in free if is_among(loop, read.loops) and get_axis(loop) is None
        ]
        needed = [*(part.min for part in access.ranges), *access.guards]
        used: list[For] = []
        for loop in reversed(free):
            if any(is_used(loop.loop_var, expression) for expression in needed):
                used.insert(0, loop)
                needed.append(loop.extent)
        sizes = [constant(item) for item in access.buffer.shape]
        widths = [constant(part.extent) for part in access.ranges]
        known = [loop.loop_var for loop in (*used, *fixed)]
        if None in (*sizes, *widths) or not all(map(functools.partial(is_of, known), needed)):
            raise _TooManyError
        self._widths, self._sizes = ([item or 0 for item in each] for each in (widths, sizes))
        self._each = math.prod(self._widths)
        self._loops = [loop.loop_var for loop in used]
        begins = [part.min for part in access.ranges]
        try:
            self._begin = compile_expressions(begins, access.guards, known)
            self._extents = [
                constant(loop.extent) or compile_expressions([loop.extent], (), known)
                for loop in used
            ]
        except TypeError:
            raise _TooManyError from None

    def place_clock(self, other: _Visits) -> list[int]:
        """The places of the clock's variables in iterations of another access; the last is 0."""
        places = {variable: place for place, variable in enumerate(other._loops)}
        return [places.get(variable, -1) for variable in self._clock]

    def find_first(self, life: tuple[int, ...]) -> dict[tuple[int, ...], tuple[int, ...]]:
        """The elements of a life, each with its earliest time."""
        found: dict[tuple[int, ...], tuple[int, ...]] = {}
        clock = self.place_clock(self)
        for element, at in self.visit(life):
            now = tuple(at[place] for place in clock)
            found[element] = min(now, found.get(element, now))
        return found

    def visit(self, life: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The elements of a life, each with the values of its loops and a 0 behind these."""
        for iteration in self._iterate(life):
            self._budget.take_iteration(self._each)
            begins = self._begin(*iteration, *life)
            if begins is not None:
                for element in itertools.product(*map(_clip, begins, self._widths, self._sizes)):
                    yield element, (*iteration, 0)

    def _iterate(
        self, life: tuple[int, ...], outer: tuple[int, ...] = ()
    ) -> Iterator[tuple[int, ...]]:
        """The iterations of a life, of loops whose extents may be known in outer ones alone."""
        rest = self._extents[len(outer) :]
        counts = [extent for extent in rest if isinstance(extent, int)]
        if len(counts) == len(rest) and math.prod(counts) <= _MOST:
            for inner in itertools.product(*map(range, counts)):
                yield (*outer, *inner)
            return
        inside = (0,) * len(rest)
        (count,) = (rest[0],) if isinstance(rest[0], int) else rest[0](*outer, *inside, *life)
        if not count:
            self._budget.take_iteration()
        for value in range(count):
            yield from self._iterate(life, (*outer, value))


def _clip(begin: int, width: int, size: int) -> Sequence[int]:
    """The indices of a range that are inside of a buffer: what lies outside is no element."""
    if width == 1:
        return (begin,) if 0 <= begin < size else ()
    return range(max(begin, 0), min(begin + width, size))
