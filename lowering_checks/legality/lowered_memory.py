"""Memory of which TVM's lowering makes something else than the schedule says.

It leaves out barriers between threads that share elements (`find_missing_barriers`), changes
indices where it gives a buffer one dimension (`find_changed_indices`), and compacts shared memory
as if each thread had one of its own (`find_split_allocations`), or to less than what is used of it
(`find_small_allocations`).

In ``S[i % 2, (i + 1) % 2]`` there are two remainders of one variable, at different places. TVM lets
the variable begin one element earlier for the second one, forgets that for the first one, and
makes ``(i + 1) % 2 * 3`` of ``i % 2 * 2 + (i + 1) % 2``. Such indices come from a tile that is
folded into rows and begins at another element for each thread or iteration.

Of what goes down as a loop goes up, as in ``(31 - i) // 4``, it takes a wrong quotient: its
simplification of sums of loops makes ``i // -4 + 7`` of it, which is another number for most i, in
`transform_layout` and, of buffers of one dimension, where it lowers a module
(`find_negative_divisors`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm.sym import Analyzer
from tvm.tirx import (
    EQ,
    Add,
    BufferStore,
    Evaluate,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    Mul,
    Sub,
    Var,
    const,
)
from tvm.tirx import all as all_of
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_equal, structural_map

from tirstep.transforms.annotations import STAGE
from tirstep.transforms.enumeration import (
    choose_iterations,
    choose_values,
    escapes,
    number_rows,
    tabulate,
    varies_along,
)
from tirstep.transforms.pass_options import Around, lower_around
from tirstep.transforms.passes.barriers import Variables, find_uses
from tirstep.transforms.passes.serial import make_threads_serial
from tirstep.transforms.tir import (
    LARGEST_INDEX,
    Place,
    cached_by_module,
    constant,
    find_all,
    get_axis,
    get_elements,
    get_places,
    get_regions,
    is_among,
    is_used,
    list_functions,
    substitute,
)
from tirstep.transforms.vectorize import find_place

from .accesses import find_left_dimension, list_accesses, list_loads
from .races import find_races

_THREADS = 64
"""Threads that are evaluated before the module is lowered."""
_UNROLLED = 64
"""Iterations of unrolled loops that are written out; beyond, the loop is looked at as it stands."""
_COMPACTING = "s_tir.CompactBufferAllocation"
_MOST = 512 << 10
"""Bytes of a thread's local memory, the most elements that registers or shared memory may have."""
FLATTENING = "tirx.FlattenBuffer"
_SYNCHRONIZING = "s_tir.ThreadSync"


class Quotient(NamedTuple):
    """A quotient or a remainder in an index of a block, in loop variables.

    Attributes
    ----------
    shift : the constant in the sum that is divided
    is_strange : whether TVM may take its value in one thread for that in all; of shared memory only
    """

    buffer: Any
    expression: Any
    shift: int
    is_strange: bool


Quotients = list[tuple[Place, tuple[Quotient, ...]]]
"""Those of each block that has some, in program order."""


def find_all_quotients(body: Any) -> Quotients:
    read = []
    for place in get_places(body):
        # The variables of several threads around a block, and how many these are.
        threads = tuple(
            (loop.loop_var, constant(loop.extent) or 0)
            for loop in place.loops
            if is_thread(loop) and constant(loop.extent) != 1
        )
        if place.is_innermost and (quotients := _read_quotients(place.key, threads)):
            read.append((place, quotients))
    return read


