# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((64, 24), "float32"), Wg: T.Buffer((24, 96), "float32"), Wu: T.Buffer((24, 96), "float32"), D: T.Buffer((64, 96), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        G_local = T.sblock_alloc_buffer((64, 96), scope="local")
        U_local = T.sblock_alloc_buffer((64, 96), scope="local")
        X_shared = T.sblock_alloc_buffer((24, 64), scope="shared")
        Wg_shared = T.sblock_alloc_buffer((24, 96), scope="shared")
        Wu_shared = T.sblock_alloc_buffer((24, 96), scope="shared")
        X_shared_local = T.sblock_alloc_buffer((24, 64), scope="local")
        Wg_shared_local = T.sblock_alloc_buffer((24, 96), scope="local")
        Wu_shared_local = T.sblock_alloc_buffer((24, 96), scope="local")
        for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for ax2_0_m in range(6):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("X_shared"):
                                        v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 4)
                                        v1 = T.axis.spatial(24, ax2_0_m * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 4)
                                        T.reads(X[v0, v1])
                                        T.writes(X_shared[v1, v0])
                                        T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 4]]})
                                        X_shared[v1, v0] = X[v0, v1]
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("Wg_shared"):
                                        v0 = T.axis.spatial(24, ax2_0_m * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 32)
                                        v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 32)
                                        T.reads(Wg[v0, v1])
                                        T.writes(Wg_shared[v0, v1])
                                        Wg_shared[v0, v1] = Wg[v0, v1]
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("Wu_shared"):
                                        v0 = T.axis.spatial(24, ax2_0_m * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 32)
                                        v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 32)
                                        T.reads(Wu[v0, v1])
                                        T.writes(Wu_shared[v0, v1])
                                        Wu_shared[v0, v1] = Wu[v0, v1]
                        for ax2_1_m in range(4):
                            for ax0 in range(1):
                                for ax1 in T.vectorized(4):
                                    with T.sblock("X_shared_local"):
                                        v0 = T.axis.spatial(24, ax2_0_m * 4 + ax2_1_m + ax0)
                                        v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax1)
                                        T.reads(X_shared[v0, v1])
                                        T.writes(X_shared_local[v0, v1])
                                        X_shared_local[v0, v1] = X_shared[v0, v1]
                            for ax0 in range(1):
                                for ax1 in T.vectorized(4):
                                    with T.sblock("Wg_shared_local"):
                                        v0 = T.axis.spatial(24, ax2_0_m * 4 + ax2_1_m + ax0)
                                        v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + ax1)
                                        T.reads(Wg_shared[v0, v1])
                                        T.writes(Wg_shared_local[v0, v1])
                                        Wg_shared_local[v0, v1] = Wg_shared[v0, v1]
                            for ax0, ax1 in T.grid(4, 4):
                                with T.sblock("G"):
                                    vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax0)
                                    vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + ax1)
                                    vk = T.axis.reduce(24, ax2_0_m * 4 + ax2_1_m)
                                    T.reads(X_shared_local[vk, vi], Wg_shared_local[vk, vj])
                                    T.writes(G_local[vi, vj])
                                    with T.init():
                                        G_local[vi, vj] = T.float32(0.0)
                                    G_local[vi, vj] = G_local[vi, vj] + X_shared_local[vk, vi] * Wg_shared_local[vk, vj]
                            for ax0 in range(1):
                                for ax1 in T.vectorized(4):
                                    with T.sblock("Wu_shared_local"):
                                        v0 = T.axis.spatial(24, ax2_0_m * 4 + ax2_1_m + ax0)
                                        v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + ax1)
                                        T.reads(Wu_shared[v0, v1])
                                        T.writes(Wu_shared_local[v0, v1])
                                        Wu_shared_local[v0, v1] = Wu_shared[v0, v1]
                            for ax0, ax1 in T.grid(4, 4):
                                with T.sblock("U"):
                                    vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax0)
                                    vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + ax1)
                                    vk = T.axis.reduce(24, ax2_0_m * 4 + ax2_1_m)
                                    T.reads(X_shared_local[vk, vi], Wu_shared_local[vk, vj])
                                    T.writes(U_local[vi, vj])
                                    with T.init():
                                        U_local[vi, vj] = T.float32(0.0)
                                    U_local[vi, vj] = U_local[vi, vj] + X_shared_local[vk, vi] * Wu_shared_local[vk, vj]
                    for i_4 in range(4):
                        for j_3 in T.vectorized(4):
                            with T.sblock("D"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + j_3)
                                T.reads(G_local[vi, vj], U_local[vi, vj])
                                T.writes(D[vi, vj])
                                D[vi, vj] = G_local[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G_local[vi, vj])) * U_local[vi, vj]
