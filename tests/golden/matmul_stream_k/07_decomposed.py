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
        C_rf_local = T.sblock_alloc_buffer((2, 64, 48), scope="local")
        A_shared = T.sblock_alloc_buffer((32, 64), scope="shared")
        B_shared = T.sblock_alloc_buffer((32, 48), scope="shared")
        A_shared_local = T.sblock_alloc_buffer((32, 64), scope="local")
        B_shared_local = T.sblock_alloc_buffer((32, 48), scope="local")
        for k_0 in T.thread_binding(2, thread="blockIdx.y"):
            for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                    for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                        for j_3_init, i_4_init in T.grid(2, 4):
                            with T.sblock("C_rf_init"):
                                vk_0 = T.axis.spatial(2, k_0)
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4_init)
                                vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3_init)
                                T.reads()
                                T.writes(C_rf_local[vk_0, vi, vj])
                                C_rf_local[vk_0, vi, vj] = T.float32(0.0)
                        for k_1_0 in range(2):
                            for ax0_ax1_fused_0 in range(2):
                                for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_2 in T.vectorized(4):
                                        with T.sblock("A_shared"):
                                            v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 8)
                                            v1 = T.axis.spatial(32, k_0 * 16 + k_1_0 * 8 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 8)
                                            T.reads(A[v0, v1])
                                            T.writes(A_shared[v1, v0])
                                            T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 4]]})
                                            A_shared[v1, v0] = A[v0, v1]
                            for ax0_ax1_fused_0 in range(1):
                                for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_2 in T.vectorized(4):
                                        with T.sblock("B_shared"):
                                            v0 = T.axis.spatial(32, k_0 * 16 + k_1_0 * 8 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 16)
                                            v1 = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 16)
                                            T.reads(B[v0, v1])
                                            T.writes(B_shared[v0, v1])
                                            B_shared[v0, v1] = B[v0, v1]
                            for k_1_1 in T.serial(8, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax0 in range(1):
                                    for ax1 in T.vectorized(4):
                                        with T.sblock("A_shared_local"):
                                            v0 = T.axis.spatial(32, k_0 * 16 + k_1_0 * 8 + k_1_1 + ax0)
                                            v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax1)
                                            T.reads(A_shared[v0, v1])
                                            T.writes(A_shared_local[v0, v1])
                                            A_shared_local[v0, v1] = A_shared[v0, v1]
                                for ax0 in range(1):
                                    for ax1 in T.vectorized(2):
                                        with T.sblock("B_shared_local"):
                                            v0 = T.axis.spatial(32, k_0 * 16 + k_1_0 * 8 + k_1_1 + ax0)
                                            v1 = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + ax1)
                                            T.reads(B_shared[v0, v1])
                                            T.writes(B_shared_local[v0, v1])
                                            B_shared_local[v0, v1] = B_shared[v0, v1]
                                for j_3, i_4 in T.grid(2, 4):
                                    with T.sblock("C_rf_update"):
                                        vk_0 = T.axis.spatial(2, k_0)
                                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                        vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3)
                                        vk_1 = T.axis.reduce(16, k_1_0 * 8 + k_1_1)
                                        T.reads(C_rf_local[vk_0, vi, vj], A_shared_local[vk_0 * 16 + vk_1, vi], B_shared_local[vk_0 * 16 + vk_1, vj])
                                        T.writes(C_rf_local[vk_0, vi, vj])
                                        C_rf_local[vk_0, vi, vj] = C_rf_local[vk_0, vi, vj] + A_shared_local[vk_0 * 16 + vk_1, vi] * B_shared_local[vk_0 * 16 + vk_1, vj]
                        for ax0, ax1 in T.grid(1, 4):
                            for ax2 in T.vectorized(2):
                                with T.sblock("C.rf_local"):
                                    v0 = T.axis.spatial(2, k_0 + ax0)
                                    v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax1)
                                    v2 = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + ax2)
                                    T.reads(C_rf_local[v0, v1, v2])
                                    T.writes(C_rf[v0, v1, v2])
                                    C_rf[v0, v1, v2] = C_rf_local[v0, v1, v2]
        for i, j, k_0 in T.grid(64, 48, 2):
            with T.sblock("C"):
                vk_0, vi, vj = T.axis.remap("RSS", [k_0, i, j])
                T.reads(C_rf[vk_0, vi, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + C_rf[vk_0, vi, vj]
