# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 96), "float32"), B: T.Buffer((96, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0 in T.thread_binding(3, thread="blockIdx.y"):
            for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                for i_1, j_1 in T.grid(32, 32):
                    with T.sblock("B"):
                        vi = T.axis.spatial(96, i_0 * 32 + i_1)
                        vj = T.axis.spatial(64, j_0 * 32 + j_1)
                        T.reads(A[vj, vi])
                        T.writes(B[vi, vj])
                        B[vi, vj] = A[vj, vi]
