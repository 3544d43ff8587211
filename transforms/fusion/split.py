"""The transform that splits dependent reductions into ranges, and combines what these come to.

Partial results with running values of their own, which are combined by the factor of the rolling
update, are how decoding is spread over a GPU (T. Dao and others, Flash-Decoding, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferLoad, BufferStore, IntImm, IterVar, Var, decl_buffer
from tvm_ffi import structural_map

from ..decorators import composite
from ..errors import TransformError
from ..legality.net import inlines
from ..loops import require_constant
from ..queries import get_reduction_loops, get_sblock_name
from ..rewriting import edit_scope, get_function, get_scope, replace_scope
from ..tir import constant, find_all, get_kind, is_among, is_used
from .build import Point, take_name
from .factors import NoRepairError
from .fuse import find_kept, make_pair, refuse_repair
from .nests import (
    build_nest,
    join_statements,
    list_statements,
    make_block,
    make_own_axis,
    read_chain,
)
from .reductions import Definition, Reduction, loads_of
from .repair import Repair, find_repair
from .sides import (
    Consumer,
    Producer,
    goes_over_each_once,
    match_iterators,
    read_consumer,
    read_producer,
)


class SplitReductions(NamedTuple):
    """The blocks that a split adds, or makes of others.

    Attributes
    ----------
    parts : those that reduce each range by itself: the producer's, and then the consumers'
    elements : those that compute what the consumers read, element by element
    """

    parts: list[SBlockRV]
    elements: list[SBlockRV]


@composite
@inlines
def split_reductions(
    sch: Schedule, producer: SBlockRV, consumers: Sequence[SBlockRV], *, parts: int
) -> SplitReductions:
    """Reduce ranges of the elements by themselves, and combine what they come to.

    Each range has a value of the producer of its own, and the consumers take up its elements with
    that. Where the ranges are combined, what the consumers took up is repaired from the range's
    value to that of all, by the factor (or, of a maximum, the summand) of `fuse_reductions`: it is
    derived from the consumer's term, and tried on drawn numbers before it is used. A range of which
    nothing counts, such as one behind a sequence's end, adds nothing.

    What comes of the ranges are reductions as they were, with one more row: `fuse_reductions` fuses
    them, GPU blocks or threads take a range each, and another split cuts them once more. So are
    the blocks that combine, as which the given handles go on. What is between goes through
    intermediate buffers, whose copies (`cache_read`) may lie in another memory.

    The trace does not replay what this makes, and says so: no primitive of TVM does.

    rewrite: ``for k in n: m = max(m, x[k])`` and ``for k in n: s += exp(x[k] - m)`` ->
        ``for p in parts: for k in n / parts: m_part[p] = max(m_part[p], x[p, k])``,
        ``for p, k: s_part[p] += exp(x[p, k] - m_part[p])``, ``for p: m = max(m, m_part[p])`` and
        ``for p: s += s_part[p] * exp(m_part[p] - m)``
    consumes: the loops of all of them, and those of blocks between them
    returns: the blocks that reduce a range each, and those of what is computed element by element
    requires: a `producer` that reduces over one iterator, by a sum, product, maximum or minimum,
        and `consumers` that use its result, reduce over the same elements by a sum, maximum or
        minimum and read nothing of each other's; all of them in loops as they were written, and
        not fused yet; at least 2 `parts`, which divide the elements; a factor or summand for each
        consumer's term; without `consumers` it is `rfactor_reduction`
    """
    loop = _require_one_loop(sch, producer)
    _require_parts(sch, loop, parts)
    running = read_producer(sch, producer, loop)
    if running.previous is not None:
        raise TransformError(
            f"block '{get_sblock_name(sch, producer)}' has been fused already",
            "split the reductions first, and fuse those of the ranges",
        )
    users = [read_consumer(sch, each, running, loop) for each in consumers]
    _require_different(users)
    scope = get_scope(sch, loop).stmt
    split = _plan(scope, running, parts, users)
    order = find_all(scope, SBlock)
    for user in sorted(users, key=lambda it: order.index(it.reduction.block)):
        split.add_consumer(user)
    _require_as_written(scope, split)
    new = edit_scope(scope, split.rebuild(scope.body), split.buffers)
    replace_scope(sch, producer, new, split.reuse, who="split_reductions")
    function = get_function(sch, producer)
    blocks = [running.reduction.block, *(user.reduction.block for user in users)]
    made = ([split.parts[it] for it in blocks], split.elements)
    return SplitReductions(*([sch.get_sblock(it, function) for it in names] for names in made))


class _Element(NamedTuple):
    """A definition of ranges: the new buffer, and which dimension of the old one became two.

    Attributes
    ----------
    definition : as it was
    buffer : of the ranges
    place : the dimension over elements; None where there is none, and one over ranges came last
    reference : what stands for a running value in it (`Repair.reference`)
    """

    definition: Definition
    buffer: Any
    place: int | None
    reference: str


@dataclass
class _Split:
    """A split under way, and what it makes.

    Attributes
    ----------
    producer, count, size : what is split, into how many ranges of how many elements
    names : of blocks, which are taken
    repairs : of the consumers, by block
    steps : the iterator that a consumer reduces over, by block
    kept : the definitions that others read, too, and stay
    value : the producer's values of the ranges
    nests : what comes in the place of a block
    made : definitions of the ranges, by the buffer of before
    parts : the name of the block that reduces each range of a block
    elements : names of blocks
    """

    producer: Producer
    count: int
    size: int
    names: set[str]
    repairs: dict[SBlock, Repair]
    steps: dict[SBlock, IterVar]
    kept: list[SBlock]
    value: Any = None
    nests: dict[SBlock, list[Any]] = field(default_factory=dict)
    made: dict[Any, _Element] = field(default_factory=dict)
    buffers: list[Any] = field(default_factory=list)
    reuse: dict[SBlock, SBlock] = field(default_factory=dict)
    parts: dict[SBlock, str] = field(default_factory=dict)
    elements: list[str] = field(default_factory=list)

    def name(self, base: str) -> str:
        """A block's name that is not taken yet, which it is then."""
        return take_name(self.names, base)

    def add_buffer(self, like: Any, name: str, shape: Sequence[Any]) -> Any:
        """A new buffer of another one's type and memory."""
        buffer = decl_buffer(shape, like.dtype, name, scope=like.scope(), layout=None)
        self.buffers.append(buffer)
        return buffer

    def add_producer(self) -> None:
        """Have the producer find a value of each range, and combine these."""
        reduction = self.producer.reduction
        (item,) = reduction.iterators(reduced=True)
        self.value, part = self._reduce_ranges(
            reduction, item, len(reduction.indices), lambda at: at.point.of(reduction.term)
        )
        whole = self._combine(reduction, lambda point, mine: mine, len(reduction.indices))
        self.nests[reduction.block] = [part, whole]

    def add_consumer(self, consumer: Consumer) -> None:
        """Have a consumer take up each range with its own value, and combine these repaired."""
        reduction, block = consumer.reduction, consumer.reduction.block
        repair, item = self.repairs[block], self.steps[block]
        nests = self._add_definitions(consumer, repair, item.var)
        place = _count_row_dimensions(consumer)

        def take_up(at: _Range) -> Any:
            return self._refer(reduction.term, repair, at)

        def repaired(point: Point, mine: Any) -> Any:
            row = [point.of(index) for index in consumer.indices]
            part = [axis.iterator.var for axis in point.axes if axis.is_reduced]
            old = BufferLoad(self.value, [*row, *part])
            return repair.apply([mine], old, BufferLoad(self.producer.buffer, row))

        _, part = self._reduce_ranges(reduction, item, place, take_up)
        self.nests[block] = [*nests, part, self._combine(reduction, repaired, place)]

    def _reduce_ranges(
        self, reduction: Reduction, item: IterVar, place: int, term: Any
    ) -> tuple[Any, Any]:
        """The reduction of each range: its buffer, with the ranges at a place, and its nest."""
        rows = reduction.indices[:place]
        items = [it for it in reduction.block.iter_vars if is_among(it.var, rows)]
        others = [it for it in reduction.iterators(reduced=False) if not is_among(it, items)]
        at = self._enter([*items, item, *others], item)
        indices = [at.point.of(index) for index in reduction.indices]
        indices.insert(place, at.part)
        shape = list(reduction.buffer.shape)
        shape.insert(place, self._number(item, self.count))
        buffer = self.add_buffer(reduction.buffer, f"{reduction.buffer.name}_part", shape)
        body = reduction.combine(BufferLoad(buffer, indices), term(at))
        name = self.name(f"{reduction.name}_part")
        self.parts[reduction.block] = name
        update, init = (BufferStore(buffer, it, indices) for it in (body, reduction.identity))
        block = make_block(name, at.point.iterators, update, init, like=reduction.block)
        return buffer, build_nest(block, at.point.axes, (), ())

    def _combine(self, reduction: Reduction, change: Any, place: int) -> Any:
        """The reduction of what the ranges came to, each with a change."""
        point, buffer = Point(), self.buffers[-1]
        for item in reduction.iterators(reduced=False):
            point.add(item, {})
        (reduced,) = reduction.iterators(reduced=True)
        part = self._make_iterator(reduced, "vpart", self.count, IterVar.CommReduce)
        point.axes.append(make_own_axis(part, "part"))
        indices = [point.of(index) for index in reduction.indices]
        mine = BufferLoad(buffer, [*indices[:place], part.var, *indices[place:]])
        before = BufferLoad(reduction.buffer, indices)
        values = (reduction.combine(before, change(point, mine)), reduction.identity)
        update, init = (BufferStore(reduction.buffer, value, indices) for value in values)
        block = make_block(reduction.name, point.iterators, update, init, like=reduction.block)
        self.reuse[reduction.block] = block
        return build_nest(block, point.axes, (), ())

    def _add_definitions(self, consumer: Consumer, repair: Repair, step: Var) -> list[Any]:
        """What a consumer reads of the producer's value, for the ranges; nests of what is new."""
        places = _find_places(consumer, step)
        nests = []
        for definition in consumer.definitions:
            found, place = self.made.get(definition.buffer), places[definition.buffer]
            if found is None:
                nests.append(self._add_definition(definition, repair, place))
            elif (found.place, found.reference) != (place, repair.reference):
                raise TransformError(
                    f"block '{definition.block.name_hint}' between them would have to be another "
                    f"one for block '{consumer.reduction.name}' than for the consumers before it",
                    "inline it first",
                )
        return nests

    def _add_definition(self, definition: Definition, repair: Repair, place: int | None) -> Any:
        """A definition for the ranges."""
        old = definition.block.iter_vars
        order = {item.var: item for item in old}
        items = [order[iterator] for iterator in definition.iterators]
        at = self._enter(items, None if place is None else items[place], kind=IterVar.DataPar)
        shape = list(definition.buffer.shape)
        inserted = [self._number(items[0], number) for number in (self.count, self.size)]
        if place is None:
            shape.append(inserted[0])
        else:
            shape[place : place + 1] = inserted
        is_kept = is_among(definition.block, self.kept)
        buffer = self.add_buffer(definition.buffer, f"{definition.buffer.name}_part", shape)
        value = self._refer(definition.value, repair, at)
        self.made[definition.buffer] = _Element(definition, buffer, place, repair.reference)
        name = str(definition.block.name_hint)
        name = self.name(f"{name}_part") if is_kept else name
        iterators = at.point.iterators
        store = BufferStore(buffer, value, [item.var for item in iterators])
        block = make_block(name, iterators, store, like=definition.block)
        self.elements.append(name)
        if not is_kept:
            self.reuse[definition.block] = block
            self.nests[definition.block] = []
        return build_nest(block, at.point.axes, (), ())

    def _refer(self, expression: Any, repair: Repair, at: _Range) -> Any:
        """An expression of one range, with the producer's value there."""

        def replace(load: TensorLoad) -> Any:
            if load.source.same_as(self.producer.buffer):
                return repair.refer(BufferLoad(self.value, [*load.indices, at.part]))
            found = self.made.get(load.source)
            if found is None:
                return load
            indices = list(load.indices)
            if found.place is None:
                indices.append(at.part)
            else:
                indices[found.place : found.place + 1] = [at.part, at.step]
            return BufferLoad(found.buffer, indices)

        return at.point.of(structural_map(expression, (TensorLoad, replace)))

    def _enter(
        self, items: Sequence[IterVar], over: IterVar | None, kind: int = IterVar.CommReduce
    ) -> _Range:
        """A point in a range: `over` is the iterator over elements; None for none, and the ranges
        come last."""
        point, part, step = Point(), None, None
        for item in items:
            if over is None or not item.same_as(over):
                point.add(item, {})
                continue
            part = self._make_iterator(item, "vpart", self.count, IterVar.DataPar)
            step = self._make_iterator(item, str(item.var.name), self.size, kind)
            point.axes.append(make_own_axis(part, "part"))
            point.axes.append(make_own_axis(step, str(item.var.name).removeprefix("v") or "i"))
            point.old[item.var] = item.dom.min + part.var * self.size + step.var
        if part is None:
            part = self._make_iterator(items[0], "vpart", self.count, IterVar.DataPar)
            point.axes.append(make_own_axis(part, "part"))
        return _Range(point, part.var, None if step is None else step.var)

    def _make_iterator(self, like: IterVar, name: str, extent: int, kind: int) -> IterVar:
        domain = Range.from_min_extent(self._number(like, 0), self._number(like, extent))
        return IterVar(domain, Var(name, like.var.ty.dtype), kind)

    def _number(self, like: IterVar, value: int) -> IntImm:
        return IntImm(str(like.var.ty.dtype), value)

    def rebuild(self, body: Any) -> Any:
        """A scope's body with what comes in the place of blocks."""
        statements: list[Any] = []
        for statement in list_statements(body):
            chain = read_chain(statement)
            nests = [statement] if chain is None else self.nests.get(chain.block, [statement])
            statements += nests
        return join_statements(statements)


