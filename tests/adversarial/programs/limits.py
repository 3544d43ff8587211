"""What a GPU launches: extents, threads, shared and local memory."""

from __future__ import annotations

import numpy as np

from .program import LAUNCH, Program, blank, family, right, whole, wrong

IN, OUT = {"A": whole(64)}, {"B": blank(64)}
MANY = {"B": blank(70000)}


def _reversed(A):
    return A[::-1]


def _dynamic(size: int) -> str:
    """A kernel that uses 64 cells of so many in dynamic shared memory."""
    return f"""
    S = T.alloc_buffer(({size},), "float32", scope="shared.dyn")
    S[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx]
    """


def _static(*sizes: int) -> str:
    """A kernel with buffers of so many cells in static shared memory, of which 64 are used."""
    names = [f"S{place}" for place in range(len(sizes))]
    lines = [f"{name} = T.alloc_shared(({size},))" for name, size in zip(names, sizes, strict=True)]
    lines += [f"{name}[tx] = A[tx]" for name in names]
    lines.append('T.tvm_storage_sync("shared")')
    lines.append("B[tx] = " + " + ".join(f"{name}[63 - tx]" for name in names))
    return "\n".join(lines)


def _many_blocks(axis: str) -> Program:
    blocks = (1, 70000) if axis == "y" else (1, 1, 70000)
    return wrong(
        f"70000 blocks on {axis}",
        LAUNCH,
        "65535 is the limit there",
        f"B[b{axis}] = A[0]",
        blocks=blocks,
        threads=1,
        inputs=IN,
        outputs=MANY,
        expected=lambda A: np.full(70000, A[0]),
    )


GRID = (
    _many_blocks("y"),
    _many_blocks("z"),
    right(
        "70000 blocks on x",
        "x takes 2**31 - 1",
        "B[bx] = A[0]",
        blocks=70000,
        threads=1,
        inputs=IN,
        outputs=MANY,
        expected=lambda A: np.full(70000, A[0]),
    ),
    wrong(
        "2048 threads",
        LAUNCH,
        "a block has 1024 at most",
        "B[ty * 64 + tx] = A[ty * 64 + tx]",
        threads=(64, 32),
        inputs={"A": whole(2048)},
        outputs={"B": blank(2048)},
        expected=lambda A: A,
    ),
    wrong(
        "65 threads on z",
        LAUNCH,
        "64 is the limit there",
        "B[tz] = A[tz]",
        threads=(1, 1, 65),
        inputs={"A": whole(65)},
        outputs={"B": blank(65)},
        expected=lambda A: A,
    ),
)

MEMORY = (
    wrong(
        "52 KB of static shared memory",
        LAUNCH,
        "48 KB is the limit",
        _static(13312),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    wrong(
        "twice 30 KB of static shared memory",
        LAUNCH,
        "48 KB is the limit for both together",
        _static(7680, 7680),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: 2 * A[::-1],
    ),
    right(
        "100 KB of dynamic shared memory",
        "an H100 has 227 KB for a block",
        _dynamic(25600),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
        arch="sm_80",
    ),
    wrong(
        "240 KB of dynamic shared memory",
        LAUNCH,
        "227 KB is the limit",
        _dynamic(61440),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    wrong(
        "40 KB of static and 200 KB of dynamic shared memory",
        LAUNCH,
        "together they are more than 227 KB",
        """
        S = T.alloc_buffer((51200,), "float32", scope="shared.dyn")
        R = T.alloc_shared((10240,))
        S[tx] = A[tx]
        R[tx] = A[tx]
        T.tvm_storage_sync("shared")
        B[tx] = S[63 - tx] + R[tx]
        """,
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A + A[::-1],
    ),
    wrong(
        "600000 bytes of local memory in a thread",
        LAUNCH,
        "512 KB is the limit",
        """
        r = T.alloc_local((150000,))
        r[tx] = A[tx]
        B[tx] = r[tx]
        """,
        inputs={"A": whole(32)},
        outputs={"B": blank(32)},
        expected=lambda A: A,
    ),
)


def _both(static: int, dynamic: int) -> str:
    """A kernel with so many cells in static and in dynamic shared memory."""
    return f"""
    S = T.alloc_buffer(({dynamic},), "float32", scope="shared.dyn")
    R = T.alloc_shared(({static},))
    S[tx] = A[tx]
    R[tx] = A[tx]
    T.tvm_storage_sync("shared")
    B[tx] = S[63 - tx] + R[tx]
    """


EDGES = (
    right(
        "1024 threads on two axes",
        "that is the limit",
        "B[ty * 32 + tx] = A[ty * 32 + tx]",
        threads=(32, 32),
        inputs={"A": whole(1024)},
        outputs={"B": blank(1024)},
        expected=lambda A: A,
    ),
    wrong(
        "1056 threads on two axes",
        LAUNCH,
        "a block has 1024 at most, though each axis is within its limit",
        "B[ty * 32 + tx] = A[ty * 32 + tx]",
        threads=(32, 33),
        inputs={"A": whole(1056)},
        outputs={"B": blank(1056)},
        expected=lambda A: A,
    ),
    right(
        "64 threads on z",
        "that is the limit there",
        "B[tz] = A[tz]",
        threads=(1, 1, 64),
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A,
    ),
    right(
        "48 KB of static shared memory",
        "that is the limit",
        _static(12288),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    right(
        "227 KB of dynamic shared memory",
        "that is an H100's limit",
        _dynamic(58112),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
        arch="sm_90",
    ),
    wrong(
        "227 KB and 4 bytes of dynamic shared memory",
        LAUNCH,
        "227 KB is the limit",
        _dynamic(58113),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=_reversed,
    ),
    right(
        "24 KB of static and 200 KB of dynamic shared memory",
        "together they are less than 227 KB",
        _both(6144, 51200),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A + A[::-1],
        arch="sm_90",
    ),
    wrong(
        "32 KB of static and 196 KB of dynamic shared memory",
        LAUNCH,
        "each is within its limit, and together they are 228 KB",
        _both(8192, 50176),
        threads=64,
        inputs=IN,
        outputs=OUT,
        expected=lambda A: A + A[::-1],
    ),
)

PROGRAMS = family("limits", (*GRID, *MEMORY, *EDGES))
