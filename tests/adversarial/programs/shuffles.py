"""Shuffles of a warp: masks, lanes that take part, what they hold."""

from __future__ import annotations

import numpy as np

from .program import SHUFFLE, UNINITIALIZED, blank, family, right, whole, wrong

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

PROGRAMS = family("shuffles", MASKS)
