"""ldmatrix and mma: the rows that lanes name, the lanes that hold a fragment, the accumulators."""

from __future__ import annotations

import numpy as np

from .program import (
    BOUNDS,
    MISALIGNED,
    NUMBERS,
    RACE,
    UNINITIALIZED,
    WARP,
    blank,
    family,
    right,
    whole,
    wrong,
)

LANES = np.arange(32)
TILE = {"A": whole(512, "float16")}
FRAGMENTS = {"F": blank(256, "float16")}
STORE = "S[i * 32 + tx] = A[i * 32 + tx]"
SYNC = 'T.tvm_storage_sync("shared")'


def _load(
    *,
    store: str = STORE,
    size: int = 512,
    sync: str = SYNC,
    guard: str = "",
    count: int = 4,
    is_transposed: bool = False,
    row: str = "tx * 16",
    dtype: str = ', dtype="float16"',
) -> str:
    """Fragments F(lane, 8) by one ldmatrix from A's 32 rows of 16 in shared memory."""
    call = (
        f'T.ptx_legacy.ldmatrix(T.bool({is_transposed}), {count}, ".b16", f.data, 0, '
        f"T.address_of(S[{row}]), 0{dtype})"
    )
    return f"""
    S = T.alloc_shared(({size},), "float16")
    f = T.alloc_local((8,), "float16")
    for i in range(16):
        {store}
    for i in range(8):
        f[i] = T.float16(0)
    {sync}
    {f"if {guard}:" if guard else "if T.bool(True):"}
        {call}
    for i in range(8):
        F[tx * 8 + i] = f[i]
    """


