"""The loads and stores of a program, with what stands around them: what threads exchange by them,
and how far the integers among the arguments may reach that are used as indices.
"""

from __future__ import annotations

import bisect
import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir import TensorLoad
from tvm.sym import Analyzer, IntervalSet
from tvm.tirx import BufferStore, FloatImm, For, IntImm, Var, While
from tvm_ffi import structural_equal, structural_map

from tirstep.transforms.tir import (
    bind_ranges,
    constant,
    find_all,
    find_choices,
    get_axis,
    is_used,
    substitute,
)

from ..device import is_scalar
from .conditions import COMPARISONS

LARGEST = 1 << 20
Comparison = tuple[Any, tuple[Any, ...], bool, bool]
"""A comparison of loaded with other values: the loaded value, the bounds of the other one (or its
single value), whether it is an ordering, and whether it is negated."""


@dataclass(frozen=True)
class Access:
    """A load or a store, or the extent of a loop as its one index.

    Attributes
    ----------
    buffer : None for a loop
    indices : in loop variables and what is loaded
    loops : around it, from the outside
    conditions : that decide over it
    is_update : a store of what is computed of the element itself
    """

    buffer: Any
    indices: tuple[Any, ...]
    is_store: bool
    loops: tuple[For, ...]
    conditions: tuple[Any, ...]
    is_update: bool = False


def find_accesses(body: Any) -> list[Access]:
    """All accesses of a program with blocks or without, in the order of its text."""
    return list(_visit(body, (), {}, ()))


def _visit(
    node: Any, loops: tuple[For, ...], bound: dict[Any, Any], conditions: tuple[Any, ...]
) -> Iterator[Access]:
    """The accesses; `bound` gets the values of variables, and those of scalars by `(buffer,)`."""

    def make(
        buffer: Any, indices: Any, is_store: bool, around: Any, update: bool = False
    ) -> Access:
        inlined = tuple(_inline(index, bound) for index in indices)
        return Access(buffer, inlined, is_store, loops, around, update)

    def load(expression: Any) -> Iterator[Access]:
        choices = (_inline(choice, bound) for choice, *_ in find_choices(expression))
        around = (*conditions, *choices)
        for found in find_all(expression, TensorLoad):
            yield make(found.source, found.indices, False, around)

    kind = type(node).__name__
    if kind == "SeqStmt":
        for statement in node.seq:
            yield from _visit(statement, loops, bound, conditions)
    elif kind == "For":
        yield make(None, (node.extent,), False, conditions)
        yield from _visit(node.body, (*loops, node), bound, conditions)
    elif kind == "SBlockRealize":
        for it, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            bound[it.var] = _inline(value, bound)
        for part in (node.block.init, node.block.body):
            if part is not None:
                yield from _visit(part, loops, bound, conditions)
    elif kind == "Bind":
        bound[node.var] = _inline(node.value, bound)
        yield from load(node.value)
    elif kind == "IfThenElse":
        yield from load(node.condition)
        for case in (node.then_case, node.else_case):
            if case is not None:
                decided = (*conditions, _inline(node.condition, bound))
                yield from _visit(case, loops, bound, decided)
    elif kind == "BufferStore":
        for part in (node.value, *node.indices):
            yield from load(part)
        own = [it for it in find_all(node.value, TensorLoad) if node.buffer.same_as(it.source)]
        is_update = any(structural_equal(it.indices, node.indices) for it in own)
        yield make(node.buffer, node.indices, True, conditions, is_update)
        if str(node.buffer.scope()) == "local" and all(
            constant(it) == 1 for it in node.buffer.shape
        ):
            # A scalar, such as ``p: T.int32 = at[i]``; of one that changes nothing is known.
            key = (node.buffer,)
            bound[key] = None if key in bound else _inline(node.value, bound)
    elif hasattr(node, "body"):
        yield from _visit(node.body, loops, bound, conditions)


def _inline(expression: Any, bound: dict[Any, Any]) -> Any:
    """An expression with the values of variables and of scalars in their places."""

    def load(node: Any) -> Any:
        value = bound.get((node.source,))
        return node if value is None else value

    if find_all(expression, TensorLoad):
        expression = structural_map(expression, (TensorLoad, load))
    return substitute(expression, bound)