@functools.lru_cache(maxsize=256)  # a transform leaves most blocks as they are
def _read_quotients(
    place: tuple[Any, ...], threads: tuple[tuple[Any, int], ...]
) -> tuple[Quotient, ...]:
    """The quotients in the indices of a block that holds no others."""
    block, items, guards = place
    if not (divides(block.body) or divides(tuple(value for _, value in items))):
        return ()
    named, found = dict(items), []
    elements = [(it.buffer, it.indices, list[Any]()) for it in find_all(block.body, BufferStore)]
    elements += [(it.source, it.indices, inner) for it, inner in list_loads(block.body)]
    for buffer, indices, inner in elements:
        quotients = find_quotients([substitute(index, named) for index in indices])
        is_shared = bool(quotients) and buffer.scope().startswith("shared")
        conditions: list[Any] = []
        if is_shared and threads:
            conditions = [*guards, *(substitute(condition, named) for condition in inner)]
        for quotient in quotients:
            # TVM may take the value in one thread for that in all where it divides a remainder
            # whose divisor it does not divide, as in ``i % 5 % 4``, and behind some guards.
            moving = [item for item in threads if is_used(item[0], quotient)]
            divisor = constant(quotient.b)
            uneven = find_all(quotient.a, FloorMod)
            asked = [it for it in conditions if any(is_used(one, it) for one, _ in moving)]
            is_strange = is_shared and bool(moving)
            is_strange = is_strange and (
                divisor is None
                or any((constant(it.b) or 1) % divisor for it in uneven)
                or any(is_pinned(conditions, *item) for item in moving)
                or any(map(divides, asked))
            )
            found.append(Quotient(buffer, quotient, _find_shift(quotient.a), is_strange))
    return tuple(found)


def divides(node: Any) -> bool:
    """Whether there is a quotient or a remainder in a statement or in expressions."""
    parts = node if isinstance(node, tuple) else (node,)
    return any(find_all(part, kind) for part in parts for kind in (FloorDiv, FloorMod))


def is_pinned(conditions: list[Any], thread: Any, count: int) -> bool:
    """Whether conditions let one thread in, where all else is zero: ``thread * 4 < 3``, say.

    Of many threads the first and the last ones are tried; where these are not let in, others may
    be, and it is taken for so.
    """
    asked = [condition for condition in conditions if is_used(thread, condition)]
    if not asked:
        return False
    rows = tabulate((), asked, {thread: choose_iterations(count)}, others=0)
    return rows is None or len(rows) <= 1


def find_quotients(indices: Iterable[Any]) -> list[Any]:
    """The remainders of each index, then its quotients."""
    return [
        node for index in indices for kind in (FloorMod, FloorDiv) for node in find_all(index, kind)
    ]


def _find_shift(expression: Any) -> int:
    """The constant in a sum."""
    if isinstance(expression, Add):
        return _find_shift(expression.a) + _find_shift(expression.b)
    if isinstance(expression, Sub):
        return _find_shift(expression.a) - _find_shift(expression.b)
    return constant(expression) or 0


def is_thread(loop: For) -> bool:
    return (get_axis(loop) or "").startswith("threadIdx")


def is_descending(dividend: Any) -> bool:
    """Whether a sum has variables that it gets smaller with."""
    if any(undefined_vars(node.b) for node in find_all(dividend, Sub)):
        return True
    products = find_all(dividend, Mul)
    return any((constant(side) or 0) < 0 for node in products for side in (node.a, node.b))


@cached_by_module(4)
def find_negative_divisors(module: IRModule) -> list[str]:
    """The buffers, by name, in whose indices something is divided by a negative number."""

    def divides_by_negative(node: Any) -> bool:
        quotients = (it for kind in (FloorDiv, FloorMod) for it in find_all(node, kind))
        return any((constant(it.b) or 0) < 0 for it in quotients)

    bodies = [it.body for it in list_functions(module) if divides_by_negative(it.body)]
    elements = (element for body in bodies for element in get_elements(body))
    found = [str(it.name) for it, indices in elements if any(map(divides_by_negative, indices))]
    return list(dict.fromkeys(found))


