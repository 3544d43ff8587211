# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((24,), "float32"), Y: T.Buffer((64,), "float32"), A: T.Buffer((24, 64), "float32"), B: T.Buffer((24, 64), "float32")):
        # with T.sblock("root"):
        for i_0 in T.thread_binding(6, thread="blockIdx.y"):
            for j_0 in T.thread_binding(4, thread="blockIdx.x"):
                for i_1 in T.thread_binding(4, thread="threadIdx.y"):
                    for j_1 in T.thread_binding(16, thread="threadIdx.x"):
                        with T.sblock("B"):
                            vi = T.axis.spatial(24, i_0 * 4 + i_1)
                            vj = T.axis.spatial(64, j_0 * 16 + j_1)
                            T.reads(A[vi, vj], X[vi], Y[vj])
                            T.writes(B[vi, vj])
                            B[vi, vj] = A[vi, vj] + X[vi] * Y[vj]
