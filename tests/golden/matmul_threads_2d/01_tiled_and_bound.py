# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0 in T.thread_binding(4, thread="blockIdx.x"):
            for j_0 in T.thread_binding(6, thread="blockIdx.y"):
                for i_1 in T.thread_binding(16, thread="threadIdx.x"):
                    for j_1 in T.thread_binding(8, thread="threadIdx.y"):
                        with T.sblock("C_init"):
                            vi = T.axis.spatial(64, i_0 * 16 + i_1)
                            vj = T.axis.spatial(48, j_0 * 8 + j_1)
                            T.reads()
                            T.writes(C[vi, vj])
                            C[vi, vj] = T.float32(0.0)
                        for k in range(32):
                            with T.sblock("C_update"):
                                vi = T.axis.spatial(64, i_0 * 16 + i_1)
                                vj = T.axis.spatial(48, j_0 * 8 + j_1)
                                vk = T.axis.reduce(32, k)
                                T.reads(C[vi, vj], A[vi, vk], B[vk, vj])
                                T.writes(C[vi, vj])
                                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