def find_exchange(body: Any) -> str | None:
    """The name of a shared buffer in which a thread finds what another one stored; None of none.

    A program with blocks says what is computed whatever order its threads come in: what one stage
    stores, and another one loads, stands in loops of its own. One loop over threads in which both
    stand is a GPU's program, where TVM puts a barrier between the two.
    """
    shared = [
        access
        for access in find_accesses(body)
        if access.buffer is not None and str(access.buffer.scope()).startswith("shared")
    ]
    for load in shared:
        met = []
        for store in shared:
            if not store.is_store or load.is_store or not store.buffer.same_as(load.buffer):
                continue
            pairs = zip(store.loops, load.loops, strict=False)
            common = [one for one, other in pairs if one.same_as(other)]
            # In one loop over threads, each of which stores elsewhere.
            threads = [loop for loop in common if "threadIdx" in (get_axis(loop) or "")]
            if any(is_used(loop.loop_var, index) for loop in threads for index in store.indices):
                met.append((store, common))
        if met and not any(_covers(store, load, common) for store, common in met):
            return str(load.buffer.name)
    return None


def _covers(store: Access, load: Access, common: list[For]) -> bool:
    """Whether each thread loads, in one iteration of the common loops, what it has stored there."""
    analyzer = bind_ranges(common)

    def reach(access: Access, index: Any) -> Any:
        own = {
            loop.loop_var: IntervalSet(loop.min, loop.min + loop.extent - 1)
            for loop in access.loops[len(common) :]
        }
        return Analyzer().int_set(index, own)

    for ours, theirs in zip(store.indices, load.indices, strict=True):
        stored, loaded = reach(store, ours), reach(load, theirs)
        if not analyzer.can_prove(loaded.min_value >= stored.min_value):
            return False
        if not analyzer.can_prove(loaded.max_value <= stored.max_value):
            return False
    return True


@dataclass(frozen=True)
class IndexUse:
    """How a program uses the integers of an argument that decide over what it loads or runs.

    Attributes
    ----------
    low, high : the range in which every index stays within its buffer, as far as TVM's analyzer
        tells, or else that of what it is compared with; `high` is None where nothing tells
    is_bounded : an index tells
    asked : the values that conditions compare them with, and their neighbours, of which some may
        leave a buffer
    is_rising : one element and the next are the ends of a range
    is_distinct : where a store goes, which no other store should go to
    is_count : what a loop counts up to depends on it
    """

    low: int = 0
    high: int | None = None
    is_bounded: bool = False
    asked: tuple[int, ...] = ()
    is_rising: bool = False
    is_distinct: bool = False
    is_count: bool = False


def find_index_uses(function: Any) -> dict[str, IndexUse]:
    """The use of each integer argument that an index, a loop's end, or a condition on a loop's
    variable depends on, by name; through variables, and through buffers of integers.

    What is computed of several arguments is bounded for each as if the others were 0.
    """
    bound: dict[Any, Any] = {}
    accesses = [*_visit(function.body, (), bound, ())]
    parameters = [it for it in function.params if _get_dtype(it).startswith(("int", "uint"))]
    flows = {it: {it} for it in parameters}

    def find_met(expression: Any) -> set[Any]:
        inlined = _inline(expression, bound)
        loads = find_all(inlined, TensorLoad)
        return {load.source for load in loads}.union(find_all(inlined, Var))

    stores = find_all(function.body, BufferStore)
    met = [(it.buffer, find_met(it.value)) for it in stores if "int" in str(it.buffer.dtype)]
    before = -1
    while before != (before := sum(map(len, flows.values()))):
        for buffer, loaded in met:
            flows[buffer] = set().union(*(flows.get(it, ()) for it in {buffer, *loaded}))
    loops, whiles = (find_all(function.body, kind) for kind in (For, While))
    deciding = [end for loop in loops for end in (loop.min, loop.extent)]
    deciding += [loop.condition for loop in whiles]
    deciding += [
        index for access in accesses if access.buffer is not None for index in access.indices
    ]
    for loop in loops:  # where its end depends on data, its last iteration stands for all
        last = _inline(loop.min + loop.extent - 1, bound)
        if find_all(last, TensorLoad):
            bound[loop.loop_var] = last
    compared = [*_find_comparisons(function.body, bound)]
    scalars = {it for it in parameters if is_scalar(it)}
    deciding += [it for it, _, _, other in compared if other or scalars & set(find_all(it, Var))]
    used = set().union(*(flows.get(it, ()) for each in deciding for it in find_met(each)))
    found: dict[str, IndexUse] = {}
    for parameter in (it for it in parameters if it in used):
        high, is_distinct, is_count = None, False, False
        own = (it for it in find_all(function.body, TensorLoad) if parameter.same_as(it.source))
        places = [_inline(load, bound).indices for load in own]
        is_rising = any(
            [constant(Analyzer().simplify(it)) for it in map(operator.sub, last, first)]
            == [*[0] * (len(first) - 1), 1]
            for first, last in itertools.permutations(places, 2)
        )
        for access in accesses:
            sizes = [None] if access.buffer is None else map(constant, access.buffer.shape)
            indices = [_inline(index, bound) for index in access.indices]
            for index, size in zip(indices, sizes, strict=True):
                if _stands_in(parameter, index):
                    is_distinct |= access.is_store and not access.is_update
                    is_count |= access.buffer is None
                    around = access.loops
                    most = None if size is None else _find_most(parameter, index, size, around)
                    high = min((it for it in (high, most) if it is not None), default=None)
        asked: set[int] = set()
        is_bounded = high is not None
        for side, ends, is_order, other in compared:
            if _stands_in(parameter, side) and "int" in str(side.ty):
                steps = (-1, 0, 1) if is_order else (0,)
                asked |= {end + apart for end in ends for apart in steps}
                if (other or is_scalar(parameter)) and not is_bounded:
                    high = max(high or 0, max(ends) + 1)
        least = 0 if _get_dtype(parameter).startswith("u") else -LARGEST
        fit = [value for value in sorted(asked) if least <= value <= LARGEST and not is_rising]
        is_distinct &= not is_rising
        use = IndexUse(0, high, is_bounded, tuple(fit), is_rising, is_distinct, is_count)
        found[str(parameter.name)] = use
    return found


