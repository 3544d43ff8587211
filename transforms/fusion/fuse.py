"""The transforms that fuse dependent reductions by rolling updates, and split them into ranges.

The idea of breaking the dependence of reductions and repairing partial results is that of the
Neptune compiler (2026); the online softmax (M. Milakov and N. Gimelshein, 2018) and FlashAttention
(T. Dao and others, 2022) are what comes out of it for their kernels. Partial results with running
values of their own, which are combined by the factor of the rolling update, are how decoding is
spread over a GPU (T. Dao and others, Flash-Decoding, 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import tvm_ffi
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import (
    BufferLoad,
    BufferStore,
    For,
    IterVar,
    SeqStmt,
    Var,
    const,
    if_then_else,
    stmt_seq,
)
from tvm.tirx import all as all_of
from tvm.tirx.stmt import stmt_list
from tvm_ffi import structural_map

from ..loops import require_constant
from ..queries import get_loop_name, get_reduction_loops, get_sblock_name
from ..rewriting import edit_loop, edit_scope, get_function, replace_scope
from ..schedule import TransformError, inlines, transform
from ..tir import bind_ranges, constant, find_all, get_kind, is_among, substitute
from .blocks import (
    Builder,
    Consumer,
    Point,
    Producer,
    Reduction,
    find_kept,
    goes_over_each_once,
    is_any_of,
    read_chain,
    read_consumer,
    read_producer,
    require_movable,
    trace_definitions,
    uses_any,
)
from .repair import Repair, plan_repair


class FusedReductions(NamedTuple):
    """The blocks that a fusion adds or moves under the loop.

    Attributes
    ----------
    tiles : those that reduce the terms of one iteration by themselves
    elements : those that compute what the consumer reads, element by element
    """

    tiles: list[SBlockRV]
    elements: list[SBlockRV]


@transform
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

    The consumer takes the value that the producer has found so far. When that changes, the
    accumulated value is rescaled first, by a factor that is derived from the consumer's term and
    tested on random numbers before it is used; `docs/fusion.md` says how. At a loop over tiles, the
    producer reduces each tile in a block of its own, and the consumer is rescaled once per tile.
    The rescaling is its initialization, which `decompose_reduction_at` can make a block of its own.

    Other consumers of the same producer are fused at the same loop by further calls, before other
    steps. Blocks between the two are moved along: those without other readers move under the loop,
    others are copied there, once for all consumers. Blocks before the producer, such as the scores
    of attention, can be moved with `compute_block_at`.

    A trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``for k: m = max(m, x[k])`` and ``for k: s += exp(x[k] - m)`` -> ``for k: m_previous =
        m; m = max(m, x[k]); s = s * exp(m_previous - m) + exp(x[k] - m)``; at k_0 of k_0, k_1:
        ``for k_0: (for k_1: m_tile[k_0] = max(m_tile[k_0], x[k])); m_previous = m; m = max(m,
        m_tile[k_0]); (for k_1: (if k_1 == 0: s = 0 if k_0 == 0 else s * exp(m_previous - m));
        s += exp(x[k] - m))``, or, with ``accumulate="apart"``, ``(for k_1: s_tile[k_0] +=
        exp(x[k] - m)); s = s * exp(m_previous - m) + s_tile[k_0]``, whose tile's sum may be one
        over threads
    consumes: the loops of `consumer`, those of `producer` under `loop`, and blocks between them
        that a copy of an earlier fusion replaces
    returns: the blocks that reduce tiles, and those that compute element by element
    requires: a `producer` that reduces by a sum, product, maximum or minimum; `loop`, one of its
        serial reduction loops, with no other block under it, split and reordered as in the fused
        kernel; loops over rows may be bound; a `consumer` in its original loops, that sums floats
        over the same elements, for the same rows; a factor for its term; everything else that it
        reads computed before `producer`; no block between the two that uses the consumer's result,
        or changes the producer's
    """
    running = read_producer(sch, producer, loop)
    user = read_consumer(sch, consumer, running)
    require_movable(user, running)
    if accumulate == "apart" and not running.inner:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' has one term in each iteration, and no sum of its "
            "own",
            'split it first, or leave accumulate="in place"',
        )
    repair, matched = plan_repair(running, user, "leave them two passes")
    fusion = _Fusion(running, user, repair, matched)
    statements = stmt_list(running.loop.body)
    if running.previous is None:
        fusion.add_producer()
        statements[running.place : running.place + 1] = fusion.nests
        fusion.nests = []
    term = fusion.add_definitions(statements)
    fusion.add_consumer(term, is_apart=accumulate == "apart")
    body = _rebuild(running.scope.body, running.loop, [*statements, *fusion.nests], fusion.moved)
    new = edit_scope(running.scope, body, fusion.buffers)
    replace_scope(sch, loop, new, fusion.reuse, who="fuse_reductions")
    function = get_function(sch, loop)
    made = (fusion.parts, fusion.placed)
    return FusedReductions(*([sch.get_sblock(it, function) for it in names] for names in made))


