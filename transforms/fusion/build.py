"""The blocks of a fusion: the part of an iteration, the running value, and what is between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import (
    BufferLoad,
    BufferStore,
    For,
    IterVar,
    SeqStmt,
    Var,
    const,
    decl_buffer,
    if_then_else,
)
from tvm.tirx import all as all_of
from tvm_ffi import structural_map

from ..tir import bind_ranges, constant, find_all, is_among, is_used, substitute
from .nests import Axis, build_nest, make_block, make_iterator, make_own_axis, read_chain
from .reductions import Definition, Reduction, is_reduced, replace_buffer, uses_any
from .repair import EARLIER, SHARE, Repair
from .sides import Consumer, Producer, get_value


@dataclass
class Fusion:
    """A fusion under way, and what it makes.

    Attributes
    ----------
    producer, consumer, repair : what is fused, and how
    running : the variable that stands for the running value in the consumer's term
    matched : the consumer's iterators in those of the producer's block
    names : of blocks, which are taken
    previous : the running value before the iteration
    nests : new statements, in order
    buffers : new ones
    reuse : what old blocks go on as
    moved : the blocks that go, or go on elsewhere
    kept : the definitions that others read, too, and stay
    parts, placed : the names of blocks for the terms of one iteration, and of definitions
    """

    producer: Producer
    consumer: Consumer
    repair: Repair
    running: Var
    matched: dict[Any, Any]
    names: set[str]
    kept: list[SBlock]
    previous: Any = None
    nests: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)
    reuse: dict[SBlock, SBlock] = field(default_factory=dict)
    moved: list[SBlock] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)

    def name(self, base: str) -> str:
        """A block's name that is not taken yet, which it is then."""
        return take_name(self.names, base)

    def add_buffer(self, like: Any, name: str, extents: Sequence[Any] = ()) -> Any:
        """A new buffer of another one's shape, with more dimensions at its end."""
        shape = [*like.shape, *extents]
        buffer = decl_buffer(shape, like.dtype, name, scope=like.scope(), layout=None)
        self.buffers.append(buffer)
        return buffer

    def place(self, block: SBlock, point: Point, guards: Sequence[Any] = ()) -> None:
        """Add a block under copies of the loops that it needs, where `guards` hold."""
        chain = self.producer.chain
        stepped = [loop.loop_var for loop in (*self.producer.outs, *self.producer.inner)]
        rows = [it for it in chain.get_conditions() if not uses_any(it, stepped)]
        self.nests.append(build_nest(block, point.axes, chain.loops, [*rows, *guards]))

    @property
    def values(self) -> dict[Any, Any]:
        """The consumer's iterators in loop variables."""
        chain = self.producer.chain
        return {item: get_value(value, chain) for item, value in self.matched.items()}


@dataclass
class Point:
    """The iterators of a new block, and what those of an old one are in them."""

    axes: list[Axis] = field(default_factory=list)
    old: dict[Any, Any] = field(default_factory=dict)
    steps: dict[Any, Any] = field(default_factory=dict)
    guards: list[Any] = field(default_factory=list)

    @property
    def iterators(self) -> list[IterVar]:
        """Of the new block."""
        return [axis.iterator for axis in self.axes]

    def add(self, item: IterVar, values: dict[Any, Any]) -> None:
        """An old iterator anew: with the value that it has, or with a loop of its own."""
        variable = Var(item.var.name, item.var.ty.dtype)
        domain = Range.from_min_extent(item.dom.min, item.dom.extent)
        fresh = IterVar(domain, variable, item.iter_type)
        self.old[item.var] = variable
        if item.var in values:
            self.axes.append(Axis(fresh, values[item.var]))
        else:
            self.axes.append(make_own_axis(fresh, str(item.var.name).removeprefix("v") or "i"))

    def follow(self, loops: list[For], kind: int) -> None:
        """An iterator for each of some loops."""
        for loop in loops:
            iterator = make_iterator(loop, kind)
            self.axes.append(Axis(iterator, loop.loop_var))
            self.steps[loop.loop_var] = iterator.var

    def mask(self, term: Any, identity: Any) -> Any:
        """A term where the loops go beyond the last one.

        A predicate over several iterators would be beyond TVM's analysis.
        """
        return if_then_else(all_of(*self.guards), term, identity) if self.guards else term

    def of(self, expression: Any) -> Any:
        """What was in old iterators, in the new ones."""
        return substitute(expression, self.old)