class _Doubts(NamedTuple):
    """Why a module may become something else, by what has to be watched to know.

    Attributes
    ----------
    splits, shifts : whether allocations may be split by thread, and indices changed
    tight : the names of the buffers whose allocations may be too small
    leaks : whether a loop's variable may be used behind the loop
    shares, unrolls : whether barriers may be missing, and whether for loops that are unrolled
    """

    splits: bool
    shifts: bool
    tight: tuple[str, ...]
    leaks: bool
    shares: bool
    unrolls: bool


@cached_by_module(4)
def _doubt(module: IRModule, *, is_last: bool = False) -> _Doubts:
    """What is not certain about a module; most are not lowered at all."""
    bodies = [function.body for _, function in module.functions_items()]
    read = [find_all_quotients(body) for body in bodies]
    moved = [_find_moved(body, each) for body, each in zip(bodies, read, strict=True)]
    unrolls = any(map(_unrolls_stores, bodies))
    return _Doubts(
        any(it.is_strange for each in read for _, quotients in each for it in quotients),
        any(map(_has_shifted_quotients, read)),
        tuple(str(buffer.name) for buffers in moved for buffer in buffers),
        any(map(_may_leak, read)),
        unrolls or any(_may_share(body, is_last) for body in bodies),
        unrolls,
    )


@cached_by_module(4)
def _watch(module: IRModule, *, is_last: bool = False) -> dict[str, Around]:
    """A module around the passes that there are doubts about, lowered once for all of them.

    Passes that TVM does not get to are watched as it is lowered for a CPU: there a pipeline whose
    loop has yet to be bound is none, and what it computes must be right.
    """
    doubts = _doubt(module, is_last=is_last)
    names = [_COMPACTING] * (doubts.splits or bool(doubts.tight) or doubts.leaks)
    names += [*[FLATTENING] * doubts.shifts, *[_SYNCHRONIZING] * 2 * doubts.shares]
    around = lower_around(module, names, unrolls=doubts.unrolls) if names else {}
    if all(name in around for name in names):
        return around
    return {**lower_around(make_threads_serial(module), names, unrolls=doubts.unrolls), **around}


class _Axis(NamedTuple):
    """A thread axis of a kernel, as a loop on it, and the loops on it that are around a block."""

    loop_var: Any
    extent: Any
    variables: tuple[Any, ...]


@cached_by_module(4)
def find_missing_barriers(module: IRModule, *, is_last: bool = False) -> list[str]:
    """The shared buffers, by name, that threads use in an order that nothing decides.

    The module is lowered by TVM as far as to its barriers, where a part of the threads
    alone writes elements, several threads write the same ones, or an unrolled loop writes some
    again. Empty where it does not lower.
    Unless it `is_last`, also where a block has no loop yet on one of its kernel's thread axes: it
    runs in all threads of that axis, and more transforms may change that.
    """
    around = _watch(module, is_last=is_last).get(_SYNCHRONIZING)
    if around is None:
        return []
    found = (find_races(find_uses(function)) for _, function in around.after.functions_items())
    return list(dict.fromkeys(itertools.chain.from_iterable(found)))


@cached_by_module(2)
def find_open_allocations(module: IRModule) -> dict[str, tuple[str, str, str]]:
    """The buffers in registers or shared memory whose size is still open where TVM has made them as
    small as they will be, with the memory and the extent.

    For a GPU it allocates constant sizes alone, and says so only when it generates code. Where it
    knows no bound of an extent but that of the index's type, it takes that.
    """
    asked = {room[0]: room for room in _list_open(module)}
    around = lower_around(module, [_COMPACTING]).get(_COMPACTING) if asked else None
    left = _list_open(around.after, _MOST) if around else ()
    known = {room[0]: asked.get(room[0]) if room[2].isdigit() else room for room in left}
    return {name: room for name, room in known.items() if room}


