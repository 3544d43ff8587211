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
        R_1 = T.sblock_alloc_buffer((8, 16))
        C_acc = T.sblock_alloc_buffer((8, 12))
        for i_fused_0 in T.thread_binding(2, thread="blockIdx.x"):
            for i_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                for k in range(16):
                    with T.sblock("sum"):
                        vi = T.axis.spatial(8, i_fused_0 * 4 + i_fused_1)
                        vk = T.axis.reduce(16, k)
                        T.reads(X[vi, vk])
                        T.writes(squares[vi])
                        with T.init():
                            squares[vi] = T.float32(0.0)
                        squares[vi] = squares[vi] + X[vi, vk] * X[vi, vk]
        for i_k_fused_0 in T.thread_binding(32, thread="blockIdx.x"):
            for i_k_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("R"):
                    vi = T.axis.spatial(8, (i_k_fused_0 * 4 + i_k_fused_1) // 16)
                    vk = T.axis.spatial(16, (i_k_fused_0 * 4 + i_k_fused_1) % 16)
                    T.reads(X[vi, vk], squares[vi], gain[vk])
                    T.writes(R_1[vi, vk])
                    R_1[vi, vk] = X[vi, vk] * T.rsqrt(squares[vi] / T.float32(16.0) + T.float32(1.0000000000000001e-05)) * gain[vk]
        for i_j_fused_0 in T.thread_binding(24, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                for k in range(16):
                    with T.sblock("C"):
                        vi = T.axis.spatial(8, (i_j_fused_0 * 4 + i_j_fused_1) // 12)
                        vj = T.axis.spatial(12, (i_j_fused_0 * 4 + i_j_fused_1) % 12)
                        vk = T.axis.reduce(16, k)
                        T.reads(R_1[vi, vk], W[vk, vj])
                        T.writes(C_acc[vi, vj])
                        with T.init():
                            C_acc[vi, vj] = T.float32(0.0)
                        C_acc[vi, vj] = C_acc[vi, vj] + R_1[vi, vk] * W[vk, vj]
        for i_j_fused_0 in T.thread_binding(24, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(4, thread="threadIdx.x"):
                with T.sblock("C_cast"):
                    vi = T.axis.spatial(8, (i_j_fused_0 * 4 + i_j_fused_1) // 12)
                    vj = T.axis.spatial(12, (i_j_fused_0 * 4 + i_j_fused_1) % 12)
                    T.reads(C_acc[vi, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = C_acc[vi, vj]