def find_inner(producer: Producer, reduced: Sequence[IterVar], values: dict[Any, Any]) -> list[For]:
    """The loops within an iteration that go over terms of a block that reduces over iterators."""
    used = [values[item.var] for item in reduced if item.var in values]
    return [loop for loop in producer.inner if any(is_used(loop.loop_var, it) for it in used)]


def take_name(taken: set[str], base: str) -> str:
    """A name that is not taken yet, which it is then."""
    count, name = 1, base
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    taken.add(name)
    return name


def find_guards(
    items: Sequence[IterVar], values: dict[Any, Any], loops: Sequence[For]
) -> list[Any]:
    """The conditions under which the values that loops give to iterators are within their domains,
    without those that always hold."""
    analyzer = bind_ranges(loops)
    bounds = [
        values[item.var] < item.dom.min + item.dom.extent for item in items if item.var in values
    ]
    return [bound for bound in bounds if not analyzer.can_prove(bound)]


def make_point(
    items: Sequence[IterVar],
    values: dict[Any, Any],
    producer: Producer,
    *,
    kind: int,
    has_terms: bool,
) -> Point:
    """The point of a block that works once in each iteration, on the terms of that or on none.

    `values` are those of old iterators that loops decide; iterators of a `kind` follow the
    reduction loops from the fused one outwards.
    """
    point = Point()
    for item in items:
        if not is_reduced(item):
            point.add(item, values)
    point.follow(producer.outs, kind)
    if not has_terms:
        return point
    reduced = [item for item in items if is_reduced(item)]
    guards = find_guards(reduced, values, [*producer.outs, *producer.inner])
    point.follow(find_inner(producer, reduced, values), IterVar.CommReduce)
    for item in reduced:
        if item.var in values:
            point.old[item.var] = substitute(values[item.var], point.steps)
        else:
            point.add(item, values)
    point.guards = [substitute(guard, point.steps) for guard in guards]
    return point


def know_shares(fusion: Fusion, point: Point) -> None:
    """Let a point know how much of all terms have come, where the repair asks for that."""
    if fusion.repair.reference != "extrapolated":
        return
    producer, reduction = fusion.producer, fusion.consumer.reduction
    matched = [it for it in reduction.iterators(reduced=True) if it.var in fusion.matched]
    count = math.prod(constant(item.dom.extent) or 0 for item in matched)
    inner = find_inner(producer, matched, fusion.values)
    each = math.prod(constant(loop.extent) or 0 for loop in inner)
    done: Any = 0
    for loop in producer.outs:
        done = done * loop.extent + (point.steps[loop.loop_var] - loop.min)
    for share, steps in ((SHARE, done + 1), (EARLIER, done)):
        seen = tirx.max(tirx.min(steps * each, count), 1)
        point.old[share] = const(float(count), "float32") / seen.astype("float32")


def add_part(
    fusion: Fusion, reduction: Reduction, values: dict[Any, Any], term: Any, name: str
) -> Any:
    """Reduce the terms of one iteration to a buffer of their own; returns the buffer."""
    producer = fusion.producer
    extents = [loop.extent for loop in producer.outs]
    part = fusion.add_buffer(reduction.buffer, f"{reduction.buffer.name}_tile", extents)
    items = reduction.block.iter_vars
    point = make_point(items, values, producer, kind=IterVar.DataPar, has_terms=True)
    know_shares(fusion, point)
    indices = [point.of(index) for index in reduction.indices]
    indices += [point.steps[loop.loop_var] for loop in producer.outs]
    before = BufferLoad(part, indices)
    value = point.mask(point.of(term), reduction.identity)
    body = BufferStore(part, reduction.combine(before, value), indices)
    init = BufferStore(part, reduction.identity, indices)
    name = fusion.name(name)
    fusion.parts.append(name)
    fusion.place(make_block(name, point.iterators, body, init), point)
    return part


def add_producer(fusion: Fusion) -> None:
    """Have the producer keep its value of before, and find the part of an iteration first."""
    producer, reduction = fusion.producer, fusion.producer.reduction
    values, items = producer.chain.values, reduction.block.iter_vars
    part, has_terms = None, not producer.inner
    if producer.inner:
        name = f"{reduction.name}_tile"
        part = add_part(fusion, reduction, values, reduction.term, name)
    point = make_point(items, values, producer, kind=IterVar.CommReduce, has_terms=has_terms)
    indices = [point.of(index) for index in reduction.indices]
    steps = [point.steps[loop.loop_var] for loop in producer.outs]
    if part is None:
        value = point.mask(point.of(reduction.term), reduction.identity)
    else:
        value = BufferLoad(part, [*indices, *steps])
    fusion.previous = fusion.add_buffer(producer.buffer, f"{producer.buffer.name}_previous")
    now = BufferLoad(producer.buffer, indices)
    body = SeqStmt(
        [
            BufferStore(fusion.previous, now, indices),
            BufferStore(producer.buffer, reduction.combine(now, value), indices),
        ]
    )
    init = BufferStore(producer.buffer, reduction.identity, indices)
    block = make_block(reduction.name, point.iterators, body, init, like=reduction.block)
    fusion.place(block, point)
    fusion.reuse[reduction.block] = block


