"""Narrow, unsigned and wide types: bool, float8, uint8, uint32, int64, and indices of these."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .program import (
    BOUNDS,
    NUMBERS,
    RACE,
    SYNC,
    UNDEFINED,
    blank,
    family,
    right,
    whole,
    wrong,
)

IN, OUT, INTEGERS = {"A": whole(32)}, {"B": blank(32)}, {"B": blank(32, "int32")}
BYTES = {"A": whole(32, "uint8")}
HALF = "float8_e4m3fn"
LANES = np.arange(32)
TWO_WARPS = {"inputs": {"A": whole(64)}, "outputs": {"B": blank(64)}, "threads": 64}
MASKED = """
    M = T.alloc_shared((64,), "bool")
    M[tx] = A[tx] > T.float32(50)
    {barrier}
    B[tx] = T.if_then_else(M[63 - tx], A[tx], T.float32(0))
"""


def _mask(A):
    return np.where(A[::-1] > 50, A, 0)


MASKS = (
    right(
        "mask of bools in shared memory",
        "a barrier stands before other threads' elements are loaded",
        MASKED.format(barrier=SYNC),
        expected=_mask,
        **TWO_WARPS,
    ),
    wrong(
        "mask of bools in shared memory, no barrier",
        RACE,
        "the other warp may not have stored its part of the mask",
        MASKED.format(barrier=""),
        expected=_mask,
        **TWO_WARPS,
    ),
    right(
        "bools added up as integers",
        "true is 1",
        """
        n = T.alloc_local((1,), "int32")
        n[0] = 0
        for k in range(32):
            n[0] = n[0] + T.Cast("int32", A[k] > A[tx])
        B[tx] = n[0]
        """,
        inputs=IN,
        outputs=INTEGERS,
        expected=lambda A: (A[None] > A[:, None]).sum(1).astype("int32"),
    ),
)

UNSIGNED = (
    right(
        "uint32 beyond 2**31 is larger than 5",
        "the comparison is of unsigned numbers",
        """
        x: T.let[T.uint32] = T.uint32(2147483648) + T.Cast("uint32", tx)
        B[tx] = T.Cast("int32", x > T.uint32(5))
        """,
        inputs={},
        outputs=INTEGERS,
        expected=lambda: np.ones(32, "int32"),
    ),
    wrong(
        "uint32 beyond 2**31, compared as int32",
        NUMBERS,
        "the sign bit makes it negative",
        """
        B[tx] = T.Cast("int32", T.Cast("int32", A[tx]) > 5)
        """,
        inputs={"A": np.arange(32, dtype="uint32") + np.uint32(2**31)},
        outputs=INTEGERS,
        expected=lambda A: np.ones(32, "int32"),
    ),
    wrong(
        "index of uint32 below zero",
        BOUNDS,
        "0 - 1 is 4294967295",
        """
        B[tx] = A[T.Cast("uint32", tx) - T.uint32(1)]
        """,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.roll(A, 1),
    ),
    wrong(
        "index of int64 beyond 2**32",
        BOUNDS,
        "its low 32 bits would be within the buffer",
        """
        B[tx] = A[T.Cast("int64", tx) + T.int64(4294967296)]
        """,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A.copy(),
    ),
    right(
        "index of int64 whose terms cancel",
        "2**40 + tx - 2**40 is tx in int64",
        """
        j: T.let[T.int64] = T.Cast("int64", n[0]) * T.int64(1099511627776)
        B[tx] = A[j + T.Cast("int64", tx) - j]
        """,
        inputs={**IN, "n": np.ones(1, "int32")},
        outputs=OUT,
        expected=lambda A, n: A.copy(),
    ),
    right(
        "product of uint64 beyond 2**63",
        "3 * 2**62 fits into uint64, and its upper half is 3 * 2**30",
        """
        p: T.let[T.uint64] = A[tx] * T.uint64(4611686018427387904)
        B[tx] = T.Cast("int32", T.shift_right(p, T.uint64(33)))
        """,
        inputs={"A": np.full(32, 3, "uint64")},
        outputs=INTEGERS,
        expected=lambda A: np.full(32, 3 * 2**29, "int32"),
    ),
    right(
        "mean of bytes, widened before",
        "the sum of two bytes fits into int32",
        """
        B[tx] = (T.Cast("int32", A[tx]) + T.Cast("int32", A[31 - tx])) // 2
        """,
        inputs=BYTES,
        outputs=INTEGERS,
        expected=lambda A: ((A.astype("int32") + A[::-1]) // 2).astype("int32"),
    ),
    right(
        "bits of uint32",
        "and, or, exclusive or and not, bit by bit",
        """
        B[tx] = T.bitwise_xor(
            T.bitwise_or(T.bitwise_and(A[tx], T.uint32(255)), T.uint32(2147483648)),
            T.bitwise_not(A[31 - tx]),
        )
        """,
        inputs={"A": whole(32, "uint32")},
        outputs={"B": blank(32, "uint32")},
        expected=lambda A: (A & 255 | 2**31) ^ ~A[::-1],
    ),
    right(
        "shift of int64 by 40",
        "int64 has 64 bits",
        """
        B[tx] = T.Cast("int32", T.shift_right(T.shift_left(A[tx], T.int64(40)), T.int64(38)))
        """,
        inputs={"A": whole(32, "int64")},
        outputs=INTEGERS,
        expected=lambda A: (4 * A).astype("int32"),
    ),
    wrong(
        "right shift of int32 by a loaded 40",
        UNDEFINED,
        "C leaves it undefined",
        """
        B[tx] = T.shift_right(A[tx], n[0])
        """,
        inputs={"A": whole(32, "int32"), "n": np.full(1, 40, "int32")},
        outputs=INTEGERS,
        expected=lambda A, n: np.zeros(32, "int32"),
    ),
)

NARROW = (
    right(
        "float8 copied through a register",
        "a copy rounds nothing",
        """
        r = T.alloc_local((1,), "float8_e4m3fn")
        r[0] = A[tx]
        B[tx] = T.Cast("float32", r[0])
        """,
        inputs={"A": (LANES - 16).astype(HALF)},
        outputs=OUT,
        expected=lambda A: A.astype("float32"),
        arch="sm_89",
    ),
    wrong(
        "float8 counts on from 16",
        NUMBERS,
        "17 is no float8: the sum stays at 16",
        """
        r = T.alloc_local((1,), "float8_e4m3fn")
        r[0] = T.Cast("float8_e4m3fn", T.float32(0))
        for k in range(24):
            r[0] = T.Cast("float8_e4m3fn", T.Cast("float32", r[0]) + A[tx])
        B[tx] = T.Cast("float32", r[0])
        """,
        inputs={"A": np.ones(32, "float32")},
        outputs=OUT,
        expected=lambda A: np.full(32, 24, "float32"),
        arch="sm_89",
    ),
    right(
        "float8 counted in float32",
        "only the result is rounded, and 24 is a float8",
        """
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(24):
            r[0] = r[0] + A[tx]
        B[tx] = T.Cast("float32", T.Cast("float8_e4m3fn", r[0]))
        """,
        inputs={"A": np.ones(32, "float32")},
        outputs=OUT,
        expected=lambda A: np.full(32, 24, "float32"),
        arch="sm_89",
    ),
    wrong(
        "product of float16 beyond 65504",
        NUMBERS,
        "300 * 300 is infinite in float16, and widened behind",
        """
        B[tx] = T.Cast("float32", A[tx] * A[tx])
        """,
        inputs={"A": np.full(32, 300, "float16")},
        outputs=OUT,
        expected=lambda A: np.full(32, 90000, "float32"),
    ),
    right(
        "maximum of bfloat16",
        "one of the two is the result",
        """
        B[tx] = T.max(A[tx], A[31 - tx])
        """,
        inputs={"A": whole(32, "bfloat16")},
        outputs={"B": np.full(32, np.nan, ml_dtypes.bfloat16)},
        expected=lambda A: np.maximum(A, A[::-1]),
        arch="sm_80",
    ),
)

FUNCTIONS = (
    wrong(
        "halves rounded away from zero",
        NUMBERS,
        "C's round makes 3 of 2.5; TVM writes T.round as nearbyint, which makes 2 of it",
        "B[tx] = T.round(A[tx])",
        inputs={"A": (LANES - 16 + 0.5).astype("float32")},
        outputs=OUT,
        expected=lambda A: np.sign(A) * np.floor(np.abs(A) + 0.5),
    ),
    right(
        "halves rounded to even",
        "nearbyint of 2.5 is 2",
        "B[tx] = T.nearbyint(A[tx])",
        inputs={"A": (LANES - 16 + 0.5).astype("float32")},
        outputs=OUT,
        expected=np.rint,
    ),
    right(
        "remainder of floats, with the dividend's sign",
        "fmod(-5.5, 3) is -2.5",
        "B[tx] = T.fmod(A[tx], T.float32(3))",
        inputs={"A": (LANES - 16 + 0.5).astype("float32")},
        outputs=OUT,
        expected=lambda A: np.fmod(A, np.float32(3)),
    ),
    right(
        "ceiling, floor and truncation of negatives",
        "-2.5 becomes -2, -3 and -2",
        "B[tx] = T.ceil(A[tx]) + T.float32(100) * (T.floor(A[tx]) + T.trunc(A[tx]))",
        inputs={"A": (LANES - 16 + 0.5).astype("float32")},
        outputs=OUT,
        expected=lambda A: np.ceil(A) + 100 * (np.floor(A) + np.trunc(A)),
    ),
    right(
        "floor division by a negative constant",
        "7 // -3 is -3, as Python's",
        "B[tx] = T.floordiv(A[tx] - 50, -3) * 1000 + T.floormod(A[tx] - 50, -3)",
        inputs={"A": whole(32, "int32")},
        outputs=INTEGERS,
        expected=lambda A: (A - 50) // -3 * 1000 + (A - 50) % -3,
    ),
    right(
        "number of bits set",
        "popcount counts the ones of a uint32",
        'B[tx] = T.Cast("int32", T.popcount(A[tx]))',
        inputs={"A": np.arange(32).astype("uint32") * 0x08040201},
        outputs=INTEGERS,
        expected=lambda A: np.array([bin(a).count("1") for a in A], "int32"),
    ),
)

PROGRAMS = family("types", (*MASKS, *UNSIGNED, *NARROW, *FUNCTIONS))
