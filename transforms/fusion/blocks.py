"""Blocks under loops: read off a schedule, as reductions too, and built for a scope anew.

The two sides of a fusion are read off a schedule: what runs, and what is to use it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.analysis import get_sblock_access_region
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.sym import Analyzer, detect_iter_map, detect_linear_equation
from tvm.sym.iter_affine_map import IterMapLevel
from tvm.tirx import (
    Add,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    Max,
    Min,
    Mul,
    Var,
    const,
    decl_buffer,
)
from tvm.tirx import all as all_of
from tvm.tirx.stmt import stmt_list
from tvm_ffi import structural_map

from ..queries import get_loop_name, get_outer_loops, get_realize, get_sblock_name
from ..rewriting import get_scope, open_loops
from ..schedule import TransformError
from ..tir import (
    Place,
    bind_ranges,
    constant,
    find_all,
    get_axis,
    get_kind,
    get_places,
    is_among,
    is_used,
    replace_fields,
    substitute,
)

_COMBINERS: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "sum": (Add, lambda a, b: a + b),
    "maximum": (Max, tirx.max),
    "minimum": (Min, tirx.min),
    "product": (Mul, lambda a, b: a * b),
}


class Reduction(NamedTuple):
    """A block that reduces to one buffer.

    Attributes
    ----------
    block : the block
    buffer, indices : what it reduces to, and where in it, in the block's iterators
    identity : what it begins with
    kind : how it takes terms up: ``"sum"``, ``"maximum"``, ``"minimum"`` or ``"product"``
    term : what it takes up
    """

    block: SBlock
    buffer: Any
    indices: tuple[Any, ...]
    identity: Any
    kind: str
    term: Any

    @property
    def name(self) -> str:
        """The block's name."""
        return str(self.block.name_hint)

    @property
    def dtype(self) -> str:
        """The type of what it reduces to."""
        return str(self.buffer.dtype)

    def combine(self, first: Any, second: Any) -> Any:
        """Two partial results as one."""
        return _COMBINERS[self.kind][1](first, second)

    def iterators(self, *, reduced: bool) -> list[IterVar]:
        """The iterators that are reduced, or those that are not."""
        return [item for item in self.block.iter_vars if is_reduced(item) == reduced]


def is_reduced(iterator: IterVar) -> bool:
    """Whether a block reduces over an iterator."""
    return bool(iterator.iter_type == IterVar.CommReduce)


def read_reduction(block: SBlock) -> Reduction:
    """The reduction that a block is; raises `TransformError` for another block."""
    name = str(block.name_hint)
    begin, update = block.init, block.body
    if begin is None or not any(is_reduced(item) for item in block.iter_vars):
        raise TransformError(
            f"block '{name}' is not a reduction with its initialization",
            "pass a block that reduces, before its reduction is decomposed",
        )
    if not isinstance(update, BufferStore) or not isinstance(begin, BufferStore):
        raise TransformError(
            f"block '{name}' reduces to more than one value", "split it into one block for each"
        )
    own = BufferLoad(update.buffer, update.indices)
    for kind, (node, _) in _COMBINERS.items():
        if isinstance(update.value, node):
            for kept, term in ((update.value.a, update.value.b), (update.value.b, update.value.a)):
                if tvm_ffi.structural_equal(kept, own) and not loads_of(term, update.buffer):
                    indices = tuple(update.indices)
                    return Reduction(block, update.buffer, indices, begin.value, kind, term)
    raise TransformError(
        f"block '{name}' reduces to '{update.buffer.name}' by {update.value}, which is not a sum, "
        "product, maximum or minimum",
        "write the update as one of those",
    )


def loads_of(expression: Any, buffer: Any) -> list[Any]:
    """The loads of a buffer in an expression."""
    return [load for load in find_all(expression, TensorLoad) if load.source.same_as(buffer)]


def inline(expression: Any, store: BufferStore) -> Any:
    """An expression with each load of a buffer replaced by what defines it."""

    def replace(load: TensorLoad) -> Any:
        if not load.source.same_as(store.buffer):
            return load
        return substitute(store.value, dict(zip(store.indices, load.indices, strict=True)))

    return structural_map(expression, (TensorLoad, replace))


