"""The module of TVM's tutorial on TensorIR, and two schedules of it, for a CPU and for a GPU."""

from collections.abc import Iterator

from tvm.s_tir import Schedule
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class MyModule:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128, 128), "float32"),
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        Y = T.sblock_alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def for_cpu(sch: Schedule, *, columns: int = 4) -> Iterator[str]:
    """The tutorial's own, with only TVM's primitives. Knobs: columns of a tile."""
    product, relu = sch.get_sblock("Y"), sch.get_sblock("C")
    i, j, k = sch.get_loops(product)
    outer, inner = sch.split(j, [None, columns])
    sch.reorder(i, outer, k, inner)
    yield "tiled"
    sch.reverse_compute_at(relu, outer)
    yield "relu_inside"
    sch.decompose_reduction(product, k)
    yield "decomposed"


def for_gpu(sch: Schedule, *, threads: int = 32) -> None:
    """A row of 128 for each thread block. Knobs: threads of a block."""
    product, relu = sch.get_sblock("Y"), sch.get_sblock("C")
    row, column = sch.get_loops(relu)
    outer, inner = sch.split(column, [None, threads])
    sch.bind(row, "blockIdx.y")
    sch.bind(outer, "blockIdx.x")
    sch.bind(inner, "threadIdx.x")
    sch.compute_at(product, inner)
    sch.set_scope(product, 0, "local")