def _list_open(module: IRModule, most: float = math.inf) -> Iterator[tuple[str, str, str]]:
    for _, function in module.functions_items():
        has_kernel = any(get_axis(loop) for loop in find_all(function.body, For))
        for block in find_all(function.body, SBlock) if has_kernel else ():
            for buffer in block.alloc_buffers:
                scope = str(buffer.scope())
                for extent in buffer.shape if scope.startswith(("local", "shared")) else ():
                    if (known := constant(extent)) is None or known > most:
                        memory = "registers" if scope == "local" else "shared memory"
                        yield str(buffer.name), memory, str(extent)


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
    if not loops or math.prod(constant(loop.extent) or 1 for loop in loops) > _UNROLLED:
        return False
    # TVM counts the statements of all iterations in 32 bits: it may take a serial loop that is long
    # enough for a short one, and write it out.
    return not any(
        (constant(loop.extent) or 0)
        * (len(find_all(loop.body, BufferStore)) + len(find_all(loop.body, Evaluate)))
        * _UNROLLED
        > LARGEST_INDEX
        for loop in find_all(body, For)
    )


def _may_share(body: Any, is_last: bool) -> bool:
    """Whether a block writes shared memory in a part of the threads, or in several at once."""
    axes: dict[Any, dict[str, For]] = {}
    places = [place for place in get_places(body) if place.is_innermost]
    if not any(_find_shared_stores(place) for place in places):
        return False
    places = [place for place in places if place.kernel is not None]
    for place in places:
        if place.kernel not in axes:  # those with several threads, each with a loop on it
            own_axes = axes[place.kernel] = {}
            for loop in find_all(place.kernel, For):
                if is_thread(loop) and constant(loop.extent) != 1:
                    own_axes.setdefault(str(get_axis(loop)), loop)
        missing = axes[place.kernel].keys() - {get_axis(loop) for loop in place.loops}
        if missing and not is_last:
            return False
    for place in places:
        own = tuple(
            _Axis(
                loop.loop_var,
                loop.extent,
                tuple(loop.loop_var for loop in place.loops if get_axis(loop) == axis),
            )
            for axis, loop in axes[place.kernel].items()
        )
        stores = _find_shared_stores(place)
        if any(_writes_together(place.key, own, store.indices) for store in stores):
            return True
    return False


def _find_shared_stores(place: Place) -> list[Any]:
    stores = find_all(place.block.body, BufferStore)
    return [store for store in stores if store.buffer.scope().startswith("shared")]


@functools.lru_cache(maxsize=256)  # a transform leaves most blocks as they are
def _writes_together(place: tuple[Any, ...], axes: tuple[_Axis, ...], indices: Any) -> bool:
    """Whether threads share what they write at indices, or are let in at one value of an axis.

    Of the threads the first and the last ones along each axis are tried.
    """
    _, items, conditions = place
    same = {variable: axis.loop_var for axis in axes for variable in axis.variables}
    values = [substitute(substitute(index, dict(items)), same) for index in indices]
    guards = [substitute(guard, same) for guard in conditions]
    threads = [axis.loop_var for axis in axes]
    tried = dict(zip(threads, choose_values(axes, _THREADS), strict=True))
    rows = tabulate([*threads, *values], guards, tried, others=0)
    if rows is None or not len(rows):  # at an open size of 0, say
        return True
    (elements,) = number_rows(rows[:, len(axes) :])
    let = rows[:, : len(axes)]
    return len(np.unique(elements)) < len(rows) or any(len(np.unique(it)) == 1 for it in let.T)