def uses_any(expression: Any, variables: list[Any]) -> bool:
    """Whether one of several variables stands in an expression."""
    return any(is_used(variable, expression) for variable in variables)


def read_chain(statement: Any) -> Place | None:
    """A block under loops that hold nothing else; None where a statement is another one."""
    _, inner = open_loops(statement)
    return get_places(statement)[0] if isinstance(inner, SBlockRealize) else None


@dataclass
class Point:
    """The iterators of a new block, and what those of an old one are in them.

    Attributes
    ----------
    iterators : of the new block
    values : of these, in loop variables
    loops : those that were made for an iterator each
    old : what stands in the place of old iterators, and of the variables of loops that are followed
    """

    iterators: list[IterVar] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    loops: list[For] = field(default_factory=list)
    old: dict[Any, Any] = field(default_factory=dict)

    def enter(self, name: str, domain: Range, dtype: Any, kind: int, value: Any = None) -> Var:
        """A new iterator of a value, or with a loop of its own over all its values."""
        variable = Var(name, dtype)
        self.iterators.append(IterVar(domain, variable, kind))
        if value is None:
            own = name.removeprefix("v")  # and TVM calls iterators v0, v1
            value = Var(own if own.isidentifier() else f"i{own}", dtype)
            body = Evaluate(const(0, "int32"))
            self.loops.append(For(value, domain.min, domain.extent, ForKind.SERIAL, body))
        self.values.append(value)
        return variable

    def add(self, item: IterVar, values: dict[Any, Any]) -> None:
        """An old iterator anew: with the value that it has, or with a loop of its own."""
        name, dtype, value = str(item.var.name), item.var.ty.dtype, values.get(item.var)
        self.old[item.var] = self.enter(name, item.dom, dtype, item.iter_type, value)

    def follow(self, loops: Sequence[For], kind: int) -> None:
        """An iterator for each of some loops."""
        for loop in loops:
            domain, variable = Range.from_min_extent(loop.min, loop.extent), loop.loop_var
            name, dtype = f"v{variable.name}", variable.ty.dtype
            self.old[variable] = self.enter(name, domain, dtype, kind, variable)

    def of(self, expression: Any) -> Any:
        """Rewrite an expression from old iterators to new ones."""
        return substitute(expression, self.old)

    def build_nest(
        self, block: SBlock, chain: Sequence[For] = (), conditions: Sequence[Any] = ()
    ) -> Any:
        """A block with these iterators under its own loops, and copies of those of a chain that
        decide their values.

        The loops that decide the block's outputs go outside of those that it reduces over.
        `conditions` are those that hold for the chain; those of loops that are not copied are left
        out.
        """
        pairs = zip(self.iterators, self.values, strict=True)
        reducing = [value for item, value in pairs if is_reduced(item)]
        used = [loop for loop in (*chain, *self.loops) if is_any_of(loop.loop_var, self.values)]
        fresh = {loop.loop_var: Var(loop.loop_var.name, loop.loop_var.ty.dtype) for loop in used}
        dropped = [loop.loop_var for loop in chain if not is_among(loop, used)]
        predicate = [substitute(it, fresh) for it in conditions if not uses_any(it, dropped)]
        values = [substitute(value, fresh) for value in self.values]
        statement: Any = SBlockRealize(values, all_of(True, *predicate), block)
        inner = [loop for loop in used if is_any_of(loop.loop_var, reducing)]
        for loop in reversed([*(it for it in used if not is_among(it, inner)), *inner]):
            binding = loop.thread_binding
            if binding is not None:
                variable = Var(binding.var.name, binding.var.ty.dtype)
                binding = IterVar(binding.dom, variable, binding.iter_type, binding.thread_tag)
            variable, annotations = fresh[loop.loop_var], loop.annotations
            domain = (loop.min, loop.extent, loop.kind)
            statement = For(variable, *domain, statement, binding, annotations, loop.step)
        return statement

    def make_reduction(
        self,
        name: str,
        reduction: Reduction,
        own: BufferLoad,
        term: Any,
        like: SBlock | None = None,
    ) -> SBlock:
        """A block that reduces terms to an element, as another one does."""
        values = (reduction.combine(own, term), reduction.identity)
        body, init = (BufferStore(own.source, value, own.indices) for value in values)
        return self.make_block(name, body, init, like=like)

    def make_block(
        self, name: str, body: Any, init: Any | None = None, like: SBlock | None = None
    ) -> SBlock:
        """A block of single elements with these iterators, with what it reads and writes.

        Its annotations are another one's.
        """
        analyzer = Analyzer()
        for item in self.iterators:
            analyzer.bind(item.var, item.dom)
        body = simplify_indices(body, analyzer)
        init = None if init is None else simplify_indices(init, analyzer)
        annotations = {} if like is None else like.annotations
        block = SBlock(list(self.iterators), [], [], name, body, init, annotations=annotations)
        buffers = [load.source for load in find_all(block, TensorLoad)]
        buffers += [store.buffer for store in find_all(block, BufferStore)]
        reads, writes, _ = get_sblock_access_region(block, {it: it for it in buffers})
        if init is not None:  # what a reduction writes counts as not read
            written = [region.source for region in writes]
            reads = [region for region in reads if not is_among(region.source, written)]
        return replace_fields(block, reads=reads, writes=writes)


