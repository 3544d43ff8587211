"""The two sides of a fusion, read off a schedule: what runs, and what is to use it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer, detect_iter_map
from tvm.sym.iter_affine_map import IterMapLevel
from tvm.tirx import For, SeqStmt, Var, const
from tvm.tirx import all as all_of

from ..errors import TransformError
from ..queries import get_loop_name, get_outer_loops, get_realize, get_sblock_name
from ..tir import (
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_kind,
    is_among,
    is_used,
    substitute,
)
from .blocks import Chain, is_any_of, list_statements, read_chain
from .reductions import (
    Definition,
    Reduction,
    inline,
    is_reduced,
    read_definition,
    read_reduction,
    read_running,
    uses_any,
)


@dataclass(frozen=True)
class Producer:
    """What runs at a loop.

    Attributes
    ----------
    reduction : of one iteration of the loop, in the iterators of the block that does it
    buffer : the running value
    previous : the one before the iteration; None before the first fusion
    chain : that block under the loop, with its loops there
    statements : of the loop's body, each before the first fusion but `place` as it is
    place : which of these holds the producer
    outs : the reduction loops from `loop` outwards, outermost first
    inner : those within, of one iteration
    """

    reduction: Reduction
    buffer: Any
    previous: Any
    chain: Chain
    statements: list[Any]
    place: int
    outs: list[For]
    inner: list[For]

    @property
    def stepped(self) -> list[For]:
        """All reduction loops."""
        return [*self.outs, *self.inner]

    @property
    def rows(self) -> list[Var]:
        """The iterators of that block that say of which running value it finds a part."""
        return [index for index in self.reduction.indices if isinstance(index, Var)]

    def get_domain(self, variable: Any) -> Any:
        """The values of an iterator."""
        return next(
            item.dom for item in self.reduction.block.iter_vars if item.var.same_as(variable)
        )


class Consumer(NamedTuple):
    """What is to use the running value.

    Attributes
    ----------
    reduction : the block
    definitions : the blocks through which it does, those that it reads itself last
    term : what it takes up, these blocks put in
    indices : of the running value in that, in the block's iterators
    """

    reduction: Reduction
    definitions: list[Definition]
    term: Any
    indices: tuple[Any, ...]


def read_producer(sch: Schedule, block: SBlockRV, loop: LoopRV) -> Producer:
    """The producer at a loop; raises `TransformError` where it cannot run there."""
    node, name = sch.get(loop), get_sblock_name(sch, block)
    statements = list_statements(node.body)
    places = [at for at, each in enumerate(statements) if _holds(each, sch.get(block))]
    chain = read_chain(statements[places[0]]) if places else None
    if chain is None:
        raise TransformError(
            f"block '{name}' does not stand alone under loop '{get_loop_name(sch, loop)}'",
            "choose one of its reduction loops, and place other blocks there after the fusion",
        )
    outer = [*get_outer_loops(sch, loop), node]
    running = read_running(chain.block)
    if running is None:
        reduction, tile = read_reduction(chain.block), chain
        buffer, previous = reduction.buffer, None
    else:
        tile, reduction = _read_tile(statements, chain)
        buffer, previous = running.buffer, running.previous
    reduced = [tile.values[item.var] for item in reduction.iterators(reduced=True)]
    feeding = [chain.values[item.var] for item in chain.block.iter_vars if is_reduced(item)]
    outs = [each for each in outer if is_any_of(each.loop_var, feeding)]
    inner = [each for each in tile.loops if is_any_of(each.loop_var, reduced)]
    producer = Producer(reduction, buffer, previous, tile, statements, places[0], outs, inner)
    _require_loops(sch, producer, loop, name)
    return producer


def _read_tile(statements: list[Any], chain: Chain) -> tuple[Chain, Reduction]:
    """The block that finds the part of one iteration for a running value, and its reduction."""
    update = chain.block.body[1]
    identity = chain.block.init.value
    plain = SBlock(
        chain.block.iter_vars,
        chain.block.reads,
        chain.block.writes,
        chain.block.name_hint,
        update,
        chain.block.init,
    )
    whole = read_reduction(plain)
    for statement in statements:
        tile = read_chain(statement)
        if tile is None or not isinstance(whole.term, TensorLoad):
            continue
        if any(it.source.same_as(whole.term.source) for it in tile.block.writes):
            found = read_reduction(tile.block)
            count = len(update.indices)
            return tile, found._replace(indices=found.indices[:count], identity=identity)
    return chain, whole


def _require_loops(sch: Schedule, producer: Producer, loop: LoopRV, name: str) -> None:
    node = sch.get(loop)
    if not is_among(node, producer.outs):
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is no reduction loop of block '{name}'",
            "choose a loop that its reduction goes over",
        )
    for each in producer.stepped:
        if get_kind(each) != "serial":
            raise TransformError(
                f"the reduction loop '{each.loop_var.name}' of block '{name}' is {get_kind(each)}",
                "bind or unroll it after the fusion, if at all",
            )
    _require_plain_guards(producer, name)
    values = producer.chain.values
    for row in producer.rows:
        for each in producer.stepped:
            if is_used(each.loop_var, values[row]):
                raise TransformError(
                    f"loop '{each.loop_var.name}' goes over both rows and terms of block '{name}'",
                    "fuse only loops of one of the two",
                )


def _require_plain_guards(producer: Producer, name: str) -> None:
    """Refuse a condition over terms that is not just the end of a split loop."""
    loops = producer.stepped
    stepped = [loop.loop_var for loop in loops]
    values, analyzer = producer.chain.values, Analyzer()
    ends = [
        values[item.var] < item.dom.min + item.dom.extent
        for item in producer.reduction.iterators(reduced=True)
    ]
    known = {str(analyzer.simplify(end)) for end in ends}
    with analyzer.constraint_scope(all_of(*ends)):
        for condition in producer.chain.get_conditions():
            if not uses_any(condition, stepped) or analyzer.can_prove(condition):
                continue
            if str(Analyzer().simplify(condition)) not in known:
                raise TransformError(
                    f"block '{name}' reduces only where {condition}",
                    "split its loop once or by divisors, or write the condition into the term",
                )


def read_consumer(sch: Schedule, block: SBlockRV, producer: Producer, loop: LoopRV) -> Consumer:
    """The consumer of a running value; raises `TransformError` where it cannot be moved."""
    reduction, name = read_reduction(sch.get(block)), get_sblock_name(sch, block)
    _require_free(sch, block, name)
    scope = sch.get_sref(block).parent
    while not isinstance(scope.stmt, SBlock):
        scope = scope.parent
    order = {item.block: at for at, item in enumerate(_list_chains(scope.stmt.body))}
    writers = _list_writers(order)
    definitions = list(_find_definitions(reduction.term, producer, writers, set()))
    term = reduction.term
    for definition in reversed(definitions):
        term = inline(term, definition)
    loads = [load for load in find_all(term, TensorLoad) if load.source.same_as(producer.buffer)]
    if not loads:
        raise TransformError(
            f"block '{name}' does not use what block '{producer.reduction.name}' computes",
            "pass the reduction that reads it, or move it with compute_block_at",
        )
    indices = tuple(loads[0].indices)
    if any(str(list(load.indices)) != str(list(indices)) for load in loads):
        raise TransformError(
            f"block '{name}' reads '{producer.buffer.name}' at several places for one term",
            "fuse reductions of the same rows",
        )
    consumer = Consumer(reduction, definitions, term, indices)
    _require_ready(sch, consumer, producer, loop, writers)
    return consumer


def _require_free(sch: Schedule, block: SBlockRV, name: str) -> None:
    """Refuse a consumer whose loops have been worked on, which it would lose."""
    if constant(get_realize(sch, block).predicate) != 1:
        raise TransformError(
            f"block '{name}' has the predicate {get_realize(sch, block).predicate}",
            "fuse before its loops are split: those of the producer decide",
        )
    loops = get_outer_loops(sch, block)
    if not goes_over_each_once(get_realize(sch, block), loops):
        raise TransformError(
            f"the loops of block '{name}' do not go over each of its elements once",
            "write them so that each loop is one iterator, from its beginning to its end",
        )
    for node in loops:
        if get_axis(node) is not None and is_used_by(node, get_realize(sch, block)):
            raise TransformError(
                f"loop '{node.loop_var.name}' of block '{name}' is bound to '{get_axis(node)}'",
                "bind the producer's loops alone: the consumer moves under them",
            )


def goes_over_each_once(realize: Any, loops: Sequence[For]) -> bool:
    """Whether loops give a block's iterators each point of their domains once.

    Of open extents nothing is asked.
    """
    values, items = list(realize.iter_values), realize.block.iter_vars
    used = [loop for loop in loops if is_any_of(loop.loop_var, values)]
    extents = [constant(loop.extent) or 0 for loop in used]
    domains = [constant(item.dom.extent) or 0 for item in items]
    if 0 in (*extents, *domains):
        return True
    ranges = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in used}
    is_once = detect_iter_map(values, ranges, check_level=IterMapLevel.Bijective)
    return bool(is_once) and math.prod(extents) == math.prod(domains)


def is_used_by(loop: For, realize: Any) -> bool:
    """Whether a loop decides a value of a block's iterators."""
    return any(is_used(loop.loop_var, value) for value in realize.iter_values)


