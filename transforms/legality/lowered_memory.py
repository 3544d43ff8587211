"""Memory of which TVM's lowering makes something else than the schedule says.

It leaves out barriers between threads that share elements (`find_missing_barriers`), changes
indices where it gives a buffer one dimension (`find_changed_indices`), and compacts shared memory
as if each thread had one of its own (`find_split_rooms`).

TVM takes accesses at one index, such as ``S[threadIdx.x]``, for those of one thread, and puts no
barrier between them. In a kernel with threads along threadIdx.y, too, all of these have that index.
Nor does it put one between two stores: a load between them brings the barriers. Where TVM unrolls a
loop and finds that a copy of its body loads nothing, other threads' stores of the copies follow one
another with none.

In ``S[i % 2, (i + 1) % 2]`` there are two remainders of one variable, at different places. TVM lets
the variable begin one element earlier for the second one, forgets that for the first one, and
makes ``(i + 1) % 2 * 3`` of ``i % 2 * 2 + (i + 1) % 2``. Such indices come from a tile that is
folded into rows and begins at another element for each thread or iteration.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from tvm.ir import Call, IRModule, Range, TensorLoad
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import (
    EQ,
    Add,
    And,
    BufferStore,
    Cast,
    Evaluate,
    FloatImm,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    IntImm,
    Sub,
    const,
)
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal

from ..passes.pipeline import lower_around
from ..passes.uses import Use, Uses, Variables, find_uses
from ..tir import (
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_elements,
    get_places,
    is_among,
    is_choice,
    is_used,
    substitute,
)
from .enumeration import (
    choose_values,
    compile_expressions,
    escapes,
    varies_along,
)
from .pipelines import STAGE
from .vectors import find_place

_ROOM = 1 << 14
"""Iterations, of all threads together, that are tried: some hundredths of a second."""
_THREADS = 64
"""Threads that are evaluated before the module is lowered."""
_UNROLLED = 64
"""Iterations of unrolled loops that are written out; beyond, the loop is looked at as it stands."""
_Cells = dict[tuple[int, ...], dict[Any, set[int]]]
"""For each iteration of loops: the numbers of the threads that use an element."""


class _Axis(NamedTuple):
    """A thread axis of a kernel, as a loop on it, and the loops on it that are around a block."""

    loop_var: Any
    extent: Any
    variables: tuple[Any, ...]


@cached_by_module(4)
def find_missing_barriers(module: IRModule, *, is_last: bool = False) -> list[str]:
    """The shared buffers, by name, that threads use in an order that nothing decides.

    Asked is TVM: the module is lowered as far as to its barriers, where a part of the threads
    alone writes elements, several threads write the same ones, or an unrolled loop writes some
    again. Empty where it does not lower.
    Unless it `is_last`, also where a block has no loop yet on one of its kernel's thread axes: it
    runs in all threads of that axis, and more transforms may change that.
    """
    functions = [function for _, function in module.functions_items()]
    unrolls = any(_unrolls_stores(function.body) for function in functions)
    if not unrolls and not any(_may_share(function.body, is_last) for function in functions):
        return []
    lowered = lower_around(module, "s_tir.ThreadSync", times=2, unrolls=unrolls)
    if lowered is None:
        return []
    found = (_find_in(find_uses(function)) for _, function in lowered.after.functions_items())
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


def _unrolls_stores(body: Any) -> bool:
    """Whether TVM writes out the iterations of a loop in which shared memory is written."""
    loops = [
        loop
        for loop in find_all(body, For)
        if loop.kind == ForKind.UNROLLED
        and any(
            store.buffer.scope().startswith("shared") for store in find_all(loop.body, BufferStore)
        )
    ]
    return bool(loops) and math.prod(constant(loop.extent) or 1 for loop in loops) <= _UNROLLED


def _may_share(body: Any, is_last: bool) -> bool:
    """Whether a block writes shared memory in a part of the threads, or in several at once."""
    axes: dict[Any, dict[str, For]] = {}
    places = [place for place in get_places(body) if not find_all(place.block.body, SBlock)]
    if not any(_find_shared_stores(place) for place in places):
        return False
    places = [place for place in places if place.kernel is not None]
    for place in places:
        if place.kernel not in axes:
            axes[place.kernel] = _find_axes(place.kernel)
        missing = axes[place.kernel].keys() - {get_axis(loop) for loop in place.loops}
        if missing and not is_last:
            return False
    return any(
        _writes_together(place.key, _find_own_axes(place, axes[place.kernel]), store.indices)
        for place in places
        for store in _find_shared_stores(place)
    )


def _find_shared_stores(place: Place) -> list[Any]:
    stores = find_all(place.block.body, BufferStore)
    return [store for store in stores if store.buffer.scope().startswith("shared")]


def _find_own_axes(place: Place, axes: dict[str, For]) -> tuple[_Axis, ...]:
    """Each axis of a kernel, with the variables of the loops on it that are around a block."""
    return tuple(
        _Axis(
            loop.loop_var,
            loop.extent,
            tuple(loop.loop_var for loop in place.loops if get_axis(loop) == axis),
        )
        for axis, loop in axes.items()
    )


def _find_axes(kernel: Any) -> dict[str, For]:
    """The axes along which a kernel has several threads, each with a loop on it."""
    found: dict[str, For] = {}
    for loop in find_all(kernel, For):
        axis = get_axis(loop) or ""
        if axis.startswith("threadIdx") and constant(loop.extent) != 1:
            found.setdefault(axis, loop)
    return found


@functools.lru_cache(maxsize=256)  # a transform leaves most blocks as they are
def _writes_together(place: tuple[Any, ...], axes: tuple[_Axis, ...], indices: Any) -> bool:
    """Whether threads share what they write at indices, or are let in at one value of an axis.

    Of the threads the first and the last ones along each axis are tried.
    """
    _, items, conditions = place
    named = dict(items)
    same = {variable: axis.loop_var for axis in axes for variable in axis.variables}
    try:
        values = [substitute(substitute(index, named), same) for index in indices]
        guards = [substitute(guard, same) for guard in conditions]
        touch = compile_expressions(values, guards, [axis.loop_var for axis in axes])
    except TypeError:
        return True
    written, let = set(), []
    for point in itertools.product(*choose_values(axes, _THREADS)):
        element = touch(*point)
        if element is not None:
            let.append(point)
            written.add(element)
    return len(written) < len(let) or any(len(set(along)) == 1 for along in zip(*let, strict=True))


def _find_in(uses: Uses) -> Iterator[str]:
    """The shared buffers of a lowered function that lack a barrier."""
    shared = [
        use
        for use in uses.uses
        if use.buffer.scope().startswith("shared")
        and use.launch
        and all(index.ty.dtype.lanes == 1 for index in use.indices)
    ]
    for first, last in itertools.combinations_with_replacement(shared, 2):
        if first.launch != last.launch or not first.buffer.same_as(last.buffer):
            continue
        if not _needs_barrier(first, last):
            continue
        try:
            if _Pair(uses, first, last).races():
                yield str(first.buffer.name)
        except TypeError:
            continue  # an expression that is not known, a loaded one, say


def _needs_barrier(first: Use, last: Use) -> bool:
    """Whether TVM may have left out a barrier between two uses of a buffer, in whatever order."""
    if first.is_write and last.is_write:
        return True
    return (
        first.is_write != last.is_write
        and not first.statement.same_as(last.statement)
        and bool(structural_equal(first.indices, last.indices))
    )


class _Pair:
    """Two uses of a buffer, the first one earlier in the program, or a store and itself."""

    def __init__(self, uses: Uses, first: Use, last: Use) -> None:
        self.uses, self.first, self.last = uses, first, last
        self.common = [loop for loop in first.loops if is_among(loop, last.loops)]
        self._sources = self._get_sources()
        if any(constant(loop.min) != 0 for loop in (*first.loops, *last.loops)):
            raise TypeError("loops that begin elsewhere are not tried")
        threads = uses.threads[first.launch]
        self._threads = list(itertools.product(*map(range, threads.values())))
        room = max(2, _ROOM // math.prod(threads.values()))
        self._chosen = [list(values) for values in choose_values(self.common, room)]
        self._moving = {id(use): self._find_moving(use) for use in (first, last)}
        self._cells: dict[int, _Cells] = {}
        self._known: dict[tuple[Any, ...], bool] = {}
        self._touch: dict[int, Any] = {}

    def _find_moving(self, use: Use) -> list[int]:
        """The depths of the common loops that decide what a use touches."""
        asked = (*use.indices, *use.guards, *self._sources.get(id(use), ()))
        return [
            depth
            for depth, loop in enumerate(self.common)
            if any(is_used(loop.loop_var, expression) for expression in asked)
        ]

    def races(self) -> bool:
        """Whether some thread uses an element too early or too late for another one."""
        is_open = not self._has_barrier(self.first.place, self.last.place)
        if (
            is_open
            and not self._writes_the_same()
            and any(
                self._clashes(self.first, at, self.last, at)
                for at in itertools.product(*self._chosen)
            )
        ):
            return True
        return any(
            self._races_around(depth, *uses)
            for depth in range(self.uses.outer[self.first.launch], len(self.common))
            for uses in ((self.last, self.first), (self.first, self.last))
        )

    def _writes_the_same(self) -> bool:
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
        early, late = (_read_copy(use.value) for use in (self.first, self.last))
        written = [use.buffer for use in self.uses.uses if use.is_write]
        if early is None or late is None:
            return {}
        if not early[0].same_as(late[0]) or is_among(early[0], written):
            return {}
        return {id(self.first): early[1:], id(self.last): late[1:]}

    def _races_around(self, depth: int, early: Use, late: Use) -> bool:
        """Whether a use clashes with one in the next iteration of a loop around both.

        Copies in neighbouring iterations may bring the same, so that later ones are tried, too.
        """
        loop, chosen = self.common[depth], self._chosen[depth]
        begin, end = self.uses.spans[loop]
        if (
            loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED)
            or self._has_barrier(early.place, end)
            or self._has_barrier(begin, late.place)
            or (late.is_write and not self._varies(late, loop))
        ):
            return False
        return any(
            self._clashes(early, at, late, (*at[:depth], later, *at[depth + 1 :]))
            for at in itertools.product(*self._chosen)
            for later in chosen
            if later == at[depth] + 1 or (self._sources and later > at[depth])
        )

    def _has_barrier(self, begin: int, end: int) -> bool:
        return any(begin <= place < end for place in self.uses.barriers)

    def _varies(self, write: Use, loop: For) -> bool:
        """Whether what is written may be something else in the next iteration of a loop."""
        begin, end = self.uses.spans[loop]
        inside = [use.buffer for use in self.uses.uses if use.is_write and begin <= use.place < end]
        loads = find_all(write.value, TensorLoad)
        return is_used(loop.loop_var, write.value) or any(
            is_among(load.source, inside) for load in loads
        )

    def _clashes(self, early: Use, at: tuple[int, ...], late: Use, then: tuple[int, ...]) -> bool:
        """Whether a thread uses an element late that another one uses early, each in an iteration.

        A thread may read what it wrote itself: all that write an element at once write the same.
        """
        key = id(early), self._keep_moving(early, at), id(late), self._keep_moving(late, then)
        if key not in self._known:
            before, after = self._find_cells(early, at), self._find_cells(late, then)
            if self._sources:
                self._known[key] = _clash_of_copies(before, after, len(early.indices))
            else:
                is_passed = early.is_write and not late.is_write
                self._known[key] = _clash(before, after, is_passed=is_passed)
        return self._known[key]

    def _keep_moving(self, use: Use, at: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(at[depth] for depth in self._moving[id(use)])

    def _find_cells(self, use: Use, at: tuple[int, ...]) -> dict[Any, set[int]]:
        """The elements of a use, and of copies their sources, in one iteration of common loops."""
        known, key = self._cells.setdefault(id(use), {}), self._keep_moving(use, at)
        if key not in known:
            known[key] = self._collect(use, at)
        return known[key]

    def _collect(self, use: Use, at: tuple[int, ...]) -> dict[Any, set[int]]:
        own = [loop for loop in use.loops if not is_among(loop, self.common)]
        if id(use) not in self._touch:
            loops = [loop.loop_var for loop in (*self.common, *own)]
            variables = [*loops, *self.uses.threads[use.launch]]
            asked = (*use.indices, *self._sources.get(id(use), ()))
            self._touch[id(use)] = compile_expressions(asked, use.guards, variables)
        touch, found = self._touch[id(use)], defaultdict(set)
        for iteration in itertools.product(*choose_values(own, 8)):
            for number, thread in enumerate(self._threads):
                element = touch(*at, *iteration, *thread)
                if element is not None:
                    found[element].add(number)
        return found


def _clash(before: dict[Any, set[int]], after: dict[Any, set[int]], *, is_passed: bool) -> bool:
    """Whether a thread uses an element of another one; none that `is_passed` on to itself."""
    for element, threads in after.items():
        others = before.get(element, set())
        if is_passed:
            threads = threads - others
        if any(others - {thread} for thread in threads):
            return True
    return False


def _clash_of_copies(before: dict[Any, set[int]], after: dict[Any, set[int]], rank: int) -> bool:
    """Whether threads copy different elements to one; the keys are its indices, then the source."""
    copied = defaultdict(list)
    for key, threads in before.items():
        copied[key[:rank]].append((key[rank:], threads))
    return any(
        source != key[rank:] and any(others - {thread} for thread in threads)
        for key, threads in after.items()
        for source, others in copied[key[:rank]]
    )


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


@cached_by_module(4)
def find_changed_indices(module: IRModule) -> list[str]:
    """The buffers, by name, of which the lowered module uses other elements than the module.

    Asked is TVM; the iterations that are tried are the first and the last ones of each loop. Empty
    where it does not lower the module.
    """
    functions = [function for _, function in module.functions_items()]
    if not any(_has_shifted_quotients(function.body) for function in functions):
        return []
    around = lower_around(module, "tirx.FlattenBuffer")
    if around is None:
        return []
    found = []
    for variable, function in around.before.functions_items():
        uses = zip(find_uses(function).uses, find_uses(around.after[variable]).uses, strict=True)
        ranges = Variables.of(function).ranges
        found += [str(old.buffer.name) for old, new in uses if _differ(old, new, ranges)]
    return list(dict.fromkeys(found))


def _has_shifted_quotients(body: Any) -> bool:
    """Whether a buffer's indices divide sums with several constants, or may do so in a pipeline."""
    if not (find_all(body, FloorMod) or find_all(body, FloorDiv)):
        return False
    shifts: dict[Any, set[int]] = defaultdict(set)
    for place in get_places(body):
        pipelined = [loop.loop_var for loop in place.loops if STAGE in loop.annotations]
        for buffer, quotient, shift in _find_shifts(place.block, tuple(place.values.items())):
            if any(is_used(variable, quotient) for variable in pipelined):
                return True
            shifts[buffer].add(shift)
    return any(len(shift) > 1 for shift in shifts.values())


