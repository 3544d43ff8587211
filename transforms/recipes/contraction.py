"""Sums of products over any iterators, as products of two matrices.

Iterators of a block become rows, columns and steps of k in groups, and what it reads becomes two
matrices of these: the reading of a convolution as implicit GEMM, and of other contractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.tirx import IndexMap, const

from ..inlining import inline_producers
from ..queries import find_epilogue
from ..schedule import TransformError
from ..tir import constant


class Groups(NamedTuple):
    """The iterators of a block, by their places, that make rows, columns and k of a product.

    Attributes
    ----------
    rows, columns : those that the first and those that the second operand has alone
    steps : those that are summed over
    across_k : whether the second operand lies as (k, columns), and not as (columns, k)
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    steps: tuple[int, ...]
    across_k: bool = False


def group_iterators(sch: Schedule, block: SBlockRV, groups: Groups) -> tuple[SBlockRV, SBlockRV]:
    """Make a block the product of two matrices, and the block that stores its results one too.

    Returns the blocks that write the matrices, which may be inlined where tiles are fetched.

    rewrite: ``for i, j, k, l: C[i, j] += A[i, k, l] * B[k, l, j]`` -> ``a[r, s] = A[...]; b[c, s]
        = B[...]; for r, c, s: sums[r, c] += a[r, s] * b[c, s]; C = sums``
    requires: constant sizes, of which more than one element in each group
    """
    extents = [constant(iterator.dom.extent) for iterator in sch.get(block).iter_vars]
    if None in extents:
        raise TransformError(
            "make_product", f"the shape {extents} is not constant", "use constant sizes"
        )
    sizes = [size or 1 for size in extents]
    rows, columns, steps, across_k = groups
    counts = [math.prod(sizes[it] for it in group) for group in (rows, columns, steps)]
    if 1 in counts:
        raise TransformError(
            "make_product",
            f"the product of {' by '.join(map(str, counts))} has a dimension of one element, along "
            "which TVM has no index to tile",
            "use conv2d_naive",
        )
    epilogue = find_epilogue(sch, block)
    copies = []
    for operand, own in enumerate(
        ((rows, steps), (steps, columns) if across_k else (columns, steps))
    ):
        copy = sch.reindex(block, ("read", operand))
        index_map = _join(own, sizes, _find_used(sch, block, copy))
        sch.transform_layout(copy, ("write", 0), index_map)
        inline_producers(sch, copy)
        sch.transform_block_layout(copy, index_map)
        copies.append(copy)
    store = sch.reindex(block, ("write", 0))
    of_result = _join((rows, columns), sizes, _find_used(sch, block, store))
    sch.transform_layout(store, ("read", 0), of_result)
    if epilogue is not None:
        sch.compute_inline(store)
        store = epilogue
        of_result = _join((rows, columns), sizes, sorted([*rows, *columns]))
    sch.transform_block_layout(store, of_result)
    whole = sorted([*rows, *columns, *steps])
    sch.transform_block_layout(block, _join((rows, columns, steps), sizes, whole))
    return copies[0], copies[1]


def _find_used(sch: Schedule, block: SBlockRV, copy: SBlockRV) -> list[int]:
    """The iterators of a block that are a buffer's indices, which TVM made out of them.

    It leaves out those of one iteration that it finds in a sum of others.
    """
    node, buffers = sch.get(block), [*sch.get(copy).reads, *sch.get(copy).writes]
    (region,) = (
        region
        for region in (*node.reads, *node.writes)
        if any(region.source.same_as(other.source) for other in buffers)
    )
    return [
        place
        for index in region.region
        for place, iterator in enumerate(node.iter_vars)
        if iterator.var.same_as(index.min)
    ]


def _join(groups: Sequence[Sequence[int]], sizes: Sequence[int], used: Sequence[int]) -> IndexMap:
    """The map of used iterators to one index for each group of them, the last of which varies
    most.
    """

    def place(*at: Any) -> tuple[Any, ...]:
        values = dict(zip(used, at, strict=True))
        joined = []
        for group in groups:
            index: Any = const(0, "int32")
            for iterator in group:
                index = index * sizes[iterator] + values.get(iterator, 0)
            joined.append(index)
        return tuple(joined)

    return IndexMap.from_func(place, ndim=len(used), index_dtype="int32")