@cached_by_module(4)
def find_changed_indices(module: IRModule) -> list[str]:
    """The buffers, by name, of which the lowered module uses other elements than the module.

    TVM's passes are run; the iterations that are tried are the first and the last ones of each
    loop. Empty where it does not lower the module.
    """
    around = _watch(module).get(FLATTENING)
    if around is None:
        return []
    found = []
    for variable, function in around.before.functions_items():
        ranges = Variables.of(function).ranges
        uses = zip(find_uses(function).uses, find_uses(around.after[variable]).uses, strict=True)
        for old, new in uses:
            dividends = [quotient.a for quotient in find_quotients(old.indices)]
            is_one = all(structural_equal(dividend, dividends[0]) for dividend in dividends)
            if is_one and not any(map(is_descending, dividends)):
                continue
            # Whether an element lies elsewhere in the buffer of one dimension, in an iteration.
            expected, analyzer = find_place(old.buffer, list(old.indices)), Analyzer()
            for loop_var, span in ranges.items():
                analyzer.bind(loop_var, span)
            if analyzer.can_prove_equal(expected, new.indices[0]):
                continue
            is_same = EQ(expected, new.indices[0])
            used = [it for each in (is_same, *old.guards) for it in undefined_vars(each)]
            loops = [
                For(loop_var, span.min, span.extent, ForKind.SERIAL, Evaluate(0))
                for loop_var, span in ranges.items()
                if is_among(loop_var, used)
            ]
            is_from_0 = all(constant(loop.min) == 0 for loop in loops)
            if is_from_0 and escapes(all_of(True, *old.guards), is_same, loops):
                found.append(str(old.buffer.name))
    return list(dict.fromkeys(found))


def _has_shifted_quotients(read: Quotients) -> bool:
    """Whether a buffer's indices divide sums with several constants, or may do so in a pipeline.

    Or sums that get smaller as a loop goes on.
    """
    shifts: dict[Any, int] = {}
    for place, quotients in read:
        pipelines = [loop.loop_var for loop in place.loops if STAGE in loop.annotations]
        for quotient in quotients:
            if is_descending(quotient.expression.a):
                return True
            if any(is_used(variable, quotient.expression) for variable in pipelines):
                return True
            if shifts.setdefault(quotient.buffer, quotient.shift) != quotient.shift:
                return True
    return False


@cached_by_module(4)
def find_split_allocations(module: IRModule) -> list[str]:
    """The shared buffers, by name, that TVM makes smaller as if each thread had one of its own.

    Their first element in the smaller buffer is then another one for each thread. TVM's passes
    are run where a shared buffer is indexed by quotients of threads that have remainders of other
    divisors in them, or where a guard lets one thread alone in, or asks about a quotient itself:
    its region is that of all threads otherwise.
    Empty where it does not lower.
    """
    around = _watch(module).get(_COMPACTING)
    if around is None or not _doubt(module).splits:
        return []
    found = []
    for variable, function in around.before.functions_items():
        loops = find_all(function.body, For)
        threads = [loop for loop in loops if is_thread(loop)]
        others = [loop for loop in loops if not is_thread(loop)]
        elements = (get_elements(each.body) for each in (function, around.after[variable]))
        tried: list[tuple[Any, bool]] = []
        for (buffer, old), (_, new) in zip(*elements, strict=True):
            for index, smaller in zip(old, new, strict=True):
                if not buffer.scope().startswith("shared") or structural_equal(index, smaller):
                    continue
                # Where it begins now: TVM mostly subtracts just that from an index.
                is_moved = isinstance(smaller, Sub) and structural_equal(smaller.a, index)
                begin = smaller.b if is_moved else index - smaller
                varies = next((it for known, it in tried if structural_equal(begin, known)), None)
                if varies is None:
                    varies = varies_along(begin, threads, others)
                    tried.append((begin, varies))
                if varies:
                    found.append(str(buffer.name))
    return list(dict.fromkeys(found))


@cached_by_module(4)
def find_small_allocations(module: IRModule) -> list[str]:
    """The buffers in shared memory and registers, by name, that TVM makes too small.

    Of rows of two, ``(i + j) // 2`` for two neighbours j takes two places where i is odd, and one
    where it is even: TVM may make room for one. TVM's passes are run where what is divided begins
    at another element of a row in each iteration of a loop around all that use the buffer; of the
    iterations some are tried. Empty where it does not lower.
    """
    around, tight = _watch(module).get(_COMPACTING), _doubt(module).tight
    found = []
    accesses = list_accesses(around.after) if around is not None and tight else ()
    for access in itertools.chain.from_iterable(accesses):
        divided = tuple(at for at, part in enumerate(access.element.ranges) if divides(part.min))
        name = str(access.buffer.name)
        if name in tight and find_left_dimension(access, divided) is not None:
            found.append(name)
    return list(dict.fromkeys(found))


