"""The transform that fuses two dependent reductions by rolling updates.

The idea of breaking the dependence of reductions and repairing partial results is that of the
Neptune compiler (2026); the online softmax (M. Milakov and N. Gimelshein, 2018) and FlashAttention
(T. Dao and others, 2022) are what comes out of it for their kernels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import BufferLoad, BufferStore, For, IterVar, SeqStmt, const, if_then_else
from tvm.tirx import all as all_of
from tvm_ffi import structural_map

from ..decorators import composite
from ..errors import TransformError
from ..legality.net import inlines
from ..queries import get_loop_name
from ..rewriting import edit_scope, get_function, get_scope, replace_scope, with_body
from ..tir import bind_ranges, constant, is_among, substitute
from .blocks import Builder, Point, is_any_of, join_statements, read_chain
from .reductions import Definition, Reduction, loads_of, replace_buffer, uses_any
from .repair import EARLIER, SHARE, Repair, plan_repair
from .sides import Consumer, Producer, find_kept, read_consumer, read_producer, require_movable


class FusedReductions(NamedTuple):
    """The blocks that a fusion adds under the loop, or moves there.

    Attributes
    ----------
    tiles : those that reduce the terms of one iteration by themselves
    elements : those that compute what the consumer reads, element by element
    """

    tiles: list[SBlockRV]
    elements: list[SBlockRV]


@composite
@inlines
def fuse_reductions(
    sch: Schedule,
    producer: SBlockRV,
    consumer: SBlockRV,
    loop: LoopRV,
    *,
    accumulate: Literal["in place", "apart"] = "in place",
) -> FusedReductions:
    """Compute a reduction in the loop of another one whose result it uses, by rolling updates.

    The consumer takes the value that the producer has found so far. Where that moves, what has been
    taken up is repaired first, by a factor (or, of a maximum, a summand) that is derived from the
    consumer's term and tried on drawn numbers before it is used; `docs/fusion.md` says how. Of
    polynomials, such as squared differences, the sums of derivatives are kept beside it. At a
    loop over tiles, the producer reduces a tile to a block of its own, and the consumer is repaired
    once a tile. Its repair is its initialization: `decompose_reduction_at` makes a block of it.

    Other consumers of the same producer are fused at the same loop by further calls, before other
    steps. Blocks between the two come along: those that nobody else reads move under the loop, of
    the others a copy does, for all consumers the same. Blocks before them, such as the products
    that the scores of attention are, follow by `compute_block_at`.

    The trace does not replay what this makes, and says so: no primitive of TVM does.

    rewrite: ``for k: m = max(m, x[k])`` and ``for k: s += exp(x[k] - m)`` -> ``for k: m_previous =
        m; m = max(m, x[k]); s = s * exp(m_previous - m) + exp(x[k] - m)``; at k_0 of k_0, k_1:
        ``for k_0: (for k_1: m_tile[k_0] = max(m_tile[k_0], x[k])); m_previous = m; m = max(m,
        m_tile[k_0]); (for k_1: (if k_1 == 0: s = 0 if k_0 == 0 else s * exp(m_previous - m));
        s += exp(x[k] - m))``, or, with ``accumulate="apart"``, ``(for k_1: s_tile[k_0] +=
        exp(x[k] - m)); s = s * exp(m_previous - m) + s_tile[k_0]``, whose tile's sum may be one
        over threads
    consumes: the loops of `consumer`, those of `producer` under `loop`, and blocks between them
        that a copy of an earlier fusion stands for
    returns: the blocks of tiles that it made, and those of what is computed element by element
    requires: a `producer` that reduces by a sum, product, maximum or minimum; `loop`, one of its
        reduction loops, serial, under which it stands alone, split and reordered before as the
        fused kernel is to be, its rows bound or not; a `consumer` in loops as they were written,
        that reduces over the same elements, by a sum, maximum or minimum, for the same rows; a
        repair for its term; all else that it reads computed before `producer`; no block between
        the two that uses the consumer's result, or changes the producer's
    """
    running = read_producer(sch, producer, loop)
    user = read_consumer(sch, consumer, running, loop)
    require_movable(sch, user, running, loop)
    if accumulate == "apart" and not running.inner:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' has one term in each iteration, and no sum of its "
            "own",
            'split it first, or leave accumulate="in place"',
        )
    scope = get_scope(sch, loop).stmt
    repair, matched = plan_repair(running, user, "leave them two passes")
    fusion = _Fusion(scope, producer=running, consumer=user, repair=repair, matched=matched)
    statements = list(running.statements)
    if running.previous is None:
        fusion.add_producer()
        statements[running.place : running.place + 1] = fusion.nests
        fusion.nests = []
    term = fusion.add_definitions(statements)
    fusion.add_consumer(term, is_apart=accumulate == "apart")
    body = _rebuild(scope.body, sch.get(loop), [*statements, *fusion.nests], fusion.moved)
    new = edit_scope(scope, body, fusion.buffers)
    replace_scope(sch, loop, new, fusion.reuse, who="fuse_reductions")
    function = get_function(sch, loop)
    made = (fusion.parts, fusion.placed)
    return FusedReductions(*([sch.get_sblock(it, function) for it in names] for names in made))


@dataclass(kw_only=True)
class _Fusion(Builder):
    """A fusion under way, and what it makes.

    Attributes
    ----------
    producer, consumer, repair : what is fused, and how
    matched : the consumer's iterators in those of the producer's block
    nests : new statements, in order
    moved : the blocks that go, or go on elsewhere
    parts, placed : the names of blocks for the terms of one iteration, and of definitions
    """

    producer: Producer
    consumer: Consumer
    repair: Repair
    matched: dict[Any, Any]
    nests: list[Any] = field(default_factory=list)
    moved: list[SBlock] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.previous, chain = self.producer.previous, self.producer.chain
        self.values = {item: substitute(it, chain.values) for item, it in self.matched.items()}

    def place(self, block: SBlock, point: Point, guards: Sequence[Any] = ()) -> None:
        """Add a block under copies of the loops that it needs, where `guards` hold."""
        chain = self.producer.chain
        stepped = [loop.loop_var for loop in self.producer.stepped]
        rows = [it for it in chain.get_conditions() if not uses_any(it, stepped)]
        self.nests.append(point.build_nest(block, chain.loops, [*rows, *guards]))

    def find_inner(self, reduction: Reduction, values: dict[Any, Any]) -> list[For]:
        """The loops within an iteration that go over terms of a reduction."""
        reduced = [item.var for item in reduction.iterators(reduced=True)]
        used = [values[variable] for variable in reduced if variable in values]
        return [loop for loop in self.producer.inner if is_any_of(loop.loop_var, used)]

    def find_guards(self, items: Sequence[IterVar], values: dict[Any, Any]) -> list[Any]:
        """The conditions under which iterators are within their domains, if they may be beyond."""
        loops = self.producer.stepped
        analyzer = bind_ranges(loops)
        pairs = [(item.dom, values[item.var]) for item in items if item.var in values]
        bounds = [value < domain.min + domain.extent for domain, value in pairs]
        return [bound for bound in bounds if not analyzer.can_prove(bound)]

    def make_point(
        self, reduction: Reduction, values: dict[Any, Any], kind: int, term: Any | None = None
    ) -> tuple[Point, Any]:
        """The point of a block that works once in each iteration, and its term there, if any.

        `values` are those of old iterators that loops decide; iterators of a `kind` follow the
        reduction loops from the fused one outwards. Where the loops go beyond the last term, it
        does not count: a predicate over several iterators would be beyond TVM's analysis.
        """
        point, outs = Point(), self.producer.outs
        for item in reduction.iterators(reduced=False):
            point.add(item, values)
        point.follow(outs, kind)
        if self.repair.reference == "extrapolated":
            own = self.consumer.reduction
            items = [it for it in own.iterators(reduced=True) if it.var in self.matched]
            count = math.prod(constant(item.dom.extent) or 0 for item in items)
            inner = self.find_inner(own, self.values)
            each, done = math.prod(constant(loop.extent) or 0 for loop in inner), 0
            for loop in outs:
                done = done * loop.extent + (point.steps[loop.loop_var] - loop.min)
            for share, steps in ((SHARE, done + 1), (EARLIER, done)):
                seen = tirx.max(tirx.min(steps * each, count), 1)
                point.old[share] = const(float(count), "float32") / seen.astype("float32")
        if term is None:
            return point, None
        reduced = reduction.iterators(reduced=True)
        point.follow(self.find_inner(reduction, values), IterVar.CommReduce)
        for item in reduced:
            if item.var in values:
                point.old[item.var] = substitute(values[item.var], point.steps)
            else:
                point.add(item, values)
        guards = [substitute(it, point.steps) for it in self.find_guards(reduced, values)]
        term = point.of(term)
        return point, if_then_else(all_of(*guards), term, reduction.identity) if guards else term

    def add_part(
        self, reduction: Reduction, values: dict[Any, Any], term: Any, name: str
    ) -> BufferLoad:
        """Reduce the terms of one iteration to a buffer of their own; returns its element, in the
        iterators of the reduction and loop variables."""
        loops, buffer = self.producer.outs, reduction.buffer
        shape = [*buffer.shape, *(loop.extent for loop in loops)]
        part = self.add_buffer(buffer, f"{buffer.name}_tile", shape)
        point, value = self.make_point(reduction, values, IterVar.DataPar, term)
        element = BufferLoad(part, [*reduction.indices, *(loop.loop_var for loop in loops)])
        own = substitute(point.of(element), point.steps)
        body = BufferStore(part, reduction.combine(own, value), own.indices)
        init = BufferStore(part, reduction.identity, own.indices)
        name = self.name(name)
        self.parts.append(name)
        self.place(point.make_block(name, body, init), point)
        return element

    def add_producer(self) -> None:
        """Have the producer keep its value of before, and find the part of an iteration first."""
        producer, reduction = self.producer, self.producer.reduction
        values, kind, part = producer.chain.values, IterVar.CommReduce, None
        if producer.inner:
            name = f"{reduction.name}_tile"
            part = self.add_part(reduction, values, reduction.term, name)
        point, value = self.make_point(
            reduction, values, kind, None if part is not None else reduction.term
        )
        if part is not None:
            value = substitute(point.of(part), point.steps)
        indices = [point.of(index) for index in reduction.indices]
        self.previous = self.add_buffer(producer.buffer, f"{producer.buffer.name}_previous")
        now = BufferLoad(producer.buffer, indices)
        kept = BufferStore(self.previous, now, indices)
        update = BufferStore(producer.buffer, reduction.combine(now, value), indices)
        init = BufferStore(producer.buffer, reduction.identity, indices)
        body = SeqStmt([kept, update])
        block = point.make_block(reduction.name, body, init, like=reduction.block)
        self.place(block, point)
        self.reuse[reduction.block] = block

    def add_definitions(self, under: Sequence[Any]) -> Any:
        """Compute under the loop what the consumer reads of the running value; returns its term.

        What nobody else reads moves there. Of the rest copies are made, or those of an earlier
        fusion taken, which are among the statements `under` the loop.
        """
        kept = find_kept(self.scope, [self.consumer])
        uses = [(self.consumer.reduction.term, self.values)]
        for definition in reversed(self.consumer.definitions):
            found = ((it, values) for it, values in uses if loads_of(it, definition.buffer))
            expression, values = next(found)
            load = loads_of(expression, definition.buffer)[0]
            pairs = zip(definition.iterators, load.indices, strict=True)
            own = {item: values[index] for item, index in pairs if index in values}
            uses.append((definition.value, own))
        made: dict[Any, Any] = {}
        for definition, (_, own) in zip(self.consumer.definitions, uses[:0:-1], strict=True):
            buffer = self._add_definition(
                definition, own, made, under, is_kept=is_among(definition.block, kept)
            )
            made[definition.buffer] = buffer
        return self.refer(self.consumer.reduction.term, made)

    def _add_definition(
        self,
        definition: Definition,
        values: dict[Any, Any],
        made: dict[Any, Any],
        under: Sequence[Any],
        *,
        is_kept: bool,
    ) -> Any:
        """A definition under the loop, by an expression; returns the buffer that it computes."""
        point, block = Point(), definition.block
        for item in block.iter_vars:
            point.add(item, values)
        indices = [point.of(index) for index in definition.iterators]
        value = point.of(self.refer(definition.value, made))
        if not is_kept:
            self.moved.append(block)
        for chain in filter(None, map(read_chain, under)):
            store = chain.block.body
            if not isinstance(store, BufferStore) or len(store.indices) != len(indices):
                continue
            if store.value.ty.dtype == value.ty.dtype:
                alike = point.make_block("", BufferStore(store.buffer, value, indices), like=block)
                if tvm_ffi.structural_equal(alike, chain.block):
                    self.placed.append(str(chain.block.name_hint))
                    return store.buffer
        name, buffer = str(block.name_hint), definition.buffer
        if is_kept:
            name = self.name(f"{name}_running")
            buffer = self.add_buffer(buffer, f"{buffer.name}_running")
        new = point.make_block(name, BufferStore(buffer, value, indices), like=block)
        stepped = [loop.loop_var for loop in self.producer.stepped]
        items = [it for it in block.iter_vars if uses_any(values.get(it.var, 0), stepped)]
        self.place(new, point, self.find_guards(items, values))
        self.placed.append(name)
        if not is_kept:
            self.reuse[block] = new
        return buffer

    def refer(self, expression: Any, made: dict[Any, Any]) -> Any:
        """An expression with what stands for the running value, and of buffers under the loop."""

        def replace_load(load: TensorLoad) -> Any:
            return self.repair.refer(load) if load.source.same_as(self.producer.buffer) else load

        expression = structural_map(expression, (TensorLoad, replace_load))
        for old, new in made.items():
            expression = replace_buffer(expression, old, new)
        return expression

    def add_consumer(self, term: Any, *, is_apart: bool) -> None:
        """Have the consumer repair its result, and take up the terms of an iteration.

        Sums of derivatives stand beside it: each repairs those of lower ones.
        """
        reduction = self.consumer.reduction
        now = BufferLoad(self.producer.buffer, list(self.consumer.indices))
        value = {self.repair.value: self.repair.refer(now)}
        sums: list[Any] = []
        for order, derivative in reversed(list(enumerate(self.repair.derivatives, start=1))):
            buffer = self.add_buffer(
                reduction.buffer, f"{reduction.buffer.name}_derivative_{order}"
            )
            previous = self.add_buffer(reduction.buffer, f"{buffer.name}_previous")
            own = reduction._replace(
                buffer=buffer,
                term=substitute(derivative, value),
            )
            name = self.name(f"{reduction.name}_derivative_{order}")
            self._add_accumulator(own, name, sums, previous, is_apart=True)
            sums.insert(0, previous)
        own = reduction._replace(term=term)
        block = self._add_accumulator(own, reduction.name, sums, None, is_apart=is_apart)
        self.reuse[reduction.block] = block
        self.moved.append(reduction.block)

    def _add_accumulator(
        self,
        reduction: Reduction,
        name: str,
        sums: Sequence[Any],
        previous: Any | None,
        *,
        is_apart: bool,
    ) -> SBlock:
        """Add the block of a sum that is repaired, with the `sums` of further derivatives before.

        It keeps its own result of before in `previous`, if anything. Where each iteration has
        several terms, they are summed apart if nobody reads the result behind the loop: only a
        block that reduces over the loop itself has TVM keep its buffer from one iteration to the
        next. Otherwise they are taken up one by one, and the repair is the initialization.
        """
        values, identity, loops = self.values, reduction.identity, self.producer.outs
        reduced = [item.var for item in reduction.iterators(reduced=True)]
        is_one = not self.find_inner(reduction, values) and all(it in values for it in reduced)
        part, kind = None, IterVar.CommReduce if is_one or is_apart else IterVar.DataPar
        if is_apart and not is_one:
            part = self.add_part(reduction, values, reduction.term, f"{name}_tile")
        point, term = self.make_point(
            reduction, values, kind, None if part is not None else reduction.term
        )
        if part is not None:
            term = substitute(point.of(part), point.steps)
        indices = [point.of(index) for index in reduction.indices]
        row = [point.of(index) for index in self.consumer.indices]
        result, *before = (BufferLoad(it, indices) for it in (reduction.buffer, *sums))
        old, new = (BufferLoad(it, row) for it in (self.previous, self.producer.buffer))
        repaired = point.of(self.repair.apply([result, *before], old, new))
        is_first = all_of(*(point.steps[loop.loop_var] == loop.min for loop in loops))

        def store(value: Any, kept: Any = None) -> Any:
            kept = (
                [] if previous is None or kept is None else [BufferStore(previous, kept, indices)]
            )
            return join_statements([*kept, BufferStore(reduction.buffer, value, indices)])

        if is_one or is_apart:
            if not self.repair.begins and not tvm_ffi.structural_equal(repaired, result):
                repaired = if_then_else(is_first, result, repaired)
            body, init = store(reduction.combine(repaired, term), result), store(identity)
        else:
            body = store(reduction.combine(result, term))
            kept = if_then_else(is_first, identity, result)
            init = store(if_then_else(is_first, identity, repaired), kept)
        block = point.make_block(name, body, init, like=reduction.block)
        self.place(block, point)
        return block


def _rebuild(node: Any, loop: For, statements: list[Any], moved: list[SBlock]) -> Any:
    """A scope's body with other statements in a loop, and without some blocks; None for nothing."""
    if node.same_as(loop):
        return with_body(node, join_statements(statements))
    if isinstance(node, SBlockRealize):
        return None if is_among(node.block, moved) else node
    if isinstance(node, For):
        body = _rebuild(node.body, loop, statements, moved)
        if body is None or body.same_as(node.body):
            return None if body is None else node
        return with_body(node, body)
    if isinstance(node, SeqStmt):
        parts = [_rebuild(each, loop, statements, moved) for each in node.seq]
        left = [part for part in parts if part is not None]
        return join_statements(left) if left else None
    return node
