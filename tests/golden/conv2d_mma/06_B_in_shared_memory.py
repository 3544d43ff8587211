# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((4, 6, 5, 8), "bfloat16"), F: T.Buffer((32, 3, 2, 8), "bfloat16"), Y: T.Buffer((4, 6, 6, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"tir_pipeline": "tirstep"})
            Y_acc_reindex_shared_dyn = T.sblock_alloc_buffer((144, 32), scope="shared.dyn")
            Y_acc_reindex_shared_dyn_local = T.sblock_alloc_buffer((144, 32), scope="local")
            padded_reindex_pad_shared_dyn = T.sblock_alloc_buffer((144, 64), "bfloat16", scope="shared.dyn")
            F_reindex_pad_shared_dyn = T.sblock_alloc_buffer((32, 64), "bfloat16", scope="shared.dyn")
            for ax0_0_ax1_0_ax0_1_fused in T.thread_binding(9, thread="blockIdx.x"):
                for ax0_2_ax1_1_fused in T.thread_binding(2, thread="threadIdx.y"):
                    for ax2_0 in range(2):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("padded_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 16 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                            v1 = T.axis.spatial(64, ax2_0 * 32 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                            T.reads(X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8])
                                            T.writes(padded_reindex_pad_shared_dyn[v0, v1])
                                            T.sblock_attr({"tirstep_swizzle": 1})
                                            padded_reindex_pad_shared_dyn[v0, v1] = T.if_then_else(v1 < 48, T.if_then_else(v0 % 36 // 6 + v1 // 16 >= 1 and v0 % 36 // 6 + v1 // 16 < 7 and v0 % 6 + v1 % 16 // 8 >= 1 and v0 % 6 + v1 % 16 // 8 < 6, X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8], T.bfloat16(0.0)), T.bfloat16(0.0))
                        for ax0_ax1_fused_0 in range(2):
                            for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("F_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(32, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 32)
                                            v1 = T.axis.spatial(64, ax2_0 * 32 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 256 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 32)
                                            T.reads(F[v0, v1 // 16, v1 % 16 // 8, v1 % 8])
                                            T.writes(F_reindex_pad_shared_dyn[v0, v1])
                                            T.sblock_attr({"tirstep_swizzle": 1})
                                            F_reindex_pad_shared_dyn[v0, v1] = T.if_then_else(v1 < 48, F[v0, v1 // 16, v1 % 16 // 8, v1 % 8], T.bfloat16(0.0))
                        for ax2_1, ax0_3, ax1_2 in T.grid(2, 1, 1):
                            with T.sblock("Y_o"):
                                v0_o = T.axis.spatial(9, ax0_0_ax1_0_ax0_1_fused + ax0_3)
                                v1_o = T.axis.spatial(2, ax0_2_ax1_1_fused + ax1_2)
                                v2_o = T.axis.reduce(4, ax2_0 * 2 + ax2_1)
                                T.reads(padded_reindex_pad_shared_dyn[v0_o * 16:v0_o * 16 + 16, v2_o * 16:v2_o * 16 + 16], F_reindex_pad_shared_dyn[v1_o * 16:v1_o * 16 + 16, v2_o * 16:v2_o * 16 + 16])
                                T.writes(Y_acc_reindex_shared_dyn_local[v0_o * 16:v0_o * 16 + 16, v1_o * 16:v1_o * 16 + 16])
                                with T.init():
                                    for ax0_4, ax1_3 in T.grid(16, 16):
                                        with T.sblock("Y_init"):
                                            v0_i_init, v1_i_init = T.axis.remap("SS", [ax0_4, ax1_3])
                                            T.reads()
                                            T.writes(Y_acc_reindex_shared_dyn_local[v0_o * 16 + v0_i_init, v1_o * 16 + v1_i_init])
                                            Y_acc_reindex_shared_dyn_local[v0_o * 16 + v0_i_init, v1_o * 16 + v1_i_init] = T.float32(0.0)
                                for ax0_4, ax1_3, ax2_2 in T.grid(16, 16, 16):
                                    with T.sblock("Y"):
                                        v0_i, v1_i, v2_i = T.axis.remap("SSR", [ax0_4, ax1_3, ax2_2])
                                        T.reads(Y_acc_reindex_shared_dyn_local[v0_o * 16 + v0_i, v1_o * 16 + v1_i], padded_reindex_pad_shared_dyn[v0_o * 16 + v0_i, v2_o * 16 + v2_i], F_reindex_pad_shared_dyn[v1_o * 16 + v1_i, v2_o * 16 + v2_i])
                                        T.writes(Y_acc_reindex_shared_dyn_local[v0_o * 16 + v0_i, v1_o * 16 + v1_i])
                                        Y_acc_reindex_shared_dyn_local[v0_o * 16 + v0_i, v1_o * 16 + v1_i] = Y_acc_reindex_shared_dyn_local[v0_o * 16 + v0_i, v1_o * 16 + v1_i] + T.Cast("float32", padded_reindex_pad_shared_dyn[v0_o * 16 + v0_i, v2_o * 16 + v2_i]) * T.Cast("float32", F_reindex_pad_shared_dyn[v1_o * 16 + v1_i, v2_o * 16 + v2_i])
                    for ax0, ax1 in T.grid(16, 16):
                        with T.sblock("Y_acc_reindex_shared.dyn_local"):
                            v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 16 + ax0)
                            v1 = T.axis.spatial(32, ax0_2_ax1_1_fused * 16 + ax1)
                            T.reads(Y_acc_reindex_shared_dyn_local[v0, v1])
                            T.writes(Y_acc_reindex_shared_dyn[v0, v1])
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                            Y_acc_reindex_shared_dyn[v0, v1] = Y_acc_reindex_shared_dyn_local[v0, v1]
                for ax0_ax1_fused_0 in range(2):
                    for ax0_ax1_fused_1 in T.thread_binding(2, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(32, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("Y_cast"):
                                    v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 16 + (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 32)
                                    v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 256 + ax0_ax1_fused_1 * 128 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 32)
                                    T.reads(Y_acc_reindex_shared_dyn[v0, v1])
                                    T.writes(Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1])
                                    Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1] = T.Cast("bfloat16", Y_acc_reindex_shared_dyn[v0, v1])