def is_any_of(variable: Any, expressions: Sequence[Any]) -> bool:
    """Whether a variable stands in one of several expressions."""
    return any(is_used(variable, each) for each in expressions)


def simplify_indices(part: Any, analyzer: Analyzer) -> Any:
    """An expression or a statement whose loads have simple indices, the same for the same place."""

    def simplify(load: TensorLoad) -> Any:
        # An iterator of one iteration stays itself, as in the block's stores.
        indices = [
            index if isinstance(index, Var) else analyzer.simplify(index) for index in load.indices
        ]
        return BufferLoad(load.source, indices)

    return structural_map(part, (TensorLoad, simplify))


class Builder:
    """The result of rewriting a scope.

    Attributes
    ----------
    scope : the block that it rewrites
    buffers : new ones
    reuse : what old blocks go on as
    """

    def __init__(self, scope: SBlock) -> None:
        self.scope = scope
        self.buffers: list[Any] = []
        self.reuse: dict[SBlock, SBlock] = {}
        self._names = {str(block.name_hint) for block in find_all(scope, SBlock)}

    def name(self, base: str) -> str:
        """A block's name that is not taken yet, which it is then."""
        names = (base, *(f"{base}_{count}" for count in range(1, len(self._names) + 1)))
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        return name

    def add_buffer(self, like: Any, name: str, shape: Sequence[Any] | None = None) -> Any:
        """A new buffer of another one's type and memory, and shape unless one is given."""
        shape = list(like.shape if shape is None else shape)
        buffer = decl_buffer(shape, like.dtype, name, scope=like.scope(), layout=None)
        self.buffers.append(buffer)
        return buffer


@dataclass(frozen=True)
class Producer:
    """The statements at a loop.

    Attributes
    ----------
    reduction : of one iteration of the loop, in the iterators of the block that does it
    buffer : the running value
    previous : the one before the iteration; None before the first fusion
    chain : that block under the loop, with its loops there
    scope, loop : the block around it, and the loop
    before : the blocks in the scope that stand before the loops around the producer
    place : which statement of the loop's body holds the producer
    outs : the reduction loops from `loop` outwards, outermost first
    inner : those within, of one iteration
    """

    reduction: Reduction
    buffer: Any
    previous: Any
    chain: Place
    scope: SBlock
    loop: For
    before: list[SBlock]
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
        items = self.reduction.block.iter_vars
        return next(item.dom for item in items if item.var.same_as(variable))


class Consumer(NamedTuple):
    """The consumer of the running value.

    Attributes
    ----------
    reduction : the block
    definitions : the blocks through which it does, those that it reads itself last; each computes
        the elements of a buffer by one expression
    term : what it takes up, these blocks put in
    indices : of the running value in that, in the block's iterators
    """

    reduction: Reduction
    definitions: list[SBlock]
    term: Any
    indices: tuple[Any, ...]


