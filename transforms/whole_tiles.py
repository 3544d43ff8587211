"""What consumes the sums of a padded problem, computed for the padding, too.

Sums in fragments are stored by whole instructions, whatever of them lies inside of the tensor. A
consumer that crops them goes through what is inside alone, and cannot stand where they are stored.
"""

from __future__ import annotations

import functools
from typing import Any

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import (
    LT,
    And,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IntImm,
    IterVar,
    SeqStmt,
    const,
    decl_buffer,
)
from tvm.tirx import if_then_else as choose
from tvm_ffi import structural_map

from .queries import get_realize, get_sblock_name
from .rewriting import edit_scope, get_scope, replace_scope, with_body
from .schedule import TransformError
from .tir import constant, is_among, is_used, replace_fields


def compute_whole_tiles(sch: Schedule, block: SBlockRV, consumer: SBlockRV) -> None:
    """Let a consumer compute all that a block sums up, a padding's sums, too.

    rewrite: ``for i in m, j in n: T[i, j] = f(C[i, j], x[j]); for i in m, j in n: D[i, j] =
        T[i, j]`` -> ``for i in M, j in N: T[i, j] = f(C[i, j], x[j] if j < n else 0); ...``
    consumes: nothing
    requires: a consumer that reads one element of the sums each, at its own place, and that one
        copy reads, with loops of its own alone
    """
    node, sums = sch.get(consumer), sch.get(block).writes[0].source
    name = get_sblock_name(sch, consumer)
    body = node.body
    places = [list(load.indices) for load in _find_loads(body, sums)]
    own = [iterator.var for iterator in node.iter_vars]
    if not isinstance(body, BufferStore) or any(
        len(place) != len(own)
        or any(not one.same_as(other) for one, other in zip(place, own, strict=True))
        for place in [*places, list(body.indices)]
    ):
        raise TransformError(
            f"block '{name}' does not compute each element of what it stores from the sum at the "
            "same place",
            "let it be a kernel of its own",
        )
    whole = [constant(size) or 0 for size in sums.shape]
    lengths = [constant(iterator.dom.extent) or 0 for iterator in node.iter_vars]
    if whole == lengths:
        return
    if min(whole) < 1 or min(lengths) < 1:
        raise TransformError(f"block '{name}' has sizes that are open", "give constant sizes")
    loops = [sch.get(loop).loop_var for loop in sch.get_loops(consumer)]
    values = get_realize(sch, consumer).iter_values
    if len(loops) != len(values) or any(
        not loop.same_as(value) for loop, value in zip(loops, values, strict=True)
    ):
        raise TransformError(
            f"the loops of block '{get_sblock_name(sch, consumer)}' are split, fused or in another "
            "order than its iterators",
            "leave the loops of what consumes the sums as they were",
        )
    _extend(sch, consumer, sums, (whole, lengths))


def _find_loads(body: Any, buffer: Any) -> list[Any]:
    found: list[Any] = []

    def visit(load: Any) -> Any:
        if load.source.same_as(buffer):
            found.append(load)
        return load

    structural_map(body, (TensorLoad, visit))
    return found


def _extend(
    sch: Schedule, consumer: SBlockRV, sums: Any, sizes: tuple[list[int], list[int]]
) -> None:
    node, (whole, lengths) = sch.get(consumer), sizes
    old = node.writes[0].source
    tile = decl_buffer(whole, old.dtype, str(old.name), scope=str(old.scope()))
    (copy,) = (sch.get(each) for each in sch.get_consumers(consumer))
    ends = {
        iterator.var: LT(iterator.var, IntImm("int32", length))
        for iterator, length, size in zip(node.iter_vars, lengths, whole, strict=True)
        if size > length
    }
    # A block that computes a whole tile; what it reads beside the sums is 0 outside of `ends`.

    def guard(load: Any) -> Any:
        if load.source.same_as(sums):
            return load
        inside = [
            end
            for variable, end in ends.items()
            if any(is_used(variable, index) for index in load.indices)
        ]
        if not inside:
            return load
        return choose(functools.reduce(And, inside), load, const(0, load.ty.dtype))

    iterators = [
        IterVar(Range.from_min_extent(0, size), iterator.var, iterator.iter_type)
        for iterator, size in zip(node.iter_vars, whole, strict=True)
    ]
    value = structural_map(node.body.value, (TensorLoad, guard))
    made = {
        node: (
            replace_fields(
                node,
                iter_vars=iterators,
                writes=[BufferRegion(tile, region.region) for region in node.writes],
                body=BufferStore(tile, value, node.body.indices),
            )
        ),
        copy: replace_fields(
            copy,
            reads=[BufferRegion(tile, region.region) for region in copy.reads],
            body=structural_map(
                copy.body, (TensorLoad, lambda load: BufferLoad(tile, load.indices))
            ),
        ),
    }
    scope = get_scope(sch, consumer).stmt
    body = _rebuild(scope.body, node, made, whole)
    replace_scope(sch, consumer, edit_scope(scope, body, [tile]), made, who="store_through_tiles")


def _rebuild(statement: Any, node: SBlock, made: dict[SBlock, SBlock], whole: list[int]) -> Any:
    """A statement with other blocks, and the loops of one of them of other extents."""

    def rebuild(part: Any, extents: list[int]) -> Any:
        if isinstance(part, SeqStmt):
            return SeqStmt([rebuild(each, extents) for each in part.seq])
        if isinstance(part, SBlockRealize) and part.block in made:
            return SBlockRealize(part.iter_values, part.predicate, made[part.block])
        if not isinstance(part, For):
            return part
        body = rebuild(part.body, extents[1:])
        # Whether nothing but a block, and loops of its own, is in a loop.
        inner: Any = part
        while isinstance(inner, For):
            inner = inner.body
        if not (isinstance(inner, SBlockRealize) and is_among(inner.block, [node])):
            return part if body.same_as(part.body) else with_body(part, body)
        extent = IntImm("int32", extents[0])
        return For(
            part.loop_var, part.min, extent, part.kind, body, part.thread_binding, part.annotations
        )

    return rebuild(statement, whole)
