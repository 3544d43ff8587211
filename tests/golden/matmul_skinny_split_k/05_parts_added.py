# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((3, 96), "float32"), B: T.Buffer((96, 64), "float32"), C: T.Buffer((3, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_rf = T.sblock_alloc_buffer((2, 3, 64))
        C_rf_rf_shared = T.sblock_alloc_buffer((2, 2, 3, 64), scope="shared")
        C_rf_local = T.sblock_alloc_buffer((2, 3, 64), scope="local")
        C_rf_rf_shared_local = T.sblock_alloc_buffer((2, 2, 3, 64), scope="local")
        A_local = T.sblock_alloc_buffer((3, 96), scope="local")
        B_local = T.sblock_alloc_buffer((96, 64), scope="local")
        C_local = T.sblock_alloc_buffer((3, 64), scope="local")
        for k_0 in T.thread_binding(2, thread="blockIdx.y"):
            for i_0 in T.thread_binding(1, thread="blockIdx.z"):
                for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                    for ax0 in T.thread_binding(2, thread="threadIdx.y"):
                        for ax1 in range(1):
                            for ax3_0 in T.thread_binding(8, thread="threadIdx.x"):
                                for ax2_init in T.unroll(3):
                                    for ax3_1_init in T.unroll(4):
                                        with T.sblock("C_rf_rf_init"):
                                            vk_1_0 = T.axis.spatial(2, ax0)
                                            vk_0 = T.axis.spatial(2, k_0 + ax1)
                                            vi = T.axis.spatial(3, ax2_init)
                                            vj = T.axis.spatial(64, j_0 * 32 + ax3_0 * 4 + ax3_1_init)
                                            T.reads()
                                            T.writes(C_rf_rf_shared_local[vk_1_0, vk_0, vi, vj])
                                            C_rf_rf_shared_local[vk_1_0, vk_0, vi, vj] = T.float32(0.0)
                                for ax4_0 in range(6):
                                    for ax0_1 in T.unroll(3):
                                        for ax1_0 in T.unroll(1):
                                            for ax1_1 in T.vectorized(4):
                                                with T.sblock("A_local"):
                                                    v0 = T.axis.spatial(3, ax0_1)
                                                    v1 = T.axis.spatial(96, k_0 * 48 + ax0 * 24 + ax4_0 * 4 + ax1_0 * 4 + ax1_1)
                                                    T.reads(A[v0, v1])
                                                    T.writes(A_local[v0, v1])
                                                    A_local[v0, v1] = A[v0, v1]
                                    for ax0_1 in T.unroll(4):
                                        for ax1_0 in T.unroll(1):
                                            for ax1_1 in T.vectorized(4):
                                                with T.sblock("B_local"):
                                                    v0 = T.axis.spatial(96, k_0 * 48 + ax0 * 24 + ax4_0 * 4 + ax0_1)
                                                    v1 = T.axis.spatial(64, j_0 * 32 + ax3_0 * 4 + ax1_0 * 4 + ax1_1)
                                                    T.reads(B[v0, v1])
                                                    T.writes(B_local[v0, v1])
                                                    B_local[v0, v1] = B[v0, v1]
                                    for ax4_1 in T.unroll(4):
                                        for ax2 in T.unroll(3):
                                            for ax3_1 in T.unroll(4):
                                                with T.sblock("C_rf_rf_update"):
                                                    vk_1_0 = T.axis.spatial(2, ax0)
                                                    vk_0 = T.axis.spatial(2, k_0 + ax1)
                                                    vi = T.axis.spatial(3, ax2)
                                                    vj = T.axis.spatial(64, j_0 * 32 + ax3_0 * 4 + ax3_1)
                                                    vk_1_1 = T.axis.reduce(24, ax4_0 * 4 + ax4_1)
                                                    T.reads(C_rf_rf_shared_local[vk_1_0, vk_0, vi, vj], A_local[vi, vk_0 * 48 + vk_1_0 * 24 + vk_1_1], B_local[vk_0 * 48 + vk_1_0 * 24 + vk_1_1, vj])
                                                    T.writes(C_rf_rf_shared_local[vk_1_0, vk_0, vi, vj])
                                                    C_rf_rf_shared_local[vk_1_0, vk_0, vi, vj] = C_rf_rf_shared_local[vk_1_0, vk_0, vi, vj] + A_local[vi, vk_0 * 48 + vk_1_0 * 24 + vk_1_1] * B_local[vk_0 * 48 + vk_1_0 * 24 + vk_1_1, vj]
                                for ax0_1, ax1_1, ax2 in T.grid(1, 1, 3):
                                    for ax3 in T.vectorized(4):
                                        with T.sblock("C.rf.rf_shared_local"):
                                            v0 = T.axis.spatial(2, ax0 + ax0_1)
                                            v1 = T.axis.spatial(2, k_0 + ax1_1)
                                            v2 = T.axis.spatial(3, ax2)
                                            v3 = T.axis.spatial(64, j_0 * 32 + ax3_0 * 4 + ax3)
                                            T.reads(C_rf_rf_shared_local[v0, v1, v2, v3])
                                            T.writes(C_rf_rf_shared[v0, v1, v2, v3])
                                            C_rf_rf_shared[v0, v1, v2, v3] = C_rf_rf_shared_local[v0, v1, v2, v3]
                    for i_1_j_1_fused_0_0 in range(6):
                        for i_1_j_1_fused_0_1 in T.thread_binding(2, thread="threadIdx.y"):
                            for i_1_j_1_fused_1 in T.thread_binding(8, thread="threadIdx.x"):
                                for k_1_0 in range(2):
                                    with T.sblock("C_rf"):
                                        vk_1_0, vk_0 = T.axis.remap("RS", [k_1_0, k_0])
                                        vi = T.axis.spatial(3, i_0 * 3 + (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) // 32)
                                        vj = T.axis.spatial(64, j_0 * 32 + (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) % 32)
                                        T.reads(C_rf_rf_shared[vk_1_0, vk_0, vi, vj])
                                        T.writes(C_rf_local[vk_0, vi, vj])
                                        with T.init():
                                            C_rf_local[vk_0, vi, vj] = T.float32(0.0)
                                        C_rf_local[vk_0, vi, vj] = C_rf_local[vk_0, vi, vj] + C_rf_rf_shared[vk_1_0, vk_0, vi, vj]
                                for ax0, ax1, ax2 in T.grid(1, 1, 1):
                                    with T.sblock("C.rf_local"):
                                        v0 = T.axis.spatial(2, k_0 + ax0)
                                        v1 = T.axis.spatial(3, (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) // 32 + ax1)
                                        v2 = T.axis.spatial(64, j_0 * 32 + (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) % 32 + ax2)
                                        T.reads(C_rf_local[v0, v1, v2])
                                        T.writes(C_rf[v0, v1, v2])
                                        C_rf[v0, v1, v2] = C_rf_local[v0, v1, v2]
        for i_j_0_fused_0 in T.thread_binding(2, thread="blockIdx.x"):
            for i_j_0_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                for j_1_init in T.vectorized(4):
                    with T.sblock("C_init"):
                        vi = T.axis.spatial(3, (i_j_0_fused_0 * 32 + i_j_0_fused_1) // 16)
                        vj = T.axis.spatial(64, (i_j_0_fused_0 * 32 + i_j_0_fused_1) % 16 * 4 + j_1_init)
                        T.where(i_j_0_fused_0 * 32 + i_j_0_fused_1 < 48)
                        T.reads()
                        T.writes(C_local[vi, vj])
                        C_local[vi, vj] = T.float32(0.0)
                for k_0 in range(2):
                    for j_1 in T.vectorized(4):
                        with T.sblock("C_update"):
                            vk_0 = T.axis.reduce(2, k_0)
                            vi = T.axis.spatial(3, (i_j_0_fused_0 * 32 + i_j_0_fused_1) // 16)
                            vj = T.axis.spatial(64, (i_j_0_fused_0 * 32 + i_j_0_fused_1) % 16 * 4 + j_1)
                            T.where(i_j_0_fused_0 * 32 + i_j_0_fused_1 < 48)
                            T.reads(C_local[vi, vj], C_rf[vk_0, vi, vj])
                            T.writes(C_local[vi, vj])
                            C_local[vi, vj] = C_local[vi, vj] + C_rf[vk_0, vi, vj]
                for ax0 in range(1):
                    for ax1 in T.vectorized(4):
                        with T.sblock("C_local"):
                            v0 = T.axis.spatial(3, i_j_0_fused_0 * 2 + i_j_0_fused_1 // 16 + ax0)
                            v1 = T.axis.spatial(64, i_j_0_fused_1 % 16 * 4 + ax1)
                            T.where(i_j_0_fused_0 * 2 + i_j_0_fused_1 // 16 < 3)
                            T.reads(C_local[v0, v1])
                            T.writes(C[v0, v1])
                            C[v0, v1] = C_local[v0, v1]
