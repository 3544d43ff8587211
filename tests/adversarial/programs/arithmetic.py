"""Integers that overflow, promote or divide by zero; floats out of range, NaN."""

from __future__ import annotations

import numpy as np

from .program import DIVISION, NUMBERS, UNDEFINED, blank, family, full, right, whole, wrong

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


COUNTS = {"A": whole(32, "int32")}
NEGATIVES = {"A": np.arange(-16, 16, dtype="int32")}
OUT_LONG = {"B": blank(32, "int64")}

WIDENED = (
    right(
        "product of int64, widened before",
        "both factors are int64",
        'B[tx] = T.Cast("int64", A[tx]) * T.int64(1073741824)',
        inputs=COUNTS,
        outputs=OUT_LONG,
        expected=lambda A: A.astype("int64") * 2**30,
    ),
    wrong(
        "product of int32, widened behind",
        NUMBERS,
        "the product wraps before it is widened",
        """
        r = T.alloc_local((1,), "int32")
        r[0] = A[tx] * 1073741824
        B[tx] = T.Cast("int64", r[0])
        """,
        inputs=COUNTS,
        outputs=OUT_LONG,
        expected=lambda A: A.astype("int64") * 2**30,
    ),
    right(
        "int64 index that all threads share",
        "(k + 2) * 2**30 fits",
        """
        for k in range(2):
            B[k * 32 + tx] = T.shift_right(
                (T.Cast("int64", k) + T.int64(2)) * T.int64(1073741824), T.int64(28)
            )
        """,
        inputs=COUNTS,
        outputs={"B": blank(64, "int64")},
        expected=lambda A: np.repeat([8, 12], 32),
    ),
    right(
        "uint32 below zero",
        "unsigned numbers wrap, in TIR as in C",
        "B[tx] = A[tx] - T.uint32(2)",
        inputs={"A": full(32, 1, "uint32")},
        outputs={"B": blank(32, "uint32")},
        expected=lambda A: np.full(32, 2**32 - 1),
    ),
    wrong(
        "int16 * int16, widened",
        NUMBERS,
        "TIR's product wraps to -25536; C promotes, and a GPU stores 40000",
        'B[tx] = T.Cast("int32", A[tx] * A[tx])',
        inputs={"A": full(32, 200, "int16")},
        outputs=OUT_INT,
        expected=lambda A: np.full(32, -25536),
    ),
    right(
        "int8 * int8, widened before",
        "both factors are int32",
        'B[tx] = T.Cast("int32", A[tx]) * T.Cast("int32", A[tx])',
        inputs=HUNDREDS,
        outputs=OUT_INT,
        expected=lambda A: np.full(32, 10000),
    ),
    right(
        "int32 to int8",
        "the low byte stays: 300 becomes 44",
        'B[tx] = T.Cast("int8", A[tx])',
        inputs={"A": full(32, 300, "int32")},
        outputs={"B": blank(32, "int8")},
        expected=lambda A: np.full(32, 44),
    ),
)

OPERATORS = (
    right(
        "truncating division and remainder of negatives",
        "they round to zero, as in C",
        "B[tx] = T.truncdiv(A[tx], 3) * 100 + T.truncmod(A[tx], 3)",
        inputs=NEGATIVES,
        outputs=OUT_INT,
        expected=lambda A: np.trunc(A / 3) * 100 + np.fmod(A, 3),
    ),
    right(
        "right shift of negatives",
        "the sign stays: -1 >> 1 is -1",
        "B[tx] = T.shift_right(A[tx], 1)",
        inputs=NEGATIVES,
        outputs=OUT_INT,
        expected=lambda A: A >> 1,
    ),
    wrong(
        "floor division of a negative int8 that was a uint32",
        NUMBERS,
        "TVM's simplifier takes what was unsigned for positive, and rounds to zero",
        'B[tx] = T.floordiv(T.Cast("int8", A[tx]), T.int8(7))',
        inputs={"A": full(32, 256 - 20, "uint32")},
        outputs={"B": blank(32, "int8")},
        expected=lambda A: np.full(32, -3),
    ),
    wrong(
        "left shift by a loaded 32",
        UNDEFINED,
        "C leaves it undefined: x86 shifts by 0, a GPU shifts all out",
        "B[tx] = T.shift_left(A[tx], n[0])",
        inputs={"A": whole(32, "int32"), "n": np.array([32], "int32")},
        outputs=OUT_INT,
    ),
    wrong(
        "smallest int32 divided by a loaded -1",
        UNDEFINED,
        "the quotient does not fit, and x86 traps",
        "B[tx] = T.truncdiv(A[tx], n[0])",
        inputs={"A": full(32, -(2**31), "int32"), "n": np.array([-1], "int32")},
        outputs=OUT_INT,
    ),
)

