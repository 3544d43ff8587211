"""Accesses: which elements each thread of a kernel touches, block by block.

A kernel's loops on one thread axis have the same value in a thread, so each axis is one variable
here. What the blocks of a kernel touch is enumerated with NumPy, at the values of those variables
that matter for it. Where there are too many, some GPU blocks and threads stand for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm.ir import Call, Range, TensorLoad
from tvm.tirx import GE, LT, BufferStore, Evaluate, For, IfThenElse, IterVar, Not, Select, Var
from tvm.tirx.analysis import undefined_vars

from tirstep.transforms.tir import (
    Place,
    constant,
    find_all,
    get_axis,
    get_elements,
    get_regions,
    is_among,
    is_choice,
    substitute,
)

from .devices.simulator.operators import BINARY

Array = np.ndarray[Any, Any]
LIMIT = 1 << 18
"""Points of one enumeration: what has more is thinned out, or left alone."""
LONGEST = 1 << 24
"""Iterations of a loop that are enumerated one by one: one with more is undecided, or thinned."""
LEVELS = 4
"""How far a `Grid` may be thinned out."""
GPU_AXES = ("blockIdx", "threadIdx")
_SIZES = (45, 38, 51, 42, 35, 57)  # of open sizes: neither powers of two nor equal


class UndecidedError(Exception):
    """What only a run of the module decides: an index that depends on data, or too many points."""


@dataclass(frozen=True)
class BlockAccess:
    """What a block writes or reads of a buffer, element by element, in loop variables.

    Attributes
    ----------
    ranges : one for each dimension
    is_conditional : whether a condition in the block's body that depends on data decides over it:
        it may be no access
    """

    place: Place
    buffer: Any
    ranges: tuple[Range, ...]
    is_conditional: bool

    @property
    def scope(self) -> str:
        """The memory that the buffer lies in."""
        return str(self.buffer.scope())

    def has_buffer_of(self, other: BlockAccess) -> bool:
        """Whether both access one buffer."""
        return bool(self.buffer.same_as(other.buffer))

    def has_block_of(self, other: BlockAccess) -> bool:
        """Whether both stand in one block."""
        return bool(self.place.block.same_as(other.place.block))


@dataclass
class Grid:
    """The values of variables that are enumerated, each along a dimension of its own.

    Attributes
    ----------
    thinned : 0 for all values of all variables; 1 for some GPU blocks, and some iterations of a
        reader; 2 for some threads, too; 3 for some iterations of loops around writer and reader
    common : those loops' variables
    fixed : the one value of variables that are not enumerated
    sizes : what stands for open sizes
    """

    thinned: int = 0
    common: frozenset[Any] = frozenset()
    fixed: dict[Any, int] = field(default_factory=dict)
    sizes: dict[Any, int] = field(default_factory=dict)
    domains: dict[Any, Array] = field(default_factory=dict)

    def fresh(self, fixed: dict[Any, int] | None = None) -> Grid:
        """Another grid that is thinned out as this one; not at all with some values `fixed`."""
        if fixed is None:
            return Grid(self.thinned, self.common, sizes=self.sizes)
        return Grid(0, fixed=fixed, sizes=self.sizes)

    def require_small(self, keys: Iterable[Any]) -> None:
        """Raise `UndecidedError` where the variables have more values together than `LIMIT`."""
        if math.prod(len(self.domains[key]) for key in keys) > LIMIT << 3 * bool(self.fixed):
            raise UndecidedError

    def add(
        self, loop: For, key: Any, depth: int = LEVELS, keys: Mapping[Any, Any] | None = None
    ) -> None:
        """Take up a loop, under its variable or its axis; from a depth on, thinned out.

        Where other loops decide its bounds, it has all values that it has for any of theirs. `keys`
        are what these were taken up under, by their variables.
        """
        if key in self.domains:
            return
        if key in self.fixed:
            self.domains[key] = np.array([self.fixed[key]])
            return
        first, extent = self._evaluate_bounds(loop, keys or {})
        depth = min(depth, 3) if key in self.common else depth
        if self.thinned >= depth and extent > 8:
            last = extent - 1
            chosen = {0, 1, last} if self.thinned == 3 else {0, 1, 2, last // 2, last - 1, last}
            chosen |= {at for at in (31, 32) if at < last and self.thinned < 3}
            self.domains[key] = first + np.array(sorted(chosen))
        elif extent > LONGEST:
            raise UndecidedError
        else:
            self.domains[key] = np.arange(first, first + max(extent, 0))

    def _evaluate_bounds(self, loop: For, keys: Mapping[Any, Any]) -> tuple[int, int]:
        deciding = [var for var in _find_variables(loop) if keys.get(var) in self.domains]
        order = list(dict.fromkeys(keys[var] for var in deciding))
        self.require_small(order)
        along = self.spread(order)
        values = {var: along[keys[var]] for var in deciding}
        first, extent = (
            np.asarray(self.evaluate(part, values)) for part in (loop.min, loop.extent)
        )
        if not first.size or not extent.size:
            return 0, 0
        begin = int(first.min())
        return begin, int((first + extent).max()) - begin

    def spread(self, keys: Sequence[Any]) -> dict[Any, Array]:
        """Each variable's values along a dimension of their own."""
        return {
            key: self.domains[key].reshape([-1 if place == at else 1 for at in range(len(keys))])
            for place, key in enumerate(keys)
        }

    def evaluate(self, expression: Any, values: dict[Any, Any]) -> Any:
        """An integer expression at the values of its variables."""
        kind = type(expression).__name__
        if isinstance(expression, Var):
            return values[expression] if expression in values else self._size(expression)
        if kind in BINARY:
            left, right = (self.evaluate(part, values) for part in (expression.a, expression.b))
            if kind in ("FloorDiv", "FloorMod", "Div", "Mod") and not np.all(right):
                raise UndecidedError
            return BINARY[kind](left, right)
        if kind in ("And", "Or"):
            left, right = (self.evaluate(part, values) for part in (expression.a, expression.b))
            return np.logical_and(left, right) if kind == "And" else np.logical_or(left, right)
        if kind == "Not":
            return np.logical_not(self.evaluate(expression.a, values))
        if kind == "Cast":
            return self.evaluate(expression.value, values)
        if constant(expression) is None:
            raise UndecidedError
        return constant(expression)

    def _size(self, variable: Any) -> int:
        """The value that an open size is given."""
        return self.sizes.setdefault(variable, _SIZES[len(self.sizes) % len(_SIZES)])


