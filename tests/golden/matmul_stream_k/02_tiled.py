# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_rf = T.sblock_alloc_buffer((2, 64, 48))
        for k_0 in T.thread_binding(2, thread="blockIdx.y"):
            for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                    for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                        for k_1, j_3, i_4 in T.grid(16, 2, 4):
                            with T.sblock("C_rf"):
                                vk_0 = T.axis.spatial(2, k_0)
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3)
                                vk_1 = T.axis.reduce(16, k_1)
                                T.reads(A[vi, vk_0 * 16 + vk_1], B[vk_0 * 16 + vk_1, vj])
                                T.writes(C_rf[vk_0, vi, vj])
                                with T.init():
                                    C_rf[vk_0, vi, vj] = T.float32(0.0)
                                C_rf[vk_0, vi, vj] = C_rf[vk_0, vi, vj] + A[vi, vk_0 * 16 + vk_1] * B[vk_0 * 16 + vk_1, vj]
        for i, j, k_0 in T.grid(64, 48, 2):
            with T.sblock("C"):
                vk_0, vi, vj = T.axis.remap("RSS", [k_0, i, j])
                T.reads(C_rf[vk_0, vi, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + C_rf[vk_0, vi, vj]
