# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((8, 16), "float32"), gain: T.Buffer((16,), "float32"), W: T.Buffer((16, 12), "float32"), C: T.Buffer((8, 12), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        squares = T.sblock_alloc_buffer((8,))
        C_acc = T.sblock_alloc_buffer((8, 12))
        C_acc_local = T.sblock_alloc_buffer((8, 12), scope="local")
        R_shared = T.sblock_alloc_buffer((8, 16), scope="shared")
        W_shared = T.sblock_alloc_buffer((16, 12), scope="shared")
        for i_fused_0 in T.thread_binding(4, thread="blockIdx.x"):
            for i_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                for k_0_0 in range(1):
                    for k_0_1 in T.thread_binding(32, thread="threadIdx.x"):
                        for k_1 in range(1):
                            with T.sblock("sum"):
                                vi = T.axis.spatial(8, i_fused_0 * 2 + i_fused_1)
                                vk = T.axis.reduce(16, k_0_0 * 32 + k_0_1 + k_1)
                                T.where(k_0_0 * 32 + k_0_1 < 16)
                                T.reads(X[vi, vk])
                                T.writes(squares[vi])
                                with T.init():
                                    squares[vi] = T.float32(0.0)
                                squares[vi] = squares[vi] + X[vi, vk] * X[vi, vk]
        for i_0 in T.thread_binding(2, thread="blockIdx.y"):
            for j_0 in T.thread_binding(3, thread="blockIdx.x"):
                for i_1 in T.thread_binding(2, thread="threadIdx.y"):
                    for j_1 in T.thread_binding(2, thread="threadIdx.x"):
                        for i_2_init, j_2_init in T.grid(2, 2):
                            with T.sblock("C_init"):
                                vi = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + i_2_init)
                                vj = T.axis.spatial(12, j_0 * 4 + j_1 * 2 + j_2_init)
                                T.reads()
                                T.writes(C_acc_local[vi, vj])
                                C_acc_local[vi, vj] = T.float32(0.0)
                        for k_0 in range(4):
                            for ax0_ax1_fused_0 in range(4):
                                for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("R_shared"):
                                            v0 = T.axis.spatial(8, i_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) // 4)
                                            v1 = T.axis.spatial(16, k_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) % 4)
                                            T.reads(X[v0, v1], squares[v0], gain[v1])
                                            T.writes(R_shared[v0, v1])
                                            R_shared[v0, v1] = X[v0, v1] * T.rsqrt(squares[v0] / T.float32(16.0) + T.float32(1.0000000000000001e-05)) * gain[v1]
                            for ax0_ax1_fused_0 in range(4):
                                for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("W_shared"):
                                            v0 = T.axis.spatial(16, k_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) // 4)
                                            v1 = T.axis.spatial(12, j_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) % 4)
                                            T.reads(W[v0, v1])
                                            T.writes(W_shared[v0, v1])
                                            W_shared[v0, v1] = W[v0, v1]
                            for k_1, i_2, j_2 in T.grid(4, 2, 2):
                                with T.sblock("C_update"):
                                    vi = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + i_2)
                                    vj = T.axis.spatial(12, j_0 * 4 + j_1 * 2 + j_2)
                                    vk = T.axis.reduce(16, k_0 * 4 + k_1)
                                    T.reads(C_acc_local[vi, vj], R_shared[vi, vk], W_shared[vk, vj])
                                    T.writes(C_acc_local[vi, vj])
                                    C_acc_local[vi, vj] = C_acc_local[vi, vj] + R_shared[vi, vk] * W_shared[vk, vj]
                        for ax0, ax1 in T.grid(2, 2):
                            with T.sblock("C_acc_local"):
                                v0 = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + ax0)
                                v1 = T.axis.spatial(12, j_0 * 4 + j_1 * 2 + ax1)
                                T.reads(C_acc_local[v0, v1])
                                T.writes(C_acc[v0, v1])
                                C_acc[v0, v1] = C_acc_local[v0, v1]
        for i_j_fused_0 in T.thread_binding(24, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("C_cast"):
                    vi = T.axis.spatial(8, (i_j_fused_0 * 4 + i_j_fused_1) // 12)
                    vj = T.axis.spatial(12, (i_j_fused_0 * 4 + i_j_fused_1) % 12)
                    T.reads(C_acc[vi, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C_acc[vi, vj]