def read_producer(sch: Schedule, block: SBlockRV, loop: LoopRV) -> Producer:
    """The producer at a loop; raises `TransformError` where it cannot run there."""
    node, own, name = sch.get(loop), sch.get(block), get_sblock_name(sch, block)
    statements, scope = stmt_list(node.body), get_scope(sch, loop).stmt
    places = [at for at, it in enumerate(statements) if is_among(own, find_all(it, SBlock))]
    chain = tile = read_chain(statements[places[0]]) if places else None
    if chain is None or tile is None:
        raise TransformError(
            f"block '{name}' is not the only block under loop '{get_loop_name(sch, loop)}'",
            "choose one of its reduction loops, and place other blocks there after the fusion",
        )
    ahead = [find_all(statement, SBlock) for statement in stmt_list(scope.body)]
    before = list(
        itertools.chain(*itertools.takewhile(lambda blocks: not is_among(own, blocks), ahead))
    )
    own, previous, stores = chain.block, None, stmt_list(chain.block.body)
    if len(stores) == 2 and all(isinstance(store, BufferStore) for store in stores):
        kept, update = stores
        if isinstance(kept.value, TensorLoad) and kept.value.source.same_as(update.buffer):
            previous, own = kept.buffer, replace_fields(own, body=update)  # fused before
    reduction = whole = read_reduction(own)
    if previous is not None and isinstance(whole.term, TensorLoad):
        for each in filter(None, map(read_chain, statements)):  # what reduces a tile
            if _touches(each.block.writes, whole.term.source):
                tile, found = each, read_reduction(each.block)
                indices = found.indices[: len(whole.indices)]
                reduction = found._replace(indices=indices, identity=whole.identity)
    values, reduced = tile.values, reduction.iterators(reduced=True)
    ours = [values[item.var] for item in reduced]
    feeding = [chain.values[item.var] for item in whole.iterators(reduced=True)]
    outer = [*get_outer_loops(sch, loop), node]
    outs = [each for each in outer if is_any_of(each.loop_var, feeding)]
    inner = [each for each in tile.loops if is_any_of(each.loop_var, ours)]
    if not is_among(node, outs):
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is not a reduction loop of block '{name}'",
            "choose a loop that its reduction goes over",
        )
    producer = Producer(
        reduction, whole.buffer, previous, tile, scope, node, before, places[0], outs, inner
    )
    for each in producer.stepped:
        if get_kind(each) != "serial":
            raise TransformError(
                f"the reduction loop '{each.loop_var.name}' of block '{name}' is {get_kind(each)}",
                "bind or unroll it after the fusion, if at all",
            )
        if is_any_of(each.loop_var, [values[row] for row in producer.rows]):
            raise TransformError(
                f"loop '{each.loop_var.name}' goes over both rows and terms of block '{name}'",
                "fuse only loops of one of the two",
            )
    analyzer, stepped = Analyzer(), [each.loop_var for each in producer.stepped]
    ends = [values[item.var] < item.dom.min + item.dom.extent for item in reduced]
    with analyzer.constraint_scope(all_of(*ends)):
        for condition in tile.guards:
            if uses_any(condition, stepped) and not analyzer.can_prove(condition):
                raise TransformError(
                    f"block '{name}' reduces only where {condition}",
                    "split its loop once or by divisors, or write the condition into the term",
                )
    return producer