def _holds(statement: Any, block: SBlock) -> bool:
    return is_among(block, find_all(statement, SBlock))


def _list_chains(statement: Any) -> Iterator[Any]:
    """The realizations of a scope's blocks, in program order, without what is within them."""
    if hasattr(statement, "block"):
        yield statement
    elif isinstance(statement, SeqStmt):
        for each in statement.seq:
            yield from _list_chains(each)
    else:
        for part in ("body", "then_case", "else_case"):
            child = getattr(statement, part, None)
            if child is not None:
                yield from _list_chains(child)


def _list_writers(order: dict[SBlock, int]) -> dict[Any, list[SBlock]]:
    writers: dict[Any, list[SBlock]] = {}
    for block in order:
        for region in block.writes:
            writers.setdefault(region.source, []).append(block)
    return writers


def _find_definitions(
    expression: Any, producer: Producer, writers: dict[Any, list[SBlock]], known: set[Any]
) -> Iterator[Definition]:
    """The blocks between the running value and an expression, farthest first."""
    for load in find_all(expression, TensorLoad):
        buffer = load.source
        if buffer in known or not _depends(buffer, producer, writers):
            continue
        known.add(buffer)
        if len(writers[buffer]) > 1:
            raise TransformError(
                f"'{buffer.name}' between the two is written by several blocks", "make them one"
            )
        definition = read_definition(writers[buffer][0])
        yield from _find_definitions(definition.value, producer, writers, known)
        yield definition


