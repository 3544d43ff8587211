"""Where wgmma finds its matrices: the tiles in shared memory, and the sums in registers.

From the PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". A
warpgroup is four warps. An instruction multiplies 64 rows of A by up to 256 columns of B, over 32
bytes of k. It reads both from shared memory, which a descriptor of 64 bits describes, and its sums
lie in the registers of all 128 threads. What stands here is used by the intrinsics, by the
transforms that lay tiles, by tests and by the pictures of the documents.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from .fragments import ROW_BYTES, Element

ROWS = 64
"""Of A and of the sums, in each instruction."""
THREADS = 128
"""Of a warpgroup."""
MAX_COLUMNS = 256
"""Of B and of the sums, in each instruction."""
CHUNK_BYTES = 16
"""What a swizzle moves, and what an asynchronous copy takes at most."""
GROUP = 8
"""Rows that are swizzled together."""
BANK_BYTES = 128
"""What all banks of shared memory hold side by side."""
Swizzle = Literal[16, 32, 64, 128]
"""The bytes of a row of a tile; its chunks change places within it. 16 is no swizzle."""
SWIZZLES: tuple[Swizzle, ...] = (128, 64, 32, 16)
CODES: dict[int, int] = {16: 0, 32: 1, 64: 2, 128: 3}
"""TVM's numbers of the swizzles of a descriptor."""
NARROW_COLUMNS = (*range(8, 33, 8), *range(48, 225, 16))
"""Those that an instruction of 8-bit integers takes, as its syntax has them."""


class PlaceInAccumulator(NamedTuple):
    """Where a sum lies: the thread of the warpgroup, and the place among its elements."""

    thread: Any
    element: Any


class TilePlace(NamedTuple):
    """Where an element of a tile lies in shared memory.

    Attributes
    ----------
    slab : of columns that one row of the swizzle's bytes holds
    row : of the tile
    chunk : of 16 bytes in that row
    element : in that chunk
    """

    slab: Any
    row: Any
    chunk: Any
    element: Any


class Strides(NamedTuple):
    """What a descriptor says beside the address and the swizzle, in units of 16 bytes."""

    leading: Any
    stride: Any


def place_in_accumulator(row: Any, column: Any) -> PlaceInAccumulator:
    """The place of a sum of a tile of 64 rows; numbers or expressions of TIR.

    Each warp has 16 rows, and of these thread ``4 * g + q`` has the rows ``g`` and ``g + 8`` and
    of each 8 columns the two from ``2 * q`` on: the layout of mma.sync, for any number of columns.
    """
    thread = row // 16 * 32 + row % 8 * 4 + column % 8 // 2
    return PlaceInAccumulator(thread, column // 8 * 4 + row % 16 // 8 * 2 + column % 2)


def get_accumulated(thread: Any, element: Any) -> Element:
    """What lies at a place: the inverse of `place_in_accumulator`."""
    row = thread // 32 * 16 + thread % 32 // 4 + element % 4 // 2 * 8
    return Element(row, element // 4 * 8 + thread % 4 * 2 + element % 2)


def choose_swizzle(row_bytes: int) -> Swizzle:
    """The widest swizzle for rows of so many bytes: 128, 64, 32, or 16, which is none."""
    return next((width for width in SWIZZLES if row_bytes % width == 0), SWIZZLES[-1])


def get_tile_shape(
    rows: int, columns: int, *, bits: int, swizzle: int
) -> tuple[int, int, int, int]:
    """The slabs, rows, chunks and elements of a tile in shared memory."""
    chunk = CHUNK_BYTES * 8 // bits
    return columns * bits // (8 * swizzle), rows, swizzle // CHUNK_BYTES, chunk


def place_in_tile(
    row: Any, column: Any, *, bits: int, swizzle: int, is_one_slab: bool = False
) -> TilePlace:
    """The place of an element of a tile whose columns lie side by side in global memory.

    A row of the swizzle's bytes follows the other; where the tile is wider, the next slab holds
    the columns that are left. The chunks of a row are exchanged by the bits of their address above
    the 128 bytes that all banks hold, so that the same chunk of eight rows lies in different banks.
    `is_one_slab` says that there are no more columns than those of one: TVM cannot invert the
    quotient and the remainder of these.
    """
    size = bits // 8
    chunk = CHUNK_BYTES // size
    slab, inside = split_by(column, swizzle // size, is_one=is_one_slab)
    return TilePlace(slab, row, swizzle_chunk(row, inside // chunk, swizzle), column % chunk)


def split_by(index: Any, size: int, *, is_one: bool) -> tuple[Any, Any]:
    """The quotient and the remainder of an index; 0 and itself where there is but one part."""
    return (index * 0, index) if is_one else (index // size, index % size)


def swizzle_chunk(row: Any, chunk: Any, swizzle: int) -> Any:
    """Where a chunk of a row lies among those of its row."""
    chunks = swizzle // CHUNK_BYTES
    if chunks == 1:
        return chunk * 0
    each = BANK_BYTES // swizzle
    # The remainder changes nothing, but lets TVM see how many chunks there are.
    return (chunk ^ (row // each % chunks)) % chunks


def get_strides(slab_bytes: Any, *, swizzle: int, is_along_k: bool) -> Strides:
    """The strides of a descriptor, for a tile whose slabs are so many bytes apart.

    `is_along_k` says that the elements of a row are neighbours along k, as those of A are; rows of
    B as (k, columns) go through its columns. Eight rows are one group, of which the next lies
    `stride` further on; `leading` is the way to the next slab, which along k is used without a
    swizzle only. Without one, rows of 8 columns have the two the other way round.
    """
    slab, group = slab_bytes // CHUNK_BYTES, GROUP * swizzle // CHUNK_BYTES
    if is_along_k:
        return Strides(slab if swizzle == CHUNK_BYTES else 1, group)
    return Strides(group, slab) if swizzle == CHUNK_BYTES else Strides(slab, group)


def get_step(slab_bytes: Any, step: Any, *, bits: int, swizzle: int, is_along_k: bool) -> Any:
    """How far the operand of a step of k lies from the first one's, in units of 16 bytes."""
    if not is_along_k:
        return step * (ROW_BYTES * 8 // bits) * (swizzle // CHUNK_BYTES)
    if swizzle < ROW_BYTES:
        return step * 2 * (slab_bytes // CHUNK_BYTES)
    each = swizzle // ROW_BYTES
    return step // each * (slab_bytes // CHUNK_BYTES) + step % each * (ROW_BYTES // CHUNK_BYTES)


def choose_columns(columns: int, *, dtype: str, multiple: int = 8) -> int | None:
    """The most columns of an instruction that divide a tile's; None where there are none.

    `multiple` is what they must be a multiple of, the columns of a slab where B is (k, columns).
    """
    allowed = NARROW_COLUMNS if dtype.endswith("int8") else range(8, MAX_COLUMNS + 1, 8)
    fitting = [it for it in allowed if columns % it == 0 and it % multiple == 0]
    return max(fitting, default=None)
