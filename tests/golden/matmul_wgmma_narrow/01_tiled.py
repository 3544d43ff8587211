# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128, 192), "float16"), B: T.Buffer((192, 256), "float16"), C: T.Buffer((128, 256), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0_j_0_i_1_fused in T.thread_binding(16, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                for k_0, i_3, j_2, k_1 in T.grid(3, 64, 32, 64):
                    with T.sblock("C"):
                        vi = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + i_3)
                        vj = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 32 + j_2)
                        vk = T.axis.reduce(192, k_0 * 64 + k_1)
                        T.reads(A[vi, vk], B[vk, vj])
                        T.writes(C[vi, vj])
                        with T.init():
                            C[vi, vj] = T.float32(0.0)
                        C[vi, vj] = C[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B[vk, vj])
