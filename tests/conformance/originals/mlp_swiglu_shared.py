# mlp_swiglu(m=64, n=96, k=24)
@T.prim_func(s_tir=True)
def main(X: T.Buffer((64, 24), "float32"), Wg: T.Buffer((24, 96), "float32"), Wu: T.Buffer((24, 96), "float32"), D: T.Buffer((64, 96), "float32")):
    T.func_attr({"tirx.noalias": True})
    G_local = T.sblock_alloc_buffer((64, 96), scope="local")
    U_local = T.sblock_alloc_buffer((64, 96), scope="local")
    X_shared = T.sblock_alloc_buffer((64, 24), scope="shared")
    Wg_shared = T.sblock_alloc_buffer((24, 96), scope="shared")
    Wu_shared = T.sblock_alloc_buffer((24, 96), scope="shared")
    for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
        for i_2, j_1 in T.grid(1, 1):
            for i_3_j_2_fused in T.thread_binding(32, thread="threadIdx.x"):
                for ax0_init, ax1_init in T.grid(8, 4):
                    with T.sblock("G_init"):
                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0_init)
                        vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1_init)
                        G_local[vi, vj] = T.float32(0.0)
                for ax0_init, ax1_init in T.grid(8, 4):
                    with T.sblock("U_init"):
                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0_init)
                        vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1_init)
                        U_local[vi, vj] = T.float32(0.0)
                for ax2_0_m in range(6):
                    for ax0_ax1_fused_0 in range(4):
                        for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                            with T.sblock("X_shared"):
                                v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) // 4)
                                v1 = T.axis.spatial(24, ax2_0_m * 4 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) % 4)
                                X_shared[v0, v1] = X[v0, v1]
                    for ax0_ax1_fused_0 in range(4):
                        for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                            with T.sblock("Wg_shared"):
                                v0 = T.axis.spatial(24, ax2_0_m * 4 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) // 32)
                                v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) % 32)
                                Wg_shared[v0, v1] = Wg[v0, v1]
                    for ax0_ax1_fused_0 in range(4):
                        for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                            with T.sblock("Wu_shared"):
                                v0 = T.axis.spatial(24, ax2_0_m * 4 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) // 32)
                                v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 32 + ax0_ax1_fused_1) % 32)
                                Wu_shared[v0, v1] = Wu[v0, v1]
                    for ax2_1_m in T.serial(4, annotations={"pragma_auto_unroll_max_step": 2048, "pragma_unroll_explicit": 0}):
                        for ax0, ax1 in T.grid(8, 4):
                            with T.sblock("G_update"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                                vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1)
                                vk = T.axis.reduce(24, ax2_0_m * 4 + ax2_1_m)
                                G_local[vi, vj] = G_local[vi, vj] + X_shared[vi, vk] * Wg_shared[vk, vj]
                        for ax0, ax1 in T.grid(8, 4):
                            with T.sblock("U_update"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                                vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1)
                                vk = T.axis.reduce(24, ax2_0_m * 4 + ax2_1_m)
                                U_local[vi, vj] = U_local[vi, vj] + X_shared[vi, vk] * Wu_shared[vk, vj]
                for i_4, j_3 in T.grid(8, 4):
                    with T.sblock("D"):
                        vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2 * 32 + i_3_j_2_fused // 8 * 8 + i_4)
                        vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + j_1 * 32 + i_3_j_2_fused % 8 * 4 + j_3)
                        D[vi, vj] = G_local[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G_local[vi, vj])) * U_local[vi, vj]
