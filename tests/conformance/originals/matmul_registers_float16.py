# matmul(m=32, n=16, k=64, dtype="float16", out="float16")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((32, 64), "float16"), B: T.Buffer((64, 16), "float16"), C: T.Buffer((32, 16), "float16")):
    T.func_attr({"tirx.noalias": True})
    C_acc_local = T.sblock_alloc_buffer((32, 16), scope="local")
    A_shared = T.sblock_alloc_buffer((32, 64), "float16", scope="shared")
    B_shared = T.sblock_alloc_buffer((64, 16), "float16", scope="shared")
    for i_0 in T.thread_binding(2, thread="blockIdx.x"):
        for j_0 in T.thread_binding(2, thread="blockIdx.y"):
            for i_1 in T.thread_binding(16, thread="threadIdx.x"):
                for j_1 in T.thread_binding(8, thread="threadIdx.y"):
                    with T.sblock("C_init"):
                        vi = T.axis.spatial(32, i_0 * 16 + i_1)
                        vj = T.axis.spatial(16, j_0 * 8 + j_1)
                        C_acc_local[vi, vj] = T.float32(0.0)
                    for k_0 in range(16):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(8, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(16, thread="threadIdx.x"):
                                    with T.sblock("A_shared"):
                                        v0 = T.axis.spatial(32, i_0 * 16 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 16 + ax0_ax1_fused_2) // 4)
                                        v1 = T.axis.spatial(64, k_0 * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 16 + ax0_ax1_fused_2) % 4)
                                        T.where((ax0_ax1_fused_0 * 8 + ax0_ax1_fused_1) * 16 + ax0_ax1_fused_2 < 64)
                                        A_shared[v0, v1] = A[v0, v1]
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(8, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(16, thread="threadIdx.x"):
                                    with T.sblock("B_shared"):
                                        v0 = T.axis.spatial(64, k_0 * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 16 + ax0_ax1_fused_2) // 8)
                                        v1 = T.axis.spatial(16, j_0 * 8 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 16 + ax0_ax1_fused_2) % 8)
                                        T.where((ax0_ax1_fused_0 * 8 + ax0_ax1_fused_1) * 16 + ax0_ax1_fused_2 < 32)
                                        B_shared[v0, v1] = B[v0, v1]
                        for k_1 in range(4):
                            with T.sblock("C_update"):
                                vi = T.axis.spatial(32, i_0 * 16 + i_1)
                                vj = T.axis.spatial(16, j_0 * 8 + j_1)
                                vk = T.axis.reduce(64, k_0 * 4 + k_1)
                                C_acc_local[vi, vj] = C_acc_local[vi, vj] + T.Cast("float32", A_shared[vi, vk]) * T.Cast("float32", B_shared[vk, vj])
                    for ax0, ax1 in T.grid(1, 1):
                        with T.sblock("C_cast"):
                            vi = T.axis.spatial(32, i_0 * 16 + i_1 + ax0)
                            vj = T.axis.spatial(16, j_0 * 8 + j_1 + ax1)
                            C[vi, vj] = T.Cast("float16", C_acc_local[vi, vj])
