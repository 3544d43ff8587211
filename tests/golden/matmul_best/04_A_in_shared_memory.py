# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), C: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            B_pad = T.sblock_alloc_buffer((32, 128))
            C_pad_local = T.sblock_alloc_buffer((64, 128), scope="local")
            A_shared = T.sblock_alloc_buffer((32, 64), scope="shared")
            for i0, i1 in T.grid(32, 128):
                with T.sblock("B_pad"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    T.reads(B[v0, v1])
                    T.writes(B_pad[v0, v1])
                    B_pad[v0, v1] = T.if_then_else(v1 < 48, B[v0, v1], T.float32(0.0))
            for i_0_j_0_i_1_fused in T.thread_binding(4, thread="blockIdx.x"):
                for i_2, j_1 in T.grid(1, 1):
                    for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(128, thread="threadIdx.x"):
                        for k_0 in range(1):
                            for ax0_ax1_fused_0 in range(1):
                                for ax0_ax1_fused_1 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_2 in T.vectorized(4):
                                        with T.sblock("A_shared"):
                                            v0 = T.axis.spatial(64, i_0_j_0_i_1_fused * 16 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 32)
                                            v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 32)
                                            T.reads(A[v0, v1])
                                            T.writes(A_shared[v1, v0])
                                            T.sblock_attr({"buffer_dim_align": [[0, 0, 16, 4]]})
                                            A_shared[v1, v0] = A[v0, v1]
                            for k_1, i_4, j_3 in T.grid(32, 4, 4):
                                with T.sblock("C"):
                                    vi = T.axis.spatial(64, i_0_j_0_i_1_fused * 16 + i_2 * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 64 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                    vj = T.axis.spatial(128, j_1 * 128 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 64 // 2 * 4 + j_3)
                                    vk = T.axis.reduce(32, k_0 * 32 + k_1)
                                    T.reads(A_shared[vk, vi], B_pad[vk, vj])
                                    T.writes(C_pad_local[vi, vj])
                                    with T.init():
                                        C_pad_local[vi, vj] = T.float32(0.0)
                                    C_pad_local[vi, vj] = C_pad_local[vi, vj] + A_shared[vk, vi] * B_pad[vk, vj]
                        for ax0 in range(4):
                            for ax1 in T.vectorized(4):
                                with T.sblock("C_pad"):
                                    v0 = T.axis.spatial(64, i_0_j_0_i_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 64 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax0)
                                    v1 = T.axis.spatial(48, i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 64 // 2 * 4 + ax1)
                                    T.where(i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 64 < 24)
                                    T.reads(C_pad_local[v0, v1])
                                    T.writes(C[v0, v1])
                                    C[v0, v1] = C_pad_local[v0, v1]
