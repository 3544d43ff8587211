# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 32, 96), "bfloat16"), B: T.Buffer((2, 96, 64), "bfloat16"), C: T.Buffer((2, 32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            C_acc_shared_dyn = T.sblock_alloc_buffer((2, 32, 64), scope="shared.dyn")
            C_acc_shared_dyn_local = T.sblock_alloc_buffer((2, 32, 64), scope="local")
            for b_fused in T.thread_binding(2, thread="blockIdx.z"):
                for i_0_j_0_i_1_fused in T.thread_binding(4, thread="blockIdx.x"):
                    for i_2_j_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                        for k_0, k_1, i_3, j_2 in T.grid(3, 2, 1, 1):
                            with T.sblock("C_o"):
                                vb_o = T.axis.spatial(2, b_fused)
                                vi_o = T.axis.spatial(2, i_0_j_0_i_1_fused % 2 + i_3)
                                vj_o = T.axis.spatial(4, i_0_j_0_i_1_fused // 2 * 2 + i_2_j_1_fused + j_2)
                                vk_o = T.axis.reduce(6, k_0 * 2 + k_1)
                                T.reads(A[vb_o, vi_o * 16:vi_o * 16 + 16, vk_o * 16:vk_o * 16 + 16], B[vb_o, vk_o * 16:vk_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                                T.writes(C_acc_shared_dyn_local[vb_o, vi_o * 16:vi_o * 16 + 16, vj_o * 16:vj_o * 16 + 16])
                                with T.init():
                                    for i_4, j_3 in T.grid(16, 16):
                                        with T.sblock("C_init"):
                                            vi_i_init, vj_i_init = T.axis.remap("SS", [i_4, j_3])
                                            T.reads()
                                            T.writes(C_acc_shared_dyn_local[vb_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init])
                                            C_acc_shared_dyn_local[vb_o, vi_o * 16 + vi_i_init, vj_o * 16 + vj_i_init] = T.float32(0.0)
                                for i_4, j_3, k_2 in T.grid(16, 16, 16):
                                    with T.sblock("C"):
                                        vi_i, vj_i, vk_i = T.axis.remap("SSR", [i_4, j_3, k_2])
                                        T.reads(C_acc_shared_dyn_local[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i], A[vb_o, vi_o * 16 + vi_i, vk_o * 16 + vk_i], B[vb_o, vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                                        T.writes(C_acc_shared_dyn_local[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i])
                                        C_acc_shared_dyn_local[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] = C_acc_shared_dyn_local[vb_o, vi_o * 16 + vi_i, vj_o * 16 + vj_i] + T.Cast("float32", A[vb_o, vi_o * 16 + vi_i, vk_o * 16 + vk_i]) * T.Cast("float32", B[vb_o, vk_o * 16 + vk_i, vj_o * 16 + vj_i])
                        for ax0, ax1, ax2 in T.grid(1, 16, 16):
                            with T.sblock("C_acc_shared.dyn_local"):
                                v0 = T.axis.spatial(2, b_fused + ax0)
                                v1 = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + ax1)
                                v2 = T.axis.spatial(64, i_0_j_0_i_1_fused // 2 * 32 + i_2_j_1_fused * 16 + ax2)
                                T.reads(C_acc_shared_dyn_local[v0, v1, v2])
                                T.writes(C_acc_shared_dyn[v0, v1, v2])
                                T.sblock_attr({"buffer_dim_align": [[0, 1, 32, 8]]})
                                C_acc_shared_dyn[v0, v1, v2] = C_acc_shared_dyn_local[v0, v1, v2]
                    for ax0, ax1_ax2_fused_0 in T.grid(1, 2):
                        for ax1_ax2_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                            for ax1_ax2_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax1_ax2_fused_3 in T.vectorized(4):
                                    with T.sblock("C_cast"):
                                        vb = T.axis.spatial(2, b_fused + ax0)
                                        vi = T.axis.spatial(32, i_0_j_0_i_1_fused % 2 * 16 + (ax1_ax2_fused_0 * 256 + ax1_ax2_fused_1 * 128 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) // 32)
                                        vj = T.axis.spatial(64, i_0_j_0_i_1_fused // 2 * 32 + (ax1_ax2_fused_0 * 256 + ax1_ax2_fused_1 * 128 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) % 32)
                                        T.reads(C_acc_shared_dyn[vb, vi, vj])
                                        T.writes(C[vb, vi, vj])
                                        C[vb, vi, vj] = T.Cast("bfloat16", C_acc_shared_dyn[vb, vi, vj])
