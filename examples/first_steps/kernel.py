"""C = A @ B, as a textbook has it."""

from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Matmul:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((96, 64), "float32"),
        B: T.Buffer((64, 128), "float32"),
        C: T.Buffer((96, 128), "float32"),
    ):
        for i, j, k in T.grid(96, 128, 64):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
