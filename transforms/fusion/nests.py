"""Loop nests around blocks: read off a schedule, and built for what is placed under a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm_ffi
from tvm.ir import Range, TensorLoad, TensorRegion
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import (
    And,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IterVar,
    SeqStmt,
    Var,
    const,
)
from tvm.tirx import all as all_of
from tvm_ffi import structural_map

from ..tir import constant, find_all, get_operands, is_among, is_used, substitute
from .reductions import is_reduced, uses_any


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

    def get_value(self, variable: Any) -> Any:
        """The value of an iterator, in loop variables."""
        return self.values[variable]

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
    loops = []
    while isinstance(statement, For):
        loops.append(statement)
        statement = statement.body
    if isinstance(statement, SBlockRealize):
        return Chain(tuple(loops), statement)
    return None


def list_statements(body: Any) -> list[Any]:
    """The statements of a body, one after the other."""
    return list(body.seq) if isinstance(body, SeqStmt) else [body]


def join_statements(statements: Sequence[Any]) -> Any:
    """Statements as one."""
    return statements[0] if len(statements) == 1 else SeqStmt(list(statements))


class Axis(NamedTuple):
    """A block's iterator to be, the loop that is made for it, if one is, and its value.

    Attributes
    ----------
    iterator : of the block
    value : in loop variables, of loops of the chain that is copied or further out, or of `loop`
    loop : a new loop for it alone; None where loops of the chain decide its value
    """

    iterator: IterVar
    value: Any
    loop: For | None = None

    @property
    def is_reduced(self) -> bool:
        """Whether the block reduces over it."""
        return is_reduced(self.iterator)


def make_own_axis(iterator: IterVar, name: str) -> Axis:
    """An axis of a block with a loop of its own over all its values."""
    variable = Var(name, iterator.var.ty.dtype)
    domain = iterator.dom
    loop = For(variable, domain.min, domain.extent, ForKind.SERIAL, Evaluate(const(0, "int32")))
    return Axis(iterator, variable, loop)


def make_iterator(loop: For, kind: int) -> IterVar:
    """A new iterator that follows a loop."""
    variable = Var(f"v{loop.loop_var.name}", loop.loop_var.ty.dtype)
    return IterVar(Range.from_min_extent(loop.min, loop.extent), variable, kind)


def build_nest(
    block: SBlock, axes: Sequence[Axis], chain: Sequence[For], conditions: Sequence[Any]
) -> Any:
    """A block under copies of those loops of a chain that its axes use, and loops of its own.

    The loops that decide the block's outputs go outside of those that it reduces over.
    `conditions` are those that hold for the chain; those of its loops that are not copied are left
    out with what they decide.
    """
    used = [loop for loop in chain if any(is_used(loop.loop_var, axis.value) for axis in axes)]
    fresh = {loop.loop_var: _renew(loop.loop_var) for loop in used}
    dropped = [loop.loop_var for loop in chain if not is_among(loop, used)]
    predicate = [
        substitute(condition, fresh) for condition in conditions if not uses_any(condition, dropped)
    ]
    values = [substitute(axis.value, fresh) for axis in axes]
    statement: Any = SBlockRealize(values, all_of(True, *predicate), block)
    for loop in reversed(_order(used, axes)):
        variable = fresh.get(loop.loop_var, loop.loop_var)
        statement = For(
            variable,
            loop.min,
            loop.extent,
            loop.kind,
            statement,
            _renew_binding(loop.thread_binding),
            loop.annotations,
            loop.step,
        )
    return statement


def _renew(variable: Var) -> Var:
    return Var(variable.name, variable.ty.dtype)


def _renew_binding(binding: IterVar | None) -> IterVar | None:
    if binding is None:
        return None
    return IterVar(binding.dom, _renew(binding.var), binding.iter_type, binding.thread_tag)


def _order(used: Sequence[For], axes: Sequence[Axis]) -> list[For]:
    """Loops of outputs first, in the chain's order and then the block's own; then the others."""
    reducing = [axis for axis in axes if axis.is_reduced]
    inner = [loop for loop in used if any(is_used(loop.loop_var, it.value) for it in reducing)]
    outer = [loop for loop in used if not is_among(loop, inner)]
    own = [axis for axis in axes if axis.loop is not None and not axis.is_reduced]
    own_inner = [axis for axis in reducing if axis.loop is not None]
    return [*outer, *(axis.loop for axis in own), *inner, *(axis.loop for axis in own_inner)]


def make_block(
    name: str,
    iterators: Sequence[IterVar],
    body: Any,
    init: Any | None = None,
    like: SBlock | None = None,
) -> SBlock:
    """A block of single elements, with what it reads and writes; annotations as another one's."""
    body, init = (_simplify(part, iterators) for part in (body, init))
    parts = [part for part in (init, body) if part is not None]
    stores = [store for part in parts for store in find_all(part, BufferStore)]
    loads = [load for part in parts for load in find_all(part, TensorLoad)]
    writes = _list_regions([(store.buffer, store.indices) for store in stores])
    reads = _list_regions([(load.source, load.indices) for load in loads])
    if init is not None:  # a reduction: what it writes counts as not read
        reads = [region for region in reads if not _is_listed(region, writes)]
    annotations = {} if like is None else like.annotations
    return SBlock(list(iterators), reads, writes, name, body, init, annotations=annotations)


def _simplify(part: Any, iterators: Sequence[IterVar]) -> Any:
    if part is None:
        return None
    analyzer = Analyzer()
    for item in iterators:
        analyzer.bind(item.var, item.dom)
    return simplify_indices(part, analyzer)


def simplify_indices(part: Any, analyzer: Analyzer) -> Any:
    """An expression or a statement whose loads have simple indices, the same for the same place."""

    def simplify(load: TensorLoad) -> Any:
        # An iterator of one iteration stays itself, as in the block's stores.
        indices = [
            index if isinstance(index, Var) else analyzer.simplify(index) for index in load.indices
        ]
        return BufferLoad(load.source, indices)

    return structural_map(part, (TensorLoad, simplify))


def _list_regions(elements: list[tuple[Any, Any]]) -> list[TensorRegion]:
    regions: list[TensorRegion] = []
    for buffer, indices in elements:
        region = BufferRegion(buffer, [Range.from_min_extent(index, 1) for index in indices])
        if not _is_listed(region, regions):
            regions.append(region)
    return regions


def _is_listed(region: TensorRegion, regions: Sequence[TensorRegion]) -> bool:
    return any(
        other.source.same_as(region.source)
        and all(
            tvm_ffi.structural_equal(first.min, second.min)
            for first, second in zip(other.region, region.region, strict=True)
        )
        for other in regions
    )
