"""Shared memory that a loop makes anew: it has one place, and what is there may still be in use."""

from __future__ import annotations

import textwrap

from .async_copies import commit, copy, wait
from .program import RACE, blank, family, right, whole, wrong

FOUR, OUT = {"A": whole(256)}, {"B": blank(64)}
STATIC = 'T.tvm_storage_sync("shared")'


def _sum_of_four(A):
    return A.reshape(4, 64).sum(0)[::-1]


def _round(*body: str) -> str:
    """Four rounds that each have a buffer of their own, and a sum in registers."""
    made = ["X = T.alloc_shared((64,))", *body]
    return "\n".join(
        [
            "r = T.alloc_local((1,))",
            "r[0] = T.float32(0)",
            "for k in range(4):",
            *(textwrap.indent(part, "    ") for part in made),
            "B[tx] = r[0]",
        ]
    )


STORE, ADD, ADD_OWN = (
    "X[tx] = A[k * 64 + tx]",
    "r[0] = r[0] + X[63 - tx]",
    "r[0] = r[0] + X[tx]",
)
COPY = commit(copy("tx", "k * 64 + tx"))

STORES = (
    right(
        "buffer of a round, with barriers on both sides of its loads",
        "no thread stores for the next round before all have loaded",
        _round(STORE, STATIC, ADD, STATIC),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
    wrong(
        "buffer of a round, no barrier behind its loads",
        RACE,
        "the next round's buffer lies in the same place: its stores do not wait for the loads",
        _round(STORE, STATIC, ADD),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
    ),
)

COPIES = (
    right(
        "copies to a round's buffer, each waited for",
        "the wait is before the loads, and a barrier behind them",
        _round(COPY, wait(0, STATIC, ADD), STATIC),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=_sum_of_four,
        arch="sm_80",
    ),
    wrong(
        "copies to a round's buffer that nothing waits for in the first round",
        RACE,
        "the copy of the second round may arrive before that of the first",
        _round(
            COPY, "if 0 < k:\n" + textwrap.indent(wait(0, ADD.replace("63 - tx", "tx")), "    ")
        ),
        threads=64,
        inputs=FOUR,
        outputs=OUT,
        expected=lambda A: A[64:].reshape(3, 64).sum(0),
        arch="sm_80",
    ),
)

PROGRAMS = family("buffers of a loop", (*STORES, *COPIES))
