"""Registers, fetches and tails: what was never written, and what lies beyond an end."""

from __future__ import annotations

import numpy as np

from .program import (
    BOUNDS,
    NUMBERS,
    RACE,
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
    sizes = "\n".join(f"{name} = T.match_buffer({name.lower()}, (n,))" for name in "AB")
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


EDGES = (
    wrong(
        "guard one too wide",
        BOUNDS,
        "thread 30 loads A[30] of 30 elements",
        """
        B[tx] = T.float32(0)
        if tx <= 30:
            B[tx] = A[tx]
        """,
        inputs=SHORT,
        outputs=OUT,
    ),
    right(
        "index clamped to the last element",
        "min keeps it within",
        "B[tx] = A[T.min(tx, 29)]",
        inputs=SHORT,
        outputs=OUT,
        expected=lambda A: np.append(A, [A[29], A[29]]),
    ),
    wrong(
        "left neighbour of the first element",
        BOUNDS,
        "thread 0 loads A[-1]",
        "B[tx] = A[tx - 1]",
        inputs=IN,
        outputs=OUT,
    ),
    right(
        "left neighbour, zero where there is none",
        "the load of A[-1] is not evaluated",
        "B[tx] = A[tx] + T.if_then_else(tx > 0, A[tx - 1], T.float32(0))",
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A + np.append([0], A[:-1]),
    ),
    wrong(
        "right neighbour over a row's end",
        NUMBERS,
        "the last column's neighbour is the next row's first element, within the buffer",
        "B[tx] = A[tx] + A[tx + 1]",
        inputs={"A": whole(33)},
        outputs=OUT,
        expected=lambda A: np.ravel(
            A[:32].reshape(4, 8) + np.pad(A[:32].reshape(4, 8)[:, 1:], ((0, 0), (0, 1)))
        ),
    ),
    wrong(
        "vector over the end",
        BOUNDS,
        "thread 7 loads elements 28 to 31 of 30",
        "B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]",
        threads=8,
        inputs=SHORT,
        outputs=OUT,
    ),
    right(
        "vectors, and single elements at the end",
        "the vector's last element is in the guard",
        """
        if tx * 4 + 3 < 30:
            B[T.Ramp(tx * 4, 1, 4)] = A[T.Ramp(tx * 4, 1, 4)]
        else:
            for k in range(4):
                if tx * 4 + k < 30:
                    B[tx * 4 + k] = A[tx * 4 + k]
        """,
        threads=8,
        inputs=SHORT,
        outputs={"B": blank(30)},
        expected=lambda A: A,
    ),
    wrong(
        "register array at a loaded index beyond its end",
        BOUNDS,
        "n[0] is 4, and r has 4 elements",
        """
        r = T.alloc_local((4,))
        for k in range(4):
            r[k] = A[tx] + T.Cast("float32", k)
        B[tx] = r[n[0]]
        """,
        inputs={"A": whole(32), "n": np.array([4], "int32")},
        outputs=OUT,
    ),
    wrong(
        "gather at a loaded index beyond the end",
        BOUNDS,
        "the last index is 32",
        "B[tx] = A[n[tx]]",
        inputs={"A": whole(32), "n": np.arange(1, 33, dtype="int32")},
        outputs=OUT,
    ),
    wrong(
        "scatter to a loaded index, twice the same",
        RACE,
        "two threads store other values to B[0]",
        "B[n[tx]] = A[tx]",
        inputs={"A": np.arange(32, dtype="float32"), "n": np.arange(32, dtype="int32") % 31},
        outputs={"B": blank(31)},
    ),
    right(
        "scatter to loaded indices, each once",
        "the indices are a permutation",
        "B[n[tx]] = A[tx]",
        inputs={"A": whole(32), "n": np.arange(32, dtype="int32") * 5 % 32},
        outputs=OUT,
        expected=lambda A, n: A[np.argsort(n)],
    ),
)

PROGRAMS = family("registers and tails", (*REGISTERS, *FETCHES, *OPEN, *LOOPS, *EDGES))
