# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((3, 96), "float32"), B: T.Buffer((96, 64), "float32"), C: T.Buffer((3, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_rf_shared = T.sblock_alloc_buffer((2, 3, 64), scope="shared")
        C_local = T.sblock_alloc_buffer((3, 64), scope="local")
        C_rf_shared_local = T.sblock_alloc_buffer((2, 3, 64), scope="local")
        A_local = T.sblock_alloc_buffer((3, 96), scope="local")
        B_local = T.sblock_alloc_buffer((96, 64), scope="local")
        for i_0 in T.thread_binding(1, thread="blockIdx.z"):
            for j_0 in T.thread_binding(2, thread="blockIdx.x"):
                for ax0 in T.thread_binding(2, thread="threadIdx.y"):
                    for ax2_0 in T.thread_binding(8, thread="threadIdx.x"):
                        for ax3_0 in range(12):
                            for ax0_1 in T.unroll(3):
                                for ax1_0 in T.unroll(1):
                                    for ax1_1 in T.vectorized(4):
                                        with T.sblock("A_local"):
                                            v0 = T.axis.spatial(3, ax0_1)
                                            v1 = T.axis.spatial(96, ax0 * 48 + ax3_0 * 4 + ax1_0 * 4 + ax1_1)
                                            T.reads(A[v0, v1])
                                            T.writes(A_local[v0, v1])
                                            A_local[v0, v1] = A[v0, v1]
                            for ax0_1 in T.unroll(4):
                                for ax1_0 in T.unroll(1):
                                    for ax1_1 in T.vectorized(4):
                                        with T.sblock("B_local"):
                                            v0 = T.axis.spatial(96, ax0 * 48 + ax3_0 * 4 + ax0_1)
                                            v1 = T.axis.spatial(64, j_0 * 32 + ax2_0 * 4 + ax1_0 * 4 + ax1_1)
                                            T.reads(B[v0, v1])
                                            T.writes(B_local[v0, v1])
                                            B_local[v0, v1] = B[v0, v1]
                            for ax3_1, ax1, ax2_1 in T.grid(4, 3, 4):
                                with T.sblock("C_rf"):
                                    vk_0, vi = T.axis.remap("SS", [ax0, ax1])
                                    vj = T.axis.spatial(64, j_0 * 32 + ax2_0 * 4 + ax2_1)
                                    vk_1 = T.axis.reduce(48, ax3_0 * 4 + ax3_1)
                                    T.reads(A_local[vi, vk_0 * 48 + vk_1], B_local[vk_0 * 48 + vk_1, vj])
                                    T.writes(C_rf_shared_local[vk_0, vi, vj])
                                    with T.init():
                                        C_rf_shared_local[vk_0, vi, vj] = T.float32(0.0)
                                    C_rf_shared_local[vk_0, vi, vj] = C_rf_shared_local[vk_0, vi, vj] + A_local[vi, vk_0 * 48 + vk_1] * B_local[vk_0 * 48 + vk_1, vj]
                        for ax0_1, ax1 in T.grid(1, 3):
                            for ax2 in T.vectorized(4):
                                with T.sblock("C.rf_shared_local"):
                                    v0 = T.axis.spatial(2, ax0 + ax0_1)
                                    v1 = T.axis.spatial(3, ax1)
                                    v2 = T.axis.spatial(64, j_0 * 32 + ax2_0 * 4 + ax2)
                                    T.reads(C_rf_shared_local[v0, v1, v2])
                                    T.writes(C_rf_shared[v0, v1, v2])
                                    C_rf_shared[v0, v1, v2] = C_rf_shared_local[v0, v1, v2]
                for i_1_j_1_fused_0_0 in range(6):
                    for i_1_j_1_fused_0_1 in T.thread_binding(2, thread="threadIdx.y"):
                        for i_1_j_1_fused_1 in T.thread_binding(8, thread="threadIdx.x"):
                            for k_0 in range(2):
                                with T.sblock("C"):
                                    vk_0 = T.axis.reduce(2, k_0)
                                    vi = T.axis.spatial(3, i_0 * 3 + (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) // 32)
                                    vj = T.axis.spatial(64, j_0 * 32 + (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) % 32)
                                    T.reads(C_rf_shared[vk_0, vi, vj])
                                    T.writes(C_local[vi, vj])
                                    with T.init():
                                        C_local[vi, vj] = T.float32(0.0)
                                    C_local[vi, vj] = C_local[vi, vj] + C_rf_shared[vk_0, vi, vj]
                            for ax0, ax1 in T.grid(1, 1):
                                with T.sblock("C_local"):
                                    v0 = T.axis.spatial(3, (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) // 32 + ax0)
                                    v1 = T.axis.spatial(64, j_0 * 32 + (i_1_j_1_fused_0_0 * 16 + i_1_j_1_fused_0_1 * 8 + i_1_j_1_fused_1) % 32 + ax1)
                                    T.reads(C_local[v0, v1])
                                    T.writes(C[v0, v1])
                                    C[v0, v1] = C_local[v0, v1]
