"""Lowered kernels for tensor cores with a fragment, a layout or a tile wrong."""

from .in_lowered_barriers import SYNC, plant_lowered
from .plant import Edit, Mutant, drop


def _plant(name: str, kind: str, text: str, *edits: Edit) -> Mutant:
    return plant_lowered(name, kind, text, "matmul on tensor cores", *edits)


IN_LOWERED_TENSOR_CORES = (
    _plant(
        "ldmatrix from the other tile",
        "wrong buffer",
        "the fragment of A is loaded from the tile of B",
        Edit(
            'T.tvm_access_ptr(T.type_annotation("float16"), A_shared',
            'T.tvm_access_ptr(T.type_annotation("float16"), B_shared',
        ),
    ),
    _plant(
        "ldmatrix without .trans",
        "fragment's layout",
        "the fragment of B, whose tile has rows of k, is loaded as that of A is",
        Edit("ldmatrix(T.bool(True)", "ldmatrix(T.bool(False)"),
    ),
    _plant(
        "ldmatrix of two matrices",
        "fetch one short",
        "ldmatrix.x2 for .x4: half of the fragment of A is never loaded",
        Edit("T.bool(False), 4,", "T.bool(False), 2,"),
    ),
    _plant(
        "ldmatrix with the rows of others",
        "fragment's layout",
        "lanes 8 to 15 give the rows of lanes 0 to 7",
        Edit("threadIdx_x % 16 * 16", "threadIdx_x % 8 * 16"),
    ),
    _plant(
        "operands of mma swapped",
        "wrong operand",
        "the fragment of B comes first",
        Edit("A_local.data, 0, B_local.data, 0,", "B_local.data, 0, A_local.data, 0,"),
    ),
    _plant(
        "first half of B twice",
        "wrong operand",
        "the second mma multiplies with the columns of the first",
        Edit("B_local.data, 4,", "B_local.data, 0,"),
    ),
    _plant(
        "both halves in one place",
        "aliased",
        "the second mma adds to the sums of the first",
        Edit("C_local.data, 4,", "C_local.data, 0,"),
    ),
    _plant(
        "accumulator not initialized",
        "init lost",
        "the fragment of the sums is not set to zero",
        drop("C_local[i] = T.float32(0.0)"),
    ),
    _plant(
        "half of the accumulator initialized",
        "init lost",
        "4 sums of 8 are set to zero",
        Edit("for i in range(8):", "for i in range(4):"),
    ),
    _plant(
        "fragment stored as rows",
        "fragment's layout",
        "lanes store 8 rows of 4 pairs as 4 rows of 8 pairs",
        Edit(
            "threadIdx_x // 4 * 16 + i // 4 * 8 + threadIdx_x % 4 * 2",
            "threadIdx_x // 8 * 16 + i // 4 * 8 + threadIdx_x % 8 * 2",
        ),
    ),
    _plant(
        "no barrier before ldmatrix",
        "barrier dropped",
        "lanes load rows that other lanes have just stored",
        drop(SYNC, 1),
    ),
    _plant(
        "next tiles over these",
        "barrier dropped",
        "lanes store the next tiles while others load from these",
        drop(SYNC, 0),
    ),
)
