"""Chains of products by wgmma, whose fragments lie as those of mma.sync do (`quads`).

A warp keeps to 16 rows, and four warps multiply theirs together. All that lies between two products
is laid out and spread by `lay_in_quads` and `spread_over_quads`; the left operand of a product is a
tile in shared memory, or fragments that another product has left.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import For

from .gpu_limits import WARP
from .intrinsics.fragments import SIDE
from .intrinsics.mma import SCOPE
from .intrinsics.warpgroups import CHUNK_BYTES
from .intrinsics.wgmma_rows import ACC, SHARE, RowsProduct, get_rows_intrinsic
from .loops import require_serial
from .own_lanes import has_lane_rows
from .queries import (
    get_enclosing_kernel,
    get_own_loops,
    get_sblock_name,
    is_reduction_loop,
)
from .rewriting import edit_block, replace_blocks
from .schedule import TransformError, inlines, transform
from .tir import constant, find_all, get_axis, is_used, replace_fields


class ProductLoops(NamedTuple):
    """The loops of a product: over its rows, its columns and the steps of k."""

    row: LoopRV
    column: LoopRV
    step: LoopRV


@transform
def order_product(sch: Schedule, block: SBlockRV) -> ProductLoops:
    """Put the loops of a product in the order of rows, columns and steps of k.

    rewrite: ``for k, i, j: C[i, j] += A[i, k] * B[k, j]`` -> ``for i, j, k: C[i, j] += ...``
    consumes: nothing
    returns: the three loops
    requires: two spatial loops and one reduction loop of the block's own, serial; of more spatial
        loops the last two are rows and columns
    """
    name, own = get_sblock_name(sch, block), get_own_loops(sch, block)
    reductions = [loop for loop in own if is_reduction_loop(sch, block, loop)]
    spatial = [loop for loop in own if not is_reduction_loop(sch, block, loop)][-2:]
    if len(reductions) != 1 or len(spatial) != 2:
        raise TransformError(
            f"block '{name}' has {len(spatial)} spatial and {len(reductions)} reduction loops of "
            "its own",
            "pass a product of rows, columns and one reduction",
        )
    for loop in (*spatial, *reductions):
        require_serial(sch, loop)
    # Leave out what only the initialization read, before it became a block of its own.
    node = sch.get(block)
    stated = edit_block(node, node.body)
    if node.init is None and len(stated.reads) != len(node.reads):
        replace_blocks(sch, block, {node: stated}, [], who="order_product")
    sch.reorder(*spatial, *reductions)
    return ProductLoops(*spatial, *reductions)


@transform
@inlines
def tensorize_warp_rows(sch: Schedule, block: SBlockRV, *, arch: str | None = None) -> str:
    """Let wgmma multiply the 16 rows of a warp, together with those of three others.

    All columns and all steps of k are one group of instructions, and threads wait for it.

    rewrite: ``for i, j, k: C_local += A * B_shared`` -> ``for warp in threadIdx.z: for row in
        threadIdx.y: for column in threadIdx.x: fence; wgmma ...; commit; wait``
    consumes: the own loops of `block`, and what is within
    returns: the name of the intrinsic
    requires: a block of products of operands of 16 bits, summed in float32 over one loop of its
        own, in 16 rows and a multiple of 16 columns, with nothing else in its loops; sums that
        `lay_in_quads` has laid out, which begin with zeros in the block or with something else in
        another one; B that `stage_swizzled_at` staged, and A that it staged, or that `lay_in_quads`
        laid out; warps on threadIdx.z, as many as a multiple of four, with 8 by 4 lanes; readers
        and writers of fragments that `spread_over_quads` has spread, in one transform of your own;
        ``sm_90a``, where `arch` is given
    """
    loops = get_own_loops(sch, block)[-3:]
    kinds = [is_reduction_loop(sch, block, loop) for loop in loops]
    if kinds != [False, False, True]:
        raise TransformError(
            f"the last loops of block '{get_sblock_name(sch, block)}' are not rows, columns and "
            "steps of k",
            "call order_product first",
        )
    for loop in loops:
        require_serial(sch, loop)
    product = _read_product(sch, block, [constant(sch.get(loop).extent) or 0 for loop in loops])
    name = get_rows_intrinsic(product, arch=arch)
    outer = sch.blockize(loops[0])
    sch.tensorize(outer, name)
    if product.begins:  # the instruction begins with zeros, which TVM would store before it too
        node = sch.get(outer)
        made = replace_fields(node, init=None)
        replace_blocks(sch, outer, {node: made}, [], who="tensorize_warp_rows")
    return name


def _read_product(sch: Schedule, block: SBlockRV, extents: list[int]) -> RowsProduct:
    node, name = sch.get(block), get_sblock_name(sch, block)
    rows, columns, depth = extents
    if rows != SIDE:
        raise TransformError(
            f"block '{name}' computes {rows} rows, and a warp {SIDE}",
            f"give each warp on threadIdx.z {SIDE} rows",
        )
    if len(node.reads) < 2:
        raise TransformError(f"block '{name}' does not multiply two tiles", "pass a product")
    a, b = (region.source for region in list(node.reads)[-2:])
    sums = node.writes[0].source
    _require_fragments(name, sums, ACC)
    in_registers = str(a.scope()) == "local"
    if in_registers:
        _require_fragments(name, a, str(b.dtype))
    for tile in (b,) if in_registers else (a, b):
        chunk = CHUNK_BYTES * 8 // tile.dtype.bits
        if str(tile.scope()) != SCOPE or len(tile.shape) < 4 or constant(tile.shape[-1]) != chunk:
            raise TransformError(
                f"block '{name}' reads '{tile.name}' of scope '{tile.scope()}', which is no tile "
                "that descriptors of wgmma describe",
                "stage it with stage_swizzled_at",
            )
    reduced = [item.var for item in node.iter_vars if item.iter_type == item.CommReduce]
    last = node.reads[-1].region[-1].min
    return RowsProduct(
        dtype=str(b.dtype),
        columns=columns,
        depth=depth,
        transpose_b=any(is_used(variable, last) for variable in reduced),
        swizzle_a=None if in_registers else _get_swizzle(a),
        swizzle_b=_get_swizzle(b),
        begins=node.init is not None,
        warps=_count_warps(sch, block),
    )


def _require_fragments(name: str, buffer: Any, dtype: str) -> None:
    is_laid = has_lane_rows(buffer) and constant(buffer.shape[-1]) == SHARE
    if not is_laid or str(buffer.dtype) != dtype:
        raise TransformError(
            f"'{buffer.name}' of block '{name}' is no fragment of {dtype} in registers",
            "lay it out with lay_in_quads",
        )


def _get_swizzle(tile: Any) -> int:
    return (constant(tile.shape[-2]) or 1) * CHUNK_BYTES


def _count_warps(sch: Schedule, block: SBlockRV) -> int:
    """The warps of a thread block, each on one place of threadIdx.z."""
    loops = find_all(get_enclosing_kernel(sch, block), For)
    extents = {get_axis(loop): constant(loop.extent) or 0 for loop in loops}
    lanes = math.prod(extents.get(f"threadIdx.{axis}", 1) for axis in "yx")
    if lanes != WARP:
        raise TransformError(
            f"the kernel of block '{get_sblock_name(sch, block)}' has {lanes} threads on "
            "threadIdx.y and threadIdx.x",
            "spread what reads the sums with spread_over_quads, and stage with in_quads=True",
        )
    return extents.get("threadIdx.z", 1)