class _Range(NamedTuple):
    """A point in one range: new iterators, that of the range and that within it."""

    point: Point
    part: Var
    step: Any


def _plan(scope: SBlock, producer: Producer, parts: int, users: Sequence[Consumer]) -> _Split:
    """A split whose repairs have been tried, with the producer's part done."""
    (item,) = producer.reduction.iterators(reduced=True)
    repairs, steps = {}, {}
    for user in users:
        matched = match_iterators(producer, user)
        steps[user.reduction.block] = _require_one_iterator(user)
        pair = make_pair(producer, user, matched)
        try:
            repairs[user.reduction.block] = find_repair(pair, by_ranges=True)
        except NoRepairError as error:
            raise refuse_repair(pair, error, "leave them whole") from error
    split = _Split(
        producer,
        parts,
        (constant(item.dom.extent) or 0) // parts,
        {str(block.name_hint) for block in find_all(scope, SBlock)},
        repairs,
        steps,
        find_kept(scope, users),
    )
    split.add_producer()
    return split


def _require_one_loop(sch: Schedule, block: SBlockRV) -> LoopRV:
    loops = get_reduction_loops(sch, block)
    if len(loops) != 1:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has {len(loops)} reduction loops, not one",
            "split it before its loops are split, and reductions over several elements not at all",
        )
    return loops[0]


