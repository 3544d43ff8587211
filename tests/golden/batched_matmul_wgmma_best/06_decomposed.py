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
            A_shared_dyn = T.sblock_alloc_buffer((2, 3, 64, 8, 8), "bfloat16", scope="shared.dyn")
            B_shared_dyn = T.sblock_alloc_buffer((2, 2, 192, 8, 8), "bfloat16", scope="shared.dyn")
            for b_fused in T.thread_binding(2, thread="blockIdx.z"):
                for i_0_j_0_i_1_fused in T.thread_binding(2, thread="blockIdx.x"):
                    for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                        for i_3_init, j_2_init in T.grid(64, 64):
                            with T.sblock("C_init"):
                                vb, vi = T.axis.remap("SS", [b_fused, i_3_init])
                                vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + j_2_init)
                                T.reads()
                                T.writes(C_acc_shared_dyn_local[vb, vi, vj])
                                C_acc_shared_dyn_local[vb, vi, vj] = T.float32(0.0)
                        for k_0 in range(3):
                            for ax0_ax1_ax2_fused_0 in range(4):
                                for ax0_ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                    for ax0_ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                        for ax0_ax1_ax2_fused_3 in T.vectorized(8):
                                            with T.sblock("A_shared.dyn"):
                                                v0 = T.axis.spatial(2, b_fused)
                                                v1 = T.axis.spatial(64, (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) // 64)
                                                v2 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) % 64)
                                                T.reads(A[v0, v1, v2])
                                                T.writes(A_shared_dyn[v0, v2 // 64, v1, 0:8, v2 % 8])
                                                A_shared_dyn[v0, v2 // 64, v1, (v2 % 64 // 8 ^ v1 % 8) % 8, v2 % 8] = A[v0, v1, v2]
                            for ax0_ax1_ax2_fused_0 in range(4):
                                for ax0_ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                    for ax0_ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                        for ax0_ax1_ax2_fused_3 in T.vectorized(8):
                                            with T.sblock("B_shared.dyn"):
                                                v0 = T.axis.spatial(2, b_fused)
                                                v1 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) // 64)
                                                v2 = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + (ax0_ax1_ax2_fused_0 * 1024 + ax0_ax1_ax2_fused_1 * 1024 + ax0_ax1_ax2_fused_2 * 8 + ax0_ax1_ax2_fused_3) % 64)
                                                T.reads(B[v0, v1, v2])
                                                T.writes(B_shared_dyn[v0, v2 // 64, v1, 0:8, v2 % 8])
                                                B_shared_dyn[v0, v2 // 64, v1, (v2 % 64 // 8 ^ v1 % 8) % 8, v2 % 8] = B[v0, v1, v2]
                            for i_3, j_2, k_1 in T.grid(64, 64, 64):
                                with T.sblock("C_update"):
                                    vb, vi = T.axis.remap("SS", [b_fused, i_3])
                                    vj = T.axis.spatial(128, i_0_j_0_i_1_fused * 64 + j_2)
                                    vk = T.axis.reduce(192, k_0 * 64 + k_1)
                                    T.reads(C_acc_shared_dyn_local[vb, vi, vj], A_shared_dyn[vb, vk // 64, vi, 0:8, vk % 8], B_shared_dyn[vb, vj // 64, vk, 0:8, vj % 8])
                                    T.writes(C_acc_shared_dyn_local[vb, vi, vj])
                                    C_acc_shared_dyn_local[vb, vi, vj] = C_acc_shared_dyn_local[vb, vi, vj] + T.Cast("float32", A_shared_dyn[vb, vk // 64, vi, (vk % 64 // 8 ^ vi % 8) % 8, vk % 8]) * T.Cast("float32", B_shared_dyn[vb, vj // 64, vk, (vj % 64 // 8 ^ vk % 8) % 8, vj % 8])
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
