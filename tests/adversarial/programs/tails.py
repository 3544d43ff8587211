"""Registers, fetches and tails: what was never written, and what lies beyond an end."""

from __future__ import annotations

import numpy as np

from .program import (
    BOUNDS,
    RIGHT,
    UNINITIALIZED,
    WRONG,
    Launch,
    Program,
    blank,
    family,
    right,
    whole,
    write_module,
    wrong,
)

IN, OUT = {"A": whole(32)}, {"B": blank(32)}
SHORT = {"A": whole(30)}

REGISTERS = (
    wrong(
        "register written in one arm and read by all",
        UNINITIALIZED,
        "lanes 16 to 31 never wrote it",
        """
        r = T.alloc_local((1,))
        if tx < 16:
            r[0] = A[tx]
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "register written in both arms",
        "every thread comes through one of them",
        """
        r = T.alloc_local((1,))
        if tx < 16:
            r[0] = A[tx]
        else:
            r[0] = A[tx - 16]
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: np.tile(A[:16], 2),
    ),
    wrong(
        "register array beyond its end",
        BOUNDS,
        "r has 4 elements, and r[4] is stored",
        """
        r = T.alloc_local((4,))
        for k in range(5):
            r[k] = A[tx]
        B[tx] = r[tx % 4]
        """,
        inputs=IN,
        outputs=OUT,
    ),
)

FETCHES = (
    wrong(
        "66 elements fetched by 64 threads in one round",
        UNINITIALIZED,
        "S[64] and S[65] are never stored",
        """
        S = T.alloc_shared((66,))
        S[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[tx] + S[tx + 2]
        """,
        threads=64,
        inputs={"A": whole(66)},
        outputs={"B": blank(64)},
    ),
    right(
        "66 elements fetched by 64 threads in two rounds",
        "a guard keeps the second round within the buffer",
        """
        S = T.alloc_shared((66,))
        for k in range(2):
            if k * 64 + tx < 66:
                S[k * 64 + tx] = A[k * 64 + tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[tx] + S[tx + 2]
        """,
        threads=64,
        inputs={"A": whole(66)},
        outputs={"B": blank(64)},
        expected=lambda A: A[:64] + A[2:],
    ),
    right(
        "load behind if_then_else",
        "the load beyond the end is not evaluated",
        "B[tx] = T.if_then_else(tx < 30, A[tx], T.float32(0))",
        inputs=SHORT,
        outputs=OUT,
        expected=lambda A: np.append(A, [0, 0]),
    ),
    right(
        "load behind a short circuit",
        "the bound is evaluated before the load",
        """
        if tx < 30 and A[tx] > T.float32(50):
            B[tx] = T.float32(1)
        else:
            B[tx] = T.float32(0)
        """,
        inputs=SHORT,
        outputs=OUT,
        expected=lambda A: np.append(A > 50, [0, 0]),
    ),
    wrong(
        "bound evaluated after the load",
        BOUNDS,
        "lanes 30 and 31 load beyond A's end",
        """
        if A[tx] > T.float32(50) and tx < 30:
            B[tx] = T.float32(1)
        else:
            B[tx] = T.float32(0)
        """,
        inputs=SHORT,
        outputs=OUT,
    ),
)


def _open(name: str, status: str, kind: str, why: str, body: str, size: int) -> Program:
    """A program whose size is known at the call only."""
    sizes = "\n".join(f"{one} = T.match_buffer({one.lower()}, (n,))" for one in "AB")
    launches = [Launch(body, 32, "(n + 31) // 32")]
    script = write_module("a: T.handle, b: T.handle", launches, f"n = T.int32()\n{sizes}")
    reference = None if status == WRONG else lambda A: A
    inputs, outputs = {"A": whole(size)}, {"B": blank(size)}
    return Program(name, status, kind, why, script, inputs, outputs, reference)


GUARDED = """
    if bx * 32 + tx < n:
        B[bx * 32 + tx] = A[bx * 32 + tx]
"""
OPEN = (
    _open("37 of an open size, guarded", RIGHT, "", "the guard is of the size", GUARDED, 37),
    _open(
        "37 of an open size, no guard",
        WRONG,
        BOUNDS,
        "27 threads of block 1 are beyond the end",
        "B[bx * 32 + tx] = A[bx * 32 + tx]",
        37,
    ),
    _open("0 of an open size", RIGHT, "", "there is nothing to do", GUARDED, 0),
)
LOOPS = (
    right(
        "loop of no iterations",
        "its body is never run",
        """
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(0):
            r[0] = r[0] + A[tx]
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
        expected=np.zeros_like,
    ),
    right(
        "negative trip counts of some threads",
        "they run the body no time",
        """
        r = T.alloc_local((1,))
        r[0] = T.float32(0)
        for k in range(tx - 16):
            r[0] = r[0] + A[tx]
        B[tx] = r[0]
        """,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A * np.maximum(0, np.arange(32) - 16),
    ),
)

PROGRAMS = family("registers and tails", (*REGISTERS, *FETCHES, *OPEN, *LOOPS))
