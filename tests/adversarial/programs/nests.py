"""Scans, in-place operations, nested conditions and workspaces of several kernels."""

from __future__ import annotations

import numpy as np

from .program import (
    BARRIER,
    BOUNDS,
    LAUNCH,
    RACE,
    SYNC,
    UNINITIALIZED,
    Launch,
    blank,
    family,
    right,
    whole,
    wrong,
)

TWO_WARPS = {"inputs": {"A": whole(64)}, "outputs": {"B": blank(64)}, "threads": 64}
WORKSPACE = {"C": blank(128), "B": blank(128)}


def _sums_so_far(A):
    return np.cumsum(A).astype("float32")


# Each thread adds what stands 2**d before it; with one buffer loads and stores need a barrier each.
SCAN = """
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    S[tx] = A[tx]
    {first}
    for d in range(6):
        r[0] = T.if_then_else(tx >= T.shift_left(1, d), S[tx - T.shift_left(1, d)], T.float32(0))
        {second}
        S[tx] = S[tx] + r[0]
        {third}
    B[tx] = S[tx]
"""
SCAN_OF_TWO = """
    S = T.alloc_shared((128,))
    S[tx] = A[tx]
    {barrier}
    for d in range(6):
        S[(d + 1) % 2 * 64 + tx] = S[d % 2 * 64 + tx] + T.if_then_else(
            tx >= T.shift_left(1, d), S[d % 2 * 64 + tx - T.shift_left(1, d)], T.float32(0)
        )
        {barrier}
    B[tx] = S[tx]
"""

SCANS = (
    right(
        "scan in place, barriers on both sides",
        "all have loaded before one stores, and stored before one loads",
        SCAN.format(first=SYNC, second=SYNC, third=SYNC),
        expected=_sums_so_far,
        **TWO_WARPS,
    ),
    wrong(
        "scan in place, no barrier before the stores",
        RACE,
        "a thread stores what another one has yet to load",
        SCAN.format(first=SYNC, second="", third=SYNC),
        expected=_sums_so_far,
        **TWO_WARPS,
    ),
    wrong(
        "scan in place, no barrier behind the stores",
        RACE,
        "the next step loads what may not be stored yet",
        SCAN.format(first=SYNC, second=SYNC, third=""),
        expected=_sums_so_far,
        **TWO_WARPS,
    ),
    right(
        "scan from one buffer to another and back",
        "a step stores where none loads until the next barrier",
        SCAN_OF_TWO.format(barrier=SYNC),
        expected=_sums_so_far,
        **TWO_WARPS,
    ),
    right(
        "element before the first behind Select",
        "TVM writes Select as C's conditional operator, which evaluates one of the two",
        f"""
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        {SYNC}
        B[tx] = A[tx] + T.Select(tx > 0, S[tx - 1], T.float32(0))
        """,
        expected=lambda A: A + np.append(0, A[:-1]),
        **TWO_WARPS,
    ),
    right(
        "running maximum of each thread's own part",
        "no thread uses another one's elements",
        """
        m = T.alloc_local((1,))
        m[0] = T.float32(0)
        for k in range(4):
            m[0] = T.max(m[0], A[tx * 4 + k])
            B[tx * 4 + k] = m[0]
        """,
        inputs={"A": whole(64)},
        outputs={"B": blank(64)},
        threads=16,
        expected=lambda A: np.maximum.accumulate(A.reshape(16, 4), 1).ravel(),
    ),
)

REVERSED = """
    S = T.alloc_shared((64,))
    r = T.alloc_local((1,))
    S[tx] = A[tx]
    {first}
    r[0] = S[63 - tx]
    {second}
    S[tx] = r[0] + T.float32(1)
    {first}
    B[tx] = S[63 - tx]
"""
BINS = """
    H = T.alloc_shared((4,), "int32")
    if tx < 4:
        H[tx] = 0
    T.tvm_storage_sync("shared")
    H[A[tx]] = H[A[tx]] + 1
    T.tvm_storage_sync("shared")
    if tx < 4:
        B[tx] = H[tx]
"""

