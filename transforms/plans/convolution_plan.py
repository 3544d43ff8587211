"""The plan of a convolution: the product of two matrices, one of which holds its windows.

A kernel of its own writes the matrix of windows, so that tiles of any product's schedule are
copied whole, by the TMA too. Which of both is the left one follows from how results lie: those that
are neighbours are of one row. So pixels are rows where channels come last (NHWC), and columns
where they come first (NCHW), with no transposition.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import BufferStore, IterVar, Mul
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import structural_map

from ..inlining import inline_chain, inline_epilogue
from ..queries import get_sblock_name, is_reduction
from ..recipes.conv2d import Groups, group_iterators
from ..recipes.time_model import Sizes
from ..rewriting import replace_blocks
from ..schedule import TransformError, inlines, transform
from ..tir import constant, is_among, replace_fields
from .flat import LEFT_OVER, schedule_flat
from .product_plan import MatmulConfig, choose_for_sizes, find_factors, schedule_matmul
from .roles import Mismatch, Roles, find_obstacle, list_sblocks, make_roles

CONVOLUTION = "convolution"
_MOST_ELEMENTS = 2**29
"""Of a matrix, whose places 32 bits number, whatever a schedule pads them by."""
SINGLE = replace(LEFT_OVER, vector=1)
"""What writes a matrix: where vectors alone are stored and read, TVM gives the matrix a type of
these, of which it makes no asynchronous copies."""


@transform
@inlines
def schedule_convolution(sch: Schedule, block: SBlockRV, *, config: MatmulConfig) -> None:
    """Schedule a convolution, or another sum of products, as the product of two matrices.

    What pads or casts an operand is part of the kernel that writes its matrix, and what follows the
    sums part of the store, as in `schedule_matmul`.

    rewrite: ``for n, o, y, x, c, i, j: Y[n, o, y, x] += padded[n, c, y + i, x + j] * F[o, c, i,
        j]`` -> ``for ...: windows[s, p] = padded[...]``, ``for ...: filters[o, s] = F[...]`` and
        ``for o_p in blockIdx.x: ...: sums += filters_shared * windows_shared; Y[...] = sums``
    consumes: the loops of all blocks; blocks around that are inlined
    requires: a block that `match_convolution` finds; what the config's family requires of a product
    """
    reason = find_obstacle(sch, [block]) or _find_difference(sch, block)
    if reason:
        raise TransformError(reason, "pass a block that match_convolution finds")
    groups, swapped = _read_groups(sch, block)
    if swapped:
        # Let a block read its second operand first: products are the same either way.
        node = sch.get(block)

        def swap(product: Mul) -> Any:
            return Mul(product.b, product.a)

        made = replace_fields(
            node, body=structural_map(node.body, (Mul, swap)), reads=[node.reads[1], node.reads[0]]
        )
        replace_blocks(sch, block, {node: made}, [], who="schedule_convolution")
    for producer in sch.get_producers(block):
        inline_chain(sch, producer, kept=[])
    inline_epilogue(sch, block)
    for copy in group_iterators(sch, block, groups):
        schedule_flat(sch, copy, config=SINGLE)
    schedule_matmul(sch, block, config=config)


def match_convolution(sch: Schedule) -> Roles | Mismatch:
    """The one sum of products of a function over several loops, or why there is none.

    Each spatial iterator is in the indices of one operand alone: no groups of channels, and no
    batch of filters. Nothing changes.
    """
    blocks = [block for block in list_sblocks(sch) if is_reduction(sch, block)]
    if len(blocks) != 1:
        return Mismatch(CONVOLUTION, f"{len(blocks)} blocks reduce, and a convolution is one")
    (block,) = blocks
    reason = find_obstacle(sch, blocks)
    for producer in sch.get_producers(block):
        reason = reason or find_obstacle(sch, [producer])
    reason = reason or _find_difference(sch, block)
    return Mismatch(CONVOLUTION, reason) if reason else make_roles(sch, CONVOLUTION, blocks)


def choose_convolution(
    sch: Schedule, roles: Roles, device: str, tensor_cores: bool
) -> list[MatmulConfig]:
    """Configs for a convolution's product, as `choose_matmul` has them."""
    (block,) = roles.blocks
    groups, node = _read_groups(sch, block)[0], sch.get(block)
    rows, columns, steps = (
        math.prod(constant(node.iter_vars[at].dom.extent) or 1 for at in group)
        for group in groups[:3]
    )
    sizes = Sizes(rows, columns, steps, node.reads[-1].source.dtype, across_k=groups.across_k)
    return choose_for_sizes(sizes, device=device, tensor_cores=tensor_cores)