def _depends(buffer: Any, producer: Producer, writers: dict[Any, list[SBlock]]) -> bool:
    """Whether what is in a buffer depends on the running value, which the buffer is not."""
    if buffer.same_as(producer.buffer):
        return False
    read = [region.source for block in writers.get(buffer, []) for region in block.reads]
    own = [region.source for block in writers.get(buffer, []) for region in block.writes]
    return any(
        each.same_as(producer.buffer) or _depends(each, producer, writers)
        for each in read
        if not is_among(each, own)
    )


def _require_ready(
    sch: Schedule,
    consumer: Consumer,
    producer: Producer,
    loop: LoopRV,
    writers: dict[Any, list[SBlock]],
) -> None:
    """Refuse a consumer that reads what is not there yet, or not whole, under the loop."""
    under = find_all(sch.get(loop), SBlock)
    name = consumer.reduction.name
    before = _list_before(*_find_nest(sch, loop))
    for load in find_all(consumer.term, TensorLoad):
        for writer in writers.get(load.source, []):
            if load.source.same_as(producer.buffer) or is_among(writer, before):
                continue
            if is_among(writer, under) and not any(is_reduced(it) for it in writer.iter_vars):
                continue
            where = "is a partial sum there" if is_among(writer, under) else "comes later"
            raise TransformError(
                f"block '{name}' also reads '{load.source.name}', which under loop "
                f"'{get_loop_name(sch, loop)}' {where}",
                "divide by it, or use it, after the consumer's reduction; or compute it earlier",
            )


