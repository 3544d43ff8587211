# rms_norm_matmul(m=64, n=96, k=24)
@T.prim_func(s_tir=True)
def main(X: T.Buffer((64, 24), "float32"), gain: T.Buffer((24,), "float32"), W: T.Buffer((24, 96), "float32"), C: T.Buffer((64, 96), "float32")):
    T.func_attr({"tirx.noalias": True})
    squares_local = T.sblock_alloc_buffer((64,), scope="local")
    C_acc_global_local = T.sblock_alloc_buffer((64, 96), scope="local")
    X_shared = T.sblock_alloc_buffer((64, 24), scope="shared")
    gain_shared = T.sblock_alloc_buffer((24,), scope="shared")
    W_shared = T.sblock_alloc_buffer((24, 96), scope="shared")
    for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
        for i_2, j_1 in T.grid(1, 1):
            for i_3_j_2_fused in T.thread_binding(32, thread="threadIdx.x"):
                for ax0_init in range(8):
                    with T.sblock("sum_init"):
                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0_init)
                        squares_local[vi] = T.float32(0.0)
                for ax0_init, ax1_init in T.grid(8, 4):
                    with T.sblock("C_init"):
                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0_init)
                        vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1_init)
                        C_acc_global_local[vi, vj] = T.float32(0.0)
                for ax1_0_m in range(6):
                    for ax0_ax1_fused_0 in range(4):
                        for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                            with T.sblock("X_shared"):
                                v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) // 4)
                                v1 = T.axis.spatial(24, ax1_0_m * 4 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) % 4)
                                X_shared[v0, v1] = X[v0, v1]
                    for ax0_0 in range(1):
                        for ax0_1 in T.thread_binding(32, thread="threadIdx.x"):
                            with T.sblock("gain_shared"):
                                v0 = T.axis.spatial(24, ax1_0_m * 4 + (ax0_0 * 32 + ax0_1))
                                T.where(ax0_0 * 32 + ax0_1 < 4)
                                gain_shared[v0] = gain[v0]
                    for ax0_ax1_fused_0 in range(4):
                        for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                            with T.sblock("W_shared"):
                                v0 = T.axis.spatial(24, ax1_0_m * 4 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) // 32)
                                v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) % 32)
                                W_shared[v0, v1] = W[v0, v1]
                    for ax1_1_m in T.serial(4, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                        for ax0 in range(8):
                            with T.sblock("sum_update"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                                vk = T.axis.reduce(24, ax1_0_m * 4 + ax1_1_m)
                                squares_local[vi] = squares_local[vi] + X_shared[vi, vk] * X_shared[vi, vk]
                        for ax0, ax1 in T.grid(8, 4):
                            with T.sblock("C_update"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                                vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1)
                                vk = T.axis.reduce(24, ax1_0_m * 4 + ax1_1_m)
                                C_acc_global_local[vi, vj] = C_acc_global_local[vi, vj] + X_shared[vi, vk] * gain_shared[vk] * W_shared[vk, vj]
                for i_4, j_3 in T.grid(8, 4):
                    with T.sblock("C_cast"):
                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2 * 32 + i_3_j_2_fused // 8 * 8 + i_4)
                        vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + j_1 * 32 + i_3_j_2_fused % 8 * 4 + j_3)
                        C[vi, vj] = C_acc_global_local[vi, vj] * T.rsqrt(squares_local[vi] / T.float32(24.0) + T.float32(1.0000000000000001e-05))
