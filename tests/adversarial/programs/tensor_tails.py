"""Tails of tensor cores: tiles of 16 by 16 and 16 by 8 over matrices of 13, 20 and 5."""

from __future__ import annotations

import textwrap

import numpy as np

from .program import (
    BOUNDS,
    NUMBERS,
    RACE,
    UNINITIALIZED,
    Program,
    blank,
    family,
    right,
    whole,
    wrong,
)

ROWS, DEPTH, COLUMNS = 13, 20, 5
IN = {
    "A": whole(ROWS * DEPTH, "float16"),
    "B": whole(DEPTH * COLUMNS, "float16", seed=8),
}
OUT = {"D": blank(ROWS * COLUMNS)}
CALL = (
    'T.ptx_legacy.mma("m16n8k16", "row", "col", "fp16", "fp16", "fp32", '
    "a.data, 0, b.data, 0, c.data, 0, T.bool(False))"
)
ROW, TERM = "(tx // 4 + i // 2 % 2 * 8)", "(k * 16 + tx % 4 * 2 + i % 2 + i // 4 * 8)"
TERM_OF_B, COLUMN = "(k * 16 + tx % 4 * 2 + i % 2 + i // 2 * 8)", "(tx // 4)"
AT_ROW, AT_COLUMN = "(tx // 4 + i // 2 * 8)", "(tx % 4 * 2 + i % 2)"
LOAD_A, LOAD_B = f"A[{ROW} * {DEPTH} + {TERM}]", f"B[{TERM_OF_B} * {COLUMNS} + {COLUMN}]"
IN_A = f"{ROW} < {ROWS} and {TERM} < {DEPTH}"
IN_B = f"{TERM_OF_B} < {DEPTH} and {COLUMN} < {COLUMNS}"
IN_D = f"{AT_ROW} < {ROWS} and {AT_COLUMN} < {COLUMNS}"


def or_zero(load: str, guard: str) -> str:
    return f"T.if_then_else({guard}, {load}, T.float16(0))"


def body(
    *,
    a: str = f"a[i] = {or_zero(LOAD_A, IN_A)}",
    b: str = f"b[i] = {or_zero(LOAD_B, IN_B)}",
    guard: str = IN_D,
    steps: int = 2,
    clear: str = "",
) -> str:
    """D (13, 5) = A (13, 20) × B (20, 5); `clear` stands in the loop over steps."""
    return f"""
    a = T.alloc_local((8,), "float16")
    b = T.alloc_local((4,), "float16")
    c = T.alloc_local((4,))
    for i in range(4):
        c[i] = T.float32(0)
    for k in range({steps}):
{textwrap.indent(clear, " " * 8)}
        for i in range(8):
{textwrap.indent(a, " " * 12)}
        for i in range(4):
{textwrap.indent(b, " " * 12)}
        {CALL}
    for i in range(4):
        if {guard}:
            D[{AT_ROW} * {COLUMNS} + {AT_COLUMN}] = c[i]
    """


def _product(A, B):
    A, B = A[: ROWS * DEPTH].reshape(ROWS, DEPTH), B[: DEPTH * COLUMNS].reshape(DEPTH, COLUMNS)
    return (A.astype("f8") @ B.astype("f8")).ravel()


def ok(name: str, why: str, text: str, **options: object) -> Program:
    usual = {"inputs": IN, "outputs": OUT, "arch": "sm_80", "expected": _product}
    return right(name, why, text, **{**usual, **options})


def bad(name: str, kind: str, why: str, text: str, **options: object) -> Program:
    usual = {"inputs": IN, "outputs": OUT, "arch": "sm_80", "expected": _product}
    return wrong(name, kind, why, text, **{**usual, **options})