@cached_by_module(4)
def find_leaked_variables(module: IRModule) -> list[str]:
    """The loops, by name, whose variable TVM uses behind their end.

    Of ``(t + i) % 8`` in a loop over i whose guard lets its first iteration in alone, TVM takes
    the value in an iteration for where a buffer begins, and writes it where there is no i. Empty
    where it does not lower.
    """
    around = _watch(module).get(_COMPACTING)
    if around is None or not _doubt(module).leaks:
        return []
    found = []
    for _, function in around.after.functions_items():
        for loop in find_all(function.body, For):
            if constant(loop.extent) == 1 or is_thread(loop):
                continue
            own = loop.loop_var

            def leave_out(other: For, own: Any = own) -> Any:
                return Evaluate(0) if other.loop_var.same_as(own) else other

            if is_among(own, find_all(structural_map(function.body, (For, leave_out)), Var)):
                found.append(str(own.name))
    return list(dict.fromkeys(found))


def _may_leak(read: Quotients) -> bool:
    """Whether a guard lets one iteration of a loop in, of whose variable an index is a quotient."""
    for place, quotients in read:
        _, _, guards = place.key
        local = [it.expression for it in quotients if it.buffer.scope() != "global"]
        for loop in place.loops if local and guards else ():
            extent = constant(loop.extent)
            if (
                extent == 1
                or is_thread(loop)
                or not any(is_used(loop.loop_var, it) for it in local)
            ):
                continue
            if extent is None or is_pinned(list(guards), loop.loop_var, extent):
                return True
    return False


def _find_moved(body: Any, read: Quotients) -> list[Any]:
    """The buffers of which a loop around all uses moves what is divided, by a rest."""
    local = [
        quotient
        for _, quotients in read
        for quotient in quotients
        if quotient.buffer.scope() != "global"
    ]
    common: dict[Any, tuple[For, ...]] = {}
    for place in get_places(body) if local else ():
        if not place.is_innermost:
            continue
        for region in get_regions(place.block):
            loops = common.get(region.source, place.loops)
            pairs = zip(loops, place.loops, strict=False)
            shared = itertools.takewhile(lambda two: two[0].same_as(two[1]), pairs)
            common[region.source] = tuple(loop for loop, _ in shared)
    # The variables of loops of several iterations, that are not of threads with common memory.
    outer = {
        buffer: tuple(
            loop.loop_var
            for loop in loops
            if constant(loop.extent) != 1
            if not (buffer.scope().startswith("shared") and is_thread(loop))
        )
        for buffer, loops in common.items()
    }
    return [
        quotient.buffer
        for quotient in local
        if _moves_by_rest(quotient.expression, outer.get(quotient.buffer, ()))  # none if matched
    ]


@functools.lru_cache(maxsize=1024)
def _moves_by_rest(quotient: Any, outer: tuple[Any, ...]) -> bool:
    """Whether an outer loop's variable is in a dividend times what the divisor does not divide.

    And another one is there that is not of the outer loops: those alone make one element.
    """
    divisor, used = constant(quotient.b), undefined_vars(quotient.a)
    moving = [each for each in used if is_among(each, outer)]
    if divisor is None or not moving or len(moving) == len(used):
        return False
    analyzer = Analyzer()
    for variable in moving:
        others = [each for each in used if not each.same_as(variable)]
        own = substitute(quotient.a, {each: const(0, str(each.ty.dtype)) for each in others})
        if int(analyzer.modular_set(analyzer.simplify(own)).coeff) % divisor != 0:
            return True
    return False