def find_accesses(place: Place) -> tuple[list[BlockAccess], list[BlockAccess]]:
    """What a block writes and what it reads; nothing for a block that holds others."""
    block, body = place.block, place.block.body
    elements = get_elements(body)
    stores = len(find_all(body, BufferStore))
    branch = bool(find_all(body, IfThenElse))
    listed = []
    for at, (buffer, indices) in enumerate(elements):
        conditions = _find_conditions(body, indices) if at >= stores else []
        known = [substitute(known, place.values) for known in conditions if _is_known(known)]
        listed.append(
            BlockAccess(
                place._replace(guards=(*place.guards, *known)) if known else place,
                buffer,
                tuple(
                    Range.from_min_extent(substitute(index, place.values), 1) for index in indices
                ),
                branch or len(known) < len(conditions),
            )
        )
    exact = not find_all(body, Evaluate) and not find_all(body, For)
    if exact and not any(_depends_on_data(access) for access in listed):
        return listed[:stores], listed[stores:]
    parts = [part for choice in _find_choices(body) for part in choice]
    may_skip = branch or any(find_all(part, TensorLoad) for part in parts)
    regions = [
        BlockAccess(
            place,
            region.source,
            tuple(substitute(part, place.values) for part in region.region),
            may_skip,
        )
        for region in get_regions(block)
    ]
    reads = len(block.reads)
    return regions[reads:], regions[:reads]


def _depends_on_data(access: BlockAccess) -> bool:
    return any(find_all(part.min, TensorLoad) for part in access.ranges)


def _find_choices(body: Any) -> list[tuple[Any, Any, Any]]:
    """The condition and both arms of each ``T.if_then_else`` and Select."""
    choices = [tuple(call.args[:3]) for call in find_all(body, Call) if is_choice(call)]
    selects = find_all(body, Select)
    return choices + [(node.condition, node.true_value, node.false_value) for node in selects]


def _find_conditions(body: Any, indices: Any) -> list[Any]:
    """What must hold where the load with these indices is done, in arms of one choice or more."""
    return [
        Not(condition) if is_second else condition
        for condition, *arms in _find_choices(body)
        for is_second, arm in enumerate(arms)
        if is_among(indices, [load.indices for load in find_all(arm, TensorLoad)])
    ]


def _is_known(condition: Any) -> bool:
    """Whether the loops alone decide a condition."""
    return not find_all(condition, TensorLoad) and not find_all(condition, Call)


def find_reduced_axes(place: Place) -> set[str]:
    """The thread axes over which a block reduces: TVM lets its threads add up together."""
    reduced = [
        place.values[iterator.var]
        for iterator in place.block.iter_vars
        if iterator.iter_type == IterVar.CommReduce
    ]
    used = {var for value in reduced for var in undefined_vars(value)}
    return {str(get_axis(loop)) for loop in place.find_bound("threadIdx") if loop.loop_var in used}


def find_key(loop: For) -> Any:
    """What stands for a loop: its axis if it is bound, otherwise its variable."""
    return get_axis(loop) or loop.loop_var


def find_used_loops(place: Place, expressions: Iterable[Any]) -> list[For]:
    """The loops around a block whose variables stand in expressions."""
    used = {var for expression in expressions for var in undefined_vars(expression)}
    return [loop for loop in place.loops if loop.loop_var in used]