WIDER = {"inputs": {**IN, "A": whole(ROWS * DEPTH + 12, "float16")}}
PRODUCTS = (
    ok("tile of 13 by 5 of 20 terms", "what lies outside is zeros, and is not stored", body()),
    bad(
        "tail of rows that is stored",
        BOUNDS,
        "rows 13 to 15 are behind D's end",
        body(guard=f"{AT_COLUMN} < {COLUMNS}"),
    ),
    bad(
        "tail of columns that is stored",
        RACE,
        "columns 5 to 7 of a row are the first ones of the next, which other lanes store",
        body(guard=f"{AT_ROW} * {COLUMNS} + {AT_COLUMN} < {ROWS * COLUMNS}"),
    ),
    ok(
        "tail of terms that is zeros in B alone",
        "zeros times what A has there, finite numbers, add nothing",
        body(a=f"a[i] = {or_zero(LOAD_A, f'{ROW} < {ROWS}')}"),
        **WIDER,
    ),
    bad(
        "tail of terms read behind the end of A",
        BOUNDS,
        "the last row's terms 20 to 31 lie behind A, whatever B has there",
        body(a=f"a[i] = {or_zero(LOAD_A, f'{ROW} < {ROWS}')}"),
    ),
    bad(
        "tail of terms that is in both the next row's",
        BOUNDS,
        "terms 20 to 31 of B lie behind its end",
        body(
            a=f"a[i] = {or_zero(LOAD_A, f'{ROW} < {ROWS}')}",
            b=f"b[i] = {or_zero(LOAD_B, f'{COLUMN} < {COLUMNS}')}",
        ),
        **WIDER,
    ),
    bad(
        "tail of terms that is zeros in A, and in B what was in the registers",
        UNINITIALIZED,
        "zero times NaN is NaN; the step before left numbers there, and the first lanes none",
        body(b=f"if {IN_B}:\n    b[i] = {LOAD_B}"),
    ),
    bad(
        "tail of terms that is left out",
        NUMBERS,
        "20 terms are two steps of 16, and not one",
        body(steps=DEPTH // 16),
    ),
    bad(
        "sums cleared in each step",
        NUMBERS,
        "the sums of the step before are lost",
        body(clear="for i in range(4):\n    c[i] = T.float32(0)"),
    ),
    bad(
        "guard of A's terms with the numbers of B's",
        NUMBERS,
        "lanes hold terms of A in another order than of B: four of them are left out",
        body(a=f"a[i] = {or_zero(LOAD_A, f'{ROW} < {ROWS} and {TERM_OF_B} < {DEPTH}')}"),
        **WIDER,
    ),
)
BYTES = {"A": whole(16 * 32, "int8"), "B": whole(32 * 8, "int8", seed=8)}
SUMS = {"D": blank(128, "int32")}
OWN_BYTES = "(tx % 4 * 4 + i % 4 + i // 4 * 16) * 8 + tx // 4"


def integers(*, of_b: str = OWN_BYTES, of_a: str = "tx % 4 * 4 + i % 4 + i // 8 * 16") -> str:
    """D (16, 8) = A (16, 32) × B (32, 8) of bytes."""
    return f"""
    a = T.alloc_local((16,), "int8")
    b = T.alloc_local((8,), "int8")
    c = T.alloc_local((4,), "int32")
    for i in range(4):
        c[i] = 0
    for i in range(16):
        a[i] = A[(tx // 4 + i // 4 % 2 * 8) * 32 + {of_a}]
    for i in range(8):
        b[i] = B[{of_b}]
    T.ptx_legacy.mma("m16n8k32", "row", "col", "int8", "int8", "int32", a.data, 0, b.data, 0,
                     c.data, 0, T.bool(False))
    for i in range(4):
        D[{AT_ROW} * 8 + {AT_COLUMN}] = c[i]
    """


def _byte_product(A, B):
    return (A.reshape(16, 32).astype("i8") @ B.reshape(32, 8).astype("i8")).ravel()


INTEGERS = (
    ok(
        "mma of bytes",
        "each lane holds four neighbours along k, twice or four times",
        integers(),
        inputs=BYTES,
        outputs=SUMS,
        expected=_byte_product,
    ),
    bad(
        "mma of bytes whose fragments are those of halves",
        NUMBERS,
        "neighbours along k are four, and not two",
        integers(of_b="(tx % 4 * 2 + i % 2 + i // 2 * 8) * 8 + tx // 4"),
        inputs=BYTES,
        outputs=SUMS,
        expected=_byte_product,
    ),
    ok(
        "mma of bytes whose terms are in another order in both",
        "a sum does not ask for the order of its terms",
        integers(
            of_a="tx % 4 * 8 + i % 4 + i // 8 * 4",
            of_b="(tx % 4 * 8 + i % 4 + i // 4 * 4) * 8 + tx // 4",
        ),
        inputs=BYTES,
        outputs=SUMS,
        expected=_byte_product,
    ),
)
HALVES = {"inputs": {"A": whole(36)}, "outputs": {"B": blank(64)}}


def copies(valid: str, *, size: int = 40) -> str:
    """Vectors of four floats, of 36 that there are; bytes behind the valid ones become zero."""
    return f"""
    S = T.alloc_buffer((64,), "float32", scope="shared.dyn")
    if tx < 16:
        T.ptx["cp.async.cg.shared.global"](
            S.access_ptr("w", offset=tx * 4), A.access_ptr("r", offset=T.min(tx * 4, 32)), 16,
            T.Cast("uint32", {valid}))
    T.ptx["cp.async.commit_group"]()
    T.ptx["cp.async.wait_group"](0)
    T.tvm_storage_sync("shared")
    B[tx] = S[tx]
    """


ZEROED = (
    ok(
        "copies of 16 bytes of which those behind the end are zeros",
        "src-size says how many bytes are read, and the rest is zeros",
        copies("T.Select(tx < 9, 16, 0)"),
        threads=64,
        **HALVES,
        expected=lambda A: np.pad(A, (0, 28)),
    ),
    bad(
        "copies of 16 bytes, one of which too many is read",
        NUMBERS,
        "the tenth copy reads the ninth one's elements once more",
        copies("T.Select(tx < 10, 16, 0)"),
        threads=64,
        **HALVES,
        expected=lambda A: np.pad(A, (0, 28)),
    ),
)
PROGRAMS = family("tails of tensor cores", (*PRODUCTS, *INTEGERS, *ZEROED))