def _find_difference(sch: Schedule, block: SBlockRV) -> str:
    """What a block has that a convolution has not; "" if it is one."""
    node, name = sch.get(block), get_sblock_name(sch, block)
    if not node.iter_vars or not isinstance(node.body, BufferStore):
        return f"block '{name}' is no sum of one value over loops"
    if None in [constant(it.dom.extent) for it in node.iter_vars]:
        return f"block '{name}' has open sizes"
    if str(node.iter_vars[0].var.ty.dtype) != "int32":
        return f"block '{name}' has indices of {node.iter_vars[0].var.ty.dtype}, not of int32"
    if node.init is None or len(node.writes) != 1 or len(node.reads) != 2:
        return f"block '{name}' reads {len(node.reads)} tensors, and a convolution two"
    if not _adds_products(node):
        return f"block '{name}' does not add up products of two operands, from zero on"
    written = list(node.body.indices)
    spatial = [it.var for it in node.iter_vars if it.iter_type == IterVar.DataPar]
    if len(written) != len(spatial) or not all(is_among(each, written) for each in spatial):
        return f"block '{name}' writes at other indices than its spatial iterators"
    first, second = _find_owners(node)
    both = [it for it in spatial if is_among(it, first) == is_among(it, second)]
    if both:
        return (
            f"iterator '{both[0].name}' of block '{name}' is in the indices of both operands, or "
            "of none"
        )
    # Rows and columns, in whatever order, and steps.
    first, _ = _find_owners(node)
    counts = [1, 1, 1]
    for it in node.iter_vars:
        group = 2 if it.iter_type != IterVar.DataPar else int(not is_among(it.var, first))
        counts[group] *= constant(it.dom.extent) or 1
    sizes, (rows, columns, steps) = " by ".join(map(str, counts)), counts
    if 1 in counts:
        return f"block '{name}' is a product of {sizes}, and all are more than 1"
    if max(rows, columns) * steps >= _MOST_ELEMENTS:
        return f"block '{name}' is a product of {sizes}, whose matrices 32 bits do not number"
    return ""


def _adds_products(node: Any) -> bool:
    """Whether a block adds up products of what it loads of two tensors, from zero on."""
    factors, zero = find_factors(node.body), node.init
    if factors is None or not isinstance(zero, BufferStore):
        return False
    first, second = (it.source for it in factors)
    apart = not first.same_as(second) and not is_among(node.body.buffer, (first, second))
    return apart and getattr(zero.value, "value", None) == 0


def _find_owners(node: Any) -> tuple[list[Any], list[Any]]:
    """The variables in the indices of what a block reads first, and of what it reads second."""
    first, second = (
        [var for part in region.region for var in undefined_vars(part.min)] for region in node.reads
    )
    return first, second


def _read_groups(sch: Schedule, block: SBlockRV) -> tuple[Groups, bool]:
    """Rows, columns and steps of a convolution, and whether its second operand has the rows.

    The columns are of the operand whose iterator numbers neighbours in the result.
    """
    node = sch.get(block)
    first, second = _find_owners(node)
    last = node.body.indices[-1]
    swapped = is_among(last, first)
    mine, other = (second, first) if swapped else (first, second)
    places = {"rows": mine, "columns": other}
    spatial = [at for at, it in enumerate(node.iter_vars) if it.iter_type == IterVar.DataPar]
    rows, columns = (
        tuple(at for at in spatial if is_among(node.iter_vars[at].var, places[name]))
        for name in ("rows", "columns")
    )
    steps = tuple(at for at in range(len(node.iter_vars)) if at not in spatial)
    region = node.reads[0 if swapped else 1].region[-1].min
    lies_across = any(is_among(node.iter_vars[at].var, undefined_vars(region)) for at in columns)
    return Groups(rows, columns, steps, lies_across), swapped
