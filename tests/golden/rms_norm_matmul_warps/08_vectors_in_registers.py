# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((64, 24), "float32"), gain: T.Buffer((24,), "float32"), W: T.Buffer((24, 96), "float32"), C: T.Buffer((64, 96), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        squares_local = T.sblock_alloc_buffer((64,), scope="local")
        C_acc_global_local = T.sblock_alloc_buffer((64, 96), scope="local")
        X_shared = T.sblock_alloc_buffer((24, 64), scope="shared")
        gain_shared = T.sblock_alloc_buffer((24,), scope="shared")
        W_shared = T.sblock_alloc_buffer((24, 96), scope="shared")
        X_shared_local = T.sblock_alloc_buffer((24, 64), scope="local")
        gain_shared_local = T.sblock_alloc_buffer((24,), scope="local")
        W_shared_local = T.sblock_alloc_buffer((24, 96), scope="local")
        for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for ax1_0_m in range(6):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("X_shared"):
                                        v0 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 4)
                                        v1 = T.axis.spatial(24, ax1_0_m * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 4)
                                        T.reads(X[v0, v1])
                                        T.writes(X_shared[v1, v0])
                                        T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 4]]})
                                        X_shared[v1, v0] = X[v0, v1]
                        for ax0_0 in range(1):
                            for ax0_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_2 in T.vectorized(4):
                                    with T.sblock("gain_shared"):
                                        v0 = T.axis.spatial(24, ax1_0_m * 4 + (ax0_0 * 128 + ax0_1 * 4 + ax0_2))
                                        T.where((ax0_0 * 32 + ax0_1) * 4 + ax0_2 < 4)
                                        T.reads(gain[v0])
                                        T.writes(gain_shared[v0])
                                        gain_shared[v0] = gain[v0]
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(32, thread="threadIdx.x"):
                                for ax0_ax1_fused_2 in T.vectorized(4):
                                    with T.sblock("W_shared"):
                                        v0 = T.axis.spatial(24, ax1_0_m * 4 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) // 32)
                                        v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + (ax0_ax1_fused_0 * 128 + ax0_ax1_fused_1 * 4 + ax0_ax1_fused_2) % 32)
                                        T.reads(W[v0, v1])
                                        T.writes(W_shared[v0, v1])
                                        W_shared[v0, v1] = W[v0, v1]
                        for ax1_1_m in range(4):
                            for ax0 in range(1):
                                for ax1 in T.vectorized(4):
                                    with T.sblock("X_shared_local"):
                                        v0 = T.axis.spatial(24, ax1_0_m * 4 + ax1_1_m + ax0)
                                        v1 = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax1)
                                        T.reads(X_shared[v0, v1])
                                        T.writes(X_shared_local[v0, v1])
                                        X_shared_local[v0, v1] = X_shared[v0, v1]
                            for ax0 in range(4):
                                with T.sblock("sum"):
                                    vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax0)
                                    vk = T.axis.reduce(24, ax1_0_m * 4 + ax1_1_m)
                                    T.reads(X_shared_local[vk, vi])
                                    T.writes(squares_local[vi])
                                    with T.init():
                                        squares_local[vi] = T.float32(0.0)
                                    squares_local[vi] = squares_local[vi] + X_shared_local[vk, vi] * X_shared_local[vk, vi]
                            for ax0 in range(1):
                                with T.sblock("gain_shared_local"):
                                    v0 = T.axis.spatial(24, ax1_0_m * 4 + ax1_1_m + ax0)
                                    T.reads(gain_shared[v0])
                                    T.writes(gain_shared_local[v0])
                                    gain_shared_local[v0] = gain_shared[v0]
                            for ax0 in range(1):
                                for ax1 in T.vectorized(4):
                                    with T.sblock("W_shared_local"):
                                        v0 = T.axis.spatial(24, ax1_0_m * 4 + ax1_1_m + ax0)
                                        v1 = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + ax1)
                                        T.reads(W_shared[v0, v1])
                                        T.writes(W_shared_local[v0, v1])
                                        W_shared_local[v0, v1] = W_shared[v0, v1]
                            for ax0, ax1 in T.grid(4, 4):
                                with T.sblock("C"):
                                    vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + ax0)
                                    vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + ax1)
                                    vk = T.axis.reduce(24, ax1_0_m * 4 + ax1_1_m)
                                    T.reads(X_shared_local[vk, vi], gain_shared_local[vk], W_shared_local[vk, vj])
                                    T.writes(C_acc_global_local[vi, vj])
                                    with T.init():
                                        C_acc_global_local[vi, vj] = T.float32(0.0)
                                    C_acc_global_local[vi, vj] = C_acc_global_local[vi, vj] + X_shared_local[vk, vi] * gain_shared_local[vk] * W_shared_local[vk, vj]
                    for i_4 in range(4):
                        for j_3 in T.vectorized(4):
                            with T.sblock("C_cast"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                                vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + j_3)
                                T.reads(C_acc_global_local[vi, vj], squares_local[vi])
                                T.writes(C[vi, vj])
                                C[vi, vj] = C_acc_global_local[vi, vj] * T.rsqrt(squares_local[vi] / T.float32(24.0) + T.float32(1.0000000000000001e-05))