def _require_different(users: Sequence[Consumer]) -> None:
    for place, user in enumerate(users):
        if any(user.reduction.block.same_as(other.reduction.block) for other in users[:place]):
            raise TransformError(
                f"block '{user.reduction.name}' is among the consumers twice", "name each once"
            )


def _require_parts(sch: Schedule, loop: LoopRV, parts: int) -> None:
    if parts < 2:
        raise TransformError(f"parts={parts} is no number of ranges", "use 2 or more")
    require_constant(sch, loop)
    extent = constant(sch.get(loop).extent) or 0
    if extent % parts:
        raise TransformError(
            f"loop '{sch.get(loop).loop_var.name}' runs {extent} times, which parts={parts} does "
            "not divide",
            "choose a divisor, or pad the block first with pad_block",
        )
    if extent == parts:
        raise TransformError(
            f"parts={parts} leaves ranges of one element each, which would be combined alone",
            "use fewer parts",
        )


def _require_one_iterator(consumer: Consumer) -> IterVar:
    """The one iterator that a consumer reduces over, which is the producer's."""
    reduced = consumer.reduction.iterators(reduced=True)
    if len(reduced) != 1:
        raise TransformError(
            f"block '{consumer.reduction.name}' reduces over {len(reduced)} iterators, and its "
            "ranges would be of one",
            "write it so that it reduces over the producer's elements alone",
        )
    return reduced[0]


