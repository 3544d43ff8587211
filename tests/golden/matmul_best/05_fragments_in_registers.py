# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_local = T.sblock_alloc_buffer((64, 48), scope="local")
        A_shared = T.sblock_alloc_buffer((32, 64), scope="shared")
        B_shared = T.sblock_alloc_buffer((32, 48), scope="shared")
        A_shared_local = T.sblock_alloc_buffer((32, 64), scope="local")
        B_shared_local = T.sblock_alloc_buffer((32, 48), scope="local")
        for i_0_j_0_i_1_fused in T.thread_binding(12, thread="blockIdx.x"):
            for i_2, j_1 in T.grid(1, 1):
                for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for k_0 in range(1):
                        for ax0_ax1_fused_0 in range(4):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("A_shared"):
                                        v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 4 * 16 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 32)
                                        v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 32)
                                        T.reads(A[v0, v1])
                                        T.writes(A_shared[v1, v0])
                                        T.sblock_attr({"buffer_dim_align": [[0, 0, 16, 4]]})
                                        A_shared[v1, v0] = A[v0, v1]
                        for ax0_ax1_fused_0 in range(4):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("B_shared"):
                                        v0 = T.axis.spatial(32, (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 16)
                                        v1 = T.axis.spatial(48, i_0_j_0_i_1_fused // 4 * 16 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 16)
                                        T.reads(B[v0, v1])
                                        T.writes(B_shared[v0, v1])
                                        B_shared[v0, v1] = B[v0, v1]
                        for k_1 in T.serial(32, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                            for ax0 in range(1):
                                for ax1 in T.vectorized(4):
                                    with T.sblock("A_shared_local"):
                                        v0 = T.axis.spatial(32, k_1 + ax0)
                                        v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 4 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax1)
                                        T.reads(A_shared[v0, v1])
                                        T.writes(A_shared_local[v0, v1])
                                        A_shared_local[v0, v1] = A_shared[v0, v1]
                            for ax0 in range(1):
                                for ax1 in T.vectorized(2):
                                    with T.sblock("B_shared_local"):
                                        v0 = T.axis.spatial(32, k_1 + ax0)
                                        v1 = T.axis.spatial(48, i_0_j_0_i_1_fused // 4 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + ax1)
                                        T.reads(B_shared[v0, v1])
                                        T.writes(B_shared_local[v0, v1])
                                        B_shared_local[v0, v1] = B_shared[v0, v1]
                            for i_4, j_3 in T.grid(4, 2):
                                with T.sblock("C"):
                                    vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 4 * 16 + i_2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                    vj = T.axis.spatial(48, i_0_j_0_i_1_fused // 4 * 16 + j_1 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + j_3)
                                    vk = T.axis.reduce(32, k_0 * 32 + k_1)
                                    T.reads(A_shared_local[vk, vi], B_shared_local[vk, vj])
                                    T.writes(C_local[vi, vj])
                                    with T.init():
                                        C_local[vi, vj] = T.float32(0.0)
                                    C_local[vi, vj] = C_local[vi, vj] + A_shared_local[vk, vi] * B_shared_local[vk, vj]
                    for ax0 in range(4):
                        for ax1 in T.vectorized(2):
                            with T.sblock("C_local"):
                                v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 4 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax0)
                                v1 = T.axis.spatial(48, i_0_j_0_i_1_fused // 4 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 2 + ax1)
                                T.reads(C_local[v0, v1])
                                T.writes(C[v0, v1])
                                C[v0, v1] = C_local[v0, v1]
