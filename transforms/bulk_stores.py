"""Results that go through a tile in shared memory, in their own type, and from there by the TMA.

`store_through_tiles` converts sums in registers, an epilogue and all, before they go to shared
memory; `store_by_tma` lets the TMA take the tile from there. It only annotates: the module means
what it did, and any pipeline lowers it to that. `transforms.passes.tma_store` makes the tensor map
and the copies of it.
"""

from __future__ import annotations

import math
from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.tirx import LT, And, BufferStore
from tvm.tirx.analysis import undefined_vars

from .binding import bind_loop
from .bulk_copies import require_tma
from .coverage import require_computed
from .enumeration import compute_values
from .gpu_limits import MAX_SHARED_BYTES, WARP
from .intrinsics.mma import SCOPE
from .intrinsics.staged_stores import TILE_STORE
from .intrinsics.warpgroups import CHUNK_BYTES
from .pass_options import set_pipeline
from .queries import (
    find_epilogue,
    get_own_loops,
    get_realize,
    get_sblock_name,
)
from .schedule import TransformError, transform
from .tensorize import SharedStore, require_tile_loops
from .tir import bind_ranges, constant, get_operands, is_among, substitute
from .tma_tiles import ATOM, TMA_STORE, CopyShape, measure_store
from .vectorize import vectorize_loop
from .whole_tiles import compute_whole_tiles


@transform
def store_through_tiles(
    sch: Schedule,
    block: SBlockRV,
    grid: LoopRV,
    warp_loop: LoopRV,
    *,
    warps: int,
    vector: int,
    lanes: int = WARP,
) -> SharedStore:
    """Let a result go through a tile of its own type in shared memory, converted in registers.

    A consumer of the sums, that converts them, adds a bias or crops a padded problem, computes in
    the registers that hold them, on whole tiles: zeros stand for what it reads outside of a tensor.
    `tensorize_warpgroups` lays the tile in rows of 128, 64, 32 or 16 bytes whose chunks of 16 bytes
    are exchanged by the number of the row (`place_in_tile`), as the TMA reads it.

    rewrite: under `grid`: ``for k: C += ...``, ``D = f(C)`` -> ``(for k: C_local += ...);
        D_shared = f(C_local); for f_0: for f_1 in threadIdx.y: for f_2 in threadIdx.x: for f_3 in
        T.vectorized(vector): D[...] = D_shared[...]``
    consumes: the loops of the consumer
    returns: the block that stores into shared memory, for `tensorize_warpgroups`, and the one that
        writes from there, for `store_by_tma`
    requires: the loops of the grid and of the warpgroups that `tile_in_warpgroups` returned, with
        nothing else in them yet, bound to blockIdx.x and threadIdx.y; its number of `warps` or
        warpgroups, of so many `lanes` each; a vector of 16 bytes at most; a consumer that reads
        each of its sums at its own place, once
    """
    require_tile_loops(sch, block, grid, warp_loop, warps)
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        write = sch.cache_write(block, 0, SCOPE)
        store = sch.cache_write(block, 0, "local")
    else:
        write, store = sch.cache_write(epilogue, 0, SCOPE), epilogue
        compute_whole_tiles(sch, block, store)
        (write,) = sch.get_consumers(store)
        sch.set_scope(block, 0, "local")
    size = sch.get(write).writes[0].source.dtype.itemsize
    if vector < 1 or CHUNK_BYTES % (vector * size):
        raise TransformError(
            f"vector={vector} elements of {size} bytes are no part of a chunk of {CHUNK_BYTES} "
            "bytes, whose places a tile exchanges",
            f"use {CHUNK_BYTES // size} or a divisor of it",
        )
    sch.reverse_compute_at(store, warp_loop, preserve_unit_loops=True)
    sch.reverse_compute_at(write, grid, preserve_unit_loops=True)
    sch.annotate(store, TILE_STORE, 1)
    pieces = sch.split(sch.fuse(*sch.get_loops(write)[-2:]), [None, warps, lanes, vector])
    bind_loop(sch, pieces[1], axis="threadIdx.y")
    bind_loop(sch, pieces[2], axis="threadIdx.x")
    if vector > 1:
        vectorize_loop(sch, pieces[3])
    for producer, consumer in ((block, store), (store, write)):
        require_computed(sch, producer, consumer)
    set_pipeline(sch)
    return SharedStore(store, write)