def add_definitions(fusion: Fusion, under: Sequence[Any]) -> Any:
    """Compute under the loop what the consumer reads of the running value; returns its term then.

    What nobody else reads moves there. Of the rest copies are made, or those of an earlier fusion
    taken, which are among the statements `under` the loop.
    """
    term = fusion.consumer.reduction.term
    uses = [(term, fusion.values)]
    for definition in reversed(fusion.consumer.definitions):
        uses.append((definition.value, _find_values(definition, uses)))
    made: dict[Any, Any] = {}
    pairs = zip(fusion.consumer.definitions, reversed(uses[1:]), strict=True)
    for definition, (_, values) in pairs:
        value = _replace_buffers(refer(fusion, definition.value), made)
        made[definition.buffer] = _add_definition(fusion, definition, value, values, under)
    return _replace_buffers(refer(fusion, term), made)


def _replace_buffers(expression: Any, buffers: dict[Any, Any]) -> Any:
    for old, new in buffers.items():
        expression = replace_buffer(expression, old, new)
    return expression


def _find_values(definition: Definition, uses: list[tuple[Any, dict[Any, Any]]]) -> dict[Any, Any]:
    """The values of a definition's iterators where it is read, of those that loops decide."""
    for expression, values in uses:
        for load in find_all(expression, TensorLoad):
            if load.source.same_as(definition.buffer):
                pairs = zip(definition.iterators, load.indices, strict=True)
                return {item: values[index] for item, index in pairs if index in values}
    return {}


def _add_definition(
    fusion: Fusion,
    definition: Definition,
    value: Any,
    values: dict[Any, Any],
    under: Sequence[Any],
) -> Any:
    """A definition under the loop, by an expression; returns the buffer that it computes there."""
    point = Point()
    for item in definition.block.iter_vars:
        point.add(item, values)
    indices, value = [point.of(index) for index in definition.iterators], point.of(value)
    is_kept = is_among(definition.block, fusion.kept)
    if not is_kept:
        fusion.moved.append(definition.block)
    found = _find_alike(point, indices, value, under)
    if found is not None:
        fusion.placed.append(str(found.name_hint))
        return found.body.buffer
    name, buffer = str(definition.block.name_hint), definition.buffer
    if is_kept:
        name = fusion.name(f"{name}_running")
        buffer = fusion.add_buffer(buffer, f"{buffer.name}_running")
    store = BufferStore(buffer, value, indices)
    block = make_block(name, point.iterators, store, like=definition.block)
    loops = [*fusion.producer.outs, *fusion.producer.inner]
    reduced = [it for it in definition.block.iter_vars if _is_stepped(values.get(it.var), loops)]
    fusion.place(block, point, find_guards(reduced, values, loops))
    fusion.placed.append(name)
    if not is_kept:
        fusion.reuse[definition.block] = block
    return buffer


def _is_stepped(value: Any, loops: Sequence[For]) -> bool:
    return value is not None and any(is_used(loop.loop_var, value) for loop in loops)


def _find_alike(
    point: Point, indices: list[Any], value: Any, under: Sequence[Any]
) -> SBlock | None:
    """A block under the loop that computes the same expression; None without one."""
    for statement in under:
        chain = read_chain(statement)
        if chain is None or not isinstance(chain.block.body, BufferStore):
            continue
        store, items = chain.block.body, chain.block.iter_vars
        if len(items) != len(point.iterators) or chain.block.init is not None:
            continue
        if list(map(str, store.indices)) != [str(item.var) for item in items]:
            continue
        names = dict(zip([item.var for item in items], indices, strict=True))
        if tvm_ffi.structural_equal(substitute(store.value, names), value):
            return chain.block
    return None


def refer(fusion: Fusion, expression: Any) -> Any:
    """An expression with what stands for the running value in the place of each load of it."""
    buffer = fusion.producer.buffer

    def replace_load(load: TensorLoad) -> Any:
        return fusion.repair.refer(load) if load.source.same_as(buffer) else load

    return structural_map(expression, (TensorLoad, replace_load))
