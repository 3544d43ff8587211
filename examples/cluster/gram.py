"""G = Aᵀ A, PyTorch's function for it, and a recipe with some configs that are far faster."""

from collections.abc import Iterator

import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T

from tirstep.modules import kernel
from tirstep.transforms import (
    accumulate_in_registers,
    decompose_reduction_at,
    split_reduction,
    tile_block,
    unroll_loop,
)
from tirstep.transforms.recipes import Example, recipe

TORCH = {"gram": lambda a: a.T @ a}


@kernel(
    reference=lambda a, **_: a.T @ a,
    flops=lambda r, n, **_: 2 * r * n * n,
    elements=lambda r, n, **_: max(r * n, n * n),  # of the largest tensor
    accumulators={"float32": ("float32",)},  # by data type
)
def gram(r: int, n: int, *, dtype: str = "float32") -> tvm.IRModule:
    """G = Aᵀ A for a matrix of r x n: block "G", loops i, j and k."""
    R, N = r, n

    @I.ir_module
    class Gram:
        @T.prim_func(s_tir=True)
        def main(A: T.Buffer((R, N), dtype), G: T.Buffer((N, N), dtype)):
            for i, j, k in T.grid(N, N, R):
                with T.sblock("G"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        G[vi, vj] = T.float32(0)
                    G[vi, vj] = G[vi, vj] + A[vk, vi] * A[vk, vj]

    return Gram


@recipe(
    kernel=gram,
    blocks=("G",),
    default_example=Example({"r": 1024, "n": 1024}),
    golden=Example({"r": 24, "n": 32}, config={"threads": (4, 8), "each": (2, 1), "depth": 4}),
    choices={
        "threads": ((8, 8), (8, 16), (16, 16), (8, 32)),
        "each": ((1, 1), (2, 2), (4, 2), (4, 4)),
        "depth": (1, 4, 8),
    },
)
def gram_registers(
    sch: Schedule,
    *,
    threads: tuple[int, int] = (8, 8),
    each: tuple[int, int] = (1, 1),
    depth: int = 1,
) -> Iterator[str]:
    """Sums in registers, A from the caches. Knobs: threads, their tiles, steps unrolled."""
    block = sch.get_sblock("G")
    tile = tile_block(sch, block, threads=threads, per_thread=each)
    yield "tiled"
    accumulate_in_registers(sch, block, tile.threads[1])
    yield "in_registers"
    steps = split_reduction(sch, block, inner=depth)
    decompose_reduction_at(sch, block, steps.outer)
    unroll_loop(sch, steps.inner)
    yield "unrolled"