def read_consumer(sch: Schedule, block: SBlockRV, producer: Producer) -> Consumer:
    """The consumer of a running value; raises `TransformError` where it cannot be moved."""
    reduction, name = read_reduction(sch.get(block)), get_sblock_name(sch, block)
    realize, loops = get_realize(sch, block), get_outer_loops(sch, block)
    own = [node for node in loops if is_any_of(node.loop_var, realize.iter_values)]
    if (
        constant(realize.predicate) != 1
        or any(get_axis(node) is not None for node in own)
        or not goes_over_each_once(realize.block, realize.iter_values, loops)
    ):
        raise TransformError(
            f"the loops of block '{name}' are bound or guarded, or do not go over each of its "
            "elements once",
            "fuse before these loops change: the producer's become those of the fused kernel",
        )
    blocks = find_all(get_scope(sch, block).stmt.body, SBlock)
    # The blocks between the running value and the reduction are put into its term, last ones first.
    following = [producer.buffer]
    for each in blocks:
        written = [region.source for region in each.writes]
        if any(
            is_among(it.source, following) and not is_among(it.source, written) for it in each.reads
        ):
            following += written
    definitions, term = list[SBlock](), reduction.term
    ahead = list(itertools.takewhile(lambda it: not it.same_as(reduction.block), blocks))
    for each, buffer in [(it, region.source) for it in reversed(ahead) for region in it.writes]:
        if buffer.same_as(producer.buffer) or not is_among(buffer, following):
            continue
        if loads_of(term, buffer):
            if sum(_touches(other.writes, buffer) for other in blocks) > 1:
                raise TransformError(
                    f"'{buffer.name}' between the two is written by several blocks", "make them one"
                )
            store, named = each.body, f"block '{each.name_hint}' between the two"
            if any(is_reduced(item) for item in each.iter_vars) or each.init is not None:
                raise TransformError(
                    f"{named} reduces, too",
                    "divide by its result, or use it, after the consumer's reduction instead of "
                    "before",
                )
            points = {item.var for item in each.iter_vars}
            if not isinstance(store, BufferStore) or set(store.indices) != points:
                raise TransformError(
                    f"{named} does not compute one element per iteration",
                    "inline it first",
                )
            definitions.insert(0, each)
            term = inline(term, each.body)
    loads = loads_of(term, producer.buffer)
    if not loads:
        raise TransformError(
            f"block '{name}' does not use what block '{producer.reduction.name}' computes",
            "pass the reduction that reads it, or move it with compute_block_at",
        )
    under = find_all(producer.loop, SBlock)
    for load in find_all(term, TensorLoad):
        for writer in [] if load.source.same_as(producer.buffer) else blocks:
            is_under = is_among(writer, under)
            if (
                not _touches(writer.writes, load.source)
                or is_among(writer, producer.before)
                or (is_under and not any(is_reduced(it) for it in writer.iter_vars))
            ):
                continue
            raise TransformError(
                f"block '{name}' also reads '{load.source.name}', which under loop "
                f"'{producer.loop.loop_var.name}' "
                f"{'is a partial sum there' if is_under else 'comes later'}",
                "divide by it, or use it, after the consumer's reduction; or compute it earlier",
            )
    indices = tuple(loads[0].indices)
    if any(not tvm_ffi.structural_equal(load.indices, loads[0].indices) for load in loads):
        raise _refuse_row(reduction, producer, "several places for one term")
    return Consumer(reduction, definitions, term, indices)


def trace_definitions(
    consumer: Consumer, values: dict[Any, Any]
) -> list[tuple[SBlock, dict[Any, Any]]]:
    """The definitions with the values of their iterators where they are read.

    `values` are those of the consumer's iterators. Refuses what is read at several elements, or at
    another one than that of the term: it may not be there yet.
    """
    uses = [(consumer.reduction.term, values)]
    found: list[tuple[SBlock, dict[Any, Any]]] = []
    for block in reversed(consumer.definitions):
        ways, store = [], block.body
        for expression, known in uses:
            for load in loads_of(expression, store.buffer):
                pairs = zip(store.indices, load.indices, strict=True)
                ways.append({item: known[index] for item, index in pairs if index in known})
                others = [index for index in load.indices if index not in known]
                if any(uses_any(index, list(known)) for index in others) or ways[0] != ways[-1]:
                    raise TransformError(
                        f"block '{consumer.reduction.name}' reads '{store.buffer.name}' at "
                        f"{', '.join(map(str, load.indices))}, which may belong to another term",
                        "inline it first, or write it so that it reads its own element",
                    )
        uses.append((store.value, ways[0]))
        found.insert(0, (block, ways[0]))
    return found


def _touches(regions: Sequence[Any], buffer: Any) -> bool:
    return any(region.source.same_as(buffer) for region in regions)


