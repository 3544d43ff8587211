"""Barriers between stores to shared memory and loads from it, and barriers that some never pass."""

from __future__ import annotations

import numpy as np

from .program import BARRIER, RACE, UNINITIALIZED, blank, family, right, whole, wrong

IN, OUT = {"A": whole(64)}, {"B": blank(64)}
IN_WARP, OUT_WARP = {"A": whole(32)}, {"B": blank(32)}
FOUR = {"A": whole(256)}
COUNTED = {"A": whole(64), "n": np.array([1, 3], "int32")}


def _reversed(A):
    return A[::-1]


def _reversed_three_times(A):
    return 3 * A[::-1]


def _sum_of_four(A):
    return A.reshape(4, 64).sum(0)[::-1]


def _ring(slot: str) -> str:
    """One barrier a round: its stores go to a slot, its loads come from there."""
    return f"""
    S = T.alloc_shared((192,))
    r = T.alloc_local((1,))
    r[0] = T.float32(0)
    for k in range(4):
        S[{slot} * 64 + tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        r[0] = r[0] + S[{slot} * 64 + 63 - tx]
    B[tx] = r[0]
    """


ORDERED = (
    wrong(
        "load of another warp's cell, no barrier",
        RACE,
        "nothing orders the load behind the other warp's store",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        B[tx] = S[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    right(
        "load of another warp's cell behind a barrier",
        "all stores are before the barrier and all loads behind it",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    wrong(
        "load of another lane's cell, no barrier",
        RACE,
        "since Volta the lanes of a warp are not in step",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        B[tx] = S[31 - tx]
        """,
        inputs=IN_WARP,
        outputs=OUT_WARP,
        expected=_reversed,
    ),
    wrong(
        "load of another lane's cell behind storage_sync(warp)",
        RACE,
        "TVM 0.27 generates nothing for that barrier",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        T.tvm_storage_sync("warp")
        B[tx] = S[31 - tx]
        """,
        inputs=IN_WARP,
        outputs=OUT_WARP,
        expected=_reversed,
    ),
    wrong(
        "load of another warp's cell behind storage_sync(warp)",
        RACE,
        "a barrier of a warp orders nothing between warps",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        T.tvm_storage_sync("warp")
        B[tx] = S[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    wrong(
        "store over a cell that others still load",
        RACE,
        "no barrier stands between the last loads and the next stores",
        """
        S = T.alloc_shared((64,))
        r = T.alloc_local((1,))
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        r[0] = S[63 - tx]
        S[tx] = A[tx] * T.float32(2)
        T.tvm_storage_sync("shared")
        B[tx] = r[0] + S[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed_three_times,
    ),
    wrong(
        "loop without a barrier behind its loads",
        RACE,
        "the next round's stores do not wait for this round's loads",
        """
        S = T.alloc_shared((64,))
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(4):
            S[tx] = A[k * 64 + tx]
            T.tvm_storage_sync("shared")
            r[0] = r[0] + S[63 - tx]
        B[tx] = r[0]
        """,
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    wrong(
        "loop without a barrier before its loads",
        RACE,
        "the loads do not wait for the stores of their own round",
        """
        S = T.alloc_shared((64,))
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(4):
            S[tx] = A[k * 64 + tx]
            r[0] = r[0] + S[63 - tx]
            T.tvm_storage_sync("shared")
        B[tx] = r[0]
        """,
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    right(
        "loop with both barriers",
        "loads are between two barriers",
        """
        S = T.alloc_shared((64,))
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(4):
            S[tx] = A[k * 64 + tx]
            T.tvm_storage_sync("shared")
            r[0] = r[0] + S[63 - tx]
            T.tvm_storage_sync("shared")
        B[tx] = r[0]
        """,
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    right(
        "two slots, one barrier",
        "who stores to a slot again has passed the barrier of the other slot's round",
        _ring("(k % 2)"),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    wrong(
        "two slots, each used twice in a row",
        RACE,
        "rounds 0 and 1 share a slot: the store of round 1 races with the loads of round 0",
        _ring("(k // 2)"),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    right(
        "three slots, one barrier",
        "a slot is used again two barriers later",
        _ring("(k % 3)"),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    right(
        "all threads store one value and load it back",
        "no other value is ever there",
        """
        S = T.alloc_shared((64,))
        S[0] = T.float32(7)
        B[tx] = S[0] + A[tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A + 7,
    ),
)

DIVERGENT = (
    wrong(
        "barriers in both arms of a thread's branch",
        BARRIER,
        "two barriers, and each is passed by half of the block",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        if tx < 32:
            T.tvm_storage_sync("shared")
        else:
            T.tvm_storage_sync("shared")
        B[tx] = S[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
    ),
    wrong(
        "barrier in a loop whose trip count is the thread's",
        BARRIER,
        "the second warp comes to the barrier once more than the first",
        """
        S = T.alloc_shared((64,))
        for k in range(tx // 32 + 1):
            S[tx] = A[tx]
            T.tvm_storage_sync("shared")
        B[tx] = S[tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "barrier in one block, which alone needs it",
        "each block comes to it as a whole or not at all",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[bx * 32 + tx]
        if bx == 1:
            T.tvm_storage_sync("shared")
            B[bx * 32 + tx] = S[31 - tx]
        if bx == 0:
            B[bx * 32 + tx] = S[tx]
        """,
        blocks=2,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.concatenate([A[:32], A[32:][::-1]]),
    ),
    wrong(
        "barrier in one block, and the other needs it too",
        RACE,
        "block 0 loads other lanes' cells with no barrier",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[bx * 32 + tx]
        if bx == 1:
            T.tvm_storage_sync("shared")
        B[bx * 32 + tx] = S[31 - tx]
        """,
        blocks=2,
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "barriers in a loop whose trip count is the block's",
        "the count is loaded, and the same for all threads of a block",
        """
        S = T.alloc_shared((64,))
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(n[bx]):
            S[tx] = A[bx * 32 + tx]
            T.tvm_storage_sync("shared")
            r[0] = r[0] + S[31 - tx]
            T.tvm_storage_sync("shared")
        B[bx * 32 + tx] = r[0]
        """,
        blocks=2,
        inputs=COUNTED,
        outputs=OUT,
        expected=lambda A, n: np.concatenate([A[:32][::-1], 3 * A[32:][::-1]]),
    ),
    wrong(
        "block of one round has no barrier of its own",
        RACE,
        "block 0 leaves its loop before it comes to a barrier",
        """
        S = T.alloc_shared((64,))
        for k in range(n[bx]):
            S[tx] = A[bx * 32 + tx] + T.float32(1)
            if k + 1 < n[bx] or bx == 1:
                T.tvm_storage_sync("shared")
        B[bx * 32 + tx] = S[31 - tx]
        """,
        blocks=2,
        inputs=COUNTED,
        outputs=OUT,
    ),
)


FLAGS = {"A": whole(64), "n": np.array([1], "int32")}
OWN_FLAGS = {"A": whole(64), "n": np.arange(64, dtype="int32") % 2}
TREE = """
    S = T.alloc_shared((64,))
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    for k in range(6):
        {}
    if tx == 0:
        B[0] = S[0]
"""
ADD = "S[tx] = S[tx] + S[tx + T.shift_right(32, k)]"
SUM = {"B": blank(1)}


def _sum(A):
    return A.sum(keepdims=True)


BRANCHES = (
    right(
        "barrier behind a loaded condition that all threads share",
        "all threads of the block load the same flag",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        if n[0] > 0:
            T.tvm_storage_sync("shared")
            B[tx] = S[63 - tx]
        else:
            B[tx] = S[tx]
        """,
        threads=64,
        inputs=FLAGS,
        outputs=OUT,
        expected=lambda A, n: A[::-1],
    ),
    wrong(
        "barrier behind a loaded condition of each thread",
        BARRIER,
        "every other thread loads 0 and never comes",
        """
        S = T.alloc_shared((64,))
        S[tx] = A[tx]
        if n[tx] > 0:
            T.tvm_storage_sync("shared")
        B[tx] = S[tx]
        """,
        threads=64,
        inputs=OWN_FLAGS,
        outputs=OUT,
    ),
    right(
        "tree of sums, barrier for all threads",
        "the barrier stands behind the branch",
        TREE.format(
            f"if tx < T.shift_right(32, k):\n            {ADD}\n"
            '        T.tvm_storage_sync("shared")'
        ),
        threads=64,
        inputs=IN,
        outputs=SUM,
        expected=_sum,
    ),
    wrong(
        "tree of sums, barrier within the branch",
        BARRIER,
        "threads that no longer add never come to it",
        TREE.format(
            f"if tx < T.shift_right(32, k):\n            {ADD}\n"
            '            T.tvm_storage_sync("shared")'
        ),
        threads=64,
        inputs=IN,
        outputs=SUM,
        expected=_sum,
    ),
    wrong(
        "tree of sums, barriers left out within the last warp",
        RACE,
        "since Volta the lanes of a warp are not in step",
        TREE.format(
            f"if tx < T.shift_right(32, k):\n            {ADD}\n"
            '        if k < 1:\n            T.tvm_storage_sync("shared")'
        ),
        threads=64,
        inputs=IN,
        outputs=SUM,
        expected=_sum,
    ),
    right(
        "while loop on a shared counter",
        "all threads load the counter between two barriers, so that all leave together",
        """
        S = T.alloc_shared((64,), "int32")
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        if tx == 0:
            S[0] = 3
        T.tvm_storage_sync("shared")
        while S[0] > 0:
            r[0] = r[0] + A[tx]
            T.tvm_storage_sync("shared")
            if tx == 0:
                S[0] = S[0] - 1
            T.tvm_storage_sync("shared")
        B[tx] = r[0]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: 3 * A,
    ),
    wrong(
        "while loop on a shared counter, one barrier",
        RACE,
        "thread 0 counts down while others still load the counter",
        """
        S = T.alloc_shared((64,), "int32")
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        if tx == 0:
            S[0] = 3
        T.tvm_storage_sync("shared")
        while S[0] > 0:
            r[0] = r[0] + A[tx]
            if tx == 0:
                S[0] = S[0] - 1
            T.tvm_storage_sync("shared")
        B[tx] = r[0]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: 3 * A,
    ),
    right(
        "threads beyond the end return",
        "there is no barrier behind",
        """
        if tx >= 50:
            T.evaluate(T.thread_return())
        B[tx] = A[tx]
        """,
        threads=64,
        inputs={"A": whole(50)},
        outputs={"B": blank(50)},
        expected=lambda A: A,
    ),
    right(
        "warp that returns before a barrier of the others",
        "since Volta a barrier waits for the threads that have not ended",
        """
        S = T.alloc_shared((64,))
        if tx >= 32:
            T.evaluate(T.thread_return())
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[31 - tx]
        """,
        threads=64,
        inputs=IN_WARP,
        outputs=OUT_WARP,
        expected=_reversed,
    ),
    wrong(
        "warp that returns before it stored what others load",
        UNINITIALIZED,
        "S[32] to S[63] are never stored",
        """
        S = T.alloc_shared((64,))
        if tx >= 32:
            T.evaluate(T.thread_return())
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[63 - tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT_WARP,
    ),
)

PROGRAMS = family("barriers", (*ORDERED, *DIVERGENT, *BRANCHES))