def require_movable(sch: Schedule, consumer: Consumer, producer: Producer, loop: LoopRV) -> None:
    """Refuse a consumer that cannot move up to a loop: another block uses its result on the way.

    So it is where another block changes the running value before the consumer reads it.
    """
    scope, nest = _find_nest(sch, loop)
    before, own = _list_before(scope, nest), consumer.reduction.block
    passed = [block for block in find_all(scope.body, SBlock) if not is_among(block, before)]
    places = [place for place, block in enumerate(passed) if block.same_as(own)]
    passed = passed[: places[0] if places else 0]
    inside = find_all(sch.get(loop), SBlock)
    for block in passed:
        written = [region.source for region in block.writes]
        used = [*written, *(region.source for region in block.reads)]
        if is_among(consumer.reduction.buffer, used):
            buffer, what = consumer.reduction.buffer, "uses"
        elif is_among(producer.buffer, written) and not is_among(block, inside):
            buffer, what = producer.buffer, "changes"
        else:
            continue
        raise TransformError(
            f"block '{block.name_hint}' {what} '{buffer.name}' between loop "
            f"'{get_loop_name(sch, loop)}' and block '{consumer.reduction.name}', which would move "
            "in front of it",
            "move that block first, or give it a buffer of its own",
        )


def _find_nest(sch: Schedule, loop: LoopRV) -> tuple[SBlock, For]:
    """The block around a loop, and the outermost loop around that there."""
    nest = sch.get_sref(loop)
    while nest.parent is not None and not isinstance(nest.parent.stmt, SBlock):
        nest = nest.parent
    return nest.parent.stmt, nest.stmt


def _list_before(scope: SBlock, nest: For) -> list[SBlock]:
    """The blocks in another one that stand before a nest."""
    found: list[SBlock] = []
    for statement in list_statements(scope.body):
        if statement.same_as(nest):
            break
        found += find_all(statement, SBlock)
    return found


def find_kept(scope: SBlock, consumers: Sequence[Consumer]) -> list[SBlock]:
    """The definitions that others than the consumers read, too."""
    blocks = find_all(scope.body, SBlock)
    definitions = {it.block: it for consumer in consumers for it in consumer.definitions}
    leaving, kept = [consumer.reduction.block for consumer in consumers], []
    for block in reversed(blocks):  # readers first
        if block not in definitions:
            continue
        buffer = definitions[block].buffer
        readers = [
            each for each in blocks if any(region.source.same_as(buffer) for region in each.reads)
        ]
        is_own = is_among(buffer, scope.alloc_buffers)
        if is_own and all(is_among(reader, leaving) for reader in readers):
            leaving.append(block)
        else:
            kept.append(block)
    return kept


def match_iterators(producer: Producer, consumer: Consumer) -> dict[Any, Any]:
    """What the consumer's iterators are in those of the producer's block: its rows, and its terms.

    An iterator that is not in there has no counterpart, and all its values under the loop.
    """
    matched = _match_rows(producer, consumer)
    reduced = [item.var for item in consumer.reduction.iterators(reduced=True)]
    for variable in reduced:
        found = _find_counterpart(variable, producer, consumer, matched)
        if found is not None:
            matched[variable] = found
    if not any(variable in matched for variable in reduced):
        raise TransformError(
            f"no reduction of block '{consumer.reduction.name}' goes over the terms of block "
            f"'{producer.reduction.name}'",
            "fuse reductions that go over the same elements",
        )
    _require_each_once(producer, consumer, matched)
    return matched


def _require_each_once(producer: Producer, consumer: Consumer, matched: dict[Any, Any]) -> None:
    """Refuse loops that go over a term of the consumer's several times, or leave one out."""
    reduced = [it for it in consumer.reduction.iterators(reduced=True) if it.var in matched]
    values = [get_value(matched[item.var], producer.chain) for item in reduced]
    name = consumer.reduction.name
    for loop in producer.outs:
        if constant(loop.extent) != 1 and not is_any_of(loop.loop_var, values):
            raise TransformError(
                f"loop '{loop.loop_var.name}' around the fused one goes over terms of block "
                f"'{producer.reduction.name}' that block '{name}' does not have, and would repeat "
                "its own",
                "put that loop inside of the fused one",
            )
    loops = producer.stepped
    ends = [
        value < item.dom.min + item.dom.extent for item, value in zip(reduced, values, strict=True)
    ]
    used = [loop for loop in loops if is_any_of(loop.loop_var, values)]
    ranges = {it.loop_var: Range.from_min_extent(it.min, it.extent) for it in used}
    is_once = detect_iter_map(values, ranges, all_of(*ends), check_level=IterMapLevel.Bijective)
    if not is_once or not all(
        _covers(producer, loops, item.dom, matched[item.var]) for item in reduced
    ):
        raise TransformError(
            f"it is not certain that the loops of block '{producer.reduction.name}' go over each "
            f"term of block '{name}' once",
            "fuse reductions of the same elements, split once or by divisors",
        )