def _refuse_row(reduction: Reduction, producer: Producer, where: str) -> TransformError:
    return TransformError(
        f"block '{reduction.name}' reads '{producer.buffer.name}' at {where}, which is not one row "
        "of its own",
        "fuse reductions of the same rows, each read by an iterator",
    )


def goes_over_each_once(block: SBlock, values: Iterable[Any], loops: Sequence[For]) -> bool:
    """Whether loops give a block's iterators each point of their domains once.

    Of open extents nothing is asked.
    """
    values, items = list(values), block.iter_vars
    used = [loop for loop in loops if is_any_of(loop.loop_var, values)]
    extents = [constant(loop.extent) or 0 for loop in used]
    domains = [constant(item.dom.extent) or 0 for item in items]
    if 0 in (*extents, *domains):
        return True
    return _is_bijective(values, used) and math.prod(extents) == math.prod(domains)


def _is_bijective(values: list[Any], loops: Sequence[For], where: Any = True) -> bool:
    ranges = {loop.loop_var: Range.from_min_extent(loop.min, loop.extent) for loop in loops}
    return bool(detect_iter_map(values, ranges, where, check_level=IterMapLevel.Bijective))


def require_movable(consumer: Consumer, producer: Producer) -> None:
    """Refuse a consumer that cannot move up to a loop: another block uses its result on the way,
    or changes the running value before the consumer reads it."""
    inside, result = find_all(producer.loop, SBlock), consumer.reduction.buffer
    for block in find_all(producer.scope.body, SBlock)[len(producer.before) :]:
        if block.same_as(consumer.reduction.block):
            return
        if _touches((*block.writes, *block.reads), result):
            buffer, what = result, "uses"
        elif _touches(block.writes, producer.buffer) and not is_among(block, inside):
            buffer, what = producer.buffer, "changes"
        else:
            continue
        raise TransformError(
            f"block '{block.name_hint}' {what} '{buffer.name}' between loop "
            f"'{producer.loop.loop_var.name}' and block '{consumer.reduction.name}', which would "
            "move in front of it",
            "move that block first, or give it a buffer of its own",
        )


def find_kept(scope: SBlock, consumers: Sequence[Consumer]) -> list[SBlock]:
    """The definitions that others than the consumers read, too."""
    blocks = find_all(scope.body, SBlock)
    definitions = [block for consumer in consumers for block in consumer.definitions]
    leaving, kept = [consumer.reduction.block for consumer in consumers], list[SBlock]()
    for block in reversed(blocks):  # readers first
        if is_among(block, definitions):
            buffer = block.body.buffer
            readers = [each for each in blocks if _touches(each.reads, buffer)]
            is_own = is_among(buffer, scope.alloc_buffers)
            goes = is_own and all(is_among(reader, leaving) for reader in readers)
            (leaving if goes else kept).append(block)
    return kept


def _match_factors(
    mine: Any, found: Any, names: list[Var], theirs: list[Var], matched: dict[Any, Any]
) -> dict[Any, Any]:
    """Iterators that have one factor in the same index, such as a run's number and the element in
    it, (number * 4 + part) * 8 + element; none where they are not told apart by that.
    """
    read = [detect_linear_equation(mine, names), detect_linear_equation(found, theirs)]
    if not all(read):
        return {}
    (*own, rest), (*others, beside) = read
    known = {constant(factor): it for factor, it in zip(others, theirs, strict=True)}
    factors = [constant(factor) for factor in own]
    if len(known) != len(theirs) or 0 in factors or not set(factors) <= set(known):
        return {}
    if not Analyzer().can_prove_equal(substitute(rest, matched), beside):
        return {}
    return {it: known[factor] for it, factor in zip(names, factors, strict=True)}


