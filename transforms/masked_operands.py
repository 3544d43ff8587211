"""Operands that are read only where a mask lets something of them through."""

from __future__ import annotations

from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferStore, Mul, const, if_then_else
from tvm_ffi import structural_equal

from .caching import require_operand
from .fusion.blocks import Point, loads_of
from .layout import is_zero
from .queries import get_sblock_name
from .rewriting import get_scope, replace_block
from .schedule import TransformError, transform
from .tir import find_all, find_choices, is_among, is_choice, is_used, substitute


@transform
def mask_operand(sch: Schedule, block: SBlockRV, *, operand: int) -> SBlockRV:
    """Read an operand through a copy that is zero where a mask hides every use of it.

    Inlined into the fetch of tiles, the copy becomes a guard of its loads; `pad_axis`, called
    later, adds the end of an axis to the guard. Infinite elements are hidden like all others,
    although a product with zero would keep them.

    A trace cannot replay this, since no TVM primitive does it, and says so.

    rewrite: ``p[j] = exp(x[j] - m) if j < n else 0`` and ``s += p[j] * v[j]`` -> the same of
        ``v_global[j] = v[j] if j < n else 0``
    consumes: nothing
    returns: the copy block
    requires: `operand` counts the buffers that the block reads, from 0; a single load of it,
        multiplied by a masked value, or in a block whose results are all masked with the same mask
        where they are read; a mask that depends only on indices of the load and on tensors
    """
    require_operand(sch, block, operand)
    node, scope = sch.get(block), get_scope(sch, block).stmt
    blocks, buffer = find_all(scope.body, SBlock), node.reads[operand].source
    loads = loads_of(node.body, buffer) if isinstance(node.body, BufferStore) else []
    mask = _find_mask(blocks, node, buffer) if len(loads) == 1 else None
    indices = list(loads[0].indices) if loads else []
    hidden = [item.var for item in node.iter_vars if not is_among(item.var, indices)]
    if (
        mask is None
        or any(is_used(variable, mask) for variable in hidden)
        or any(is_among(it.source, scope.alloc_buffers) for it in find_all(mask, TensorLoad))
    ):
        raise TransformError(
            f"no mask that depends only on indices of '{buffer.name}' hides what block "
            f"'{get_sblock_name(sch, block)}' computes from its elements",
            "leave the operand as it is",
        )
    copy = sch.cache_read(block, operand, "global")
    made = sch.get(copy)
    store = made.body
    mask = substitute(mask, dict(zip(indices, store.indices, strict=True)))
    value = if_then_else(mask, store.value, const(0, store.buffer.dtype))
    body = BufferStore(store.buffer, value, store.indices)
    new = Point(list(made.iter_vars)).make_block(str(made.name_hint), body, like=made)
    replace_block(sch, copy, new, who="mask_operand")
    return copy


def _find_mask(blocks: list[SBlock], block: SBlock, buffer: Any) -> Any:
    """The condition in which what a block makes of a buffer is used, in its iterators; None for
    always: it multiplies that by a chosen zero, or all its readers choose another value.
    """
    own, masks, variables = block.body, list[Any](), [item.var for item in block.iter_vars]
    stores = [it.body for it in blocks if isinstance(it.body, BufferStore)]
    chosen = [it for it in stores if is_choice(it.value) and is_zero(it.value.args[2], [])]
    for product in find_all(own.value, Mul):
        for side, factor in ((product.a, product.b), (product.b, product.a)):
            for store in chosen if loads_of(side, buffer) else ():
                if is_zero(factor, variables, [store.buffer]):
                    (load, *_) = loads_of(factor, store.buffer)
                    places = dict(zip(store.indices, load.indices, strict=True))
                    return substitute(store.value.args[0], places)
    for store in (it for it in stores if not it.same_as(own)):
        choices = find_choices(store.value)
        for load in loads_of(store.value, own.buffer):
            around = [it[0] for it in choices if is_among(load, find_all(it[1], TensorLoad))]
            places = dict(zip(load.indices, own.indices, strict=True))
            masks.append(substitute(around[0], places) if around else None)
    is_same = all(it is not None and structural_equal(it, masks[0]) for it in masks)
    return masks[0] if masks and is_same else None