IN_PLACE = (
    right(
        "reversed in place through registers",
        "all have loaded before one stores",
        REVERSED.format(first=SYNC, second=SYNC),
        expected=lambda A: A + 1,
        **TWO_WARPS,
    ),
    wrong(
        "reversed in place, no barrier behind the loads",
        RACE,
        "a thread stores over what another one has yet to load",
        REVERSED.format(first=SYNC, second=""),
        expected=lambda A: A + 1,
        **TWO_WARPS,
    ),
    wrong(
        "histogram of all threads in one array",
        RACE,
        "threads of one bin load the same count, and one addition is lost",
        BINS,
        inputs={"A": whole(64, "int32") % 4},
        outputs={"B": blank(4, "int32")},
        threads=64,
        expected=lambda A: np.bincount(A, minlength=4).astype("int32"),
    ),
    right(
        "histogram, a column of bins for each thread",
        "a barrier stands before the columns are added up",
        """
        H = T.alloc_shared((256,), "int32")
        n = T.alloc_local((1,), "int32")
        for k in range(4):
            H[k * 64 + tx] = 0
        H[A[tx] * 64 + tx] = H[A[tx] * 64 + tx] + 1
        T.tvm_storage_sync("shared")
        if tx < 4:
            n[0] = 0
            for k in range(64):
                n[0] = n[0] + H[tx * 64 + k]
            B[tx] = n[0]
        """,
        inputs={"A": whole(64, "int32") % 4},
        outputs={"B": blank(4, "int32")},
        threads=64,
        expected=lambda A: np.bincount(A, minlength=4).astype("int32"),
    ),
    wrong(
        "tiles of two blocks swapped in place",
        RACE,
        "a block stores over what the other one has yet to load",
        """
        C[bx * 64 + tx] = A[bx * 64 + tx]
        T.tvm_storage_sync("shared")
        B[bx * 64 + tx] = C[(1 - bx) * 64 + tx]
        C[(1 - bx) * 64 + tx] = B[bx * 64 + tx]
        """,
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
        threads=64,
        blocks=2,
    ),
    right(
        "tiles swapped in place by one block",
        "each thread loads both of its elements before it stores them",
        """
        r = T.alloc_local((2,))
        C[tx] = A[tx]
        C[64 + tx] = A[64 + tx]
        r[0] = C[tx]
        r[1] = C[64 + tx]
        C[tx] = r[1]
        C[64 + tx] = r[0]
        B[tx] = r[1]
        B[64 + tx] = r[0]
        """,
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
        threads=64,
        expected=lambda A: (np.roll(A, 64), np.roll(A, 64)),
    ),
    wrong(
        "rows of threads that store one row",
        RACE,
        "the threads along y store other values to the same elements",
        """
        S = T.alloc_shared((32,))
        S[tx] = A[ty * 32 + tx]
        T.tvm_storage_sync("shared")
        B[ty * 32 + tx] = S[31 - tx]
        """,
        inputs={"A": whole(64)},
        outputs={"B": blank(64)},
        threads=(32, 2),
    ),
    right(
        "rows of threads that store one row alike",
        "the threads along y store the same values",
        """
        S = T.alloc_shared((32,))
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[ty * 32 + tx] = S[31 - tx]
        """,
        inputs={"A": whole(64)},
        outputs={"B": blank(64)},
        threads=(32, 2),
        expected=lambda A: np.tile(A[31::-1], 2),
    ),
)

BEHIND = """
    S = T.alloc_shared((64,))
    flag: T.let[T.bool] = A[{place}] > T.float32(0)
    if bx >= 0:
        if flag:
            S[tx] = A[tx]
            T.tvm_storage_sync("shared")
            B[tx] = S[63 - tx]
"""

