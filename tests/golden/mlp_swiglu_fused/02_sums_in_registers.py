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
        for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
            for i_2, j_1 in T.grid(1, 1):
                for i_3_j_2_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for ax0, ax1, ax2 in T.grid(8, 4, 24):
                        with T.sblock("G"):
                            vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                            vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1)
                            vk = T.axis.reduce(24, ax2)
                            T.reads(X[vi, vk], Wg[vk, vj])
                            T.writes(G_local[vi, vj])
                            with T.init():
                                G_local[vi, vj] = T.float32(0.0)
                            G_local[vi, vj] = G_local[vi, vj] + X[vi, vk] * Wg[vk, vj]
                    for ax0, ax1, ax2 in T.grid(8, 4, 24):
                        with T.sblock("U"):
                            vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                            vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1)
                            vk = T.axis.reduce(24, ax2)
                            T.reads(X[vi, vk], Wu[vk, vj])
                            T.writes(U_local[vi, vj])
                            with T.init():
                                U_local[vi, vj] = T.float32(0.0)
                            U_local[vi, vj] = U_local[vi, vj] + X[vi, vk] * Wu[vk, vj]
                    for i_4, j_3 in T.grid(8, 4):
                        with T.sblock("D"):
                            vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2 * 32 + i_3_j_2_fused // 8 * 8 + i_4)
                            vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + j_1 * 32 + i_3_j_2_fused % 8 * 4 + j_3)
                            T.reads(G_local[vi, vj], U_local[vi, vj])
                            T.writes(D[vi, vj])
                            D[vi, vj] = G_local[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G_local[vi, vj])) * U_local[vi, vj]
