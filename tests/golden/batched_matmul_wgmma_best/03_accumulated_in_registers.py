# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 64, 192), "bfloat16"), B: T.Buffer((2, 192, 128), "bfloat16"), C: T.Buffer((2, 64, 128), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            C_acc_shared_dyn = T.sblock_alloc_buffer((2, 64, 128), scope="shared.dyn")
            C_acc_shared_dyn_local = T.sblock_alloc_buffer((2, 64, 128), scope="local")
            for b_fused in T.thread_binding(2, thread="blockIdx.z"):
                for i_0_j_0_i_1_fused in T.thread_binding(2, thread="blockIdx.x"):
                    for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                        for k_0, i_3, j_2, k_1 in T.grid(3, 64, 64, 64):
                            with T.sblock("C"):
                                vb, vi = T.axis.remap("SS", [b_fused, i_3])
                                vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + j_2)
                                vk = T.axis.reduce(192, k_0 * 64 + k_1)
                                T.reads(A[vb, vi, vk], B[vb, vk, vj])
                                T.writes(C_acc_shared_dyn_local[vb, vi, vj])
                                with T.init():
                                    C_acc_shared_dyn_local[vb, vi, vj] = T.float32(0.0)
                                C_acc_shared_dyn_local[vb, vi, vj] = C_acc_shared_dyn_local[vb, vi, vj] + T.Cast("float32", A[vb, vi, vk]) * T.Cast("float32", B[vb, vk, vj])
                        for ax0, ax1, ax2 in T.grid(1, 64, 64):
                            with T.sblock("C_acc_shared.dyn_local"):
                                v0 = T.axis.spatial(2, b_fused + ax0)
                                v1 = T.axis.spatial(64, ax1)
                                v2 = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + ax2)
                                T.reads(C_acc_shared_dyn_local[v0, v1, v2])
                                T.writes(C_acc_shared_dyn[v0, v1, v2])
                                T.sblock_attr({"buffer_dim_align": [[0, 1, 64, 8]]})
                                C_acc_shared_dyn[v0, v1, v2] = C_acc_shared_dyn_local[v0, v1, v2]
                    for ax0, ax1_ax2_fused_0 in T.grid(1, 8):
                        for ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                            for ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                for ax1_ax2_fused_3 in T.vectorized(4):
                                    with T.sblock("C_cast"):
                                        vb = T.axis.spatial(2, b_fused + ax0)
                                        vi = T.axis.spatial(64, (ax1_ax2_fused_0 * 512 + ax1_ax2_fused_1 * 512 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) // 64)
                                        vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + (ax1_ax2_fused_0 * 512 + ax1_ax2_fused_1 * 512 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) % 64)
                                        T.reads(C_acc_shared_dyn[vb, vi, vj])
                                        T.writes(C[vb, vi, vj])
                                        C[vb, vi, vj] = T.Cast("bfloat16", C_acc_shared_dyn[vb, vi, vj])
