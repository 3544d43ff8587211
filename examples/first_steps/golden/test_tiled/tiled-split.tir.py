# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((96, 64), "float32"), B: T.Buffer((64, 128), "float32"), C: T.Buffer((96, 128), "float32")):
        # with T.sblock("root"):
        for i_0 in T.thread_binding(12, thread="blockIdx.y"):
            for j_0 in T.thread_binding(4, thread="blockIdx.x"):
                for i_1 in T.thread_binding(8, thread="threadIdx.y"):
                    for j_1 in T.thread_binding(32, thread="threadIdx.x"):
                        for k_0, k_1 in T.grid(4, 16):
                            with T.sblock("C"):
                                vi = T.axis.spatial(96, i_0 * 8 + i_1)
                                vj = T.axis.spatial(128, j_0 * 32 + j_1)
                                vk = T.axis.reduce(64, k_0 * 16 + k_1)
                                T.reads(A[vi, vk], B[vk, vj])
                                T.writes(C[vi, vj])
                                with T.init():
                                    C[vi, vj] = T.float32(0.0)
                                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