def find_compared(body: Any) -> dict[str, set[float]]:
    """The constants with which the elements of each buffer are compared, by its name."""
    found: dict[str, set[float]] = {}
    bound: dict[Any, Any] = {}
    list(_visit(body, (), bound, ()))
    for side, ends, _, other in _find_comparisons(body, bound):
        for load in () if other else find_all(side, TensorLoad):
            found.setdefault(str(load.source.name), set()).update(ends)
    return found


def find_factors(body: Any) -> set[str]:
    """The names of the buffers whose elements, or sums of them, are multiplied by what is loaded,
    which may be 0.
    """
    found: set[str] = set()
    bound: dict[Any, Any] = {}
    list(_visit(body, (), bound, ()))
    for node in find_all(body, tvm.tirx.Mul):
        sides = [_inline(side, bound) for side in (node.a, node.b)]
        terms = [side for side, other in (sides, sides[::-1]) if find_all(other, TensorLoad)]
        while terms:
            term = terms.pop()
            if isinstance(term, TensorLoad):
                found.add(str(term.source.name))
            for part in ("value", "a", "b"):
                terms += [getattr(term, part)] if hasattr(term, part) else []
    return found


def _find_comparisons(body: Any, bound: dict[Any, Any]) -> Iterator[Comparison]:
    analyzer = bind_ranges(find_all(body, For))
    for kind in (*COMPARISONS, "Max", "Min"):
        for node in find_all(body, getattr(tvm.tirx, kind)):
            sides = [_inline(side, bound) for side in (node.a, node.b)]
            for side, other in (sides, sides[::-1]):
                if find_all(other, TensorLoad) or not find_all(side, Var):
                    continue  # the regions of blocks have extrema of variables as well
                is_order = kind not in ("EQ", "NE")
                if isinstance(other, (IntImm, FloatImm)):
                    yield side, (other.value,), is_order, False
                elif kind in COMPARISONS and "int" in str(other.ty):
                    range_of = analyzer.const_int_bound(other)
                    if abs(range_of.min_value) < LARGEST > abs(range_of.max_value):
                        yield side, (range_of.min_value, range_of.max_value), is_order, True


def _find_most(parameter: Any, index: Any, size: int, loops: Sequence[For]) -> int | None:
    """The most that a parameter may be for an index to stay below an extent, where all else that is
    loaded is 0; None where nothing bounds it, or is known of that.
    """
    value = Var("value", _get_dtype(parameter))

    def load(node: Any) -> Any:
        is_own = parameter.same_as(node.source)
        return value if is_own else tvm.tirx.const(0, str(node.source.dtype))

    own = substitute(index, {parameter: value}) if is_scalar(parameter) else index
    plain = structural_map(own, (TensorLoad, load))

    def reach(most: int) -> int:
        analyzer = bind_ranges(loops)
        analyzer.bind(value, tvm.ir.Range(0, most + 1))
        return int(analyzer.const_int_bound(plain).max_value)

    try:
        plain = bind_ranges(loops).simplify(plain)
        most = bisect.bisect_left(range(1, LARGEST + 1), size, key=reach)
        return most if most < LARGEST and (most > 0 or reach(0) < size) else None
    except RuntimeError:  # TVM's analyzer divides by it, and it may be 0
        return None


def _get_dtype(parameter: Any) -> str:
    return str(parameter.ty if is_scalar(parameter) else parameter.dtype)


def _stands_in(parameter: Any, expression: Any) -> bool:
    if is_scalar(parameter):
        return any(parameter.same_as(variable) for variable in find_all(expression, Var))
    return any(parameter.same_as(load.source) for load in find_all(expression, TensorLoad))