class _Fusion(Builder):
    """A fusion under way, and what it makes.

    Attributes
    ----------
    producer, consumer, repair : what is fused, and how
    values : the consumer's iterators in loop variables
    nests : new statements, in order
    moved : the blocks that go, or go on elsewhere
    parts, placed : the names of blocks for the terms of one iteration, and of definitions
    """

    def __init__(
        self, producer: Producer, consumer: Consumer, repair: Repair, matched: dict[Any, Any]
    ) -> None:
        super().__init__(producer.scope)
        self.producer, self.consumer, self.repair = producer, consumer, repair
        self.values = {it: substitute(of, producer.chain.values) for it, of in matched.items()}
        self.previous = producer.previous
        self.nests, self.moved = list[Any](), list[SBlock]()
        self.parts, self.placed = list[str](), list[str]()

    def place(self, block: SBlock, point: Point, guards: Sequence[Any] = ()) -> None:
        """Add a block under copies of the loops that it needs, where `guards` hold."""
        chain = self.producer.chain
        stepped = [loop.loop_var for loop in self.producer.stepped]
        rows = [it for it in chain.guards if not uses_any(it, stepped)]
        self.nests.append(point.build_nest(block, chain.loops, [*rows, *guards]))

    def find_inner(self, reduction: Reduction, values: dict[Any, Any]) -> list[For]:
        """The loops within an iteration that go over terms of a reduction."""
        reduced = [item.var for item in reduction.iterators(reduced=True)]
        used = [values[variable] for variable in reduced if variable in values]
        return [loop for loop in self.producer.inner if is_any_of(loop.loop_var, used)]

    def find_guards(self, items: Sequence[IterVar], values: dict[Any, Any]) -> list[Any]:
        """The conditions under which iterators are within their domains, if they may be beyond."""
        analyzer = bind_ranges(self.producer.stepped)
        own = [item for item in items if item.var in values]
        bounds = [values[item.var] < item.dom.min + item.dom.extent for item in own]
        return [bound for bound in bounds if not analyzer.can_prove(bound)]

    def enter(
        self, reduction: Reduction, values: dict[Any, Any], kind: int, apart: str | None = None
    ) -> tuple[Point, Any]:
        """The point of a block that works once in each iteration, and what it takes up there.

        `values` are those of old iterators that loops decide; iterators of a `kind` follow the
        reduction loops from the fused one outwards. The terms of one iteration are taken up one by
        one, or reduced to a buffer of their own by a block with the name `apart`. Where the loops
        go beyond the last term, it does not count: a predicate over several iterators would be
        beyond TVM's analysis.
        """
        point, outs, part = Point(), self.producer.outs, None
        at = [*reduction.indices, *(loop.loop_var for loop in outs)]
        if apart is not None:
            inner, value = self.enter(reduction, values, IterVar.DataPar)
            shape = [*reduction.buffer.shape, *(loop.extent for loop in outs)]
            part = self.add_buffer(reduction.buffer, f"{reduction.buffer.name}_tile", shape)
            self.parts.append(self.name(apart))
            own = BufferLoad(part, [inner.of(index) for index in at])
            self.place(inner.make_reduction(self.parts[-1], reduction, own, value), inner)
        for item in reduction.iterators(reduced=False):
            point.add(item, values)
        point.follow(outs, kind)
        if part is not None:
            return point, BufferLoad(part, [point.of(index) for index in at])
        reduced = reduction.iterators(reduced=True)
        point.follow(self.find_inner(reduction, values), IterVar.CommReduce)
        for item in reduced:
            if item.var in values:
                point.old[item.var] = point.of(values[item.var])
            else:
                point.add(item, values)
        guards, term = self.find_guards(reduced, values), reduction.term
        if guards:
            term = if_then_else(all_of(*guards), term, reduction.identity)
        return point, point.of(term)

    def add_producer(self) -> None:
        """Have the producer keep its value of before, and find the part of an iteration first."""
        reduction, buffer = self.producer.reduction, self.producer.buffer
        apart = f"{reduction.name}_tile" if self.producer.inner else None
        values = self.producer.chain.values
        point, value = self.enter(reduction, values, IterVar.CommReduce, apart)
        indices = [point.of(index) for index in reduction.indices]
        self.previous = self.add_buffer(buffer, f"{buffer.name}_previous")
        now = BufferLoad(buffer, indices)
        kept = BufferStore(self.previous, now, indices)
        body = SeqStmt([kept, BufferStore(buffer, reduction.combine(now, value), indices)])
        init = BufferStore(buffer, reduction.identity, indices)
        block = point.make_block(reduction.name, body, init, like=reduction.block)
        self.place(block, point)
        self.reuse[reduction.block] = block

    def add_definitions(self, under: Sequence[Any]) -> Any:
        """Compute under the loop what the consumer reads of the running value; returns its term.

        What nobody else reads moves there. Of the rest copies are made, or those of an earlier
        fusion taken, which are among the statements `under` the loop.
        """
        kept = find_kept(self.scope, [self.consumer])
        stepped = [loop.loop_var for loop in self.producer.stepped]
        made: dict[Any, Any] = {}
        for block, values in trace_definitions(self.consumer, self.values):
            point, store = Point(), block.body
            for item in block.iter_vars:
                point.add(item, values)
            indices = [point.of(index) for index in store.indices]
            value = point.of(self.refer(store.value, made))
            name, buffer, is_kept = str(block.name_hint), store.buffer, is_among(block, kept)
            if not is_kept:
                self.moved.append(block)
            for chain in filter(None, map(read_chain, under)):  # the same expression
                other = chain.block.body
                if (
                    isinstance(other, BufferStore)
                    and len(other.indices) == len(indices)
                    and other.value.ty.dtype == value.ty.dtype
                ):
                    own = BufferStore(other.buffer, value, indices)
                    alike = point.make_block("", own, like=block)
                    if tvm_ffi.structural_equal(alike, chain.block):
                        made[buffer] = other.buffer
                        self.placed.append(str(chain.block.name_hint))
                        break
            if buffer in made:
                continue
            made[buffer] = buffer
            if is_kept:
                name = self.name(f"{name}_running")
                made[buffer] = self.add_buffer(buffer, f"{buffer.name}_running")
            store = BufferStore(made[buffer], value, indices)
            new = point.make_block(name, store, like=block)
            items = [it for it in block.iter_vars if uses_any(values.get(it.var, 0), stepped)]
            self.place(new, point, self.find_guards(items, values))
            self.placed.append(name)
            if not is_kept:
                self.reuse[block] = new
        return self.refer(self.consumer.reduction.term, made)

    def refer(self, expression: Any, made: dict[Any, Any]) -> Any:
        """An expression with what stands for the running value, and of buffers under the loop."""

        def replace_load(load: TensorLoad) -> Any:
            if load.source.same_as(self.producer.buffer):
                return self.repair.refer(load)
            return BufferLoad(made[load.source], load.indices) if load.source in made else load

        return structural_map(expression, (TensorLoad, replace_load))

    def add_consumer(self, term: Any, *, is_apart: bool) -> None:
        """Have the consumer repair its result, and take up the terms of an iteration.

        Where each iteration has several terms, they are summed apart if nobody reads the result
        behind the loop: only a block that reduces over the loop itself has TVM keep its buffer from
        one iteration to the next. Otherwise they are taken up one by one, after the repair.
        """
        reduction, values = self.consumer.reduction._replace(term=term), self.values
        reduced = [item.var for item in reduction.iterators(reduced=True)]
        is_one = not self.find_inner(reduction, values) and all(it in values for it in reduced)
        kind = IterVar.CommReduce if is_one or is_apart else IterVar.DataPar
        apart = f"{reduction.name}_tile" if is_apart and not is_one else None
        point, term = self.enter(reduction, values, kind, apart)
        result = BufferLoad(reduction.buffer, reduction.indices)
        buffers = (self.previous, self.producer.buffer)
        old, new = (BufferLoad(it, self.consumer.indices) for it in buffers)
        repaired = point.of(self.repair.apply(result, old, new))
        result = point.of(result)
        is_first = all_of(*(point.old[it.loop_var] == it.min for it in self.producer.outs))
        updated, begun = reduction.combine(result, term), reduction.identity
        if not (is_one or is_apart):
            begun = if_then_else(is_first, begun, repaired)
        else:
            if not self.repair.begins and not tvm_ffi.structural_equal(repaired, result):
                repaired = if_then_else(is_first, result, repaired)
            updated = reduction.combine(repaired, term)
        body, init = (BufferStore(result.source, it, result.indices) for it in (updated, begun))
        block = point.make_block(reduction.name, body, init, like=reduction.block)
        self.place(block, point)
        self.reuse[reduction.block] = block
        self.moved.append(reduction.block)


