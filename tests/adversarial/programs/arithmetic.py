"""Integers that overflow, promote or divide by zero; floats out of range, NaN."""

from __future__ import annotations

import numpy as np

from .program import DIVISION, NUMBERS, blank, family, full, right, whole, wrong

LANES = np.arange(32)
HUNDREDS = {"A": full(32, 100, "int8")}
OUT_INT = {"B": blank(32, "int32")}
ZERO = {"n": np.zeros(1, "int32")}

INTEGERS = (
    wrong(
        "int32 overflow of an index that all threads share",
        NUMBERS,
        "(k + 2) * 2**30 wraps",
        """
        for k in range(2):
            B[k * 32 + tx] = T.shift_right((k + 2) * 1073741824, 28) + tx
        """,
        inputs={"A": whole(64)},
        outputs={"B": blank(64, "int32")},
        expected=lambda A: np.concatenate([LANES + 8, LANES + 12]),
    ),
    wrong(
        "int32 overflow of a thread's index",
        NUMBERS,
        "tx * 2**30 wraps from lane 2 on",
        "B[tx] = T.shift_right(tx * 1073741824, 28)",
        inputs={"A": whole(32)},
        outputs=OUT_INT,
        expected=lambda A: LANES * 4,
    ),
    wrong(
        "int8 * int8, widened",
        NUMBERS,
        "TIR's product wraps to 16; C promotes, and a GPU stores 10000",
        'B[tx] = T.Cast("int32", A[tx] * A[tx])',
        inputs=HUNDREDS,
        outputs=OUT_INT,
        expected=lambda A: np.full(32, 16),
    ),
    wrong(
        "int8 + int8 compared",
        NUMBERS,
        "TIR's sum wraps to -56; C promotes, and a GPU compares 200",
        """
        if A[tx] + A[tx] > T.int8(100):
            B[tx] = 1
        else:
            B[tx] = 0
        """,
        inputs=HUNDREDS,
        outputs=OUT_INT,
        expected=lambda A: np.zeros(32),
    ),
    wrong(
        "uint8 - uint8, widened",
        NUMBERS,
        "TIR's difference wraps to 255; C promotes, and a GPU stores -1",
        'B[tx] = T.Cast("int32", A[tx] - T.uint8(2))',
        inputs={"A": full(32, 1, "uint8")},
        outputs=OUT_INT,
        expected=lambda A: np.full(32, 255),
    ),
    wrong(
        "sum of int8 beyond 127",
        NUMBERS,
        "300 does not fit",
        """
        r = T.alloc_local((1,), "int8")
        r[0] = T.int8(0)
        for k in range(3):
            r[0] = r[0] + A[tx]
        B[tx] = r[0]
        """,
        inputs=HUNDREDS,
        outputs={"B": blank(32, "int8")},
        expected=lambda A: np.full(32, 300),
    ),
    wrong(
        "floor division by a loaded zero",
        DIVISION,
        "no quotient is right",
        "B[tx] = tx // n[0]",
        inputs=ZERO,
        outputs=OUT_INT,
    ),
    wrong(
        "remainder by a loaded zero",
        DIVISION,
        "no remainder is right",
        "B[tx] = tx % n[0]",
        inputs=ZERO,
        outputs=OUT_INT,
    ),
    right(
        "floor division and remainder of negatives",
        "TIR's // and % are those of Python",
        "B[tx] = A[tx] // 4 + A[tx] % 4 * 100",
        inputs={"A": np.arange(-16, 16, dtype="int32")},
        outputs=OUT_INT,
        expected=lambda A: A // 4 + A % 4 * 100,
    ),
)

FLOATS = (
    wrong(
        "float 3e9 to int32",
        NUMBERS,
        "LLVM on x86 makes -2147483648 of it; a GPU saturates to 2147483647",
        'B[tx] = T.Cast("int32", A[tx])',
        inputs={"A": full(32, 3e9)},
        outputs=OUT_INT,
        expected=lambda A: np.full(32, -2147483648),
    ),
    right(
        "max(NaN, 0)",
        "CUDA's max returns the number",
        "B[tx] = T.max(A[tx], T.float32(0))",
        inputs={"A": full(32, np.nan)},
        outputs={"B": blank(32)},
        expected=np.zeros_like,
    ),
)

PROGRAMS = family("arithmetic", (*INTEGERS, *FLOATS))
