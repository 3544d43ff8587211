"""Which lane of a warp holds which element of a matrix, in the fragments of mma.sync m16n8k*.

From the PTX ISA, "Matrix Fragments for mma.m16n8k*". A register of 32 bits holds ``e = 32 / bits``
neighbours along k of A or of B, so that the fragments of all types are one formula. What stands
here is used by the intrinsics, by the tests of the simulator and by the pictures of the documents.

Tiles are 16 rows of A, 16 columns of B (two instructions of 8 side by side) and `get_depth` steps
of k, the 32 bytes that a row of A takes.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from ..gpu_limits import WARP

Role = Literal["A", "B", "C"]
"""A (rows, k), B (k, columns) or the sums C (rows, columns)."""
SIDE = 16
"""Rows and columns of the tile that a warp computes by one pair of instructions."""
QUAD = 4
"""Lanes that share a row of the sums."""
ROW_BYTES = 32
"""Of a tile's row along k, in all types."""


class FragmentPlace(NamedTuple):
    """Where an element of a tile lies: its lane, and its place among the elements of that lane."""

    lane: Any
    element: Any


class Element(NamedTuple):
    """What lies at a place: the row and the column in the tile."""

    row: Any
    column: Any


def get_depth(bits: int) -> int:
    """The steps of k of an instruction: 8 for 32 bits, 16 for 16 bits, 32 for 8 bits."""
    return ROW_BYTES * 8 // bits


def get_share(role: Role, bits: int) -> int:
    """How many elements of a tile a lane holds."""
    return SIDE * (SIDE if role == "C" else get_depth(bits)) // WARP


def place_in_fragment(role: Role, row: Any, column: Any, *, bits: int) -> FragmentPlace:
    """The place of an element of a tile; numbers or expressions of TIR.

    With ``e = 32 // bits``, lane ``4 * g + q`` has the row ``g`` of each 8 rows of A (the column of
    B), and there the elements ``e * q`` to ``e * q + e - 1`` of each ``4 * e``. Its registers go
    through the halves of 8 rows of A first and then through those of k; of B, whose halves of 8
    columns are operands of two instructions, through those of k first. Of C, whatever its type,
    a lane holds two neighbours of row ``g`` from column ``2 * q`` on, the halves of rows first.
    """
    if role == "C":
        lane = 4 * (row % 8) + column % 8 // 2
        return FragmentPlace(lane, 4 * (column // 8) + 2 * (row // 8) + column % 2)
    along, across = (column, row) if role == "A" else (row, column)
    each = 32 // bits
    lane = 4 * (across % 8) + along % (4 * each) // each
    halves = along // (4 * each), across // 8
    register = 2 * halves[0] + halves[1] if role == "A" else 2 * halves[1] + halves[0]
    return FragmentPlace(lane, register * each + along % each)


def get_element(role: Role, lane: Any, element: Any, *, bits: int) -> Element:
    """What lies at a place: the inverse of `place_in_fragment`."""
    if role == "C":
        return Element(
            lane // 4 + 8 * (element // 2 % 2), lane % 4 * 2 + 8 * (element // 4) + element % 2
        )
    each = 32 // bits
    register = element // each
    first, second = register % 2, register // 2
    along_half, across_half = (second, first) if role == "A" else (first, second)
    along = 4 * each * along_half + each * (lane % 4) + element % each
    across = 8 * across_half + lane // 4
    return Element(across, along) if role == "A" else Element(along, across)


def get_matrix_row(role: Role, lane: Any, *, bits: int, is_transposed: bool = False) -> Element:
    """The 16 bytes that a lane names for ldmatrix: the row of one of four matrices of 8 rows.

    Matrix m becomes register m of all lanes, and lanes 8 * m to 8 * m + 7 name its rows. The
    element is in the tile as it lies in memory: A (rows, k); B (k, columns), of which ldmatrix
    transposes each matrix; or, with `is_transposed`, B (columns, k).
    """
    matrix, row, width = lane // 8, lane % 8, 128 // bits
    if role == "B" and is_transposed:
        return Element(row + 8 * (matrix // 2), width * (matrix % 2))
    return Element(row + 8 * (matrix % 2), width * (matrix // 2))