def _rebuild(node: Any, loop: For, statements: list[Any], moved: list[SBlock]) -> Any:
    """A scope's body with other statements in a loop, and without some blocks; None for nothing."""
    if node.same_as(loop):
        return edit_loop(node, body=stmt_seq(*statements))
    if isinstance(node, SBlockRealize):
        return None if is_among(node.block, moved) else node
    if isinstance(node, For):
        body = _rebuild(node.body, loop, statements, moved)
        if body is None or body.same_as(node.body):
            return None if body is None else node
        return edit_loop(node, body=body)
    if isinstance(node, SeqStmt):
        parts = (_rebuild(each, loop, statements, moved) for each in node.seq)
        left = [part for part in parts if part is not None]
        return stmt_seq(*left) if left else None
    return node


class SplitReductions(NamedTuple):
    """The blocks that a split adds, or replaces others with.

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
    sch: Schedule,
    producer: SBlockRV,
    consumers: Sequence[SBlockRV],
    *,
    parts: int,
    run: int | None = None,
) -> SplitReductions:
    """Reduce ranges of the elements separately, and combine the partial results.

    Each range has its own value of the producer, with which the consumers accumulate its elements.
    When the ranges are combined, these partial results are rescaled from the range's value to that
    of all, by the factor of `fuse_reductions`: it is derived from the consumer's term, and tested
    on random numbers before it is used. A fully masked range, such as one after a sequence's end,
    adds nothing.

    The blocks that reduce ranges are ordinary reductions with one more row dimension:
    `fuse_reductions` can fuse them, thread blocks or threads can take one range each, and they can
    be split again. The same holds for the blocks that combine, to which the given handles then
    refer. Partial results are passed through intermediate buffers, which `cache_read` can copy to
    another memory.

    A range is contiguous. With a `run`, ranges instead take runs of that many contiguous elements
    in turn, so that all ranges reach the end of a sequence together.

    A trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``for k in n: m = max(m, x[k])`` and ``for k in n: s += exp(x[k] - m)`` ->
        ``for p in parts: for k in n / parts: m_part[p] = max(m_part[p], x[p, k])``,
        ``for p, k: s_part[p] += exp(x[p, k] - m_part[p])``, ``for p: m = max(m, m_part[p])`` and
        ``for p: s += s_part[p] * exp(m_part[p] - m)``; with a run ``for k in n / parts / run: for r
        in run`` of the element ``(k * parts + p) * run + r``
    consumes: the loops of all of them, and those of blocks between them
    returns: the blocks that reduce a range each, and those that compute element by element
    requires: a `producer` that reduces over one iterator, by a sum, product, maximum or minimum,
        and `consumers` that use its result, sum floats over the same elements and read nothing of
        each other's; all of them in their original loops, and not fused yet; at least 2 `parts`,
        where `parts` and ``parts * run`` divide the number of elements; for each consumer's term a
        factor or, without `run`, the square of an element minus the mean of all elements that the
        producer sums. (Without consumers, use `rfactor_reduction`.)
    """
    loops, name = get_reduction_loops(sch, producer), get_sblock_name(sch, producer)
    if len(loops) != 1:
        raise TransformError(
            f"block '{name}' has {len(loops)} reduction loops, not one",
            "call this before its loops are split; reductions over several iterators are not split",
        )
    (loop,) = loops
    require_constant(sch, loop)
    extent = constant(sch.get(loop).extent) or 0
    if parts < 2:
        raise TransformError(f"parts={parts} is too few ranges", "use 2 or more")
    if (run or 1) < 1 or extent % (parts * (run or 1)):
        given = f"parts={parts}" + ("" if run is None else f" * run={run}")
        raise TransformError(
            f"loop '{sch.get(loop).loop_var.name}' runs {extent} times, which {given} does not "
            "divide",
            "choose a divisor, or pad the loop first with pad_axis",
        )
    if extent == parts:
        raise TransformError(
            f"parts={parts} leaves ranges of one element each, with nothing to reduce in them",
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
                "write it so that it reduces only over the producer's elements",
            )
    sizes = [extent // parts] if run is None else [extent // parts // run, run]
    repairs = [plan_repair(running, user, "leave them whole", ranges=sizes)[0] for user in users]
    split = _Split(running, parts, sizes, find_kept(running.scope, users))
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
    producer, count, sizes : what is split, into how many ranges of how many elements, or of how
        many runs of how many elements
    kept : the definitions that others read, too, and stay
    value : the producer's values of the ranges
    nests : what comes in the place of a block
    made : definitions of the ranges, by the buffer of before: the new buffer, its dimension over
        elements, and what stands for a running value in it (`Repair.reference`)
    parts : the name of the block that reduces each range of a block
    elements : names of blocks
    """

    def __init__(
        self, producer: Producer, count: int, sizes: list[int], kept: list[SBlock]
    ) -> None:
        super().__init__(producer.scope)
        self.producer, self.count, self.sizes, self.kept = producer, count, sizes, kept
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
        point, part, steps = self._enter(items, item, IterVar.CommReduce)
        indices = [point.of(index) for index in reduction.indices]
        term = point.of(self._refer(reduction.term, repair, part, steps))
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
                        f"block '{name}' between them would have to differ for block "
                        f"'{consumer.reduction.name}' from the one for the consumers before it",
                        "inline it first",
                    )
                continue
            order = {item.var: item for item in block.iter_vars}
            items = [order[iterator] for iterator in old.indices]
            point, part, steps = self._enter(items, items[place], IterVar.DataPar)
            shape, dtype = list(old.buffer.shape), items[0].var.ty.dtype
            shape[place : place + 1] = [const(size, dtype) for size in (self.count, *self.sizes)]
            buffer = self.add_buffer(old.buffer, f"{old.buffer.name}_part", shape)
            value = point.of(self._refer(old.value, repair, part, steps))
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

    def _refer(self, expression: Any, repair: Repair | None, part: Var, steps: list[Var]) -> Any:
        """An expression of one range, with the producer's value there."""

        def replace(load: TensorLoad) -> Any:
            if repair is not None and load.source.same_as(self.producer.buffer):
                return repair.refer(BufferLoad(self.value, [*load.indices, part]))
            if load.source not in self.made:
                return load
            buffer, place, _ = self.made[load.source]
            indices = list(load.indices)
            indices[place : place + 1] = [part, *steps]
            return BufferLoad(buffer, indices)

        return structural_map(expression, (TensorLoad, replace))

    def _enter(
        self, items: Sequence[IterVar], over: IterVar, kind: int
    ) -> tuple[Point, Var, list[Var]]:
        """A point in a range of what is `over` elements, and iterators of the range and in it."""
        point, dtype = Point(), over.var.ty.dtype
        for item in items:
            if not item.same_as(over):
                point.add(item, {})
                continue
            part = self._enter_part(point, item, IterVar.DataPar)
            zero, name = const(0, dtype), str(item.var.name)
            domains = [Range.from_min_extent(zero, const(size, dtype)) for size in self.sizes]
            names = [name, f"{name}_run"]
            steps = [
                point.enter(it, domain, dtype, kind)
                for it, domain in zip(names, domains, strict=False)
            ]
            size, last = self.sizes[-1], steps[-1]
            number = part if len(steps) == 1 else steps[0] * self.count + part
            point.old[item.var] = item.dom.min + number * size + last
        return point, part, steps

    def _enter_part(self, point: Point, like: IterVar, kind: int) -> Var:
        dtype = like.var.ty.dtype
        domain = Range.from_min_extent(const(0, dtype), const(self.count, dtype))
        return point.enter("vpart", domain, dtype, kind)

    def rebuild(self) -> Any:
        """The scope's body with what comes in the place of blocks.

        Refuses blocks whose loops have been worked on, which they would lose.
        """
        left, made = dict(self.nests), []
        for statement in stmt_list(self.scope.body):
            chain = read_chain(statement)
            if chain is None or chain.block not in left:
                made.append(statement)
            elif (
                not chain.guards
                and len(chain.loops) == len(chain.block.iter_vars)
                and all(get_kind(loop) == "serial" for loop in chain.loops)
                and goes_over_each_once(chain.block, chain.values.values(), chain.loops)
            ):
                made += left.pop(chain.block)
            else:
                break
        for block in left:
            raise TransformError(
                f"the loops of block '{block.name_hint}' are not as they were written",
                "split the reductions before other steps",
            )
        return stmt_seq(*made)
