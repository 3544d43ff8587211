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
            F_reindex_pad = T.sblock_alloc_buffer((64, 48), "bfloat16")
            Y_acc_reindex_pad_shared_dyn = T.sblock_alloc_buffer((192, 64), scope="shared.dyn")
            Y_acc_reindex_pad_shared_dyn_local = T.sblock_alloc_buffer((192, 64), scope="local")
            padded_reindex_pad_shared_dyn = T.sblock_alloc_buffer((3, 192, 2, 8), "bfloat16", scope="shared.dyn")
            for i0, i1 in T.grid(64, 48):
                with T.sblock("F_reindex_pad"):
                    v0, v1 = T.axis.remap("SS", [i0, i1])
                    T.reads(F[v0, v1 // 16, v1 % 16 // 8, v1 % 8])
                    T.writes(F_reindex_pad[v0, v1])
                    F_reindex_pad[v0, v1] = T.if_then_else(v0 < 32, F[v0, v1 // 16, v1 % 16 // 8, v1 % 8], T.bfloat16(0.0))
            for ax0_0_ax1_0_ax0_1_fused in T.thread_binding(3, thread="blockIdx.x"):
                for ax0_2_ax1_1_fused in T.thread_binding(1, thread="threadIdx.y"):
                    for ax2_0 in range(3):
                        for ax0_ax1_fused_0 in range(1):
                            for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                                for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                                    for ax0_ax1_fused_3 in T.vectorized(8):
                                        with T.sblock("padded_reindex_pad_shared.dyn"):
                                            v0 = T.axis.spatial(192, ax0_0_ax1_0_ax0_1_fused * 64 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) // 16)
                                            v1 = T.axis.spatial(48, ax2_0 * 16 + (ax0_ax1_fused_0 * 1024 + ax0_ax1_fused_1 * 1024 + ax0_ax1_fused_2 * 8 + ax0_ax1_fused_3) % 16)
                                            T.reads(X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8])
                                            T.writes(padded_reindex_pad_shared_dyn[v1 // 16, v0, 0:2, v1 % 8])
                                            padded_reindex_pad_shared_dyn[v1 // 16, v0, (v1 % 16 // 8 ^ v0 % 8 // 4) % 2, v1 % 8] = T.if_then_else(v0 < 144, T.if_then_else(v0 % 36 // 6 + v1 // 16 >= 1 and v0 % 36 // 6 + v1 // 16 < 7 and v0 % 6 + v1 % 16 // 8 >= 1 and v0 % 6 + v1 % 16 // 8 < 6, X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8], T.bfloat16(0.0)), T.bfloat16(0.0))
                        for ax0_3, ax1_2, ax2_1 in T.grid(64, 64, 16):
                            with T.sblock("Y"):
                                v0 = T.axis.spatial(192, ax0_0_ax1_0_ax0_1_fused * 64 + ax0_3)
                                v1 = T.axis.spatial(64, ax1_2)
                                v2 = T.axis.reduce(48, ax2_0 * 16 + ax2_1)
                                T.reads(padded_reindex_pad_shared_dyn[v2 // 16, v0, 0:2, v2 % 8], F_reindex_pad[v1, v2])
                                T.writes(Y_acc_reindex_pad_shared_dyn_local[v0, v1])
                                with T.init():
                                    Y_acc_reindex_pad_shared_dyn_local[v0, v1] = T.float32(0.0)
                                Y_acc_reindex_pad_shared_dyn_local[v0, v1] = Y_acc_reindex_pad_shared_dyn_local[v0, v1] + T.Cast("float32", padded_reindex_pad_shared_dyn[v2 // 16, v0, (v2 % 16 // 8 ^ v0 % 8 // 4) % 2, v2 % 8]) * T.Cast("float32", F_reindex_pad[v1, v2])
                    for ax0, ax1 in T.grid(64, 64):
                        with T.sblock("Y_acc_reindex_pad_shared.dyn_local"):
                            v0 = T.axis.spatial(192, ax0_0_ax1_0_ax0_1_fused * 64 + ax0)
                            v1 = T.axis.spatial(64, ax1)
                            T.reads(Y_acc_reindex_pad_shared_dyn_local[v0, v1])
                            T.writes(Y_acc_reindex_pad_shared_dyn[v0, v1])
                            T.sblock_attr({"buffer_dim_align": [[0, 0, 64, 8]]})
                            Y_acc_reindex_pad_shared_dyn[v0, v1] = Y_acc_reindex_pad_shared_dyn_local[v0, v1]
                for ax0_ax1_fused_0 in range(4):
                    for ax0_ax1_fused_1 in T.thread_binding(1, thread="threadIdx.y"):
                        for ax0_ax1_fused_2 in T.thread_binding(128, thread="threadIdx.x"):
                            for ax0_ax1_fused_3 in T.vectorized(4):
                                with T.sblock("Y_cast"):
                                    v0 = T.axis.spatial(144, ax0_0_ax1_0_ax0_1_fused * 64 + (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) // 32)
                                    v1 = T.axis.spatial(32, (ax0_ax1_fused_0 * 512 + ax0_ax1_fused_1 * 512 + ax0_ax1_fused_2 * 4 + ax0_ax1_fused_3) % 32)
                                    T.where(ax0_0_ax1_0_ax0_1_fused * 64 + (((ax0_ax1_fused_0 + ax0_ax1_fused_1) * 128 + ax0_ax1_fused_2) * 4 + ax0_ax1_fused_3) // 32 < 144)
                                    T.reads(Y_acc_reindex_pad_shared_dyn[v0, v1])
                                    T.writes(Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1])
                                    Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1] = T.Cast("bfloat16", Y_acc_reindex_pad_shared_dyn[v0, v1])
