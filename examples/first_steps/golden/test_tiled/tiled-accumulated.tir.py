# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((96, 64), "float32"), B: T.Buffer((64, 128), "float32"), C: T.Buffer((96, 128), "float32")):
        # with T.sblock("root"):
        A_shared = T.sblock_alloc_buffer((96, 64), scope="shared")
        B_shared = T.sblock_alloc_buffer((64, 128), scope="shared")
        C_local = T.sblock_alloc_buffer((96, 128), scope="local")
        for i_0 in T.thread_binding(12, thread="blockIdx.y"):
            for j_0 in T.thread_binding(4, thread="blockIdx.x"):
                for i_1 in T.thread_binding(8, thread="threadIdx.y"):
                    for j_1 in T.thread_binding(32, thread="threadIdx.x"):
                        for k_0 in range(4):
                            for ax0_ax1_fused_0 in range(1):
                                for ax0_ax1_fused_1 in T.thread_binding(8, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                        with T.sblock("A_shared"):
                                            v0 = T.axis.spatial(96, i_0 * 8 + (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) // 16)
                                            v1 = T.axis.spatial(64, k_0 * 16 + (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) % 16)
                                            T.where((ax0_ax1_fused_0 * 8 + ax0_ax1_fused_1) * 32 + ax0_ax1_fused_2 < 128)
                                            T.reads(A[v0, v1])
                                            T.writes(A_shared[v0, v1])
                                            A_shared[v0, v1] = A[v0, v1]
                            for ax0_ax1_fused_0 in range(2):
                                for ax0_ax1_fused_1 in T.thread_binding(8, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                        with T.sblock("B_shared"):
                                            v0 = T.axis.spatial(64, k_0 * 16 + (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) // 32)
                                            v1 = T.axis.spatial(128, j_0 * 32 + (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) % 32)
                                            T.reads(B[v0, v1])
                                            T.writes(B_shared[v0, v1])
                                            B_shared[v0, v1] = B[v0, v1]
                            for k_1 in range(16):
                                with T.sblock("C"):
                                    vi = T.axis.spatial(96, i_0 * 8 + i_1)
                                    vj = T.axis.spatial(128, j_0 * 32 + j_1)
                                    vk = T.axis.reduce(64, k_0 * 16 + k_1)
                                    T.reads(A_shared[vi, vk], B_shared[vk, vj])
                                    T.writes(C_local[vi, vj])
                                    with T.init():
                                        C_local[vi, vj] = T.float32(0.0)
                                    C_local[vi, vj] = C_local[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
                        for ax0, ax1 in T.grid(1, 1):
                            with T.sblock("C_local"):
                                v0 = T.axis.spatial(96, i_0 * 8 + i_1 + ax0)
                                v1 = T.axis.spatial(128, j_0 * 32 + j_1 + ax1)
                                T.reads(C_local[v0, v1])
                                T.writes(C[v0, v1])
                                C[v0, v1] = C_local[v0, v1]
