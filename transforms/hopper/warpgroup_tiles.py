"""Hopper's tensor cores by schedule: tiles of warpgroups, in swizzled shared memory, by wgmma.

A matmul becomes wgmma in this order: `tile_in_warpgroups`; its result in registers; its operands
in shared memory with `stage_swizzled_at`; the reduction decomposed; and `tensorize_warpgroups`.
Warpgroups are on threadIdx.y and their 128 threads on threadIdx.x, which only the copies into
shared memory have before the last step: until then each thread computes what its warpgroup does,
in registers of its own.

The store of sums into a tile in shared memory, computed with in registers (`store_computed`), is no
tensor intrinsic of TVM's, which would have to describe every function of the sums: what a block
computes of each of them is repeated for those that a thread has. Results of 16 bits go by stmatrix,
which stores four matrices of 8 by 8 at once: of each, eight lanes name the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tvm.ir import Range, TensorLoad
from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.script import tirx as T
from tvm.tirx import (
    BufferLoad,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IntImm,
    IterVar,
    Ramp,
    SeqStmt,
    Var,
    const,
    decl_buffer,
)
from tvm_ffi import structural_map

from ..annotations import TMA_IN_FLIGHT, computes_first
from ..binding import bind_loop
from ..caching import fetch_by_threads, place_copy_at
from ..gpu_limits import WARP
from ..loops import Tail, require_factors
from ..queries import get_extent, get_outer_loops, get_own_loops, get_realize, get_sblock_name
from ..rewriting import cover_all, open_loops, replace_blocks
from ..schedule import TransformError, inlines, transform
from ..tensor_cores.fragments import QUAD, SCOPE, SIDE
from ..tensor_cores.mma_tiles import (
    is_along_k,
    require_matmul_loops,
    require_parts,
    require_register_store,
    require_tf32,
    tile_copy,
)
from ..tir import bind_ranges, constant, replace_fields, substitute
from .wgmma_intrinsics import (
    CHUNK_BYTES,
    GROUP,
    ROWS,
    SWIZZLES,
    THREADS,
    WgmmaIntrinsics,
    WgmmaTile,
    begin_with_slabs,
    choose_swizzle,
    get_accumulated,
    get_wgmma_intrinsics,
    place_in_accumulator,
    place_in_tile,
    split_by,
    swizzle_chunk,
)

TILE_STORE = "tirstep_tile_store"
"""Our annotation of a block that stores sums into a tile whose layout is not chosen yet."""
MATRIX_BITS = 16
"""Bits of an element that stmatrix stores."""
_PAIR = 2
"""Neighbours in a row of the sums that a thread has."""


def store_computed(outer: SBlock, tile: WgmmaTile, sums: Any) -> SBlock:
    """The block of a warpgroup's tile, whose threads compute its elements of the sums they have.

    `sums` lie as instructions of `tile` leave them.
    """
    loops, realize = open_loops(outer.body)
    inner, target, (down, across) = realize.block, realize.block.body.buffer, tile.blocks
    taken = next(it for it in outer.reads if it.source.same_as(sums))
    own = _view(sums, [constant(it.extent) or 1 for it in taken.region], "C")
    names = ("tx", "i", "j", "part")
    thread, i, j, at = (Var(name, "int32") for name in names)
    analyzer = bind_ranges(())
    for it, extent in ((thread, THREADS), (i, down), (j, across), (at, tile.share)):
        analyzer.bind(it, Range.from_min_extent(0, extent))
    for iterator in outer.iter_vars:
        analyzer.bind(iterator.var, iterator.dom)

    def find_values(element: Any, of_pair: Any = 0) -> dict[Any, Any]:
        """The iterators of an element of a thread, or of its neighbour where `of_pair` is 1."""
        row, column = get_accumulated(thread, element)
        places = i * ROWS + row, j * tile.each + column + of_pair
        variables = dict(zip((loop.loop_var for loop in loops[-2:]), places, strict=True))
        values = zip(inner.iter_vars, realize.iter_values, strict=True)
        return {iterator.var: substitute(value, variables) for iterator, value in values}

    def compute_pair(first: Any, store: Callable[[Any, Any], Any]) -> For:
        """The values of a thread's element and its neighbour, stored as one vector."""
        of_pair = Var("of_pair", "int32")
        analyzer.bind(of_pair, Range.from_min_extent(0, _PAIR))
        values = find_values(first, of_pair)

        def load(node: Any) -> Any:
            if node.source.same_as(sums):
                front = [0] * (len(own.shape) - 4)
                return BufferLoad(own, [*front, i, j, 0, first + of_pair])
            indices = (substitute(index, values) for index in node.indices)
            return BufferLoad(node.source, [*map(analyzer.simplify, indices)])

        value = structural_map(inner.body.value, (TensorLoad, load))
        computed = analyzer.simplify(substitute(value, values))
        return For(of_pair, *_upto(_PAIR), ForKind.VECTORIZED, store(computed, of_pair))

    matched = [MatchBufferRegion(own, taken)]
    if target.dtype.bits == MATRIX_BITS:
        part = next(it for it in outer.writes if it.source.same_as(target))
        window = _view(target, [constant(it.extent) or 1 for it in part.region], "D", 3)
        matched.append(MatchBufferRegion(window, part))
        # Four matrices, of 16 rows and columns, at once; two where there are 8 columns only.
        count = 4 if tile.share % 8 == 0 else 2
        kept = decl_buffer((count * _PAIR,), target.dtype, "values", scope="local")
        stores: list[Any] = []
        for register in range(count):
            place = register * _PAIR
            first = at * (count * _PAIR) + place

            def keep(value: Any, of_pair: Any, place: int = place) -> Any:
                return BufferStore(kept, value, [place + of_pair])

            stores.append(compute_pair(first, keep))
        loads = [BufferLoad(kept, [Ramp(_PAIR * it, 1, _PAIR)]) for it in range(count)]
        registers = [T.reinterpret("uint32", load) for load in loads]
        # How far the row of a matrix that a lane names lies from the begin of the tile.
        *_, slabs, _, chunks, width = (constant(size) or 1 for size in window.shape)
        lane = thread % WARP
        row = i * ROWS + thread // WARP * SIDE + lane % SIDE
        chunk = (j * tile.each) // width + at * (count // 2)
        if count == 4:
            chunk = chunk + lane // SIDE
        swizzled = swizzle_chunk(row, chunk % chunks, chunks * width * target.dtype.itemsize)
        offset = row * (chunks * width) + swizzled * width
        if slabs > 1:
            offset = chunk // chunks * window.strides[-4] + offset
        chain = T.ptx[f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16"]
        pointer = window.access_ptr("w", offset=offset, extent=GROUP)
        stores.append(Evaluate(chain(pointer, *registers)))
        others = [it for it in outer.reads if not it.source.same_as(sums)]
        reads, writes = [cover_all(own), *others], [cover_all(window)]
        block = SBlock([], reads, writes, "matrices", SeqStmt(stores), alloc_buffers=[kept])
        body = SBlockRealize([], True, block)
    else:
        count, first = 1, at * _PAIR
        values = find_values(first)
        places = [analyzer.simplify(substitute(it, values)) for it in inner.body.indices]
        *front, last = places  # where an element of a thread goes
        body = compute_pair(
            first, lambda value, of_pair: BufferStore(target, value, [*front, last + of_pair])
        )
    for variable, extent in ((at, tile.share // (count * _PAIR)), (j, across), (i, down)):
        body = For(variable, *_upto(extent), ForKind.UNROLLED, body)
    wait = Evaluate(T.ptx.wgmma.wait_group.sync.aligned(0))
    axis = IterVar(None, Var("threadIdx.x", "int32"), IterVar.ThreadIndex, "threadIdx.x")
    loop = For(thread, *_upto(THREADS), ForKind.THREAD_BINDING, SeqStmt([wait, body]), axis)
    return replace_fields(outer, body=loop, match_buffers=matched)


def _view(buffer: Any, shape: list[int], name: str, dense: int | None = None) -> Any:
    """A part of a buffer as one of its own, of whose dimensions the last ones lie densely."""
    strides: list[Any] = []
    if dense is not None:
        inner = [math.prod(shape[at + 1 :]) for at in range(len(shape) - dense, len(shape))]
        strides = [Var(f"s{at}", "int32") for at in range(len(shape) - dense)]
        strides += [IntImm("int32", each) for each in inner]
    return decl_buffer(
        shape,
        buffer.dtype,
        name,
        strides=strides or None,
        elem_offset=Var(f"{name}_elem_offset", "int32"),
        scope=str(buffer.scope()),
        offset_factor=1,
    )


def _upto(extent: int) -> tuple[Any, Any]:
    return const(0, "int32"), IntImm("int32", extent)


class WarpgroupTile(NamedTuple):
    """A block that is tiled for warpgroups, and its loops.

    Attributes
    ----------
    block : the one that was tiled
    grid, warpgroups : on blockIdx.x and threadIdx.y
    outer : the steps of k of a tile in shared memory
    """

    block: SBlockRV
    grid: LoopRV
    warpgroups: LoopRV
    outer: LoopRV


@transform
def tile_in_warpgroups(
    sch: Schedule,
    block: SBlockRV,
    *,
    tile: Sequence[int],
    warpgroup: Sequence[int],
    tile_k: int,
    swizzle: int = 1,
) -> WarpgroupTile:
    """Tile a matmul for thread blocks and warpgroups, to be computed by wgmma.

    `tile` are the rows and columns that a thread block computes, `warpgroup` those of each
    warpgroup; `tile_k` a shared tile's extent along k. `swizzle` rows of tiles run column by
    column, so that tiles that run at the same time share their operands in the L2 cache.

    rewrite: ``for i, j, k: C`` -> ``for i_0_j_0_i_1 in blockIdx.x: for i_2_j_1 in threadIdx.y:
        for k_0: for i_3, j_2, k_1: C``
    consumes: the block's loops
    returns: the block and the loops of the tile
    requires: its last two spatial loops and its one reduction serial, which tile and tile_k divide,
        and a number of rows of tiles that swizzle divides; a warpgroup of a multiple of 64 rows and
        of 8 columns that divides tile; at most 8 warpgroups
    """
    rows, columns, reduction = require_matmul_loops(sch, block)
    wanted = f"{ROWS} rows and 8 columns", f"use multiples of ({ROWS}, 8)"
    require_parts("warpgroup", tile, warpgroup, (ROWS, 8), wanted, THREADS)
    groups = (tile[0] // warpgroup[0], tile[1] // warpgroup[1])
    pieces = {"warpgroups": groups[0], "warpgroup": warpgroup[0]}
    require_factors(sch, rows, {"swizzle": swizzle, **pieces}, "refuse")
    pieces = {"warpgroups": groups[1], "warpgroup": warpgroup[1]}
    require_factors(sch, columns, pieces, "refuse")
    require_factors(sch, reduction, {"tile_k": tile_k}, "refuse")
    set_, row_tile, row_group, row = sch.split(rows, [None, swizzle, groups[0], warpgroup[0]])
    column_tile, column_group, column = sch.split(columns, [None, groups[1], warpgroup[1]])
    outer, step = sch.split(reduction, [None, tile_k])
    of_grid, of_groups = (set_, column_tile, row_tile), (row_group, column_group)
    sch.reorder(*of_grid, *of_groups, outer, row, column, step)
    grid = sch.fuse(*of_grid)
    bind_loop(sch, grid, axis="blockIdx.x")
    together = sch.fuse(*of_groups)
    bind_loop(sch, together, axis="threadIdx.y")
    return WarpgroupTile(block, grid, together, outer)


@transform
@inlines
def stage_swizzled_at(
    sch: Schedule,
    block: SBlockRV,
    loop: LoopRV,
    *,
    operand: int,
    warpgroups: int,
    vector: int,
    swizzle: int = 128,
    in_quads: bool = False,
    comes_first: bool = False,
    tail: Tail = "refuse",
) -> SBlockRV:
    """Stage an operand's tile in shared memory as wgmma's descriptors read it.

    Rows of 128, 64, 32 or 16 bytes, at most `swizzle`, follow one another, and their chunks of 16
    bytes are permuted by the number of the row (`place_in_tile`); with 16 nothing is permuted. A
    wider tile consists of several slabs of such rows, the last of which may be partly empty: 144
    columns of 16 bits take three slabs of 128 bytes, not nine of 32, which the TMA copies more
    slowly. If warpgroups share a row, each reads whole slabs. An operand of 8 or 32 bits that is
    not stored along k is transposed as it is copied, one element at a time whatever `vector` is,
    since wgmma transposes only 16-bit types. With `in_quads` lanes are 8 on threadIdx.y by 4 on
    threadIdx.x, and warps, four per warpgroup, are on threadIdx.z. With `comes_first` the copy is
    placed before everything else in the loop, as a pipeline needs it. A producer that can be
    inlined is inlined: zero padding becomes part of the fetch.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for f_0: for f_1 in threadIdx.y: for f_2 in
        threadIdx.x: for f_3 in T.vectorized(vector): A_shared[k // 64, i, (k % 64 // 8 ^ i % 8) %
        8, k % 8] = A[i, k]); C += A_shared[...]``
    consumes: the operand's producers, if they are inlined
    returns: the copy block
    requires: what `cache_read_at` and `fetch_cooperatively` require, except that the kernel need
        not have threadIdx.x yet; rows that are multiples of 16 bytes; vectors of 16 bytes at most
    guarded: tiles that begin where their swizzle repeats
    """
    # What a warpgroup reads of an operand's row, and whether its tile is transposed first: where
    # rows do not go along k, and wgmma does not read elements of their size so.
    reads, extents = sch.get(block).reads, [get_extent(sch, it) for it in sch.get_loops(block)[-3:]]
    row, is_transposed = 1, False
    if 0 <= operand < len(reads):  # which the copy refuses otherwise
        if len(extents) < 3 or len(reads[operand].source.shape) < 2:
            raise TransformError(
                f"block '{get_sblock_name(sch, block)}' does not multiply a tile",
                "tile a matmul with tile_in_warpgroups first",
            )
        along = is_along_k(sch.get(block), operand)
        is_transposed = not along and reads[operand].source.dtype.bits != 16
        row = extents[-1 if along or is_transposed else -2] or 1
    copy = place_copy_at(
        sch, block, loop, operand=operand, scope=SCOPE, comes_first=comes_first, inlines=True
    )
    target = sch.get(copy).writes[0].source
    bits = target.dtype.bits
    row_bytes = row * bits // 8
    if swizzle not in SWIZZLES:
        raise TransformError(
            f"swizzle={swizzle} is not a swizzle of wgmma", "use 128, 64, 32, or 16 for no swizzle"
        )
    if row_bytes % CHUNK_BYTES:
        raise TransformError(
            f"a warpgroup reads rows of {row_bytes} bytes of what block "
            f"'{get_sblock_name(sch, copy)}' copies, which are not whole chunks of {CHUNK_BYTES}",
            f"use a tile with rows of a multiple of {CHUNK_BYTES} bytes",
        )
    length = get_extent(sch, get_own_loops(sch, copy)[-1]) or 0
    is_whole = is_transposed or length == row
    width = min(swizzle, choose_swizzle(row_bytes, rounds_up=is_whole))
    vector = 1 if is_transposed else vector
    if vector * bits > CHUNK_BYTES * 8:
        raise TransformError(
            f"vector={vector} of '{target.name}' takes more than a chunk of {CHUNK_BYTES} bytes, "
            "and a swizzle exchanges chunks",
            f"use {CHUNK_BYTES * 8 // bits} or a divisor of it",
        )
    quads = (warpgroups * THREADS // WARP, WARP // QUAD, QUAD)
    shape = quads if in_quads else (warpgroups, THREADS)
    whole_rows = length & (length - 1) > 0 and length % vector == 0
    fetch_by_threads(sch, copy, shape, vector=vector, tail=tail, whole_rows=whole_rows)

    _lay_in_slabs(sch, copy, width, row=row, is_transposed=is_transposed)
    return copy


@transform
@inlines
def tensorize_warpgroups(
    sch: Schedule,
    block: SBlockRV,
    zeros: SBlockRV,
    store: SBlockRV,
    *,
    in_flight: int = 0,
    tf32: bool = False,
    fp22: bool = False,
) -> WgmmaIntrinsics:
    """Multiply tiles in shared memory on Hopper's tensor cores, by wgmma.

    Each step of k is one group of instructions. After it is issued, threads wait until no more
    than `in_flight` groups run; the store waits for all. Types, swizzles and the order of B's
    dimensions are those of the blocks.

    rewrite: ``for i, j, k: C_local += A_shared * B_shared`` -> ``for thread in threadIdx.x:
        fence; wgmma ...; commit; wait`` and so the zeros and the store
    consumes: the own loops of `store`, and the blocks within `block` and `zeros`
    returns: the names of the intrinsics
    requires: the block that `tile_in_warpgroups` returned, decomposed, of operands that
        `stage_swizzled_at` staged; `zeros`, the block that initializes it; the one store of its
        result from registers to ``global`` or ``shared.dyn`` memory, which converts at most, or
        computes with each sum where `store_through_tiles` made it; no predicates; types and columns
        that wgmma multiplies, and ``sm_90a``; for float32 operands `tf32`, which keeps 10 of 23
        bits; for float8 operands `fp22`, accumulators that keep 13 of 23 bits; at most one group in
        flight, in a pipeline that `prefetch_asynchronously` made with `products_first`, or as many
        groups as `prefetch_by_tma` was given, so that no tile is overwritten before its group has
        ended
    guarded: fragments that no other block reads as registers of its own
    """
    is_tile = TILE_STORE in sch.get(store).annotations  # which may do more than to convert
    result = sch.get(store).writes[0].source if is_tile else require_register_store(sch, store)[1]
    product, name = sch.get(block), get_sblock_name(sch, block)
    if len(product.reads) != 3 or product.init is not None:
        raise TransformError(
            f"block '{name}' does not add products of two tiles to its sums",
            "pass the block that tile_in_warpgroups returned, decomposed",
        )
    advice = "stage both operands with stage_swizzled_at"
    swizzles = [read_swizzle(name, it.source, advice) for it in product.reads[1:]]
    rows, columns, depth = (get_extent(sch, loop) or 0 for loop in sch.get_loops(block)[-3:])
    tile = WgmmaTile(
        dtype=str(product.reads[1].source.dtype),
        acc=str(_find_sums(sch, store)[1].dtype),
        rows=rows,
        columns=columns,
        depth=depth,
        transpose_b=is_along_k(product, 2),
        swizzles=(swizzles[0], swizzles[1]),
        in_flight=in_flight,
    )
    require_tf32(tile.dtype, tf32)
    if not fp22 and tile.dtype.startswith("float8"):
        raise TransformError(
            f"sums of {tile.dtype} would keep 13 of float32's 23 mantissa bits in wgmma",
            "pass fp22=True to accept that, or use mma.sync",
        )
    name = get_sblock_name(sch, store)
    if constant(get_realize(sch, store).predicate) != 1:
        raise TransformError(
            f"block '{name}' stores a part of its tile, and a warpgroup stores all of it",
            "pad the problem first, or store through shared memory",
        )
    extents = [get_extent(sch, loop) for loop in sch.get_loops(store)[-2:]]
    if extents != [tile.rows, tile.columns]:
        raise TransformError(
            f"block '{name}' stores {extents}, and a warpgroup computes "
            f"{[tile.rows, tile.columns]}",
            "place it at the loop of the warpgroups",
        )
    around = get_outer_loops(sch, sch.get_loops(block)[-3])
    if not any(int(loop.annotations.get(TMA_IN_FLIGHT, 0)) >= in_flight > 0 for loop in around):
        if in_flight and not any(computes_first(loop) for loop in around):
            raise TransformError(
                f"in_flight={in_flight} of block '{get_sblock_name(sch, block)}' would leave "
                "groups in flight that read tiles while the next ones are copied over them",
                "call prefetch_asynchronously(..., products_first=True) first, or "
                "prefetch_by_tma(..., in_flight=...), or use in_flight=0",
            )
        if in_flight > 1:
            raise TransformError(
                f"in_flight={in_flight} of block '{get_sblock_name(sch, block)}' would leave "
                "a group in flight that reads the tile which the next copies overwrite",
                "use in_flight=1",
            )
    out, scope = str(result.dtype), str(result.scope())
    intrinsics = get_wgmma_intrinsics(tile, out=out, store_scope=scope)
    place_of_sums, sums = _find_sums(sch, store)
    *_, height, width = (constant(size) for size in sums.shape)

    def place(*at: Any) -> tuple[Any, ...]:
        *front, row, column = at
        down, inner = split_by(row, ROWS, is_one=height == ROWS)
        right, across = split_by(column, tile.each, is_one=width == tile.each)
        return (*front, down, right, *place_in_accumulator(inner, across))

    sch.transform_layout(store, ("read", place_of_sums), place)
    if is_tile:  # the widest rows that an instruction's columns divide
        _lay_in_slabs(sch, store, choose_swizzle(tile.each * result.dtype.bits // 8))
        sch.unannotate(store, TILE_STORE)
    row = sch.get_loops(store)[-2] if is_tile else tile_copy(sch, store, (ROWS, tile.each))
    alignment = sch.get(store).annotations.get("buffer_dim_align", [])
    # First what writes the sums, of which TVM asks whether it covers what the store reads.
    loops = (sch.get_loops(block)[-3], sch.get_loops(zeros)[-2], row)
    products, fill, piece = (sch.blockize(loop) for loop in loops)
    for dimension in alignment:
        sch.storage_align(piece, *map(int, dimension))
    sch.tensorize(fill, intrinsics.fill)
    if tile.register != tile.acc:
        sch.unsafe_set_dtype(fill, 0, tile.register)
    if is_tile:
        node, (_, sums) = sch.get(piece), _find_sums(sch, piece)
        made = store_computed(node, tile, sums)
        replace_blocks(sch, piece, {node: made}, [], who="tensorize_warpgroups")
    else:
        sch.tensorize(piece, intrinsics.store)
    sch.tensorize(products, intrinsics.multiply)
    return intrinsics


def _lay_in_slabs(
    sch: Schedule, block: SBlockRV, swizzle: int, *, row: int = 0, is_transposed: bool = False
) -> None:
    """Lay what a block writes in rows of a swizzle's bytes, as `place_in_tile` has them: each `row`
    of so many elements begins with a slab.
    """
    tile = sch.get(block).writes[0].source
    bits = tile.dtype.bits
    is_one = constant(tile.shape[-2 if is_transposed else -1]) == swizzle * 8 // bits

    def place(*index: Any) -> tuple[Any, ...]:
        *front, line, column = index
        line, at = (column, line) if is_transposed else (line, column)
        at = begin_with_slabs(at, row, bits=bits, swizzle=swizzle)
        return (*front, *place_in_tile(line, at, bits=bits, swizzle=swizzle, is_one_slab=is_one))

    sch.transform_layout(block, ("write", 0), place, assume_injective_transform=True)


def _find_sums(sch: Schedule, store: SBlockRV) -> tuple[int, Any]:
    """The buffer of the sums that a block stores, and its place among those that it reads."""
    reads = [region.source for region in sch.get(store).reads]
    found = [(at, it) for at, it in enumerate(reads) if str(it.scope()) == "local"]
    if len(found) != 1:
        raise TransformError(
            f"block '{get_sblock_name(sch, store)}' reads {len(found)} buffers in registers",
            "store one product's sums",
        )
    return found[0]


def read_swizzle(name: str, tile: Any, advice: str) -> int:
    """Bytes of a tile's row that block `name` reads; refuse one that wgmma cannot swizzle."""
    chunk = CHUNK_BYTES * 8 // tile.dtype.bits
    if str(tile.scope()) != SCOPE or len(tile.shape) < 4 or constant(tile.shape[-1]) != chunk:
        raise TransformError(
            f"block '{name}' reads '{tile.name}' of scope '{tile.scope()}', which is not a tile "
            "that descriptors of wgmma describe",
            advice,
        )
    return (constant(tile.shape[-2]) or 1) * CHUNK_BYTES