def _require_as_written(scope: SBlock, split: _Split) -> None:
    """Refuse blocks whose loops have been worked on, which they would lose."""
    statements = [read_chain(statement) for statement in list_statements(scope.body)]
    chains = [chain for chain in statements if chain is not None]
    for block in split.nests:
        chain = next((each for each in chains if each.block.same_as(block)), None)
        if (
            chain is None
            or chain.get_conditions()
            or len(chain.loops) != len(block.iter_vars)
            or not goes_over_each_once(chain.realize, chain.loops)
        ):
            raise TransformError(
                f"the loops of block '{block.name_hint}' are not as they were written",
                "split the reductions before other steps",
            )
        for loop in chain.loops:
            if get_kind(loop) != "serial":
                raise TransformError(
                    f"loop '{loop.loop_var.name}' of block '{block.name_hint}' is {get_kind(loop)}",
                    "split the reductions before other steps",
                )


def _count_row_dimensions(consumer: Consumer) -> int:
    """The dimensions of a consumer's result up to the last one of its rows."""
    indices = consumer.reduction.indices
    rows = [at for at, index in enumerate(indices) if is_among(index, consumer.indices)]
    return rows[-1] + 1 if rows else 0


def _find_places(consumer: Consumer, step: Var) -> dict[Any, int | None]:
    """The dimension of each definition's buffer over the elements; None where it has none."""
    uses: list[tuple[Any, Any]] = [(consumer.reduction.term, step)]
    places: dict[Any, int | None] = {}
    for definition in reversed(consumer.definitions):
        found = {
            _find_place(load, variable, consumer)
            for expression, variable in uses
            for load in loads_of(expression, definition.buffer)
        }
        if len(found) != 1:
            raise TransformError(
                f"'{definition.buffer.name}' is read in several ways for one term of block "
                f"'{consumer.reduction.name}'",
                "inline it first",
            )
        (place,) = found
        places[definition.buffer] = place
        uses.append((definition.value, None if place is None else definition.iterators[place]))
    return places


def _find_place(load: TensorLoad, variable: Any, consumer: Consumer) -> int | None:
    if variable is None:
        return None
    at = [place for place, index in enumerate(load.indices) if is_used(variable, index)]
    if len(at) > 1 or any(not load.indices[place].same_as(variable) for place in at):
        raise TransformError(
            f"block '{consumer.reduction.name}' reads '{load.source.name}' at "
            f"{', '.join(map(str, load.indices))}, which may lie in other ranges",
            "inline it first, or write it so that it reads its own element",
        )
    return at[0] if at else None
