"""Dynamic shared memory, in which TVM lays buffers over those that are dead."""

from __future__ import annotations

from .program import RACE, UNINITIALIZED, blank, family, right, whole, wrong

IN, OUT = {"A": whole(64)}, {"B": blank(64)}
TWO = """
        X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        r = T.alloc_local((1,))
"""


def _reversed_three_times(A):
    return 3 * A[::-1]


REUSED = (
    wrong(
        "buffer over a dead one, no barrier between",
        RACE,
        "Y is laid where others still load X",
        TWO
        + """
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = X[63 - tx]
        Y[tx] = A[tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        B[tx] = r[0] + Y[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed_three_times,
    ),
    right(
        "buffer over a dead one behind a barrier",
        "all loads of X are before the barrier",
        TWO
        + """
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = X[63 - tx]
        T.tvm_storage_sync("shared")
        Y[tx] = A[tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        B[tx] = r[0] + Y[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed_three_times,
    ),
    wrong(
        "bytes over floats that others still load",
        RACE,
        "Y is laid where others still load X",
        """
        X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Y = T.alloc_buffer((256,), "int8", scope="shared.dyn")
        r = T.alloc_local((1,))
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = X[63 - tx]
        Y[tx * 4] = Q[tx]
        T.tvm_storage_sync("shared")
        B[tx] = r[0] + T.Cast("float32", Y[(63 - tx) * 4])
        """,
        threads=64,
        inputs={"A": whole(64), "Q": whole(64, "int8")},
        outputs=OUT,
        expected=lambda A, Q: A[::-1] + Q[::-1],
    ),
    wrong(
        "load of an unwritten buffer in a dead one's place",
        UNINITIALIZED,
        "Y holds what X left there",
        TWO
        + """
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = X[63 - tx]
        T.tvm_storage_sync("shared")
        B[tx] = r[0] + Y[63 - tx]
        T.tvm_storage_sync("shared")
        Y[tx] = A[tx] * T.float32(2)
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "buffer that lives on while another is used",
        "X is loaded once more behind Y's stores, so Y has a place of its own",
        TWO
        + """
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        Y[tx] = X[63 - tx]
        T.tvm_storage_sync("shared")
        B[tx] = X[tx] + Y[tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A + A[::-1],
    ),
)


ROUNDS = """
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(3):
        X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        X[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + X[63 - tx]
        T.tvm_storage_sync("shared")
        Y[tx] = A[tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        r[0] = r[0] + Y[63 - tx]
        {}
    B[tx] = r[0]
"""


def _nine_times_reversed(A):
    return 9 * A[::-1]


CHAINS = (
    wrong(
        "round that stores over the buffer of the round before",
        RACE,
        "Y lies where X does: the next X is stored while others still load Y",
        ROUNDS.format("T.evaluate(0)"),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_nine_times_reversed,
    ),
    right(
        "rounds of two buffers in one place, barriers between all",
        "a barrier ends the loads of each buffer",
        ROUNDS.format('T.tvm_storage_sync("shared")'),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_nine_times_reversed,
    ),
    right(
        "three buffers, the third over the first two",
        "X and Y are dead behind the barrier",
        """
        X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Z = T.alloc_buffer((128,), "float32", scope="shared.dyn")
        r = T.alloc_local((1,))
        X[tx] = A[tx]
        Y[tx] = A[tx] + T.float32(1)
        T.tvm_storage_sync("shared")
        r[0] = X[63 - tx] + Y[63 - tx]
        T.tvm_storage_sync("shared")
        Z[tx] = r[0]
        Z[tx + 64] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = Z[63 - tx] + Z[127 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: 2 * A + 1 + A[::-1],
    ),
    wrong(
        "unwritten half of a buffer over two dead ones",
        UNINITIALIZED,
        "Z[64] to Z[127] hold what another buffer left there",
        """
        X = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Y = T.alloc_buffer((64,), "float32", scope="shared.dyn")
        Z = T.alloc_buffer((128,), "float32", scope="shared.dyn")
        r = T.alloc_local((1,))
        X[tx] = A[tx]
        Y[tx] = A[tx] + T.float32(1)
        T.tvm_storage_sync("shared")
        r[0] = X[63 - tx] + Y[63 - tx]
        T.tvm_storage_sync("shared")
        Z[tx] = r[0]
        T.tvm_storage_sync("shared")
        B[tx] = Z[63 - tx] + Z[127 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
    ),
)

PROGRAMS = family("merged memory", (*REUSED, *CHAINS))