def find_bounding_loops(place: Place, loops: Sequence[For]) -> tuple[list[For], list[Any]]:
    """Some loops around a block with those that decide their bounds, outermost first; and, of those
    whose bounds others decide, the conditions that their values are within.
    """
    known = list(loops)
    while True:
        parts = [part for loop in known for part in (loop.loop_var, loop.min, loop.extent)]
        grown = find_used_loops(place, parts)
        if len(grown) == len(known):
            break
        known = grown
    decided = [
        loop
        for loop in known
        if _find_variables(loop) and find_used_loops(place, [loop.min, loop.extent])
    ]
    ends = [LT(loop.loop_var, loop.min + loop.extent) for loop in decided]
    return known, [*ends, *(GE(loop.loop_var, loop.min) for loop in decided)]


def _find_variables(loop: For) -> list[Any]:
    """The variables in a loop's bounds; mostly none."""
    bounds = [part for part in (loop.min, loop.extent) if constant(part) is None]
    return [var for part in bounds for var in undefined_vars(part)]


@dataclass(frozen=True)
class Points:
    """Elements of a buffer that a block touches, each with the coordinates of the thread.

    Attributes
    ----------
    elements : row by row in the buffer's own shape, flat
    owners : one array for each coordinate
    """

    elements: Array
    owners: dict[Any, Array]

    def of_first(self, axes: Iterable[str]) -> Points:
        """What the first thread along some axes touches."""
        kept = np.ones(len(self.elements), dtype=bool)
        for axis in axes:
            if axis in self.owners:
                kept &= self.owners[axis] == 0
        return self.keep(kept)

    def keep(self, kept: Array) -> Points:
        """Some of the points."""
        owners = {key: column[kept] for key, column in self.owners.items()}
        return Points(self.elements[kept], owners)

    def find_in(self, other: Points, keys: Sequence[Any]) -> Array:
        """Which points touch an element that others touch at the same coordinates."""
        own, others = self.elements, other.elements
        for key in keys:
            extent = 1 + max(int(points.owners[key].max(initial=0)) for points in (self, other))
            own, others = own * extent + self.owners[key], others * extent + other.owners[key]
        return np.isin(own, others)


def enumerate_access(
    grid: Grid,
    access: BlockAccess,
    coordinates: Sequence[tuple[Any, For]],
    *,
    is_read: bool = False,
    may_thin: bool = False,
) -> Points:
    """The elements of an access, with the coordinates (thread axes and loops) that it has there.

    `may_thin` where some of the elements will do.
    Raises `UndecidedError` for an index that depends on data, and beyond `LIMIT`.
    """
    place = access.place
    # Sums over threads are stored by those whose guards on the reduction hold nothing back.
    reduced = set() if is_read else find_reduced_axes(place)
    guards = [
        guard
        for guard in place.find_real_guards()
        if not any(get_axis(loop) in reduced for loop in find_used_loops(place, [guard]))
    ]
    starts = [part.min for part in access.ranges]
    used, bounds = find_bounding_loops(place, find_used_loops(place, [*starts, *guards]))
    keys_of = {loop.loop_var: find_key(loop) for loop in place.loops}
    loops: dict[Any, For] = {}
    for loop in used:
        loops.setdefault(find_key(loop), loop)
    loops |= dict(coordinates)
    depths = {key: 1 if str(key).startswith("blockIdx") else 2 for key, _ in coordinates}
    for key, loop in loops.items():
        grid.add(loop, key, depths.get(key, 1 if may_thin else LEVELS), keys_of)
    widths = [int(grid.evaluate(part.extent, {})) for part in access.ranges]
    keys = list(loops)
    for at, width in enumerate(widths):
        if width > 1:
            keys.append(("within", at))
            grid.domains["within", at] = np.arange(width)
    grid.require_small(keys)
    return _gather(grid, access, [*guards, *bounds], keys, [key for key, _ in coordinates])


def _gather(
    grid: Grid, access: BlockAccess, guards: list[Any], keys: list[Any], coordinates: list[Any]
) -> Points:
    along = grid.spread(keys)
    values = {
        loop.loop_var: along[find_key(loop)]
        for loop in access.place.loops
        if find_key(loop) in along
    }
    shape = [int(grid.evaluate(size, {})) for size in access.buffer.shape]
    counts = tuple(len(grid.domains[key]) for key in keys)
    kept, flat = np.ones(counts, dtype=bool), np.zeros(counts, dtype=np.int64)
    for guard in guards:
        kept &= np.asarray(grid.evaluate(guard, values), dtype=bool)
    for at, (part, size) in enumerate(zip(access.ranges, shape, strict=True)):
        index = grid.evaluate(part.min, values) + along.get(("within", at), 0)
        kept &= np.asarray((index >= 0) & (index < size))
        flat = flat * size + index
    owners = {key: np.broadcast_to(along[key], counts)[kept] for key in coordinates}
    return Points(flat[kept], owners)


def name_element(access: BlockAccess, grid: Grid, flat: int) -> str:
    """An element as ``C[0, 1]``."""
    shape = [int(grid.evaluate(size, {})) for size in access.buffer.shape]
    index = np.unravel_index(flat, shape) if shape else ()
    return f"{access.buffer.name}[{', '.join(str(int(each)) for each in index)}]"
