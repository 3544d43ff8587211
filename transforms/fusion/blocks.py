"""Blocks under loops: read off a schedule, as reductions too, and built for a scope anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.analysis import get_sblock_access_region
from tvm.sym import Analyzer
from tvm.tirx import (
    Add,
    And,
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    Max,
    Min,
    Mul,
    SeqStmt,
    Var,
    const,
    decl_buffer,
)
from tvm.tirx import all as all_of
from tvm_ffi import structural_map

from ..rewriting import open_loops
from ..schedule import TransformError
from ..tir import (
    constant,
    find_all,
    get_operands,
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
        """Those that are reduced, or those that are not."""
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
            f"block '{name}' has no reduction with its initialization",
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
        f"block '{name}' reduces to '{update.buffer.name}' by {update.value}, which is no sum, "
        "product, maximum or minimum",
        "write the update as one of those",
    )


def loads_of(expression: Any, buffer: Any) -> list[Any]:
    """The loads of a buffer in an expression."""
    return [load for load in find_all(expression, TensorLoad) if load.source.same_as(buffer)]


def require_definition(block: SBlock) -> None:
    """Refuse a block that does not compute each element of a buffer by one expression."""
    store, name = block.body, str(block.name_hint)
    if any(is_reduced(item) for item in block.iter_vars) or block.init is not None:
        raise TransformError(
            f"block '{name}' between the two reduces, too",
            "divide by its result, or use it, after the consumer's reduction instead of before",
        )
    own = {item.var for item in block.iter_vars}
    if not isinstance(store, BufferStore) or set(store.indices) != own:
        raise TransformError(
            f"block '{name}' between the two does not compute one element at each of its points",
            "inline it first",
        )


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


class Chain(NamedTuple):
    """A block under loops that hold nothing else.

    Attributes
    ----------
    loops : outermost first
    realize : the block with the values of its iterators
    """

    loops: tuple[For, ...]
    realize: SBlockRealize

    @property
    def block(self) -> SBlock:
        """The block."""
        return self.realize.block

    @property
    def values(self) -> dict[Any, Any]:
        """The values of all iterators, in loop variables."""
        pairs = zip(self.block.iter_vars, self.realize.iter_values, strict=True)
        return {item.var: value for item, value in pairs}

    def get_conditions(self) -> list[Any]:
        """What must hold where the block runs."""
        operands = get_operands(self.realize.predicate, And)
        return [operand for operand in operands if constant(operand) != 1]


def read_chain(statement: Any) -> Chain | None:
    """The chain that a statement is; None where it holds several blocks, or none."""
    loops, inner = open_loops(statement)
    return Chain(tuple(loops), inner) if isinstance(inner, SBlockRealize) else None


def list_statements(body: Any) -> list[Any]:
    """The statements of a body, one after the other."""
    return list(body.seq) if isinstance(body, SeqStmt) else [body]


def join_statements(statements: Sequence[Any]) -> Any:
    """Statements as one."""
    return statements[0] if len(statements) == 1 else SeqStmt(list(statements))


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
            value = Var(name.removeprefix("v") or "i", dtype)
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
        """What was in old iterators, in the new ones."""
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
    """What a rewriting of a scope makes.

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
