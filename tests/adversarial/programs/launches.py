"""Several kernels in a row, and blocks that would need one another within a launch."""

from __future__ import annotations

import numpy as np

from .program import RACE, UNINITIALIZED, Launch, blank, family, right, whole, wrong

IN, OUT = {"A": whole(128)}, {"B": blank(128)}
TWO = {"C": blank(128), "B": blank(128)}
SUMS = {"P": blank(4), "B": blank(1)}
ADD_BLOCK = """
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(32):
        r[0] = r[0] + A[bx * 32 + k]
    P[bx] = r[0]
"""
ADD_BLOCKS = "B[0] = P[0] + P[1] + P[2] + P[3]"


def _sums(A):
    return A.reshape(4, 32).sum(1), A.sum(keepdims=True)


LAUNCHES = (
    right(
        "launch that loads what other blocks of the one before stored",
        "launches are in order, and all of the first is over",
        (
            Launch("C[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)", blocks=4),
            Launch("B[bx * 32 + tx] = C[127 - bx * 32 - tx]", blocks=4),
        ),
        inputs=IN,
        outputs=TWO,
        expected=lambda A: (2 * A, 2 * A[::-1]),
    ),
    wrong(
        "load of what other blocks of the launch stored, behind a barrier",
        RACE,
        "a barrier orders the threads of one block",
        """
        C[bx * 32 + tx] = A[bx * 32 + tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        B[bx * 32 + tx] = C[127 - bx * 32 - tx]
        """,
        blocks=4,
        inputs=IN,
        outputs=TWO,
        expected=lambda A: (2 * A, 2 * A[::-1]),
    ),
    right(
        "three launches back and forth between two buffers",
        "launches are in order",
        (
            Launch("C[bx * 32 + tx] = A[127 - bx * 32 - tx]", blocks=4),
            Launch("B[bx * 32 + tx] = C[127 - bx * 32 - tx] + T.float32(1)", blocks=4),
            Launch("C[bx * 32 + tx] = B[127 - bx * 32 - tx] + T.float32(1)", blocks=4),
        ),
        inputs=IN,
        outputs=TWO,
        expected=lambda A: (A[::-1] + 2, A + 1),
    ),
    wrong(
        "launch that loads shared memory of the one before",
        UNINITIALIZED,
        "shared memory does not survive its block",
        (
            Launch(
                """
                S = T.alloc_shared((32,))
                S[tx] = A[tx]
                T.tvm_storage_sync("shared")
                B[tx] = S[31 - tx]
                """
            ),
            Launch(
                """
                S = T.alloc_shared((32,))
                B[tx + 32] = S[31 - tx]
                """
            ),
        ),
        inputs={"A": whole(32)},
        outputs={"B": blank(64)},
    ),
    right(
        "sums of blocks, added up by a second launch",
        "all sums are there",
        (Launch(ADD_BLOCK, threads=1, blocks=4), Launch(ADD_BLOCKS, threads=1)),
        inputs=IN,
        outputs=SUMS,
        expected=_sums,
    ),
    wrong(
        "sums of blocks, added up by the last block",
        RACE,
        "the last block by number need not be the last by time",
        ADD_BLOCK + "\n    if bx == 3:\n        " + ADD_BLOCKS,
        threads=1,
        blocks=4,
        inputs=IN,
        outputs=SUMS,
        expected=_sums,
    ),
    wrong(
        "block that tests a flag of another block",
        RACE,
        "a plain load and store of a flag order nothing",
        (
            Launch("P[tx] = T.float32(0)", threads=4),
            Launch(
                """
                if bx == 0:
                    P[1] = A[0]
                    P[0] = T.float32(1)
                if bx == 1:
                    if P[0] > T.float32(0):
                        B[0] = P[1]
                    else:
                        B[0] = T.float32(0)
                """,
                threads=1,
                blocks=2,
            ),
        ),
        inputs=IN,
        outputs=SUMS,
    ),
)

FILL = Launch("C[bx * 32 + tx] = A[bx * 32 + tx]", blocks=4)
IN_PLACE = (
    right(
        "each block reverses its own part in place",
        "loads and stores of a part are of one block, with a barrier between",
        (
            FILL,
            Launch(
                """
                r = T.alloc_local((1,))
                r[0] = C[bx * 32 + 31 - tx]
                T.tvm_storage_sync("shared")
                C[bx * 32 + tx] = r[0]
                """,
                blocks=4,
            ),
        ),
        inputs=IN,
        outputs={"C": blank(128)},
        expected=lambda A: np.ravel(A.reshape(4, 32)[:, ::-1]),
    ),
    wrong(
        "each block reverses its part in place, no barrier",
        RACE,
        "a thread stores the cell that another loads",
        (FILL, Launch("C[bx * 32 + tx] = C[bx * 32 + 31 - tx]", blocks=4)),
        inputs=IN,
        outputs={"C": blank(128)},
    ),
    right(
        "pairs swapped in place, a pair a thread",
        "no other thread touches the pair",
        (
            FILL,
            Launch(
                """
                r = T.alloc_local((1,))
                r[0] = C[tx]
                C[tx] = C[127 - tx]
                C[127 - tx] = r[0]
                """,
                threads=64,
            ),
        ),
        inputs=IN,
        outputs={"C": blank(128)},
        expected=lambda A: A[::-1],
    ),
)

PROGRAMS = family("launches", (*LAUNCHES, *IN_PLACE))
