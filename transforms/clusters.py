"""Tiles that the blocks of a cluster fetch together: each a slice, for all that need it.

A transform only annotates the pipeline; `transforms.passes.clusters` makes the launch in clusters,
the multicast and the mbarriers of several blocks of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.ir import Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV
from tvm.tirx import For, Var

from .bulk_copies import require_tma
from .decorators import composite
from .errors import TransformError
from .gpu_limits import MAX_CLUSTER
from .queries import get_enclosing_loops, get_loop_name
from .tir import bind_ranges, constant, find_all, get_axis, substitute
from .tma_tiles import (
    ATOM,
    TMA_CLUSTER,
    TMA_COPY,
    TMA_OVERLAP,
    TMA_PERSISTENT,
    TMA_PINGPONG,
    TMA_ROLES,
    CopyShape,
    cut_box,
)

GRID = "blockIdx.x"
"""The axis along which neighbours form a cluster."""
SHARED = (1, 0)
"""Along which of a cluster's rows and columns blocks have the same tile of A, and of B."""


@composite
def multicast_in_clusters(
    sch: Schedule, loop: LoopRV, *, cluster: Sequence[int] = (2, 1), arch: str | None = None
) -> None:
    """Let the blocks of a cluster copy each tile that they share once, to all of them.

    `cluster` counts blocks along the rows of the result, which share tiles of B, and along its
    columns, which share tiles of A. Blocks that follow one another on blockIdx.x are a cluster,
    columns first. Each copies its slice of a shared tile, which the TMA writes to the shared memory
    of all that share it. A stage is full when the slices of all have arrived, and empty when the
    warps of all blocks of the cluster are done with it: they arrive at an mbarrier of each.

    rewrite: ``wait for empty[k % stages]; copy B[k]`` -> ``wait for empty[k % stages] of all
        blocks; copy slice rank of B[k] to all blocks``, in blocks launched in clusters, with
        barriers of the cluster before the first copy and behind the last, when the module is
        lowered
    consumes: nothing
    requires: a loop that copies tiles of A and then of B, to which `specialize_warps` has given
        roles, without `overlap_products` or `alternate_warpgroups`, with as many iterations in each
        block; 2 to 8 blocks of a cluster, that divide blockIdx.x; an order of blocks there in which
        each cluster is a rectangle of tiles; tiles whose slices are whole rows, in multiples of
        1024 bytes; compute capability 9.0, where `arch` is given
    """
    require_tma(arch, "let each block copy its own tiles")
    node, name = sch.get(loop), get_loop_name(sch, loop)
    rows, columns = _read_cluster(cluster)
    if TMA_ROLES not in node.annotations or TMA_CLUSTER in node.annotations:
        raise TransformError(
            f"loop '{name}' is no pipeline by the TMA in which warps have roles, or is one in "
            "clusters already",
            "call prefetch_by_tma and specialize_warps first, and this once",
        )
    if TMA_OVERLAP in node.annotations or TMA_PINGPONG in node.annotations:
        raise TransformError(
            f"loop '{name}' overlaps its products, or lets warpgroups take turns",
            "use clusters without overlap_products and alternate_warpgroups",
        )
    if TMA_PERSISTENT in node.annotations:
        raise TransformError(
            f"the blocks of loop '{name}' stay and go through tiles",
            "use clusters without make_persistent",
        )
    if constant(node.extent) is None:
        raise TransformError(
            f"loop '{name}' has {node.extent} iterations, which blocks of a cluster may not share",
            "use clusters where each block goes through as many tiles",
        )
    grid = _find_grid(sch, loop, rows * columns)
    copies = [block for block in find_all(node.body, SBlock) if TMA_COPY in block.annotations]
    if len(copies) != 2:
        raise TransformError(
            f"loop '{name}' copies {len(copies)} tiles, and a matmul has those of A and of B",
            "use clusters for a matmul",
        )
    for copy, along in zip(copies, SHARED, strict=True):
        _require_shared(copy, node, grid, (rows, columns), along)
        _require_slices(copy, (rows, columns)[along])
    sch.annotate(loop, TMA_CLUSTER, [rows, columns, *SHARED])


def _read_cluster(cluster: Sequence[int]) -> tuple[int, int]:
    if len(cluster) != 2 or min(cluster) < 1 or not 2 <= math.prod(cluster) <= MAX_CLUSTER:
        raise TransformError(
            f"cluster={tuple(cluster)} is no pair of 2 to {MAX_CLUSTER} blocks together",
            "give blocks along rows and along columns, as (2, 1)",
        )
    return cluster[0], cluster[1]


def _find_grid(sch: Schedule, loop: LoopRV, size: int) -> For:
    """The loop whose iterations form clusters."""
    around = [each for each in get_enclosing_loops(sch, loop) if get_axis(each) == GRID]
    if not around:
        raise TransformError(
            f"loop '{get_loop_name(sch, loop)}' is not on {GRID}",
            f"bind the loop over tiles to {GRID}",
        )
    count = constant(around[0].extent)
    if count is None or count % size:
        raise TransformError(
            f"{around[0].extent} blocks on {GRID} do not divide into clusters of {size}",
            "use a cluster, or tiles, of which there is a whole number",
        )
    return around[0]


def _find_start(copy: SBlock, loop: For, grid: For) -> tuple[list[Any], Any]:
    """Where a copy's tile begins in its tensor, and what is known of the loops that say so."""
    realize = next(each for each in find_all(loop.body, SBlockRealize) if each.block.same_as(copy))
    inner = [
        each
        for each in find_all(loop.body, For)
        if any(realize.same_as(other) for other in find_all(each, SBlockRealize))
    ]
    first = {each.loop_var: each.min for each in inner}
    values = {
        iterator.var: substitute(value, first)
        for iterator, value in zip(copy.iter_vars, realize.iter_values, strict=True)
    }
    loads = [load for load in find_all(copy.body, TensorLoad) if load.source.scope() == "global"]
    return [substitute(index, values) for index in loads[0].indices], bind_ranges([loop, grid])


def _require_shared(
    copy: SBlock, loop: For, grid: For, cluster: tuple[int, int], along: int
) -> None:
    """Refuse a tile that is another one in blocks of a cluster along its rows, or columns."""
    (rows, columns), name = cluster, copy.name_hint
    size, (start, analyzer) = rows * columns, _find_start(copy, loop, grid)
    number = Var("cluster", "int32")
    analyzer.bind(number, Range(0, (constant(grid.extent) or size) // size))
    for rank in range(size):
        first = rank // columns * columns if along else rank % columns
        places = [{grid.loop_var: number * size + at} for at in (rank, first)]
        if not all(
            analyzer.can_prove_equal(*(substitute(index, place) for place in places))
            for index in start
        ):
            raise TransformError(
                f"blocks {first} and {rank} of a cluster of {rows} by {columns} neighbours on "
                f"{GRID} do not have the same tile of block '{name}'",
                "order tiles so that clusters are neighbours, as tile_in_warpgroups does with "
                "cluster=, and a swizzle that the cluster's rows divide",
            )


def _require_slices(copy: SBlock, parts: int) -> None:
    shape = CopyShape.of_list(copy.annotations[TMA_COPY])
    box = cut_box(shape.box, parts)
    size = int(copy.writes[0].source.dtype.itemsize)
    if box is None or math.prod(box) * size % ATOM:
        raise TransformError(
            f"block '{copy.name_hint}' copies {shape.box} at once, of which {parts} blocks cannot "
            f"copy a slice each, of whole rows and a multiple of {ATOM} bytes",
            "use a smaller cluster, or a larger tile",
        )
