"""Shuffles of a warp: masks, lanes that take part, what they hold."""

from __future__ import annotations

import numpy as np

from .program import NUMBERS, SHUFFLE, UNINITIALIZED, blank, family, right, whole, wrong

IN, OUT = {"A": whole(32)}, {"B": blank(32)}
ALL = "T.uint32(0xFFFFFFFF)"


def _sum_of_half(A):
    return np.concatenate([A[:8] + A[8:16], 2 * A[8:16], A[16:]])


MASKS = (
    wrong(
        "half a warp shuffles with the mask of all lanes",
        SHUFFLE,
        "the shuffle waits for lanes that stand at the barrier",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if tx < 16:
            r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 8, 16, 32)
        T.tvm_storage_sync("shared")
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "half a warp shuffles with the mask of its lanes",
        "all lanes that the mask names come to the shuffle",
        """
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if tx < 16:
            r[0] = r[0] + T.tvm_warp_shuffle_down(T.uint32(0xFFFF), r[0], 8, 16, 32)
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
        expected=_sum_of_half,
    ),
    wrong(
        "shuffle from lanes that do not take part",
        SHUFFLE,
        "the values of lanes 16 to 31 are undefined: they never come",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if tx < 16:
            r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 16, 32, 32)
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "sum of a warp by shuffles",
        "all lanes take part, and lane 0 holds the sum",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 16, 32, 32)
        r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 8, 32, 32)
        r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 4, 32, 32)
        r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 2, 32, 32)
        r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], 1, 32, 32)
        r[0] = T.tvm_warp_shuffle({ALL}, r[0], 0, 32, 32)
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.full(32, A.sum()),
    ),
    wrong(
        "shuffle of a register that half of the lanes never wrote",
        UNINITIALIZED,
        "lane 15 takes what lane 16 never wrote",
        f"""
        r = T.alloc_local((1,))
        if tx < 16:
            r[0] = A[tx]
        B[tx] = T.tvm_warp_shuffle_down({ALL}, r[0], 1, 32, 32)
        """,
        inputs=IN,
        outputs=OUT,
    ),
)


STEPS = (16, 8, 4, 2, 1)


def _scan(step: str) -> str:
    """Sums of the lanes up to each, by shuffles from 1, 2, 4, 8 and 16 lanes below."""
    return f"""
    r = T.alloc_local((1,))
    t = T.alloc_local((1,))
    r[0] = A[tx]
    for k in range(5):
        t[0] = T.tvm_warp_shuffle_up({ALL}, r[0], T.shift_left(1, k), 32, 32)
        {step}
    B[tx] = r[0]
    """


def _butterfly(*steps: int) -> str:
    exchange = "r[0] = T.max(r[0], T.tvm_warp_shuffle_xor({}, r[0], {}, 32, 32))"
    return "\n".join(
        ["r = T.alloc_local((1,))", "r[0] = A[tx]"]
        + [exchange.format(ALL, step) for step in steps]
        + ["B[tx] = r[0]"]
    )


EXCHANGES = (
    right(
        "scan of a warp by shuffles up",
        "lanes below the distance keep their sum",
        _scan("if tx >= T.shift_left(1, k):\n            r[0] = r[0] + t[0]"),
        inputs=IN,
        outputs=OUT,
        expected=np.cumsum,
    ),
    wrong(
        "scan of a warp without its guard",
        NUMBERS,
        "lanes below the distance get their own value, and add it twice",
        _scan("r[0] = r[0] + t[0]"),
        inputs=IN,
        outputs=OUT,
        expected=np.cumsum,
    ),
    right(
        "maximum of a warp by a butterfly",
        "after five exchanges every lane has seen every other",
        _butterfly(*STEPS),
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.full(32, A.max()),
    ),
    wrong(
        "butterfly that leaves out the distance 4",
        NUMBERS,
        "every lane has seen half of the others",
        _butterfly(16, 8, 2, 1),
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.full(32, A.max()),
    ),
    right(
        "broadcast within each eight lanes",
        "a width of 8 counts lanes within their eight",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        B[tx] = T.tvm_warp_shuffle({ALL}, r[0], 0, 8, 32)
        """,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.repeat(A[::8], 8),
    ),
    right(
        "each warp its own shuffle",
        "the branch is the same for all lanes of a warp",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if tx < 32:
            B[tx] = T.tvm_warp_shuffle({ALL}, r[0], 0, 32, 32)
        else:
            B[tx] = T.tvm_warp_shuffle_xor({ALL}, r[0], 1, 32, 32)
        """,
        threads=64,
        inputs={"A": whole(64)},
        outputs={"B": blank(64)},
        expected=lambda A: np.append(np.full(32, A[0]), A[32:].reshape(16, 2)[:, ::-1]),
    ),
    right(
        "shuffle in a warp of 16 lanes with the mask of 32",
        "lanes that are not there need not come",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        B[tx] = T.tvm_warp_shuffle_xor({ALL}, r[0], 1, 32, 32)
        """,
        threads=48,
        inputs={"A": whole(48)},
        outputs={"B": blank(48)},
        expected=lambda A: np.ravel(A.reshape(24, 2)[:, ::-1]),
    ),
    right(
        "shuffle behind a loaded condition that all lanes share",
        "all lanes load the same flag",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if n[0] > 0:
            r[0] = T.tvm_warp_shuffle_xor({ALL}, r[0], 16, 32, 32)
        B[tx] = r[0]
        """,
        inputs={"A": whole(32), "n": np.array([1], "int32")},
        outputs=OUT,
        expected=lambda A, n: np.roll(A, 16),
    ),
)

DIVERGENT = (
    wrong(
        "each half of a warp its own shuffle with the mask of all lanes",
        SHUFFLE,
        "all lanes that a mask names must run the same shuffle",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if tx < 16:
            B[tx] = T.tvm_warp_shuffle_xor({ALL}, r[0], 1, 32, 32)
        else:
            B[tx] = T.tvm_warp_shuffle_xor({ALL}, r[0], 2, 32, 32)
        """,
        inputs=IN,
        outputs=OUT,
    ),
    wrong(
        "shuffle in a loop whose trip count is the lane's",
        SHUFFLE,
        "from the second round on lanes that the mask names stand at the barrier",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        for k in range(tx // 8 + 1):
            r[0] = r[0] + T.tvm_warp_shuffle_xor({ALL}, r[0], 1, 32, 32)
        T.tvm_storage_sync("shared")
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
    ),
    wrong(
        "shuffle by lanes that the mask does not name",
        SHUFFLE,
        "a lane that runs a shuffle must be in its mask",
        """
        r = T.alloc_local((1,))
        r[0] = A[tx]
        B[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFF), r[0], 1, 32, 32)
        """,
        inputs=IN,
        outputs=OUT,
    ),
    wrong(
        "shuffle from lanes that have returned",
        SHUFFLE,
        "the values of lanes that have ended are undefined",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        if tx >= 16:
            T.evaluate(T.thread_return())
        B[tx] = T.tvm_warp_shuffle_down({ALL}, r[0], 8, 32, 32)
        """,
        inputs=IN,
        outputs={"B": blank(16)},
    ),
    wrong(
        "sum of 64 threads by the shuffles of a warp",
        NUMBERS,
        "thread 0 has the sum of its own warp alone",
        f"""
        r = T.alloc_local((1,))
        r[0] = A[tx]
        for k in range(5):
            r[0] = r[0] + T.tvm_warp_shuffle_down({ALL}, r[0], T.shift_right(16, k), 32, 32)
        if tx == 0:
            B[0] = r[0]
        """,
        threads=64,
        inputs={"A": whole(64)},
        outputs={"B": blank(1)},
        expected=lambda A: A.sum(keepdims=True),
    ),
)

PROGRAMS = family("shuffles", (*MASKS, *EXCHANGES, *DIVERGENT))