SPECIAL = {"A": np.tile(np.array([np.nan, np.inf, -np.inf, 1], "float32"), 8)}
TIES = {"A": 1 + np.arange(32, dtype="float32") * 2.0**-8}
NOT_A_NUMBER = (
    right(
        "comparisons with NaN and infinity",
        "NaN is neither more than 0 nor equal to NaN",
        """
        if A[tx] > T.float32(0):
            B[tx] = 1
        else:
            if A[tx] != C[tx]:
                B[tx] = 2
            else:
                B[tx] = 3
        """,
        inputs={**SPECIAL, "C": SPECIAL["A"]},
        outputs=OUT_INT,
        expected=lambda A, C: np.tile([2, 1, 3, 1], 8),
    ),
    wrong(
        "NaN found by x != x",
        NUMBERS,
        "TVM's simplifier takes x != x for false",
        """
        if A[tx] != A[tx]:
            B[tx] = 1
        else:
            B[tx] = 0
        """,
        inputs=SPECIAL,
        outputs=OUT_INT,
        expected=lambda A: np.tile([1, 0, 0, 0], 8),
    ),
    right(
        "infinity minus infinity",
        "that is NaN, as NaN minus NaN is",
        """
        r = T.alloc_local((1,))
        r[0] = A[tx] - C[tx]
        if r[0] == T.float32(0):
            B[tx] = 1
        else:
            B[tx] = 0
        """,
        inputs={**SPECIAL, "C": SPECIAL["A"]},
        outputs=OUT_INT,
        expected=lambda A, C: np.tile([0, 0, 0, 1], 8),
    ),
    wrong(
        "infinity minus itself",
        NUMBERS,
        "TVM's simplifier takes x - x for 0",
        """
        r = T.alloc_local((1,))
        r[0] = A[tx] - A[tx]
        if r[0] == T.float32(0):
            B[tx] = 1
        else:
            B[tx] = 0
        """,
        inputs=SPECIAL,
        outputs=OUT_INT,
        expected=lambda A: np.tile([0, 0, 0, 1], 8),
    ),
    wrong(
        "numbers found by x == x",
        NUMBERS,
        "TVM's simplifier takes x == x for true, also where x is NaN",
        """
        if A[tx] == A[tx]:
            B[tx] = 1
        else:
            B[tx] = 0
        """,
        inputs=SPECIAL,
        outputs=OUT_INT,
        expected=lambda A: np.tile([0, 1, 1, 1], 8),
    ),
    wrong(
        "NaN and infinities times zero",
        NUMBERS,
        "TVM's simplifier takes x * 0 for 0, which hides what has overflowed",
        "B[tx] = A[tx] * T.float32(0)",
        inputs=SPECIAL,
        outputs={"B": blank(32)},
        expected=lambda A: np.tile(np.array([np.nan, np.nan, np.nan, 0], "float32"), 8),
    ),
    wrong(
        "zero divided by zero",
        NUMBERS,
        "TVM's simplifier takes 0 / x for 0, and a row without weights is none of NaN",
        "B[tx] = T.float32(0) / A[tx]",
        inputs={"A": full(32, 0)},
        outputs={"B": blank(32)},
        expected=lambda A: np.full(32, np.nan),
    ),
    wrong(
        "negative zero plus zero",
        NUMBERS,
        "TVM's simplifier takes x + 0 for x, and one divided by that is minus infinity",
        "B[tx] = T.float32(1) / (A[tx] + T.float32(0))",
        inputs={"A": full(32, -0.0)},
        outputs={"B": blank(32)},
        expected=lambda A: np.full(32, np.inf),
    ),
    wrong(
        "remainder of a negative int16 that was a uint32",
        NUMBERS,
        "TVM's simplifier takes what was unsigned for positive: the remainder is negative",
        'B[tx] = T.floormod(T.Cast("int16", A[tx]), T.int16(7))',
        inputs={"A": full(32, 65536 - 20, "uint32")},
        outputs={"B": blank(32, "int16")},
        expected=lambda A: np.full(32, 1),
    ),
    right(
        "min(NaN, 3) and min(3, NaN)",
        "CUDA's min returns the number, on whichever side",
        "B[tx] = T.min(A[tx], T.float32(3)) + T.min(T.float32(3), A[tx])",
        inputs={"A": full(32, np.nan)},
        outputs={"B": blank(32)},
        expected=lambda A: np.full(32, 6),
    ),
    right(
        "NaN and infinities to int32",
        "a GPU makes 0 of NaN and saturates the infinities",
        'B[tx] = T.Cast("int32", A[tx])',
        inputs=SPECIAL,
        outputs=OUT_INT,
        expected=lambda A: np.tile([0, 2**31 - 1, -(2**31), 1], 8),
    ),
    right(
        "NaN and infinities to uint32",
        "a GPU makes 0 of NaN and of what is negative",
        'B[tx] = T.Cast("uint32", A[tx])',
        inputs=SPECIAL,
        outputs={"B": blank(32, "uint32")},
        expected=lambda A: np.tile([0, 2**32 - 1, 0, 1], 8),
    ),
    right(
        "NaN and infinities of float64 to int32",
        "of a float64's NaN a GPU makes the smallest int32, as the PTX ISA says",
        'B[tx] = T.Cast("int32", A[tx])',
        inputs={"A": SPECIAL["A"].astype("float64")},
        outputs=OUT_INT,
        expected=lambda A: np.tile([-(2**31), 2**31 - 1, -(2**31), 1], 8),
    ),
    right(
        "NaN and infinities of float64 to uint32",
        "of a float64's NaN a GPU makes 2**31, as the PTX ISA says",
        'B[tx] = T.Cast("uint32", A[tx])',
        inputs={"A": SPECIAL["A"].astype("float64")},
        outputs={"B": blank(32, "uint32")},
        expected=lambda A: np.tile([2**31, 2**32 - 1, 0, 1], 8),
    ),
    right(
        "float 70000 to float16",
        "what is beyond 65504 becomes infinity",
        'B[tx] = T.Cast("float16", A[tx])',
        inputs={"A": np.tile(np.array([70000, -70000], "float32"), 16)},
        outputs={"B": blank(32, "float16")},
        expected=lambda A: np.tile([np.inf, -np.inf], 16),
    ),
)

