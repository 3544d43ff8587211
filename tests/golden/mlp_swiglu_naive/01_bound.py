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
        for i_j_fused_0 in T.thread_binding(24, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                for k in range(16):
                    with T.sblock("G"):
                        vi = T.axis.spatial(8, (i_j_fused_0 * 4 + i_j_fused_1) // 12)
                        vj = T.axis.spatial(12, (i_j_fused_0 * 4 + i_j_fused_1) % 12)
                        vk = T.axis.reduce(16, k)
                        T.reads(X[vi, vk], Wg[vk, vj])
                        T.writes(G[vi, vj])
                        with T.init():
                            G[vi, vj] = T.float32(0.0)
                        G[vi, vj] = G[vi, vj] + X[vi, vk] * Wg[vk, vj]
        for i_j_fused_0 in T.thread_binding(24, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                for k in range(16):
                    with T.sblock("U"):
                        vi = T.axis.spatial(8, (i_j_fused_0 * 4 + i_j_fused_1) // 12)
                        vj = T.axis.spatial(12, (i_j_fused_0 * 4 + i_j_fused_1) % 12)
                        vk = T.axis.reduce(16, k)
                        T.reads(X[vi, vk], Wu[vk, vj])
                        T.writes(U[vi, vj])
                        with T.init():
                            U[vi, vj] = T.float32(0.0)
                        U[vi, vj] = U[vi, vj] + X[vi, vk] * Wu[vk, vj]
        for i_j_fused_0 in T.thread_binding(24, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("D"):
                    vi = T.axis.spatial(8, (i_j_fused_0 * 4 + i_j_fused_1) // 12)
                    vj = T.axis.spatial(12, (i_j_fused_0 * 4 + i_j_fused_1) % 12)
                    T.reads(G[vi, vj], U[vi, vj])
                    T.writes(D[vi, vj])
                    D[vi, vj] = G[vi, vj] / (T.float32(1.0) + T.exp(T.float32(0.0) - G[vi, vj])) * U[vi, vj]
