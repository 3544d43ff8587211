# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((3, 96), "float32"), B: T.Buffer((96, 64), "float32"), C: T.Buffer((3, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0 in T.thread_binding(1, thread="blockIdx.z"):
            for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                for j_1_0 in T.thread_binding(8, thread="threadIdx.x"):
                    for k_0, k_1, i_1, j_1_1 in T.grid(24, 4, 3, 4):
                        with T.sblock("C"):
                            vi = T.axis.spatial(3, i_0 * 3 + i_1)
                            vj = T.axis.spatial(64, j_0 * 32 + j_1_0 * 4 + j_1_1)
                            vk = T.axis.reduce(96, k_0 * 4 + k_1)
                            T.reads(A[vi, vk], B[vk, vj])
                            T.writes(C[vi, vj])
                            with T.init():
                                C[vi, vj] = T.float32(0.0)
                            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
