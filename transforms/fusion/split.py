"""The transform that splits dependent reductions into ranges, and combines what these come to.

Partial results with running values of their own, which are combined by the factor of the rolling
update, are how decoding is spread over a GPU (T. Dao and others, Flash-Decoding, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferLoad, BufferStore, IterVar, Var, const
from tvm_ffi import structural_map

from ..loops import require_constant
from ..queries import get_reduction_loops, get_sblock_name
from ..rewriting import edit_scope, get_function, replace_scope
from ..schedule import TransformError, inlines, transform
from ..tir import constant, find_all, get_kind, is_among
from .blocks import Builder, Point, Reduction, join_statements, list_statements, read_chain
from .repair import Repair, plan_repair
from .sides import (
    Consumer,
    Producer,
    find_kept,
    goes_over_each_once,
    read_consumer,
    read_producer,
    trace_definitions,
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


@transform
@inlines
def split_reductions(
    sch: Schedule, producer: SBlockRV, consumers: Sequence[SBlockRV], *, parts: int
) -> SplitReductions:
    """Reduce ranges of the elements by themselves, and combine what they come to.

    Each range has a value of the producer of its own, and the consumers take up its elements with
    that. Where the ranges are combined, what the consumers took up is repaired from the range's
    value to that of all, by the factor of `fuse_reductions`: it is
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
        and `consumers` that use its result, sum floats over the same elements and read nothing of
        each other's; all of them in loops as they were written, and not fused yet; at least 2
        `parts`, which divide the elements; a factor for each consumer's term; without `consumers`
        it is `rfactor_reduction`
    """
    loops, name = get_reduction_loops(sch, producer), get_sblock_name(sch, producer)
    if len(loops) != 1:
        raise TransformError(
            f"block '{name}' has {len(loops)} reduction loops, not one",
            "split it before its loops are split, and reductions over several elements not at all",
        )
    (loop,) = loops
    require_constant(sch, loop)
    extent = constant(sch.get(loop).extent) or 0
    if parts < 2:
        raise TransformError(f"parts={parts} is no number of ranges", "use 2 or more")
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
    running = read_producer(sch, producer, loop)
    if running.previous is not None:
        raise TransformError(
            f"block '{name}' has been fused already",
            "split the reductions first, and fuse those of the ranges",
        )
    users = [read_consumer(sch, each, running) for each in consumers]
    blocks = [user.reduction.block for user in users]
    for user in users:
        if sum(user.reduction.block.same_as(other) for other in blocks) > 1:
            raise TransformError(
                f"block '{user.reduction.name}' is among the consumers twice", "name each once"
            )
        count = len(user.reduction.iterators(reduced=True))
        if count != 1:
            raise TransformError(
                f"block '{user.reduction.name}' reduces over {count} iterators, and its ranges "
                "would be of one",
                "write it so that it reduces over the producer's elements alone",
            )
    repairs = [plan_repair(running, user, "leave them whole", by_ranges=True)[0] for user in users]
    split = _Split(running, parts, extent // parts, find_kept(running.scope, users))
    split.add_ranges(running.reduction, len(running.reduction.indices))
    pairs, order = zip(users, repairs, strict=True), find_all(running.scope, SBlock)
    for user, repair in sorted(pairs, key=lambda it: order.index(it[0].reduction.block)):
        split.add_definitions(user, repair)
        rows = [at for at, it in enumerate(user.reduction.indices) if is_among(it, user.indices)]
        split.add_ranges(user.reduction, rows[-1] + 1 if rows else 0, repair, user.indices)
    new = edit_scope(running.scope, split.rebuild(), split.buffers)
    replace_scope(sch, producer, new, split.reuse, who="split_reductions")
    function = get_function(sch, producer)
    made = ([split.parts[it] for it in (running.reduction.block, *blocks)], split.elements)
    return SplitReductions(*([sch.get_sblock(it, function) for it in names] for names in made))


class _Split(Builder):
    """A split under way, and what it makes.

    Attributes
    ----------
    producer, count, size : what is split, into how many ranges of how many elements
    kept : the definitions that others read, too, and stay
    value : the producer's values of the ranges
    nests : what comes in the place of a block
    made : definitions of the ranges, by the buffer of before: the new buffer, its dimension over
        elements, and what stands for a running value in it (`Repair.reference`)
    parts : the name of the block that reduces each range of a block
    elements : names of blocks
    """

    def __init__(self, producer: Producer, count: int, size: int, kept: list[SBlock]) -> None:
        super().__init__(producer.scope)
        self.producer, self.count, self.size, self.kept = producer, count, size, kept
        self.value: Any = None
        self.nests: dict[SBlock, list[Any]] = {}
        self.made: dict[Any, tuple[Any, int, str]] = {}
        self.parts: dict[SBlock, str] = {}
        self.elements: list[str] = []

    def add_ranges(
        self, reduction: Reduction, place: int, repair: Repair | None = None, at: Any = ()
    ) -> None:
        """Have a reduction reduce each range by itself, and combine what they come to, repaired.

        The ranges are a dimension of the partial results, at a `place`; `at` are the indices of the
        producer's value. The producer itself needs no repair.
        """
        (item,) = reduction.iterators(reduced=True)
        rows, buffer = reduction.iterators(reduced=False), reduction.buffer
        outer = [it for it in rows if is_among(it.var, reduction.indices[:place])]
        items = [*outer, item, *(it for it in rows if not is_among(it, outer))]
        name, shape = self.name(f"{reduction.name}_part"), list(buffer.shape)
        shape.insert(place, const(self.count, item.var.ty.dtype))
        partial = self.add_buffer(buffer, f"{buffer.name}_part", shape)
        self.value = partial if repair is None else self.value
        self.parts[reduction.block] = name
        point, part, step = self._enter(items, item, IterVar.CommReduce)
        indices = [point.of(index) for index in reduction.indices]
        term = point.of(self._refer(reduction.term, repair, part, step))
        own = BufferLoad(partial, [*indices[:place], part, *indices[place:]])
        block = point.make_reduction(name, reduction, own, term, like=reduction.block)
        nests = self.nests.setdefault(reduction.block, [])
        nests.append(point.build_nest(block))

        point = Point()
        for row in rows:
            point.add(row, {})
        part = self._enter_part(point, item, IterVar.CommReduce)
        indices = [point.of(index) for index in reduction.indices]
        came_to: Any = BufferLoad(partial, [*indices[:place], part, *indices[place:]])
        if repair is not None:
            row = [point.of(index) for index in at]
            new = BufferLoad(self.producer.buffer, row)
            came_to = repair.apply(came_to, BufferLoad(self.value, [*row, part]), new)
        own, like = BufferLoad(buffer, indices), reduction.block
        block = point.make_reduction(reduction.name, reduction, own, came_to, like)
        self.reuse[reduction.block] = block
        nests.append(point.build_nest(block))

    def add_definitions(self, consumer: Consumer, repair: Repair) -> None:
        """Compute what a consumer reads of the producer's value for the ranges."""
        (item,) = consumer.reduction.iterators(reduced=True)
        for block, values in trace_definitions(consumer, {item.var: item.var}):
            old, name = block.body, str(block.name_hint)
            place = next((at for at, it in enumerate(old.indices) if it in values), None)
            if place is None:
                raise TransformError(
                    f"block '{name}' between them computes no value for each element",
                    "inline it first",
                )
            if old.buffer in self.made:
                if self.made[old.buffer][1:] != (place, repair.reference):
                    raise TransformError(
                        f"block '{name}' between them would have to be another one for block "
                        f"'{consumer.reduction.name}' than for the consumers before it",
                        "inline it first",
                    )
                continue
            order = {item.var: item for item in block.iter_vars}
            items = [order[iterator] for iterator in old.indices]
            point, part, step = self._enter(items, items[place], IterVar.DataPar)
            shape, dtype = list(old.buffer.shape), items[0].var.ty.dtype
            shape[place : place + 1] = [const(self.count, dtype), const(self.size, dtype)]
            buffer = self.add_buffer(old.buffer, f"{old.buffer.name}_part", shape)
            value = point.of(self._refer(old.value, repair, part, step))
            self.made[old.buffer] = (buffer, place, repair.reference)
            is_kept = is_among(block, self.kept)
            name = self.name(f"{name}_part") if is_kept else name
            store = BufferStore(buffer, value, [item.var for item in point.iterators])
            new = point.make_block(name, store, like=block)
            self.elements.append(name)
            nests = self.nests.setdefault(consumer.reduction.block, [])
            nests.append(point.build_nest(new))
            if not is_kept:
                self.reuse[block] = new
                self.nests[block] = []

    def _refer(self, expression: Any, repair: Repair | None, part: Var, step: Any) -> Any:
        """An expression of one range, with the producer's value there."""

        def replace(load: TensorLoad) -> Any:
            if repair is not None and load.source.same_as(self.producer.buffer):
                return repair.refer(BufferLoad(self.value, [*load.indices, part]))
            if load.source not in self.made:
                return load
            buffer, place, _ = self.made[load.source]
            indices = list(load.indices)
            indices[place : place + 1] = [part, step]
            return BufferLoad(buffer, indices)

        return structural_map(expression, (TensorLoad, replace))

    def _enter(self, items: Sequence[IterVar], over: IterVar, kind: int) -> tuple[Point, Var, Var]:
        """A point in a range of what is `over` elements, and iterators of the range and in it."""
        point, dtype = Point(), over.var.ty.dtype
        for item in items:
            if not item.same_as(over):
                point.add(item, {})
                continue
            part = self._enter_part(point, item, IterVar.DataPar)
            domain = Range.from_min_extent(const(0, dtype), const(self.size, dtype))
            step = point.enter(str(item.var.name), domain, dtype, kind)
            point.old[item.var] = item.dom.min + part * self.size + step
        return point, part, step

    def _enter_part(self, point: Point, like: IterVar, kind: int) -> Var:
        dtype = like.var.ty.dtype
        domain = Range.from_min_extent(const(0, dtype), const(self.count, dtype))
        return point.enter("vpart", domain, dtype, kind)

    def rebuild(self) -> Any:
        """The scope's body with what comes in the place of blocks.

        Refuses blocks whose loops have been worked on, which they would lose.
        """
        left, made = dict(self.nests), []
        for statement in list_statements(self.scope.body):
            chain = read_chain(statement)
            if chain is None or chain.block not in left:
                made.append(statement)
            elif (
                not chain.get_conditions()
                and len(chain.loops) == len(chain.block.iter_vars)
                and all(get_kind(loop) == "serial" for loop in chain.loops)
                and goes_over_each_once(chain.realize, chain.loops)
            ):
                made += left.pop(chain.block)
            else:
                break
        for block in left:
            raise TransformError(
                f"the loops of block '{block.name_hint}' are not as they were written",
                "split the reductions before other steps",
            )
        return join_statements(made)