@functools.lru_cache(maxsize=256)  # a transform leaves most blocks as they are
def _find_shifts(
    block: SBlock, values: tuple[tuple[Any, Any], ...]
) -> tuple[tuple[Any, Any, int], ...]:
    """The buffer, the quotient and its constant of each quotient in the indices of a block."""
    if find_all(block.body, SBlock):
        return ()
    named = dict(values)
    return tuple(
        (buffer, quotient, _find_shift(quotient.a))
        for buffer, indices in get_elements(block.body)
        for quotient in _find_quotients([substitute(index, named) for index in indices])
    )


def _find_quotients(indices: Iterable[Any]) -> list[Any]:
    return [
        quotient
        for index in indices
        for kind in (FloorMod, FloorDiv)
        for quotient in find_all(index, kind)
    ]


def _find_shift(expression: Any) -> int:
    """The constant in a sum."""
    if isinstance(expression, Add):
        return _find_shift(expression.a) + _find_shift(expression.b)
    if isinstance(expression, Sub):
        return _find_shift(expression.a) - _find_shift(expression.b)
    return constant(expression) or 0


def _differ(old: Use, new: Use, ranges: dict[Any, Range]) -> bool:
    """Whether an element lies elsewhere in the buffer of one dimension, in a loop's iteration."""
    dividends = [quotient.a for quotient in _find_quotients(old.indices)]
    if all(structural_equal(dividend, dividends[0]) for dividend in dividends):
        return False
    expected, analyzer = find_place(old.buffer, list(old.indices)), Analyzer()
    for variable, span in ranges.items():
        analyzer.bind(variable, span)
    if analyzer.can_prove_equal(expected, new.indices[0]):
        return False
    is_same = EQ(expected, new.indices[0])
    is_let = functools.reduce(And, old.guards) if old.guards else const(1, "bool")
    used = [*undefined_vars(is_same), *undefined_vars(is_let)]
    loops = [
        For(variable, span.min, span.extent, ForKind.SERIAL, Evaluate(0))
        for variable, span in ranges.items()
        if is_among(variable, used)
    ]
    return all(constant(loop.min) == 0 for loop in loops) and escapes(is_let, is_same, loops)


