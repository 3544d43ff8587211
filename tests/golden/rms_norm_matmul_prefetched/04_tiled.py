# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((64, 24), "float32"), gain: T.Buffer((24,), "float32"), W: T.Buffer((24, 96), "float32"), C: T.Buffer((64, 96), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        squares = T.sblock_alloc_buffer((64,))
        C_acc_global = T.sblock_alloc_buffer((64, 96))
        for i, k in T.grid(64, 24):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(X[vi, vk])
                T.writes(squares[vi])
                with T.init():
                    squares[vi] = T.float32(0.0)
                squares[vi] = squares[vi] + X[vi, vk] * X[vi, vk]
        for i, j, k in T.grid(64, 96, 24):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(X[vi, vk], gain[vk], W[vk, vj])
                T.writes(C_acc_global[vi, vj])
                with T.init():
                    C_acc_global[vi, vj] = T.float32(0.0)
                C_acc_global[vi, vj] = C_acc_global[vi, vj] + X[vi, vk] * gain[vk] * W[vk, vj]
        for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
            for i_2_j_1_fused in T.thread_binding(2, thread="vthread.x"):
                for i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for i_4, j_3 in T.grid(4, 4):
                        with T.sblock("C_cast"):
                            vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2_j_1_fused * 16 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused // 16 * 8 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 2 * 4 + i_4)
                            vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_0_j_2_0_i_3_1_0_j_2_1_i_3_1_1_fused % 16 // 2 * 4 + j_3)
                            T.reads(C_acc_global[vi, vj], squares[vi])
                            T.writes(C[vi, vj])
                            C[vi, vj] = C_acc_global[vi, vj] * T.rsqrt(squares[vi] / T.float32(24.0) + T.float32(1.0000000000000001e-05))