def _find_fragments(A, count: int = 4, *, is_transposed: bool = False):
    """What ldmatrix leaves in each lane: of matrix m, rows 8m to 8m + 7 of A, a pair a lane."""
    rows = A.reshape(32, 16)[:, :8]
    held = np.zeros((32, 4, 2), A.dtype)
    for matrix in range(count):
        part = rows[8 * matrix : 8 * matrix + 8]
        part = part.T if is_transposed else part
        for pair in range(2):
            held[:, matrix, pair] = part[LANES // 4, LANES % 4 * 2 + pair]
    return held.ravel()


LOADS = (
    right(
        "ldmatrix of four matrices",
        "lane t names row t, and each lane gets a pair of each matrix",
        _load(),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=_find_fragments,
        arch="sm_75",
    ),
    right(
        "ldmatrix of four matrices, transposed",
        "each lane gets a pair of each matrix' columns",
        _load(is_transposed=True),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=lambda A: _find_fragments(A, is_transposed=True),
        arch="sm_75",
    ),
    wrong(
        "transposed ldmatrix whose call has no type",
        NUMBERS,
        "TVM takes the elements for bytes, and copies them one by one; its printer loses the type",
        _load(is_transposed=True, dtype=""),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=lambda A: _find_fragments(A, is_transposed=True),
        arch="sm_75",
    ),
    right(
        "ldmatrix of padded rows of 24",
        "48 bytes are a multiple of 16",
        _load(
            store="S[(i * 2 + tx // 16) * 24 + tx % 16] = A[i * 32 + tx]", size=768, row="tx * 24"
        ),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=_find_fragments,
        arch="sm_75",
    ),
    wrong(
        "ldmatrix of padded rows of 20",
        MISALIGNED,
        "40 bytes are no multiple of 16",
        _load(
            store="S[(i * 2 + tx // 16) * 20 + tx % 16] = A[i * 32 + tx]", size=640, row="tx * 20"
        ),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=_find_fragments,
        arch="sm_75",
    ),
    wrong(
        "ldmatrix with no barrier behind the stores",
        RACE,
        "a row's elements are stored by other lanes",
        _load(sync="T.evaluate(0)"),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=_find_fragments,
        arch="sm_75",
    ),
    wrong(
        "ldmatrix by half of a warp",
        WARP,
        "all lanes of a warp must run it together",
        _load(guard="tx < 16"),
        inputs=TILE,
        outputs=FRAGMENTS,
        arch="sm_75",
    ),
    right(
        "ldmatrix of two matrices, lanes 16 to 31 name rows nobody wrote",
        "of two matrices the addresses of lanes 0 to 15 count alone",
        _load(
            store="if i < 8:\n            S[i * 32 + tx] = A[i * 32 + tx]",
            count=2,
        ),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=lambda A: _find_fragments(A, 2),
        arch="sm_75",
    ),
    wrong(
        "ldmatrix of four matrices, one of which nobody wrote",
        UNINITIALIZED,
        "lanes 24 to 31 name rows that no thread stored",
        _load(store="if i < 12:\n            S[i * 32 + tx] = A[i * 32 + tx]"),
        inputs=TILE,
        outputs=FRAGMENTS,
        arch="sm_75",
    ),
    wrong(
        "ldmatrix, all lanes name the first matrix",
        NUMBERS,
        "tx % 8 names the rows of matrix 0 four times",
        _load(row="tx % 8 * 16"),
        inputs=TILE,
        outputs=FRAGMENTS,
        expected=_find_fragments,
        arch="sm_75",
    ),
    wrong(
        "ldmatrix of a row beyond the buffer's end",
        BOUNDS,
        "row 31 begins at element 504 and ends at 512, and S has 508",
        _load(
            store="if i * 32 + tx < 508:\n            S[i * 32 + tx] = A[i * 32 + tx]",
            size=508,
            row="tx * 16 + 8",
        ),
        inputs=TILE,
        outputs=FRAGMENTS,
        arch="sm_75",
    ),
)

CLEAR = "for i in range(4):\n    c[i] = T.float32(0)"
A_ROW, A_COLUMN = "(lane // 4 + i // 2 % 2 * 8)", "lane % 4 * 2 + i % 2 + i // 4 * 8"
B_ROW, B_COLUMN = "(lane % 4 * 2 + i % 2 + i // 2 * 8)", "lane // 4"
MULTIPLY = (
    'T.ptx_legacy.mma("m16n8k16", "row", "col", "{0}", "{0}", "fp32", '
    "a.data, 0, b.data, 0, c.data, 0, T.bool(False))"
)


def _multiply(
    *,
    lane: str = "tx",
    clear: str = CLEAR,
    steps: int = 1,
    a_row: str = A_ROW,
    b_guard: str = "T.bool(True)",
    guard: str = "T.bool(True)",
    store: str = "T.bool(True)",
    dtype: str = "float16",
) -> str:
    """D (16, 8) = A (16, 16 steps) × B (16 steps, 8) by mma.m16n8k16, element by element."""
    clear = clear.replace("\n", "\n    ")
    call = MULTIPLY.format({"float16": "fp16", "bfloat16": "bf16"}[dtype])
    return f"""
    a = T.alloc_local((8,), "{dtype}")
    b = T.alloc_local((4,), "{dtype}")
    c = T.alloc_local((4,))
    lane: T.let[T.int32] = {lane}
    {clear}
    for k in range({steps}):
        for i in range(8):
            a[i] = A[{a_row} * {16 * steps} + k * 16 + {A_COLUMN}]
        for i in range(4):
            if {b_guard}:
                b[i] = B[({B_ROW} + k * 16) * 8 + {B_COLUMN}]
        if {guard}:
            {call}
    if {store}:
        for i in range(4):
            D[(lane // 4 + i // 2 * 8) * 8 + lane % 4 * 2 + i % 2] = c[i]
    """


def _operands(steps: int = 1, dtype: str = "float16"):
    return {"A": whole(256 * steps, dtype), "B": whole(128 * steps, dtype, seed=8)}


def _product(A, B):
    A, B = A.astype("float32").reshape(16, -1), B.astype("float32").reshape(-1, 8)
    return (A @ B).ravel()


PRODUCT = {"D": blank(128)}
PRODUCTS = (
    right(
        "mma of fragments as the PTX tables have them",
        "each lane holds its elements of A, B and the sums",
        _multiply(),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    right(
        "mma of bfloat16",
        "each lane holds its elements of A, B and the sums",
        _multiply(dtype="bfloat16"),
        inputs=_operands(dtype="bfloat16"),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    right(
        "mma that adds to the sums of the one before",
        "the accumulators are cleared once, in front of the loop",
        _multiply(steps=2),
        inputs=_operands(2),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    wrong(
        "mma with the fragment of another lane",
        NUMBERS,
        "lane t holds row t // 4 of A, and not row t % 8",
        _multiply(a_row="(lane % 8 + i // 2 % 2 * 8)"),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    wrong(
        "mma adds to accumulators nobody cleared",
        UNINITIALIZED,
        "the sums begin with what was in the registers",
        _multiply(clear="T.evaluate(0)"),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    wrong(
        "mma whose lanes cleared half of the accumulators",
        UNINITIALIZED,
        "c[2] and c[3] begin with what was in the registers",
        _multiply(clear="for i in range(2):\n    c[i] = T.float32(0)"),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    wrong(
        "mma whose odd lanes never loaded B",
        UNINITIALIZED,
        "a fragment is in the registers of all 32 lanes",
        _multiply(b_guard="lane % 2 == 0"),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    wrong(
        "mma by half of a warp",
        WARP,
        "all lanes of a warp must run it together",
        _multiply(guard="lane < 16"),
        inputs=_operands(),
        outputs=PRODUCT,
        arch="sm_80",
    ),
    right(
        "mma by one warp of two",
        "the branch is the same for all lanes of a warp",
        _multiply(lane="tx % 32", guard="tx < 32", store="tx < 32"),
        threads=64,
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    right(
        "mma by a block of 16 by 2 threads",
        "the lane is counted over x and y",
        _multiply(lane="ty * 16 + tx"),
        threads=(16, 2),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
    wrong(
        "mma by a block of 2 by 16 threads, the lane counted over y first",
        NUMBERS,
        "lanes are counted over x first",
        _multiply(lane="tx * 16 + ty"),
        threads=(2, 16),
        inputs=_operands(),
        outputs=PRODUCT,
        expected=_product,
        arch="sm_80",
    ),
)

PROGRAMS = family("tensor cores", (*LOADS, *PRODUCTS))
