"""Small kernels for before/after pairs of transforms, with extents that tell their loops apart."""

from __future__ import annotations

from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T


def make_matmul(rows: int, columns: int, depth: int) -> tvm.IRModule:
    """C = A B."""

    @I.ir_module
    class Product:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((rows, depth), "float32"),
            B: T.Buffer((depth, columns), "float32"),
            C: T.Buffer((rows, columns), "float32"),
        ):
            for i, j, k in T.grid(rows, columns, depth):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return Product


Matmul = make_matmul(16, 12, 6)


@I.ir_module
class MatmulRelu:
    """D = max(A B, 0), with A B in a buffer of its own."""

    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((16, 6), "float32"),
        B: T.Buffer((6, 12), "float32"),
        D: T.Buffer((16, 12), "float32"),
    ):
        C = T.sblock_alloc_buffer((16, 12))
        for i, j, k in T.grid(16, 12, 6):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(16, 12):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@I.ir_module
class Scale:
    """B = 2 A."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 20), "float32"), B: T.Buffer((6, 20), "float32")):
        for i, j in T.grid(6, 20):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(2)


@I.ir_module
class ScaleAnyLength:
    """B = 2 A, of n elements."""

    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.sblock("B"):
                vi = T.axis.spatial(n, i)
                B[vi] = A[vi] * T.float32(2)


@I.ir_module
class ScaleOne:
    """B = 2 A, of one element and without a loop."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1,), "float32"), B: T.Buffer((1,), "float32")):
        with T.sblock("B"):
            vi = T.axis.spatial(1, 0)
            B[vi] = A[vi] * T.float32(2)


@I.ir_module
class Copy:
    """B = A."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = A[vi]


@I.ir_module
class RowSum:
    """The sum of each row of A."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((5, 192), "float32"), B: T.Buffer((5,), "float32")):
        for i, k in T.grid(5, 192):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]


@I.ir_module
class BeyondTheEnd:
    """32 threads for 30 elements, and no guard: the last two are out of bounds."""

    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
        for block in T.thread_binding(4, thread="blockIdx.x"):
            for thread in T.thread_binding(8, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(32, block * 8 + thread)
                    T.reads(A[vi])
                    T.writes(B[vi])
                    B[vi] = A[vi]


def start(module: tvm.IRModule = Matmul, block: str = "C") -> tuple[Any, ...]:
    """A schedule that TVM verifies after every primitive, one of its blocks, and its loops."""
    sch = Schedule(module, debug_mask="all")
    handle = sch.get_sblock(block)
    return sch, handle, *sch.get_loops(handle)
