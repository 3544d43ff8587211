# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 24), "float32"), B: T.Buffer((24, 32), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0 in T.thread_binding(6, thread="blockIdx.y"):
            for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                for i_1 in T.thread_binding(4, thread="threadIdx.y"):
                    for j_1 in T.thread_binding(16, thread="threadIdx.x"):
                        with T.sblock("B"):
                            vi = T.axis.spatial(24, i_0 * 4 + i_1)
                            vj = T.axis.spatial(32, j_0 * 16 + j_1)
                            T.reads(A[vj, vi])
                            T.writes(B[vi, vj])
                            B[vi, vj] = A[vj, vi]
