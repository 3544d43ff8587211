# matmul(m=32, n=32, k=256)
@T.prim_func(s_tir=True)
def main(A: T.Buffer((32, 256), "float32"), B: T.Buffer((256, 32), "float32"), C: T.Buffer((32, 32), "float32")):
    T.func_attr({"tirx.noalias": True})
    A_shared = T.sblock_alloc_buffer((32, 256), scope="shared")
    B_shared = T.sblock_alloc_buffer((256, 32), scope="shared")
    for i_0 in T.thread_binding(1, thread="blockIdx.x"):
        for j_0 in T.thread_binding(1, thread="blockIdx.y"):
            for i_1 in T.thread_binding(32, thread="threadIdx.x"):
                for j_1 in T.thread_binding(32, thread="threadIdx.y"):
                    with T.sblock("C_init"):
                        vi = T.axis.spatial(32, i_0 * 32 + i_1)
                        vj = T.axis.spatial(32, j_0 * 32 + j_1)
                        C[vi, vj] = T.float32(0.0)
                    for k_0 in range(8):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    with T.sblock("A_shared"):
                                        v0 = T.axis.spatial(32, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) // 32)
                                        v1 = T.axis.spatial(256, k_0 * 32 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) % 32)
                                        A_shared[v0, v1] = A[v0, v1]
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    with T.sblock("B_shared"):
                                        v0 = T.axis.spatial(256, k_0 * 32 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) // 32)
                                        v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 32 + ax0_ax1_fused_2) % 32)
                                        B_shared[v0, v1] = B[v0, v1]
                        for k_1 in range(32):
                            with T.sblock("C_update"):
                                vi = T.axis.spatial(32, i_0 * 32 + i_1)
                                vj = T.axis.spatial(32, j_0 * 32 + j_1)
                                vk = T.axis.reduce(256, k_0 * 32 + k_1)
                                C[vi, vj] = C[vi, vj] + A_shared[vi, vk] * B_shared[vk, vj]
