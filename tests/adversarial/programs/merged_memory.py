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

PROGRAMS = family("merged memory", REUSED)
