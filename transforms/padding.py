"""Padding of an axis that several blocks share: the tail of a chain that is fused afterwards."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvm.ir import Range
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import (
    And,
    BufferLoad,
    BufferRegion,
    BufferStore,
    For,
    IterVar,
    const,
    decl_buffer,
    if_then_else,
)
from tvm_ffi import structural_equal

from .fusion.blocks import is_reduced, read_reduction
from .layout import is_zero, require_own_loops
from .loops import require_constant, require_serial
from .queries import get_loop_name, get_realize
from .rewriting import edit_loop, get_function, get_scope, map_elements, replace_blocks
from .schedule import TransformError, transform
from .tir import (
    constant,
    find_all,
    find_largest_index,
    get_regions,
    is_among,
    is_choice,
    is_used,
    replace_fields,
)


class _Axis(NamedTuple):
    """An axis: iterators of blocks in a scope, and dimensions of their buffers.

    Attributes
    ----------
    scope : the block around
    iterators : variables, one or more of a block
    buffers : those that only blocks of the scope use, with the dimension that is along the axis
    """

    scope: SBlock
    iterators: list[Any]
    buffers: list[tuple[Any, int]]

    def find_own(self, block: SBlock) -> list[IterVar]:
        """The iterators of a block that go along the axis."""
        return [item for item in block.iter_vars if is_among(item.var, self.iterators)]

    def find_tensors(self, block: SBlock) -> list[int]:
        """The operands of a block that are tensors of the function's, and read along the axis."""
        own = self.find_own(block)
        return [
            operand
            for operand, region in enumerate(block.reads)
            if not is_among(region.source, self.scope.alloc_buffers)
            and any(is_used(item.var, part.min) for item in own for part in region.region)
        ]


