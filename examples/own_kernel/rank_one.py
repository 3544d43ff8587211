"""A kernel of one's own with its meaning in NumPy, and two recipes of it."""

from collections.abc import Iterator
from typing import Literal

import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import kernel
from tirstep.transforms import tile_block, vectorize_loop
from tirstep.transforms.recipes import Example, recipe


@kernel(
    reference=lambda x, y, a, **_: a + x[:, None] * y[None, :],
    flops=lambda m, n, **_: 2 * m * n,
    elements=lambda m, n, **_: m * n,  # of the largest tensor
    accumulators={"float32": ("float32",), "float16": ("float16",)},  # by data type
)
def rank_one(m: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """B = A + X Yᵀ for a matrix of m x n: block "B", loops i and j."""
    M, N = m, n

    @I.ir_module
    class RankOne:
        @T.prim_func(s_tir=True)
        def main(
            X: T.Buffer((M,), dtype),
            Y: T.Buffer((N,), dtype),
            A: T.Buffer((M, N), dtype),
            B: T.Buffer((M, N), dtype),
        ):
            for i, j in T.grid(M, N):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + X[vi] * Y[vj]

    return RankOne


LARGE, SMALL = Example({"m": 4096, "n": 4096}), {"m": 24, "n": 64}


@recipe(
    kernel=rank_one,
    blocks=("B",),
    default_example=LARGE,
    golden=Example(SMALL, config={"rows": 4, "columns": 16}),
    choices={"rows": (4, 8, 16), "columns": (16, 32)},
)
def rank_one_bound(
    sch: Schedule,
    *,
    rows: int = 8,
    columns: int = 32,
    tail: Literal["refuse", "guard"] = "refuse",
) -> Iterator[str]:
    """One element for each thread. Knobs: rows and columns of threads; tail for other sizes."""
    tile_block(sch, sch.get_sblock("B"), threads=(rows, columns), tail=tail)
    yield "bound"


@recipe(
    kernel=rank_one,
    blocks=("B",),
    default_example=LARGE,
    golden=Example(SMALL, config={"rows": 4, "columns": 8, "vector": 2}),
    choices={"rows": (2, 4, 8), "columns": (32, 64), "vector": (2, 4)},
)
def rank_one_vectors(
    sch: Schedule, *, rows: int = 8, columns: int = 32, vector: int = 4
) -> Iterator[str]:
    """A vector for each thread. Knobs: rows and columns of threads, and the vector's length."""
    block = sch.get_sblock("B")
    tile = tile_block(sch, block, threads=(rows, columns), per_thread=(1, vector))
    yield "tiled"
    vectorize_loop(sch, tile.locals[-1])
    yield "vectorized"
