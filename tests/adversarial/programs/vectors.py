"""Vectors and narrow types: where they begin, and which cells they touch."""

from __future__ import annotations

import numpy as np

from .program import MISALIGNED, blank, family, right, whole, wrong

HALVES = {"A": whole(64, "float16")}, {"B": blank(64, "float16")}
BYTES = {"A": whole(64, "int8")}, {"B": blank(64, "int8")}
WIDE = {"A": whole(80)}, {"B": blank(64)}

NARROW = (
    right(
        "adjacent halves by adjacent threads",
        "two bytes are a cell of their own",
        """
        S = T.alloc_shared((64,), "float16")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[63 - tx] = S[63 - tx]
        """,
        threads=64,
        inputs=HALVES[0],
        outputs=HALVES[1],
        expected=lambda A: A,
    ),
    right(
        "packed pairs of halves",
        "each pair begins at an even element",
        """
        S = T.alloc_shared((64,), "float16")
        S[T.Ramp(tx * 2, 1, 2)] = A[T.Ramp(tx * 2, 1, 2)]
        T.tvm_storage_sync("shared")
        B[T.Ramp(62 - tx * 2, 1, 2)] = S[T.Ramp(62 - tx * 2, 1, 2)]
        """,
        inputs=HALVES[0],
        outputs=HALVES[1],
        expected=lambda A: A,
    ),
    wrong(
        "pairs of halves that overlap",
        MISALIGNED,
        "every other pair begins at an odd element, and pairs race for their cells",
        "B[T.Ramp(tx, 1, 2)] = A[T.Ramp(tx, 1, 2)]",
        threads=64,
        inputs={"A": whole(66, "float16")},
        outputs={"B": blank(66, "float16")},
    ),
    right(
        "adjacent bytes by adjacent threads",
        "a byte is a cell of its own",
        """
        S = T.alloc_shared((64,), "int8")
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[63 - tx]
        """,
        threads=64,
        inputs=BYTES[0],
        outputs=BYTES[1],
        expected=lambda A: A[::-1],
    ),
)

PLACES = (
    right(
        "vector load from element 2",
        "TVM generates four loads where it cannot prove the alignment: make_float4(A[i], ...)",
        "B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4 + 2, 1, 4)]",
        threads=16,
        inputs=WIDE[0],
        outputs=WIDE[1],
        expected=lambda A: A[2:66],
    ),
    wrong(
        "vector store to element 2",
        MISALIGNED,
        "TVM generates *(float4*), whatever the alignment",
        "B[T.Ramp(tx * 4 + 2, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]",
        threads=16,
        inputs=WIDE[0],
        outputs={"B": blank(66)},
    ),
    wrong(
        "vector stores to shared rows of 65",
        MISALIGNED,
        "row 1 begins at element 65, which is no multiple of 4",
        """
        S = T.alloc_shared((1040,))
        S[T.Ramp(tx * 65, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
        T.tvm_storage_sync("shared")
        B[T.Ramp(tx * 4, 1, 4)] = S[T.Ramp(tx * 65, 1, 4)]
        """,
        threads=16,
        inputs=WIDE[0],
        outputs=WIDE[1],
        expected=lambda A: A[:64],
    ),
    right(
        "vector load of stride 2",
        "TVM generates four loads",
        "B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 8, 2, 4)]",
        threads=16,
        inputs={"A": whole(128)},
        outputs=WIDE[1],
        expected=lambda A: A[::2],
    ),
    right(
        "vector load of stride -1",
        "TVM generates four loads",
        "B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4 + 3, -1, 4)]",
        threads=16,
        inputs={"A": whole(64)},
        outputs=WIDE[1],
        expected=lambda A: np.ravel(A.reshape(16, 4)[:, ::-1]),
    ),
)


LOADED = "B[T.Ramp(n[0] + tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]"


def _shift(by: int):
    return {"A": whole(64), "n": np.array([by], "int32")}


STORES = (
    wrong(
        "vector store to a loaded place, 2",
        MISALIGNED,
        "16 bytes go to a multiple of 16",
        LOADED,
        threads=16,
        inputs=_shift(2),
        outputs={"B": blank(66)},
    ),
    right(
        "vector store to a loaded place, 0",
        "all vectors begin at multiples of 4",
        LOADED,
        threads=16,
        inputs=_shift(0),
        outputs={"B": blank(64)},
        expected=lambda A, n: A,
    ),
    right(
        "stores of two floats to even elements",
        "8 bytes go to multiples of 8",
        "B[T.Ramp(62 - tx * 2, 1, 2)] = A[T.Ramp(tx * 2, 1, 2)]",
        inputs={"A": whole(64)},
        outputs={"B": blank(64)},
        expected=lambda A: np.ravel(A.reshape(32, 2)[::-1]),
    ),
    wrong(
        "stores of four halves to even elements",
        MISALIGNED,
        "8 bytes go to a multiple of 8",
        "B[T.Ramp(tx * 6, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]",
        threads=16,
        inputs={"A": whole(64, "float16")},
        outputs={"B": blank(94, "float16")},
    ),
    wrong(
        "stores of four bytes to odd elements",
        MISALIGNED,
        "4 bytes go to a multiple of 4",
        "B[T.Ramp(tx * 5, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]",
        threads=16,
        inputs={"A": whole(64, "int8")},
        outputs={"B": blank(79, "int8")},
    ),
)

PROGRAMS = family("vectors", (*NARROW, *PLACES, *STORES))