@transform
def pad_axis(sch: Schedule, loop: LoopRV, *, multiple: int) -> None:
    """Round an axis up to a multiple of a tile, in all blocks that share it.

    Results beyond its end are not used. The function's tensors keep their sizes. A reduction that
    reads such a tensor along the axis reads a copy with zeros beyond the end, which can be inlined
    where tiles are fetched; a block that writes such a tensor computes only its elements.
    Reductions along the axis are masked, so that iterations beyond the end change nothing, unless
    their terms are zero there anyway; values to be summed are masked where they are computed. An
    axis whose length is a multiple already is left as it is.

    Masks are conditions of ``if_then_else``, which `split_loop_at_mask` removes from whole tiles. A
    trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``for j in 77: m = max(m, x[j])`` and ``for j in 77: e[j] = exp(x[j] - m)`` and ``for
        j in 77: s += e[j]``, multiple 16 -> ``for j in 80: m = max(m, x_global[j] if j < 77 else
        least)`` and ``for j in 80: e[j] = exp(x[j] - m) if j < 77 else 0`` and ``for j in 80: s +=
        e[j]`` of ``x_global[j] = x[j] if j < 77 else 0``
    consumes: nothing
    requires: a serial loop of constant extent, over which an iterator of one block runs; blocks
        that share the axis, and buffers between them, of the same length; loops of their own, one
        for each iterator, before any is split or bound; tensors and buffers between blocks that are
        used at iterators along the axis; sums, products, maxima and minima, and blocks that compute
        element by element; an extent that is within the loop's integer type when it is rounded up
    """
    require_serial(sch, loop)
    name, length = get_loop_name(sch, loop), require_constant(sch, loop)
    if multiple < 1:
        raise TransformError(f"multiple={multiple} is not a size", "use 1 or more")
    if length % multiple == 0:
        return
    padded = -(-length // multiple) * multiple
    variable, function = sch.get(loop).loop_var, get_function(sch, loop)
    if padded > (most := find_largest_index(variable)):
        raise TransformError(
            f"loop '{name}' of {length} iterations, rounded up to a multiple of {multiple}, is "
            f"beyond its type, which ends at {most}",
            "choose a smaller multiple, or give the kernel int64 loops",
        )
    # Reductions read copies of tensors, to which zeros can be added.
    for name in [str(it.name_hint) for it in find_all(get_scope(sch, loop).stmt.body, SBlock)]:
        axis, handle = _follow_axis(sch, loop), sch.get_sblock(name, function)
        block = sch.get(handle)
        if not axis.find_own(block):
            continue
        require_own_loops(sch, handle, "pad an axis before loops are split, bound or shared")
        if not isinstance(block.body, BufferStore):
            raise TransformError(
                f"block '{name}' is more than one store", "write one block for each"
            )
        if any(map(is_reduced, block.iter_vars)):
            for operand in axis.find_tensors(block):
                sch.cache_read(handle, operand, "global")
    axis = _follow_axis(sch, loop)
    blocks = [it for it in find_all(axis.scope.body, SBlock) if axis.find_own(it)]
    made = {block: block for block in find_all(axis.scope.body, SBlock)}

    def mask(iterators: list[Any], value: Any, beyond: Any) -> Any:
        for iterator in iterators:
            inside = iterator < const(length, iterator.ty.dtype)
            if is_choice(value) and structural_equal(value.args[2], beyond):
                value = if_then_else(And(value.args[0], inside), value.args[1], beyond)
            else:
                value = if_then_else(inside, value, beyond)
        return value

    def store(block: SBlock, value: Any) -> SBlock:
        body = BufferStore(block.body.buffer, value, block.body.indices)
        return replace_fields(block, body=body)

    # Values that are summed, and copies of tensors, are zero beyond the end.
    reductions = [it for it in blocks if any(map(is_reduced, it.iter_vars))]
    summed, zeros = list[Any](), list[Any]()
    for block in reductions:
        reduced = [item.var for item in axis.find_own(block) if is_reduced(item)]
        along = [it for it in block.reads if any(is_among(at.min, reduced) for at in it.region)]
        summed += [region.source for region in along]
    for block in (it for it in blocks if it not in reductions):
        if axis.find_tensors(block) or is_among(block.body.buffer, summed):
            value = block.body.value
            own = [item.var for item in axis.find_own(block)]
            own = [it for it in own if not is_zero(value, [it], zeros)]
            made[block] = store(block, mask(own, value, const(0, value.ty.dtype)))
            zeros.append(block.body.buffer)
    # Other terms are masked.
    for block in reductions:
        reduction = read_reduction(block)
        own = [item.var for item in axis.find_own(block) if is_reduced(item)]
        if reduction.kind == "sum":
            own = [it for it in own if not is_zero(reduction.term, [it], zeros)]
        if own:
            # A maximum takes up what it begins with once more; a sum may begin with anything.
            neutral = {"sum": const(0, reduction.dtype), "product": const(1, reduction.dtype)}
            beyond = neutral.get(reduction.kind, reduction.identity)
            term = mask(own, reduction.term, beyond)
            before = BufferLoad(reduction.buffer, reduction.indices)
            made[block] = store(block, reduction.combine(before, term))
    # All that goes along the axis becomes longer.
    longer: dict[Any, Any] = {}
    for buffer, dimension in axis.buffers:
        old = longer.get(buffer, buffer)
        shape = list(old.shape)
        shape[dimension] = const(padded, shape[dimension].ty.dtype)
        longer[buffer] = decl_buffer(shape, old.dtype, old.name, scope=old.scope(), layout=None)

    def lengthen(block: SBlock) -> SBlock:
        def use(part: Any) -> Any:
            return map_elements(part, lambda it, at: (longer[it], at) if it in longer else None)

        iterators = [
            IterVar(Range(it.dom.min, const(padded, it.var.ty.dtype)), it.var, it.iter_type)
            if is_among(it.var, axis.iterators)
            else it
            for it in block.iter_vars
        ]
        reads, writes = (
            [BufferRegion(longer.get(it.source, it.source), it.region) for it in regions]
            for regions in (block.reads, block.writes)
        )
        body, init = use(block.body), None if block.init is None else use(block.init)
        return replace_fields(
            block, iter_vars=iterators, reads=reads, writes=writes, body=body, init=init
        )

    handles = [sch.get_sblock(str(block.name_hint), function) for block in blocks]
    over = [
        value
        for handle in handles
        for item, value in zip(
            sch.get(handle).iter_vars, get_realize(sch, handle).iter_values, strict=True
        )
        if is_among(item.var, axis.iterators)
    ]

    def extend(nest: For) -> For:
        if not is_among(nest.loop_var, over):
            return nest
        return edit_loop(nest, extent=const(padded, nest.loop_var.ty.dtype))

    made = {block: lengthen(new) for block, new in made.items()}
    replace_blocks(
        sch, handles[0], made, list(longer.values()), who="pad_axis", callbacks=[(For, extend)]
    )


def _follow_axis(sch: Schedule, loop: LoopRV) -> _Axis:
    """The axis that a loop goes over, from iterators to buffers that are used there and back."""
    scope, variable = get_scope(sch, loop).stmt, sch.get(loop).loop_var
    iterators, buffers = list[Any](), list[tuple[Any, int]]()
    for handle in sch.get_child_blocks(loop):
        pairs = zip(sch.get(handle).iter_vars, get_realize(sch, handle).iter_values, strict=True)
        iterators += [item.var for item, value in pairs if value.same_as(variable)]
    if len(iterators) != 1:
        raise TransformError(
            f"loop '{variable.name}' is not the loop of one block's iterator",
            "pass a loop of a block as it was written",
        )
    before = 0
    while before < len(iterators) + len(buffers):
        before = len(iterators) + len(buffers)
        for block in find_all(scope.body, SBlock):
            stored = [at.min for it in block.writes for at in it.region]
            leaves = any(not is_among(it.source, scope.alloc_buffers) for it in block.writes)
            for region in get_regions(block):
                if not is_among(region.source, scope.alloc_buffers):
                    continue
                for dimension, part in enumerate(region.region):
                    index = part.min
                    is_known = any(
                        it.same_as(region.source) and at == dimension for it, at in buffers
                    )
                    if is_among(index, iterators) and not is_known:
                        buffers.append((region.source, dimension))
                    elif is_known and not is_among(index, iterators):
                        if not is_among(index, [item.var for item in block.iter_vars]):
                            raise TransformError(
                                f"block '{block.name_hint}' uses '{region.source.name}' at "
                                f"{index} along the axis of loop '{variable.name}'",
                                "pad an axis whose elements blocks use one by one",
                            )
                        if not (leaves and is_among(index, stored)):  # such elements are all there
                            iterators.append(index)
    lengths = [
        (f"block '{block.name_hint}'", item.dom.extent)
        for block in find_all(scope.body, SBlock)
        for item in block.iter_vars
        if is_among(item.var, iterators)
    ]
    lengths += [(f"'{buffer.name}'", buffer.shape[dimension]) for buffer, dimension in buffers]
    for what, length in lengths:
        if constant(length) != constant(sch.get(loop).extent):
            raise TransformError(
                f"{what} has {length} elements along the axis of loop '{variable.name}', which has "
                f"{sch.get(loop).extent}",
                "pad an axis that each block covers completely",
            )
    return _Axis(scope, iterators, buffers)
