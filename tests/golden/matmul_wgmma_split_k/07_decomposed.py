# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((128, 192), "float16"), B: T.Buffer((192, 256), "float16"), C: T.Buffer((128, 256), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            C_rf = T.sblock_alloc_buffer((3, 128, 256))
            C_local = T.sblock_alloc_buffer((128, 256), scope="local")
            C_rf_shared_dyn = T.sblock_alloc_buffer((3, 128, 256), scope="shared.dyn")
            C_rf_shared_dyn_local = T.sblock_alloc_buffer((3, 128, 256), scope="local")
            A_shared_dyn = T.sblock_alloc_buffer((3, 128, 8, 8), "float16", scope="shared.dyn")
            B_shared_dyn = T.sblock_alloc_buffer((4, 192, 8, 8), "float16", scope="shared.dyn")
            for k_0 in T.thread_binding(3, thread="blockIdx.y"):
                for i_0_j_0_i_1_fused in T.thread_binding(8, thread="blockIdx.x"):
                    for i_2_j_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                        for i_3_init, j_2_init in T.grid(64, 64):
                            with T.sblock("C_rf_init"):
                                vk_0 = T.axis.spatial(3, k_0)
                                vi = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + i_3_init)
                                vj = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + j_2_init)
                                T.reads()
                                T.writes(C_rf_shared_dyn_local[vk_0, vi, vj])
                                C_rf_shared_dyn_local[vk_0, vi, vj] = T.float32(0.0)
                        for k_1_0 in range(1):
                            for ax0_ax1_fused_0 in range(4):
                                for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                        for ax0_ax1_fused_3 in T.vectorized(8):
                                            with T.sblock("A_shared.dyn"):
                                                v0 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                                v1 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                                T.reads(A[v0, v1])
                                                T.writes(A_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                                A_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = A[v0, v1]
                            for ax0_ax1_fused_0 in range(4):
                                for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                        for ax0_ax1_fused_3 in T.vectorized(8):
                                            with T.sblock("B_shared.dyn"):
                                                v0 = T.axis.spatial(192, k_0 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 64)
                                                v1 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 64)
                                                T.reads(B[v0, v1])
                                                T.writes(B_shared_dyn[v1 // 64, v0, 0:8, v1 % 8])
                                                B_shared_dyn[v1 // 64, v0, (v1 % 64 // 8 ^ v0 % 8) % 8, v1 % 8] = B[v0, v1]
                            for i_3, j_2, k_1_1 in T.grid(64, 64, 64):
                                with T.sblock("C_rf_update"):
                                    vk_0 = T.axis.spatial(3, k_0)
                                    vi = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + i_3)
                                    vj = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + j_2)
                                    vk_1 = T.axis.reduce(64, k_1_0 * 64 + k_1_1)
                                    T.reads(C_rf_shared_dyn_local[vk_0, vi, vj], A_shared_dyn[vk_1 // 64 + vk_0, vi, 0:8, vk_1 % 8], B_shared_dyn[vj // 64, vk_0 * 64 + vk_1, 0:8, vj % 8])
                                    T.writes(C_rf_shared_dyn_local[vk_0, vi, vj])
                                    C_rf_shared_dyn_local[vk_0, vi, vj] = C_rf_shared_dyn_local[vk_0, vi, vj] + T.Cast("float32", A_shared_dyn[vk_1 // 64 + vk_0, vi, (vk_1 % 64 // 8 ^ vi % 8) % 8, vk_1 % 8]) * T.Cast("float32", B_shared_dyn[vj // 64, vk_0 * 64 + vk_1, (vj % 64 // 8 ^ vk_1 % 8) % 8, vj % 8])
                        for ax0, ax1, ax2 in T.grid(1, 64, 64):
                            with T.sblock("C.rf_shared.dyn_local"):
                                v0 = T.axis.spatial(3, k_0 + ax0)
                                v1 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + ax1)
                                v2 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + ax2)
                                T.reads(C_rf_shared_dyn_local[v0, v1, v2])
                                T.writes(C_rf_shared_dyn[v0, v1, v2])
                                T.sblock_attr({"buffer_dim_align": [[0, 1, 64, 8]]})
                                C_rf_shared_dyn[v0, v1, v2] = C_rf_shared_dyn_local[v0, v1, v2]
                    for ax0, ax1_ax2_fused_0 in T.grid(1, 8):
                        for ax1_ax2_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                            for ax1_ax2_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                for ax1_ax2_fused_3 in T.vectorized(4):
                                    with T.sblock("C.rf_shared.dyn"):
                                        v0 = T.axis.spatial(3, k_0 + ax0)
                                        v1 = T.axis.spatial(128, i_0_j_0_i_1_fused % 2 * 64 + (ax1_ax2_fused_0 * 512 + ax1_ax2_fused_1 * 512 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) // 64)
                                        v2 = T.axis.spatial(256, i_0_j_0_i_1_fused // 2 * 64 + (ax1_ax2_fused_0 * 512 + ax1_ax2_fused_1 * 512 + ax1_ax2_fused_2 * 4 + ax1_ax2_fused_3) % 64)
                                        T.reads(C_rf_shared_dyn[v0, v1, v2])
                                        T.writes(C_rf[v0, v1, v2])
                                        C_rf[v0, v1, v2] = C_rf_shared_dyn[v0, v1, v2]
            for i_j_0_fused_0 in T.thread_binding(256, thread="blockIdx.x"):
                for i_j_0_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                    for j_1_init in T.vectorized(4):
                        with T.sblock("C_init"):
                            vi = T.axis.spatial(128, (i_j_0_fused_0 * 32 + i_j_0_fused_1) // 64)
                            vj = T.axis.spatial(256, (i_j_0_fused_0 * 32 + i_j_0_fused_1) % 64 * 4 + j_1_init)
                            T.reads()
                            T.writes(C_local[vi, vj])
                            C_local[vi, vj] = T.float32(0.0)
                    for k_0 in range(3):
                        for j_1 in T.vectorized(4):
                            with T.sblock("C_update"):
                                vk_0 = T.axis.reduce(3, k_0)
                                vi = T.axis.spatial(128, (i_j_0_fused_0 * 32 + i_j_0_fused_1) // 64)
                                vj = T.axis.spatial(256, (i_j_0_fused_0 * 32 + i_j_0_fused_1) % 64 * 4 + j_1)
                                T.reads(C_local[vi, vj], C_rf[vk_0, vi, vj])
                                T.writes(C_local[vi, vj])
                                C_local[vi, vj] = C_local[vi, vj] + C_rf[vk_0, vi, vj]
                    for ax0 in range(1):
                        for ax1 in T.vectorized(4):
                            with T.sblock("C_local"):
                                v0 = T.axis.spatial(128, i_j_0_fused_0 // 2 + ax0)
                                v1 = T.axis.spatial(256, i_j_0_fused_0 % 2 * 128 + i_j_0_fused_1 * 4 + ax1)
                                T.reads(C_local[v0, v1])
                                T.writes(C[v0, v1])
                                C[v0, v1] = C_local[v0, v1]