def _covers(producer: Producer, loops: list[For], domain: Range, matched: Any) -> bool:
    """Whether an expression of the producer's iterators takes all values of a domain.

    Of open extents an iterator's domain is taken for what its loops go over.
    """
    value = get_value(matched, producer.chain)
    used = [loop for loop in loops if is_used(loop.loop_var, value)]
    is_open = any(constant(loop.extent) is None for loop in used)
    if isinstance(matched, Var) and is_open:
        own = producer.get_domain(matched)
        analyzer = Analyzer()
        if all(
            analyzer.can_prove_equal(first, second)
            for first, second in ((own.min, domain.min), (own.extent, domain.extent))
        ):
            return True
    count = math.prod(constant(loop.extent) or 0 for loop in used)
    bound = bind_ranges(used).const_int_bound(value)
    analyzer = Analyzer()
    is_dense = bound.max_value - bound.min_value + 1 == count
    return (
        is_dense
        and bound.min_value == constant(domain.min)
        and bool(analyzer.can_prove(domain.extent <= count))
    )


def _match_rows(producer: Producer, consumer: Consumer) -> dict[Any, Any]:
    matched: dict[Any, Any] = {}
    reduced = [item.var for item in consumer.reduction.iterators(reduced=True)]
    name, buffer = consumer.reduction.name, producer.buffer.name
    for row, index in zip(producer.reduction.indices, consumer.indices, strict=True):
        if isinstance(index, Var) and is_among(index, reduced):
            raise TransformError(
                f"block '{name}' reads '{buffer}' at '{index}', which it reduces over",
                "fuse reductions of the same rows",
            )
        if isinstance(index, Var) and isinstance(row, Var) and index not in matched:
            matched[index] = row
        elif constant(index) is None or _get_extent(producer, row) != 1:
            raise TransformError(
                f"block '{name}' reads '{buffer}' at {index}, which is no row of its own",
                "write it so that it reads each row's value by an iterator",
            )
    return matched


def _get_extent(producer: Producer, row: Any) -> int | None:
    return constant(producer.get_domain(row).extent) if isinstance(row, Var) else 1


def _find_counterpart(
    variable: Any, producer: Producer, consumer: Consumer, matched: dict[Any, Any]
) -> Any | None:
    """What a reduced iterator of the consumer is, by a tensor that both read, or by its extent.

    `matched` has the rows.
    """
    for load in find_all(consumer.term, TensorLoad):
        for other in find_all(producer.reduction.term, TensorLoad):
            if not load.source.same_as(other.source):
                continue
            for mine, theirs in zip(load.indices, other.indices, strict=True):
                found = _solve(variable, mine, theirs, matched)
                if found is not None and not uses_any(found, producer.rows):
                    return found
    domain = next(
        item.dom
        for item in consumer.reduction.iterators(reduced=True)
        if item.var.same_as(variable)
    )
    same = [
        item.var
        for item in producer.reduction.iterators(reduced=True)
        if producer.previous is None and str(item.dom) == str(domain)
    ]
    return same[0] if len(same) == 1 else None


def _solve(variable: Any, mine: Any, theirs: Any, matched: dict[Any, Any]) -> Any | None:
    """What a variable is where two indices are the same: itself, or the one beside rows' part."""
    if mine.same_as(variable):
        return theirs
    if not is_used(variable, mine):
        return None
    analyzer = Analyzer()
    rest = analyzer.simplify(substitute(mine, {variable: const(0, variable.ty.dtype)}))
    if not analyzer.can_prove_equal(mine, variable + rest):
        return None
    return analyzer.simplify(theirs - substitute(rest, matched))


def get_value(expression: Any, chain: Chain) -> Any:
    """An expression of a block's iterators in loop variables."""
    return substitute(expression, chain.values)