def match_iterators(producer: Producer, consumer: Consumer) -> dict[Any, Any]:
    """The consumer's iterators, in terms of the producer's: its rows, and its terms.

    An iterator that is not in there has no counterpart, and all its values under the loop.
    """
    matched: dict[Any, Any] = {}
    reduction, name = consumer.reduction, consumer.reduction.name
    reduced = reduction.iterators(reduced=True)
    for row, index in zip(producer.reduction.indices, consumer.indices, strict=True):
        is_own = isinstance(index, Var) and not is_any_of(index, [item.var for item in reduced])
        if is_own and isinstance(row, Var) and index not in matched:
            matched[index] = row
        elif constant(index) is None or (
            isinstance(row, Var) and constant(producer.get_domain(row).extent) != 1
        ):
            raise _refuse_row(reduction, producer, str(index))
    # A reduced iterator is known by a tensor that both read, or by its extent.
    analyzer, own = Analyzer(), producer.reduction.iterators(reduced=True)
    places = [
        place
        for load in find_all(consumer.term, TensorLoad)
        for other in loads_of(producer.reduction.term, load.source)
        for place in zip(load.indices, other.indices, strict=True)
    ]
    if len(reduced) > 1:  # what has one value has no factor
        matched |= {it.var: it.dom.min for it in reduced if constant(it.dom.extent) == 1}
        block, rows = producer.reduction.block, producer.rows
        names, theirs = (
            [it.var for it in items if constant(it.dom.extent) != 1 and it.var not in known]
            for items, known in ((reduced, matched), (block.iter_vars, rows))
        )
        found = (_match_factors(*place, names, theirs, matched) for place in places)
        matched |= next(filter(None, found), {})
    for item in [it for it in reduced if it.var not in matched]:
        variable = item.var
        for mine, found in places:
            # The same place in both: the iterator itself, or what is beside a row's part.
            rest = substitute(mine, {variable: const(0, variable.ty.dtype)})
            if not analyzer.can_prove_equal(mine, variable + rest):
                continue
            if not mine.same_as(variable):
                found = analyzer.simplify(found - substitute(rest, matched))
            if not uses_any(found, producer.rows):
                matched[variable] = found
                break
        else:
            same = [it.var for it in own if str(it.dom) == str(item.dom)]
            if producer.previous is None and len(same) == 1:
                matched[variable] = same[0]
    items = [item for item in reduced if item.var in matched]
    if not items:
        raise TransformError(
            f"no reduction of block '{name}' goes over the terms of block "
            f"'{producer.reduction.name}'",
            "fuse reductions that go over the same elements",
        )
    # Each term once: no loop may repeat it, and none may leave one out.
    values = [substitute(matched[item.var], producer.chain.values) for item in items]
    for loop in producer.outs:
        if constant(loop.extent) != 1 and not is_any_of(loop.loop_var, values):
            raise TransformError(
                f"loop '{loop.loop_var.name}' around the fused one goes over terms of block "
                f"'{producer.reduction.name}' that block '{name}' does not have, and would repeat "
                "its own",
                "put that loop inside of the fused one",
            )
    used = [loop for loop in producer.stepped if is_any_of(loop.loop_var, values)]
    pairs = list(zip(items, values, strict=True))
    ends = all_of(*(value < item.dom.min + item.dom.extent for item, value in pairs))
    analyzer, is_certain = Analyzer(), _is_bijective(values, used, ends)
    for item, value in pairs:
        loops, theirs = [loop for loop in used if is_used(loop.loop_var, value)], matched[item.var]
        count = math.prod(constant(loop.extent) or 0 for loop in loops)
        bound = bind_ranges(loops).const_int_bound(value)
        covers = (
            bound.max_value - bound.min_value + 1 == count
            and bound.min_value == constant(item.dom.min)
            and analyzer.can_prove(item.dom.extent <= count)
        )
        if isinstance(theirs, Var) and any(constant(loop.extent) is None for loop in loops):
            # Of open extents an iterator's domain is taken for what its loops go over.
            own, equal = producer.get_domain(theirs), analyzer.can_prove_equal
            covers = covers or (equal(own.min, item.dom.min) and equal(own.extent, item.dom.extent))
        is_certain = is_certain and bool(covers)
    if not is_certain:
        raise TransformError(
            f"it is not certain that the loops of block '{producer.reduction.name}' go over each "
            f"term of block '{name}' once",
            "fuse reductions of the same elements, split once or by divisors",
        )
    return matched
