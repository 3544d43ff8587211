# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 1024), "float32"), B: T.Buffer((1024, 48), "float32"), C: T.Buffer((32, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_pad = T.sblock_alloc_buffer((32, 1056))
        B_pad = T.sblock_alloc_buffer((1056, 48))
        C_rf = T.sblock_alloc_buffer((11, 32, 48))
        for i0, i1 in T.grid(32, 1056):
            with T.sblock("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(A[v0, v1])
                T.writes(A_pad[v0, v1])
                A_pad[v0, v1] = T.if_then_else(v1 < 1024, A[v0, v1], T.float32(0.0))
        for i0, i1 in T.grid(1056, 48):
            with T.sblock("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(B[v0, v1])
                T.writes(B_pad[v0, v1])
                B_pad[v0, v1] = T.if_then_else(v0 < 1024, B[v0, v1], T.float32(0.0))
        for k_0 in T.thread_binding(11, thread="blockIdx.y"):
            for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
                for i_2, j_1 in T.grid(1, 1):
                    for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                        for k_1, i_4, j_3 in T.grid(96, 4, 2):
                            with T.sblock("C_rf"):
                                vk_0 = T.axis.spatial(11, k_0)
                                vi = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + i_2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + j_1 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3)
                                vk_1 = T.axis.reduce(96, k_1)
                                T.reads(A_pad[vi, vk_0 * 96 + vk_1], B_pad[vk_0 * 96 + vk_1, vj])
                                T.writes(C_rf[vk_0, vi, vj])
                                with T.init():
                                    C_rf[vk_0, vi, vj] = T.float32(0.0)
                                C_rf[vk_0, vi, vj] = C_rf[vk_0, vi, vj] + A_pad[vi, vk_0 * 96 + vk_1] * B_pad[vk_0 * 96 + vk_1, vj]
        for i, j, k_0 in T.grid(32, 48, 11):
            with T.sblock("C"):
                vk_0, vi, vj = T.axis.remap("RSS", [k_0, i, j])
                T.reads(C_rf[vk_0, vi, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + C_rf[vk_0, vi, vj]
