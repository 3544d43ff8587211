"""Tensor cores by schedule: tiles of fragments, swizzled shared memory, and the store of results.

A matmul becomes tensorized in this order: `tile_in_fragments`; its result in registers, its
operands in shared memory with `stage_fragments_at`, and from there in registers; the reduction
decomposed; and `tensorize_fragments`. Warps are on threadIdx.y and their lanes on threadIdx.x,
which only the copies into shared memory have before the last step: until then each lane computes
what its warp does, in registers of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from ..annotations import SWIZZLE
from ..binding import bind_loop
from ..caching import fetch_by_threads, place_copy_at
from ..coverage import require_computed
from ..gpu_limits import MAX_THREADS, WARP
from ..layout import pad_shared_rows
from ..loops import Tail, require_factors, require_serial
from ..placement import require_around, require_outside_reductions
from ..queries import (
    find_epilogue,
    find_row_length,
    get_extent,
    get_loop_name,
    get_realize,
    get_reduction_loops,
    get_sblock_name,
    get_spatial_loops,
)
from ..schedule import TransformError, inlines, transform
from ..tir import constant, find_all, get_axis, is_used
from ..vectorize import LANES, vectorize_loop
from .fragments import (
    QUAD,
    SCOPE,
    SIDE,
    MmaIntrinsics,
    get_fragment_shape,
    get_mma_intrinsics,
    place_in_fragment,
)

TileLayout = Literal["rows", "padded", "swizzled"]
"""How the rows of a tile lie in shared memory."""
_WANTED = "tirstep_swizzle"
"""Ours, of a tile whose rows are to be swizzled as soon as ldmatrix reads it, and not before."""
_CHUNK_BYTES = 16
"""Bytes that ldmatrix reads of a matrix row, and that an asynchronous copy takes at most."""


class FragmentTile(NamedTuple):
    """The loops of a block that is tiled for tensor cores, and the block of one fragment.

    Attributes
    ----------
    block : the block of one fragment's product, around the one that was tiled
    grid, warps : on blockIdx.x and threadIdx.y
    outer, inner : the steps of k of a tile in shared memory, and of a fragment
    """

    block: SBlockRV
    grid: LoopRV
    warps: LoopRV
    outer: LoopRV
    inner: LoopRV


@transform
def tile_in_fragments(
    sch: Schedule,
    block: SBlockRV,
    *,
    tile: Sequence[int],
    warp: Sequence[int],
    tile_k: int,
    depth: int = 16,
    swizzle: int = 1,
) -> FragmentTile:
    """Tile a matmul for thread blocks, warps and tensor-core fragments.

    `tile` are the rows and columns that a thread block computes, `warp` those of each warp, in
    fragments of 16×16; `tile_k` is the extent along k of a tile in shared memory, in fragments of
    `depth`. `swizzle` rows of tiles run column by column, so that tiles that run at the same time
    share their operands in the L2 cache.

    rewrite: ``for i, j, k: C`` -> ``for i_0_j_0_i_1 in blockIdx.x: for i_2_j_1 in threadIdx.y:
        for k_0: for k_1: for i_3, j_2: sblock C_o: for i_4, j_3, k_2: C``
    consumes: the block's loops
    returns: the block of a fragment and the loops of the tile
    requires: its last two spatial loops and its one reduction serial, which tile and tile_k divide,
        and a number of rows of tiles that swizzle divides; a warp that consists of fragments of
        16×16 and divides tile; a tile_k that is a multiple of `depth`; at most 32 warps
    """
    rows, columns, reduction = require_matmul_loops(sch, block)
    wanted = f"a fragment's {SIDE}x{SIDE}", f"use multiples of {SIDE}, for rows and columns"
    require_parts("warp", tile, warp, (SIDE, SIDE), wanted, WARP)
    if depth < 1:
        raise TransformError(
            f"depth={depth} is not the depth of a fragment", "pass that of the type, such as 16"
        )
    if tile_k < 1 or tile_k % depth:
        raise TransformError(
            f"tile_k={tile_k} must be a multiple of a fragment's depth, {depth}",
            f"use a multiple of {depth}",
        )
    warps = (tile[0] // warp[0], tile[1] // warp[1])
    pieces = {"warps": warps[0], "warp": warp[0]}
    require_factors(sch, rows, {"swizzle": swizzle, **pieces}, "refuse")
    require_factors(sch, columns, {"warps": warps[1], "warp": warp[1]}, "refuse")
    require_factors(sch, reduction, {"tile_k": tile_k}, "refuse")
    groups, row_tile, row_warp, i, row = sch.split(
        rows, [None, swizzle, warps[0], warp[0] // SIDE, SIDE]
    )
    column_tile, column_warp, j, column = sch.split(
        columns, [None, warps[1], warp[1] // SIDE, SIDE]
    )
    outer, inner, step = sch.split(reduction, [None, tile_k // depth, depth])
    of_grid, of_warps = (groups, column_tile, row_tile), (row_warp, column_warp)
    sch.reorder(*of_grid, *of_warps, outer, inner, i, j, row, column, step)
    fragment = sch.blockize(row)
    grid = sch.fuse(*of_grid)
    bind_loop(sch, grid, axis="blockIdx.x")
    together = sch.fuse(*of_warps)
    bind_loop(sch, together, axis="threadIdx.y")
    return FragmentTile(fragment, grid, together, outer, inner)


def require_parts(
    name: str,
    tile: Sequence[int],
    part: Sequence[int],
    unit: tuple[int, int],
    wanted: tuple[str, str],
    threads: int,
) -> None:
    """Refuse parts of a tile, of so many threads each, that are no multiples of a unit, do not
    divide the tile, or are too many. What is `wanted` of them is told with its advice.
    """
    for what, pair in (("tile", tile), (name, part)):
        if len(pair) != 2 or min(pair) < 1:
            raise TransformError(
                f"{what}={tuple(pair)} is not a pair of sizes",
                "pass two integers >= 1, for rows and columns",
            )
    if part[0] % unit[0] or part[1] % unit[1]:
        raise TransformError(f"{name}={tuple(part)} must be a multiple of {wanted[0]}", wanted[1])
    if tile[0] % part[0] or tile[1] % part[1]:
        raise TransformError(
            f"{name}={tuple(part)} does not divide tile={tuple(tile)}",
            "choose divisors, rows and columns each",
        )
    total = tile[0] // part[0] * (tile[1] // part[1]) * threads
    if total > MAX_THREADS:
        raise TransformError(
            f"tile={tuple(tile)} in {name}s of {tuple(part)} takes {total} threads of a block, and "
            f"a GPU has {MAX_THREADS}",
            f"use a smaller tile, or a larger {name}",
        )


def require_matmul_loops(sch: Schedule, block: SBlockRV) -> tuple[LoopRV, LoopRV, LoopRV]:
    """The loops over rows, columns and k of a matmul, which are serial."""
    spatial, reductions = get_spatial_loops(sch, block)[-2:], get_reduction_loops(sch, block)
    if len(spatial) != 2 or len(reductions) != 1 or len(sch.get(block).reads) != 2:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' has {len(spatial)} spatial loops, "
            f"{len(reductions)} reductions and {len(sch.get(block).reads)} operands",
            "tile a matmul, of two spatial loops, one reduction and two operands",
        )
    for loop in (*spatial, *reductions):
        require_serial(sch, loop)
    return spatial[0], spatial[1], reductions[0]


@transform
@inlines
def stage_fragments_at(
    sch: Schedule,
    block: SBlockRV,
    loop: LoopRV,
    *,
    operand: int,
    warps: int,
    vector: int,
    layout: TileLayout = "rows",
    in_quads: bool = False,
    comes_first: bool = False,
    tail: Tail = "refuse",
) -> SBlockRV:
    """Stage an operand's tile in shared memory, fetched by all lanes of all warps together.

    `layout` says how its rows are stored: unchanged ("rows"), with 16 bytes of padding ("padded"),
    or with their chunks of 16 bytes permuted by the row ("swizzled"). With either of the last two
    the eight rows that ldmatrix reads at once are in different banks. `tensorize_fragments`
    swizzles the copy and the loads at once. With `in_quads` lanes are 8 on threadIdx.y by 4 on
    threadIdx.x, and warps are on threadIdx.z. With `comes_first` the copy is placed before
    everything else in the loop, as a pipeline needs it. A producer that can be inlined is inlined:
    zero padding becomes part of the fetch.

    rewrite: ``for k_0: C += A[...]`` -> ``for k_0: (for f_0: for f_1 in threadIdx.y: for f_2 in
        threadIdx.x: for f_3 in T.vectorized(vector): A_shared[...] = A[...]); C += A_shared[...]``
    consumes: the operand's producers, if they are inlined
    returns: the copy block
    requires: what `cache_read_at` and `fetch_cooperatively` require, except that the kernel need
        not have threadIdx.x yet; for "padded" rows of more than 16 bytes; for "swizzled" 16-bit
        elements, rows of a multiple of 64 bytes, and vectors of 16 bytes at most
    guarded: indices that TVM lowers as they stand, and a barrier where threads share elements
    """
    copy = place_copy_at(
        sch, block, loop, operand=operand, scope=SCOPE, comes_first=comes_first, inlines=True
    )
    if layout == "padded":
        size = sch.get(copy).writes[0].source.dtype.itemsize
        pad_shared_rows(sch, copy, elements=_CHUNK_BYTES // size)
    elif layout == "swizzled":
        name, target = get_sblock_name(sch, copy), sch.get(copy).writes[0].source
        length = find_row_length(sch, copy) or 0
        size = target.dtype.itemsize
        if size != 2:
            raise TransformError(
                f"'{target.name}' has elements of {size} bytes, and TVM swizzles those of 2",
                'use layout="padded"',
            )
        if length == 0 or length % (64 // size):
            raise TransformError(
                f"the tile of block '{name}' has rows of {length * size} bytes, and TVM swizzles "
                "multiples of 64",
                'use a longer tile, or layout="padded"',
            )
        if _CHUNK_BYTES % (vector * size):
            raise TransformError(
                f"vector={vector} of '{target.name}' takes more than a chunk of {_CHUNK_BYTES} "
                "bytes, and TVM exchanges chunks",
                f"use {_CHUNK_BYTES // size} or a divisor of it",
            )
        sch.annotate(copy, _WANTED, 1)
    lanes = (WARP // QUAD, QUAD) if in_quads else (WARP,)
    fetch_by_threads(sch, copy, (warps, *lanes), vector=vector, tail=tail)
    return copy


@transform
@inlines
def tensorize_fragments(
    sch: Schedule,
    block: SBlockRV,
    loads: Sequence[SBlockRV],
    zeros: SBlockRV,
    store: SBlockRV,
    *,
    tf32: bool = False,
) -> MmaIntrinsics:
    """Multiply fragments on tensor cores by mma.sync, loaded by ldmatrix.

    The buffers in registers get the layout of fragments. Types and the order of B's dimensions are
    those of the blocks.

    rewrite: ``for i, j, k: C_local += A_local * B_local`` -> ``for lane in threadIdx.x: mma``
        and so the loads, zeros and the store
    consumes: the own loops of `loads` and `store`, and the blocks within `block` and `zeros`
    returns: the names of the intrinsics, and a fragment's extent along k
    requires: the block that `tile_in_fragments` returned, decomposed; `zeros`, the block that
        initializes it; two copies from ``shared.dyn`` memory into registers, of A and B; the one
        store of its result to ``global`` or ``shared.dyn`` memory, which converts at most; whole
        fragments, without predicates; types that mma.sync multiplies; for float32 operands `tf32`,
        which keeps 10 of 23 bits
    guarded: no other block reads fragments as plain registers
    """
    require_product(sch, block, "tile_in_fragments")
    if len(loads) != 2:
        raise TransformError(f"{len(loads)} loads are given", "pass those of A and of B")
    product = sch.get(block)
    sums, operands = product.writes[0].source, [region.source for region in product.reads[-2:]]
    for role, load, operand in zip("AB", loads, operands, strict=True):
        if not get_copied(sch, load)[1].same_as(operand):
            raise TransformError(
                f"block '{get_sblock_name(sch, load)}' does not write '{operand.name}', the "
                f"product's {role}",
                "pass the blocks that cache_read_at returned for its operands 0 and 1, in order",
            )
        source, target = get_copied(sch, load)
        if (source.scope(), target.scope()) != (SCOPE, "local"):
            raise TransformError(
                f"block '{get_sblock_name(sch, load)}' copies '{source.name}' in scope "
                f"'{source.scope()}' to scope '{target.scope()}'",
                f'load fragments from scope "{SCOPE}" into "local"',
            )
    require_zeros(sch, zeros, sums)
    if not get_copied(sch, store)[0].same_as(sums):
        raise TransformError(
            f"block '{get_sblock_name(sch, store)}' does not store '{sums.name}'",
            "pass the block that accumulate_in_registers or store_through_shared returned",
        )
    dtype = operands[0].dtype
    require_tf32(str(dtype), tf32)
    _, result = require_register_store(sch, store)
    is_transposed = is_along_k(find_all(product.body, SBlock)[0], -1)
    intrinsics = get_mma_intrinsics(
        str(dtype),
        str(sums.dtype),
        out=str(result.dtype),
        transpose_b=is_transposed,
        store_scope=str(result.scope()),
    )
    names = (intrinsics.load_a, intrinsics.load_b, intrinsics.store)
    for role, handle, name in zip("ABC", (*loads, store), names, strict=True):
        tensorize_copy(sch, handle, role, dtype.bits, is_transposed, name)
    for handle, name in ((block, intrinsics.multiply), (zeros, intrinsics.fill)):
        tensorize_unrolled(sch, handle, name)
    return intrinsics


def tensorize_copy(
    sch: Schedule, handle: SBlockRV, role: Any, bits: int, is_transposed: bool, name: str
) -> None:
    """Have an intrinsic of a name copy fragments, whose registers get their layout."""
    shape = get_fragment_shape(role, bits, is_transposed)
    # Refuse a copy whose tile has a predicate, or is no multiple of a fragment.
    extents = [get_extent(sch, loop) for loop in sch.get_loops(handle)[-2:]]
    block = get_sblock_name(sch, handle)
    if constant(get_realize(sch, handle).predicate) != 1:
        raise TransformError(
            f"block '{block}' does not copy all of its tile, and instructions of a warp do",
            "pad the problem first, or store through shared memory",
        )
    if len(extents) != 2 or any(
        (size or 1) % part for size, part in zip(extents, shape, strict=True)
    ):
        raise TransformError(
            f"block '{block}' copies {extents}, which fragments of {shape} do not divide",
            "place it with its whole tile, of fragments",
        )
    # Give the registers of a copy the layout (rows // 16, columns // 16, lane, element).
    flips = role == "B" and is_transposed

    def place(*at: Any) -> tuple[Any, ...]:
        *front, row, column = at
        within = row % shape[0], column % shape[1]
        lane, element = place_in_fragment(role, *(within[::-1] if flips else within), bits=bits)
        return (*front, row // shape[0], column // shape[1], lane, element)

    sch.transform_layout(handle, ("read" if role == "C" else "write", 0), place)
    alignment = sch.get(handle).annotations.get("buffer_dim_align", [])
    fragment = sch.blockize(tile_copy(sch, handle, shape))
    # Swizzle what a load reads where that was wanted, in the load and in the copy.
    for copy in sch.get_producers(fragment):
        if _WANTED in sch.get(copy).annotations:
            sch.unannotate(copy, _WANTED)
            for block in (copy, fragment):
                sch.annotate(block, SWIZZLE, 1)
    for dimension in alignment:
        sch.storage_align(fragment, *map(int, dimension))
    sch.tensorize(fragment, name)


def tensorize_unrolled(sch: Schedule, handle: SBlockRV, name: str) -> None:
    """Have an intrinsic compute a block, whose last two loops are unrolled."""
    for loop in sch.get_loops(handle)[-2:]:
        sch.unroll(loop)
    sch.tensorize(handle, name)


class SharedStore(NamedTuple):
    """The block that stores registers to shared memory, and the one that writes from there."""

    store: SBlockRV
    write: SBlockRV


@transform
def store_through_shared(
    sch: Schedule,
    block: SBlockRV,
    grid: LoopRV,
    warp_loop: LoopRV,
    *,
    columns: int,
    warps: int,
    vector: int,
    lanes: int = WARP,
) -> SharedStore:
    """Store a result from registers through shared memory, and from there in whole rows.

    Lanes of a warp then write adjacent elements, whatever the layout of fragments. A consumer of
    the result that converts it, adds a bias or crops it becomes part of the store.

    rewrite: under `grid`: ``for k: C += ...`` -> ``(for k: C_local += ...); C_shared =
        C_local; for f_0: for f_1 in threadIdx.y: for f_2 in threadIdx.x: for f_3 in
        T.vectorized(vector): C[...] = C_shared[...]``
    consumes: the loops of the consumer
    returns: the block that stores into shared memory, for `tensorize_fragments` or
        `tensorize_warpgroups`, and the one that writes from there
    requires: the loops of the grid and of the warps that `tile_in_fragments` returned, bound to
        blockIdx.x and threadIdx.y, with nothing else in them yet; the `columns` of a thread block's
        tile and its number of `warps` or, with ``lanes=128``, of the warpgroups of
        `tile_in_warpgroups`; a vector of 16 bytes at most
    guarded: each lane stores only its own fragments, with a barrier where threads share elements
    """
    require_tile_loops(sch, block, grid, warp_loop, warps)
    if columns < 1 or vector not in (1, *LANES):
        raise TransformError(
            f"columns={columns} and vector={vector} are not sizes of a tile and a vector",
            f"give the columns of a block's tile, and 1, {', '.join(map(str, LANES))} elements",
        )
    epilogue = find_epilogue(sch, block)
    if epilogue is None:
        write = sch.cache_write(block, 0, SCOPE)
    else:
        write = epilogue
        sch.set_scope(block, 0, SCOPE)
    sch.reverse_compute_at(write, grid, preserve_unit_loops=True)
    store = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(store, warp_loop, preserve_unit_loops=True)
    length = find_row_length(sch, write) or columns
    if columns < length:
        raise TransformError(
            f"columns={columns} are fewer than the {length} of a row of the tile that block "
            f"'{get_sblock_name(sch, write)}' writes",
            "give the columns of the tile",
        )
    size = sch.get(store).writes[0].source.dtype.itemsize
    # Rows a little apart: the pairs that eight lanes store to a column of them are in other banks.
    sch.storage_align(store, 0, axis=-2, factor=columns, offset=2 * _CHUNK_BYTES // size)
    return write_in_rows(sch, block, SharedStore(store, write), [None, warps, lanes, vector])


def write_in_rows(
    sch: Schedule, block: SBlockRV, made: SharedStore, pieces: list[int | None]
) -> SharedStore:
    """Have threads write a tile from shared memory, in pieces of warps, lanes and vectors."""
    loops = sch.split(sch.fuse(*sch.get_loops(made.write)[-2:]), pieces)
    bind_loop(sch, loops[1], axis="threadIdx.y")
    bind_loop(sch, loops[2], axis="threadIdx.x")
    if pieces[3] != 1:
        vectorize_loop(sch, loops[3])
    for producer, consumer in ((block, made.store), made):
        require_computed(sch, producer, consumer)
    return made


def require_tile_loops(
    sch: Schedule, block: SBlockRV, grid: LoopRV, warp_loop: LoopRV, warps: int
) -> None:
    """Refuse loops that are not those of a block's grid and of its warps, one in the other."""
    name = get_sblock_name(sch, block)
    for loop, axis in ((grid, "blockIdx.x"), (warp_loop, "threadIdx.y")):
        require_around(sch, loop, block)
        require_outside_reductions(sch, loop, block)
        if get_axis(sch.get(loop)) != axis:
            raise TransformError(
                f"loop '{get_loop_name(sch, loop)}' of block '{name}' is not bound to {axis}",
                "pass the loops of the grid and of the warps that tile_in_fragments returned",
            )
    if get_extent(sch, warp_loop) != warps:
        raise TransformError(
            f"warps={warps} are not the {get_extent(sch, warp_loop)} of loop "
            f"'{get_loop_name(sch, warp_loop)}'",
            "give the number of warps of the tile",
        )