@cached_by_module(4)
def find_split_rooms(module: IRModule) -> list[str]:
    """The shared buffers, by name, that TVM makes smaller as if each thread had one of its own.

    Their first element in the smaller buffer is then another one for each thread. Asked is TVM,
    where a shared buffer is indexed by quotients or remainders. Empty where it does not lower.
    """
    functions = [function for _, function in module.functions_items()]
    if not any(_divides_in_shared_memory(function.body) for function in functions):
        return []
    around = lower_around(module, "s_tir.CompactBufferAllocation")
    if around is None:
        return []
    found = []
    for variable, function in around.before.functions_items():
        loops = find_all(function.body, For)
        threads = [loop for loop in loops if _is_thread(loop)]
        others = [loop for loop in loops if not _is_thread(loop)]
        elements = (get_elements(each.body) for each in (function, around.after[variable]))
        for (buffer, old), (_, new) in zip(*elements, strict=True):
            begins = [index - smaller for index, smaller in zip(old, new, strict=True)]
            if buffer.scope().startswith("shared") and any(
                varies_along(begin, threads, others) for begin in begins
            ):
                found.append(str(buffer.name))
    return list(dict.fromkeys(found))


def _is_thread(loop: For) -> bool:
    return (get_axis(loop) or "").startswith("threadIdx")


def _divides_in_shared_memory(body: Any) -> bool:
    return any(
        buffer.scope().startswith("shared")
        for place in get_places(body)
        for buffer, *_ in _find_shifts(place.block, tuple(place.values.items()))
    )