CONDITIONS = (
    right(
        "barrier behind nested conditions and a let that all threads share",
        "the let loads one element for all",
        BEHIND.format(place="0"),
        expected=lambda A: A[::-1],
        **TWO_WARPS,
    ),
    wrong(
        "barrier behind a let of each thread",
        BARRIER,
        "thread 5 loads a 0 and never comes",
        BEHIND.format(place="tx"),
        inputs={"A": np.where(np.arange(64) == 5, 0, whole(64)).astype("float32")},
        outputs={"B": blank(64)},
        threads=64,
    ),
    right(
        "trip count of each thread without a barrier",
        "each counts for itself until its number is 1",
        """
        n = T.alloc_local((2,), "int32")
        n[0] = A[tx]
        n[1] = 0
        while n[0] > 1:
            n[0] = T.if_then_else(n[0] % 2 == 0, n[0] // 2, n[0] * 3 + 1)
            n[1] = n[1] + 1
        B[tx] = n[1]
        """,
        inputs={"A": whole(64, "int32")},
        outputs={"B": blank(64, "int32")},
        threads=64,
        expected=lambda A: np.array([_count_steps(int(a)) for a in A], "int32"),
    ),
    wrong(
        "trip count of each thread with a barrier",
        BARRIER,
        "threads that have counted to their end never come",
        """
        S = T.alloc_shared((64,), "int32")
        n = T.alloc_local((2,), "int32")
        n[0] = A[tx]
        n[1] = 0
        while n[0] > 1:
            n[0] = n[0] // 2
            S[tx] = n[0]
            T.tvm_storage_sync("shared")
            n[1] = n[1] + S[63 - tx]
        B[tx] = n[1]
        """,
        inputs={"A": whole(64, "int32")},
        outputs={"B": blank(64, "int32")},
        threads=64,
    ),
    right(
        "division behind if_then_else",
        "by 0 nothing is divided",
        "B[tx] = T.if_then_else(n[tx] == 0, -1, A[tx] // n[tx])",
        inputs={"A": whole(64, "int32"), "n": (np.arange(64) % 3).astype("int32")},
        outputs={"B": blank(64, "int32")},
        threads=64,
        expected=lambda A, n: np.where(n == 0, -1, A // np.maximum(n, 1)).astype("int32"),
    ),
)


def _count_steps(number):
    steps = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else number * 3 + 1
        steps += 1
    return steps


PREDICATED = "B[T.Ramp(tx * 4, 1, 4)] = T.if_then_else({guard}, A[T.Ramp(tx * 4, 1, 4)], {zero})"
ZERO = "T.Broadcast(T.float32(0), 4)"

VECTORS = (
    right(
        "vector behind a guard",
        "the last thread loads nothing",
        PREDICATED.format(guard="tx < 7", zero=ZERO),
        inputs={"A": whole(28)},
        outputs={"B": blank(32)},
        threads=8,
        expected=lambda A: np.append(A, np.zeros(4, "float32")),
    ),
    wrong(
        "vector behind a guard of its first element",
        BOUNDS,
        "thread 7 loads elements 28 to 31 of 30",
        PREDICATED.format(guard="tx * 4 < 30", zero=ZERO),
        inputs={"A": whole(30)},
        outputs={"B": blank(32)},
        threads=8,
    ),
    right(
        "one element stored to a vector",
        "a broadcast has it in all lanes",
        "B[T.Ramp(tx * 4, 1, 4)] = T.Broadcast(A[tx], 4)",
        inputs={"A": whole(8)},
        outputs={"B": blank(32)},
        threads=8,
        expected=lambda A: np.repeat(A, 4),
    ),
)

FILL = "if tx < {count}:\n    C[bx * 32 + tx] = A[bx * 32 + tx]"
USE = "B[bx * 32 + tx] = C[127 - bx * 32 - tx]"
DYNAMIC = """
    S = T.alloc_buffer(({size},), scope="shared.dyn")
    S[tx] = A[bx * {size} + tx] * T.float32(2)
    T.tvm_storage_sync("shared")
    {target}[bx * {size} + tx] = S[{size} - 1 - tx]
"""

WORKSPACES = (
    right(
        "workspace that one kernel fills and another uses",
        "all of it is filled",
        (Launch(FILL.format(count=32), blocks=4), Launch(USE, blocks=4)),
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
        expected=lambda A: (A, A[::-1]),
    ),
    wrong(
        "workspace of which a guard leaves out elements",
        UNINITIALIZED,
        "the last two elements of each block are never stored",
        (Launch(FILL.format(count=30), blocks=4), Launch(USE, blocks=4)),
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
        expected=lambda A: (A, A[::-1]),
    ),
    wrong(
        "workspace that a kernel uses and fills again",
        RACE,
        "a block fills what another one has yet to use",
        (
            Launch(FILL.format(count=32), blocks=4),
            Launch(f"{USE}\nC[bx * 32 + tx] = B[bx * 32 + tx]", blocks=4),
        ),
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
    ),
    right(
        "dynamic shared memory of two kernels of other sizes",
        "each has its own, for as long as it runs",
        (
            Launch(DYNAMIC.format(size=32, target="C"), blocks=4),
            Launch(DYNAMIC.format(size=64, target="B"), threads=64, blocks=2),
        ),
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
        expected=lambda A: (
            2 * A.reshape(4, 32)[:, ::-1].ravel(),
            2 * A.reshape(2, 64)[:, ::-1].ravel(),
        ),
    ),
    wrong(
        "second kernel of too many threads",
        LAUNCH,
        "a block has 1024 at most, in each kernel",
        (
            Launch(FILL.format(count=32), blocks=4),
            Launch("if tx < 128:\n    B[tx] = C[tx]", threads=1056),
        ),
        inputs={"A": whole(128)},
        outputs=WORKSPACE,
        expected=lambda A: (A, A),
    ),
)

PROGRAMS = family("nests", (*SCANS, *IN_PLACE, *CONDITIONS, *VECTORS, *WORKSPACES))