def require_tf32(dtype: str, is_meant: bool) -> None:
    """Refuse operands that tensor cores round, unless that is meant."""
    if not is_meant and dtype == "float32":
        raise TransformError(
            "float32 operands would be rounded to the 10 bits of TF32",
            "pass tf32=True where that is meant",
        )


def require_product(sch: Schedule, block: SBlockRV, tiling: str) -> None:
    """Refuse a block that is no fragment's product, whose zeros are a block of their own."""
    node, name = sch.get(block), get_sblock_name(sch, block)
    inner, advice = find_all(node.body, SBlock), f"pass the block that {tiling} returned"
    if len(inner) != 1 or len(node.writes) != 1 or len(node.reads) < 2:
        raise TransformError(f"block '{name}' is not a product of fragments", advice)
    if node.init is not None or inner[0].init is not None:
        raise TransformError(
            f"block '{name}' begins its own sums",
            "decompose it (decompose_reduction_at), and pass the block of zeros, too",
        )
    if len(node.reads) != 3 or not node.reads[0].source.same_as(node.writes[0].source):
        raise TransformError(
            f"block '{name}' does not read its sums and two operands, in this order", advice
        )


def require_zeros(sch: Schedule, zeros: SBlockRV, sums: Any) -> None:
    """Refuse a block that does not begin sums, and nothing else."""
    writes = sch.get(zeros).writes
    if sch.get(zeros).reads or len(writes) != 1 or not writes[0].source.same_as(sums):
        raise TransformError(
            f"block '{get_sblock_name(sch, zeros)}' must zero '{sums.name}' and nothing else",
            "pass the block that decompose_reduction_at returned",
        )


