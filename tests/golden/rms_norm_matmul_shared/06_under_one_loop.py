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
        for i_0_j_0_i_1_fused in T.thread_binding(6, thread="blockIdx.x"):
            for i_2, j_1 in T.grid(1, 1):
                for i_3_j_2_fused in T.thread_binding(32, thread="threadIdx.x"):
                    for ax1_0_m, ax1_1_m in T.grid(6, 4):
                        for ax0 in range(8):
                            with T.sblock("sum"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                                vk = T.axis.reduce(24, ax1_0_m * 4 + ax1_1_m)
                                T.reads(X[vi, vk])
                                T.writes(squares_local[vi])
                                with T.init():
                                    squares_local[vi] = T.float32(0.0)
                                squares_local[vi] = squares_local[vi] + X[vi, vk] * X[vi, vk]
                        for ax0, ax1 in T.grid(8, 4):
                            with T.sblock("C"):
                                vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_3_j_2_fused // 8 * 8 + ax0)
                                vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + i_3_j_2_fused % 8 * 4 + ax1)
                                vk = T.axis.reduce(24, ax1_0_m * 4 + ax1_1_m)
                                T.reads(X[vi, vk], gain[vk], W[vk, vj])
                                T.writes(C_acc_global_local[vi, vj])
                                with T.init():
                                    C_acc_global_local[vi, vj] = T.float32(0.0)
                                C_acc_global_local[vi, vj] = C_acc_global_local[vi, vj] + X[vi, vk] * gain[vk] * W[vk, vj]
                    for i_4, j_3 in T.grid(8, 4):
                        with T.sblock("C_cast"):
                            vi = T.axis.spatial(64, i_0_j_0_i_1_fused % 2 * 32 + i_2 * 32 + i_3_j_2_fused // 8 * 8 + i_4)
                            vj = T.axis.spatial(96, i_0_j_0_i_1_fused // 2 * 32 + j_1 * 32 + i_3_j_2_fused % 8 * 4 + j_3)
                            T.reads(C_acc_global_local[vi, vj], squares_local[vi])
                            T.writes(C[vi, vj])
                            C[vi, vj] = C_acc_global_local[vi, vj] * T.rsqrt(squares_local[vi] / T.float32(24.0) + T.float32(1.0000000000000001e-05))