ROUNDING = (
    right(
        "float32 to bfloat16",
        "to the nearest, ties to even",
        'B[tx] = T.Cast("bfloat16", A[tx])',
        inputs=TIES,
        outputs={"B": blank(32, "bfloat16")},
        expected=lambda A: A.astype("bfloat16"),
    ),
    right(
        "float32 to int32",
        "to zero",
        'B[tx] = T.Cast("int32", A[tx])',
        inputs={"A": np.arange(-16, 16, dtype="float32") + np.float32(0.75)},
        outputs=OUT_INT,
        expected=np.trunc,
    ),
    wrong(
        "float16 counts on from 2040",
        NUMBERS,
        "2049 is no float16: the sum stays at 2048",
        """
        r = T.alloc_local((1,), "float16")
        r[0] = T.float16(2040)
        for k in range(20):
            r[0] = r[0] + T.float16(1)
        B[tx] = r[0]
        """,
        inputs={"A": whole(32)},
        outputs={"B": blank(32, "float16")},
        expected=lambda A: np.full(32, 2060),
    ),
    wrong(
        "2**24 + 1 through float32",
        NUMBERS,
        "2**24 + 1 is no float32",
        'B[tx] = T.Cast("int32", T.Cast("float32", A[tx]))',
        inputs={"A": full(32, 2**24 + 1, "int32")},
        outputs=OUT_INT,
        expected=lambda A: A,
    ),
    right(
        "subnormal float32 copied",
        "a copy rounds nothing",
        "B[tx] = A[tx]",
        inputs={"A": full(32, 1e-40)},
        outputs={"B": blank(32)},
        expected=lambda A: A,
    ),
    wrong(
        "subnormal float32 doubled",
        NUMBERS,
        "TVM compiles with --use_fast_math, which flushes subnormals to zero",
        "B[tx] = A[tx] * T.float32(2)",
        inputs={"A": full(32, 1e-40)},
        outputs={"B": blank(32)},
        expected=lambda A: 2 * A,
    ),
    wrong(
        "rounding error of a product, by subtraction",
        NUMBERS,
        "nvcc contracts the product with the subtraction, so that 2**-24 is left, and not 0",
        "B[tx] = A[tx] * A[tx] - C[tx]",
        inputs={"A": full(32, 1 + 2.0**-12), "C": full(32, 1 + 2.0**-11)},
        outputs={"B": blank(32)},
        expected=lambda A, C: A * A - C,
    ),
)

PROGRAMS = family(
    "arithmetic", (*INTEGERS, *FLOATS, *WIDENED, *OPERATORS, *NOT_A_NUMBER, *ROUNDING)
)