def get_copied(sch: Schedule, block: SBlockRV) -> tuple[Any, Any]:
    """The one buffer that a copy reads, and the one that it writes."""
    reads, writes = sch.get(block).reads, sch.get(block).writes
    if len(reads) != 1 or len(writes) != 1:
        raise TransformError(
            f"block '{get_sblock_name(sch, block)}' reads {len(reads)} buffers and writes "
            f"{len(writes)}, and a copy one of each",
            "pass the block that cache_read_at or accumulate_in_registers returned",
        )
    return reads[0].source, writes[0].source


def require_register_store(sch: Schedule, store: SBlockRV) -> tuple[Any, Any]:
    """The buffers of a block that stores registers to memory; refuse any other block."""
    sums, result = get_copied(sch, store)
    if str(result.scope()) not in ("global", SCOPE) or str(sums.scope()) != "local":
        raise TransformError(
            f"block '{get_sblock_name(sch, store)}' stores '{sums.name}' of scope "
            f"'{sums.scope()}' to scope '{result.scope()}'",
            "accumulate in registers, and store to global or shared.dyn memory",
        )
    return sums, result


def is_along_k(block: SBlock, operand: int) -> bool:
    """Whether the last index of an operand is the reduction's; of a B (columns, k) it is."""
    reduced = [item.var for item in block.iter_vars if item.iter_type == item.CommReduce]
    last = block.reads[operand].region[-1].min
    return any(is_used(variable, last) for variable in reduced)


def tile_copy(sch: Schedule, handle: SBlockRV, shape: tuple[int, int]) -> LoopRV:
    """Split a copy's own two loops into fragments, which are unrolled; the loop of one of them."""
    rows, columns = sch.get_loops(handle)[-2:]
    i, row = sch.split(rows, [None, shape[0]])
    j, column = sch.split(columns, [None, shape[1]])
    sch.reorder(i, j, row, column)
    sch.unroll(i)
    sch.unroll(j)
    return row
