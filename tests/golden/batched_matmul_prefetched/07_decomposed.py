# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 64, 32), "float32"), B: T.Buffer((2, 32, 48), "float32"), C: T.Buffer((2, 64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_local = T.sblock_alloc_buffer((2, 64, 48), scope="local")
        A_shared = T.sblock_alloc_buffer((2, 32, 64), scope="shared")
        B_shared = T.sblock_alloc_buffer((2, 32, 48), scope="shared")
        A_shared_local = T.sblock_alloc_buffer((2, 32, 64), scope="local")
        B_shared_local = T.sblock_alloc_buffer((2, 32, 48), scope="local")
        for b_fused in T.thread_binding(2, thread="blockIdx.z"):
            for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
                for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                    for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                        for i_4_init, j_3_init in T.grid(4, 2):
                            with T.sblock("C_init"):
                                vb = T.axis.spatial(2, b_fused)
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4_init)
                                vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3_init)
                                T.reads()
                                T.writes(C_local[vb, vi, vj])
                                C_local[vb, vi, vj] = T.float32(0.0)
                        for k_0 in range(4):
                            for ax0_ax1_ax2_fused_0 in range(2):
                                for ax0_ax1_ax2_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_ax2_fused_2 in T.vectorized(4):
                                        with T.sblock("A_shared"):
                                            v0 = T.axis.spatial(2, b_fused)
                                            v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + (ax0_ax1_ax2_fused_0 * 128 + ax0_ax1_ax2_fused_1 * 4 + ax0_ax1_ax2_fused_2) // 8)
                                            v2 = T.axis.spatial(32, k_0 * 8 + (ax0_ax1_ax2_fused_0 * 128 + ax0_ax1_ax2_fused_1 * 4 + ax0_ax1_ax2_fused_2) % 8)
                                            T.reads(A[v0, v1, v2])
                                            T.writes(A_shared[v0, v2, v1])
                                            T.sblock_attr({"buffer_dim_align": [[0, 1, 32, 4]]})
                                            A_shared[v0, v2, v1] = A[v0, v1, v2]
                            for ax0_ax1_ax2_fused_0 in range(1):
                                for ax0_ax1_ax2_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_ax2_fused_2 in T.vectorized(4):
                                        with T.sblock("B_shared"):
                                            v0 = T.axis.spatial(2, b_fused)
                                            v1 = T.axis.spatial(32, k_0 * 8 + (ax0_ax1_ax2_fused_0 * 128 + ax0_ax1_ax2_fused_1 * 4 + ax0_ax1_ax2_fused_2) // 16)
                                            v2 = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + (ax0_ax1_ax2_fused_0 * 128 + ax0_ax1_ax2_fused_1 * 4 + ax0_ax1_ax2_fused_2) % 16)
                                            T.reads(B[v0, v1, v2])
                                            T.writes(B_shared[v0, v1, v2])
                                            B_shared[v0, v1, v2] = B[v0, v1, v2]
                            for k_1 in T.serial(8, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                                for ax0, ax1 in T.grid(1, 1):
                                    for ax2 in T.vectorized(4):
                                        with T.sblock("A_shared_local"):
                                            v0 = T.axis.spatial(2, b_fused + ax0)
                                            v1 = T.axis.spatial(32, k_0 * 8 + k_1 + ax1)
                                            v2 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax2)
                                            T.reads(A_shared[v0, v1, v2])
                                            T.writes(A_shared_local[v0, v1, v2])
                                            A_shared_local[v0, v1, v2] = A_shared[v0, v1, v2]
                                for ax0, ax1 in T.grid(1, 1):
                                    for ax2 in T.vectorized(2):
                                        with T.sblock("B_shared_local"):
                                            v0 = T.axis.spatial(2, b_fused + ax0)
                                            v1 = T.axis.spatial(32, k_0 * 8 + k_1 + ax1)
                                            v2 = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + ax2)
                                            T.reads(B_shared[v0, v1, v2])
                                            T.writes(B_shared_local[v0, v1, v2])
                                            B_shared_local[v0, v1, v2] = B_shared[v0, v1, v2]
                                for i_4, j_3 in T.grid(4, 2):
                                    with T.sblock("C_update"):
                                        vb = T.axis.spatial(2, b_fused)
                                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                        vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3)
                                        vk = T.axis.reduce(32, k_0 * 8 + k_1)
                                        T.reads(C_local[vb, vi, vj], A_shared_local[vb, vk, vi], B_shared_local[vb, vk, vj])
                                        T.writes(C_local[vb, vi, vj])
                                        C_local[vb, vi, vj] = C_local[vb, vi, vj] + A_shared_local[vb, vk, vi] * B_shared_local[vb, vk, vj]
                        for ax0, ax1 in T.grid(1, 4):
                            for ax2 in T.vectorized(2):
                                with T.sblock("C_local"):
                                    v0 = T.axis.spatial(2, b_fused + ax0)
                                    v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax1)
                                    v2 = T.axis.spatial(48, i_0_j_0_i_1_fused // 2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + ax2)
                                    T.reads(C_local[v0, v1, v2])
                                    T.writes(C[v0, v1, v2])
                                    C[v0, v1, v2] = C_local[v0, v1, v2]
