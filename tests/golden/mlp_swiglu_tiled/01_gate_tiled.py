# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((8, 16), "float32"), Wg: T.Buffer((16, 12), "float32"), Wu: T.Buffer((16, 12), "float32"), D: T.Buffer((8, 12), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        G = T.sblock_alloc_buffer((8, 12))
        U = T.sblock_alloc_buffer((8, 12))
        G_local = T.sblock_alloc_buffer((8, 12), scope="local")
        X_shared = T.sblock_alloc_buffer((8, 16), scope="shared")
        Wg_shared = T.sblock_alloc_buffer((16, 12), scope="shared")
        for i_0 in T.thread_binding(2, thread="blockIdx.y"):
            for j_0 in T.thread_binding(3, thread="blockIdx.x"):
                for i_1 in T.thread_binding(2, thread="threadIdx.y"):
                    for j_1 in T.thread_binding(2, thread="threadIdx.x"):
                        for i_2_init, j_2_init in T.grid(2, 2):
                            with T.sblock("G_init"):
                                vi = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + i_2_init)
                                vj = T.axis.spatial(12, j_0 * 4 + j_1 * 2 + j_2_init)
                                T.reads()
                                T.writes(G_local[vi, vj])
                                G_local[vi, vj] = T.float32(0.0)
                        for k_0 in range(4):
                            for ax0_ax1_fused_0 in range(4):
                                for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("X_shared"):
                                            v0 = T.axis.spatial(8, i_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) // 4)
                                            v1 = T.axis.spatial(16, k_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) % 4)
                                            T.reads(X[v0, v1])
                                            T.writes(X_shared[v0, v1])
                                            X_shared[v0, v1] = X[v0, v1]
                            for ax0_ax1_fused_0 in range(4):
                                for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                    for ax0_ax1_fused_2 in T.thread_binding(2, thread="threadIdx.x"):
                                        with T.sblock("Wg_shared"):
                                            v0 = T.axis.spatial(16, k_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) // 4)
                                            v1 = T.axis.spatial(12, j_0 * 4 + (ax0_ax1_fused_0 * 4 + ax0_ax1_fused_1 * 2 + ax0_ax1_fused_2) % 4)
                                            T.reads(Wg[v0, v1])
                                            T.writes(Wg_shared[v0, v1])
                                            Wg_shared[v0, v1] = Wg[v0, v1]
                            for k_1, i_2, j_2 in T.grid(4, 2, 2):
                                with T.sblock("G_update"):
                                    vi = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + i_2)
                                    vj = T.axis.spatial(12, j_0 * 4 + j_1 * 2 + j_2)
                                    vk = T.axis.reduce(16, k_0 * 4 + k_1)
                                    T.reads(G_local[vi, vj], X_shared[vi, vk], Wg_shared[vk, vj])
                                    T.writes(G_local[vi, vj])
                                    G_local[vi, vj] = G_local[vi, vj] + X_shared[vi, vk] * Wg_shared[vk, vj]
                        for ax0, ax1 in T.grid(2, 2):
                            with T.sblock("G_local"):
                                v0 = T.axis.spatial(8, i_0 * 4 + i_1 * 2 + ax0)
                                v1 = T.axis.spatial(12, j_0 * 4 + j_1 * 2 + ax1)
                                T.reads(G_local[v0, v1])
                                T.writes(G[v0, v1])
                                G[v0, v1] = G_local[v0, v1]
        for i, j, k in T.grid(8, 12, 16):
            with T.sblock("U"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(X[vi, vk], Wu[vk, vj])
                T.writes(U[vi, vj])
                with T.init():
                    U[vi, vj] = T.float32(0.0)
                U[vi, vj] = U[vi, vj] + X[vi, vk] * Wu[vk, vj]
        for i, j in T.grid(8, 12):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(G[vi, vj], U[vi, vj])
                T.writes(D[vi, vj])
                D[vi, vj] = G[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G[vi, vj])) * U[vi, vj]
