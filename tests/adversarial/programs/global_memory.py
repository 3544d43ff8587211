"""Global memory that threads of several blocks, or several launches, share."""

from __future__ import annotations

import numpy as np

from .program import INPUT, RACE, UNINITIALIZED, Launch, blank, family, right, whole, wrong

IN, OUT = {"A": whole(64)}, {"B": blank(64)}
IN_65, OUT_65 = {"A": whole(65)}, {"C": blank(65)}
FILL = Launch("C[tx] = A[tx]", threads=65)

IN_PLACE = (
    wrong(
        "stencil in place over blocks, own cell first",
        RACE,
        "block 0 loads C[32], which block 1 stores, and blocks have no order",
        (
            FILL,
            Launch(
                """
                r = T.alloc_local((1,))
                r[0] = C[bx * 32 + tx]
                r[0] = r[0] + C[bx * 32 + tx + 1]
                T.tvm_storage_sync("shared")
                C[bx * 32 + tx] = r[0]
                """,
                blocks=2,
            ),
        ),
        inputs=IN_65,
        outputs=OUT_65,
    ),
    wrong(
        "stencil in place over blocks, neighbour first",
        RACE,
        "block 0 loads C[32], which block 1 stores, and blocks have no order",
        (
            FILL,
            Launch(
                """
                r = T.alloc_local((1,))
                r[0] = C[bx * 32 + tx + 1]
                r[0] = r[0] + C[bx * 32 + tx]
                T.tvm_storage_sync("shared")
                C[bx * 32 + tx] = r[0]
                """,
                blocks=2,
            ),
        ),
        inputs=IN_65,
        outputs=OUT_65,
    ),
    right(
        "stencil in place in one block",
        "all loads are before the barrier and all stores behind it",
        (
            FILL,
            Launch(
                """
                r = T.alloc_local((1,))
                r[0] = C[tx]
                r[0] = r[0] + C[tx + 1]
                T.tvm_storage_sync("shared")
                C[tx] = r[0]
                """,
                threads=64,
            ),
        ),
        inputs=IN_65,
        outputs=OUT_65,
        expected=lambda A: np.append(A[:64] + A[1:], A[64]),
    ),
    wrong(
        "stencil in place in one block, no barrier",
        RACE,
        "a thread loads its neighbour's cell, which that one stores",
        (FILL, Launch("C[tx] = C[tx] + C[tx + 1]", threads=64)),
        inputs=IN_65,
        outputs=OUT_65,
    ),
    wrong(
        "cell that both blocks load and one stores behind a barrier",
        RACE,
        "block 0 may load after block 1 has stored: a barrier orders one block",
        (
            FILL,
            Launch(
                """
                r = T.alloc_local((1,))
                r[0] = C[tx]
                T.tvm_storage_sync("shared")
                if bx == 1:
                    C[tx] = r[0] * T.float32(9)
                """,
                blocks=2,
            ),
        ),
        inputs=IN_65,
        outputs=OUT_65,
    ),
)

BETWEEN_BLOCKS = (
    right(
        "blocks store the same values and load their own",
        "no other value is ever there",
        """
        C[tx] = A[tx]
        T.tvm_storage_sync("shared")
        C[tx + 32] = C[tx]
        """,
        blocks=2,
        inputs=IN,
        outputs={"C": blank(64)},
        expected=lambda A: np.tile(A[:32], 2),
    ),
    wrong(
        "block stores into an input that another block loads",
        RACE,
        "blocks have no order",
        """
        A[bx * 32 + tx] = T.float32(5)
        B[bx * 32 + tx] = A[63 - bx * 32 - tx]
        """,
        blocks=2,
        inputs=IN,
        outputs=OUT,
    ),
    wrong(
        "blocks store other values to one cell",
        RACE,
        "whichever block comes last wins",
        "B[tx] = A[bx * 32 + tx]",
        blocks=2,
        inputs=IN,
        outputs={"B": blank(32)},
    ),
    wrong(
        "blocks 0 and 2000 store to one cell",
        RACE,
        "blocks far apart have no order either",
        """
        if bx == 0 or bx == 2000:
            B[tx] = A[bx * 32 + tx]
        """,
        blocks=2002,
        inputs={"A": np.arange(64064, dtype="float32")},
        outputs={"B": blank(32)},
    ),
    wrong(
        "all threads add to one cell",
        RACE,
        "the additions are not atomic: sums are lost",
        (
            Launch("B[0] = T.float32(0)", threads=1),
            Launch("B[0] = B[0] + A[tx]", threads=64),
        ),
        inputs=IN,
        outputs={"B": blank(1)},
        expected=lambda A: A.sum(keepdims=True),
    ),
    wrong(
        "output loaded before anything stored to it",
        UNINITIALIZED,
        "B holds what was there before the launch",
        "B[tx] = B[tx] + A[tx]",
        inputs={"A": whole(32)},
        outputs={"B": blank(32)},
    ),
    wrong(
        "kernel overwrites its input",
        INPUT,
        "the caller's A is gone",
        """
        B[tx] = A[tx]
        A[tx] = T.float32(0)
        """,
        inputs={"A": whole(32)},
        outputs={"B": blank(32)},
        expected=lambda A: A,
    ),
)

PROGRAMS = family("global memory", (*IN_PLACE, *BETWEEN_BLOCKS))