@transform
def store_by_tma(sch: Schedule, write: SBlockRV, *, arch: str | None = None) -> None:
    """Let the TMA write a tile from shared memory to the tensor.

    All threads end their stores with a fence of the asynchronous proxy and a barrier; one of them
    issues the copies, commits them as one group, and waits for it: until shared memory has been
    read where it is used again, and for all of it before the kernel ends. What lies outside of the
    tensor is not written.

    rewrite: ``D[...] = D_shared[...]`` -> ``fence.proxy.async; barrier; if elected:
        cp.async.bulk.tensor D, D_shared; commit_group; wait_group 0``, when the module is lowered
        by the pipeline "tirstep"
    consumes: nothing
    requires: a block that copies a whole tile from ``shared.dyn`` to global memory, as
        `store_through_tiles` and `tensorize_warpgroups` leave it, in its own type, with no other
        guard than the tensor's end, in a kernel of whole warps; a tensor that the TMA can address:
        a pitch of a multiple of 16 bytes, a tile of at most 256 elements along each dimension;
        compute capability 9.0, where `arch` is given
    """
    require_tma(arch, "leave the copy to threads")
    # The copies that write a tile, all threads and iterations together.
    block, name = sch.get(write), get_sblock_name(sch, write)
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, TensorLoad):
        raise TransformError(
            f"block '{name}' does more than to copy a tile in its own type",
            "convert, add and compute in registers before, with store_through_tiles",
        )
    realize, own = get_realize(sch, write), [sch.get(loop) for loop in get_own_loops(sch, write)]
    first = {loop.loop_var: loop.min for loop in own}
    analyzer = bind_ranges(own)
    places = {
        iterator.var: analyzer.simplify(value - substitute(value, first))
        for iterator, value in zip(block.iter_vars, realize.iter_values, strict=True)
    }
    # Conditions of a block's own loops alone go beyond its tile, say; others may be no more than
    # that an iterator does not go beyond its domain.

    variables = [loop.loop_var for loop in own]
    conditions = []
    for part in get_operands(realize.predicate, And):
        if all(is_among(each, variables) for each in undefined_vars(part)):
            conditions.append(part)
        elif not isinstance(part, LT) or not any(
            constant(part.b) == constant(iterator.dom.extent)
            and constant(analyzer.simplify(part.a - value)) == 0
            for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        ):
            raise TransformError(
                f"block '{name}' writes only where '{part}', and the TMA all that lies inside of "
                "the tensor",
                "guard it by the tensor's end alone, or leave the copy to threads",
            )
    points = _visit(places, conditions, own)
    extents = {
        variable: 1 + max((point[at] for point in points), default=0)
        for at, variable in enumerate(places)
    }
    shape, sizes = measure_store(block, extents, name=name)
    if len(points) < (whole := math.prod(sizes.values())):
        raise TransformError(
            f"block '{name}' copies {len(points)} elements of a tile of {whole}",
            "let it copy the whole tile",
        )
    _require_room(sch.get(write), shape)
    sch.annotate(write, TMA_STORE, shape.to_list())
    set_pipeline(sch)


def _visit(places: dict[Any, Any], conditions: list[Any], own: list[Any]) -> set[tuple[int, ...]]:
    """Where a block's own loops go in its tile, as far as conditions let them."""
    chosen = [range(constant(loop.extent) or 0) for loop in own]
    points = compute_values([*conditions, *places.values()], own, chosen)
    count = len(conditions)
    return {tuple(point[count:]) for point in points if all(point[:count])}


def _require_room(write: Any, shape: CopyShape) -> None:
    """Refuse a tile that a thread block has no shared memory for, beside the mbarriers."""
    used = shape.panels * math.prod(shape.box) * write.writes[0].source.dtype.itemsize
    most = MAX_SHARED_BYTES[SCOPE] - ATOM
    if used > most:
        raise TransformError(
            f"a tile of {used >> 10} KiB does not fit in the {most >> 10} KiB of shared memory "
            "that a block has",
            "use a smaller tile",
        )
