# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((64, 24), "float32"), Wg: T.Buffer((24, 96), "float32"), Wu: T.Buffer((24, 96), "float32"), D: T.Buffer((64, 96), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        G = T.sblock_alloc_buffer((64, 96))
        U = T.sblock_alloc_buffer((64, 96))
        for i, j, k in T.grid(64, 96, 24):
            with T.sblock("G"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(X[vi, vk], Wg[vk, vj])
                T.writes(G[vi, vj])
                with T.init():
                    G[vi, vj] = T.float32(0.0)
                G[vi, vj] = G[vi, vj] + X[vi, vk] * Wg[vk, vj]
        for i, j, k in T.grid(64, 96, 24):
            with T.sblock("U"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(X[vi, vk], Wu[vk, vj])
                T.writes(U[vi, vj])
                with T.init():
                    U[vi, vj] = T.float32(0.0)
                U[vi, vj] = U[vi, vj] + X[vi, vk] * Wu[vk, vj]
        for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for i_4, j_3 in T.grid(4, 4):
                        with T.sblock("D"):
                            vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                            vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + j_3)
                            T.reads(G[vi, vj], U[vi, vj])
                            T.writes(D[vi, vj])
                            D[vi, vj] = G[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G[vi, vj])) * U[vi, vj]
