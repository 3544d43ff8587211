# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((4, 6, 5, 8), "bfloat16"), F: T.Buffer((32, 3, 2, 8), "bfloat16"), Y: T.Buffer((4, 6, 6, 32), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded_reindex_pad = T.sblock_alloc_buffer((192, 48), "bfloat16")
        F_reindex_pad = T.sblock_alloc_buffer((64, 48), "bfloat16")
        Y_acc_reindex_pad = T.sblock_alloc_buffer((192, 64))
        for i0, i1 in T.grid(192, 48):
            with T.sblock("padded_reindex_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8])
                T.writes(padded_reindex_pad[v0, v1])
                padded_reindex_pad[v0, v1] = T.if_then_else(v0 < 144, T.if_then_else(v0 % 36 // 6 + v1 // 16 >= 1 and v0 % 36 // 6 + v1 // 16 < 7 and v0 % 6 + v1 % 16 // 8 >= 1 and v0 % 6 + v1 % 16 // 8 < 6, X[v0 // 36, v0 % 36 // 6 + v1 // 16 + -1, v0 % 6 + v1 % 16 // 8 + -1, v1 % 8], T.bfloat16(0.0)), T.bfloat16(0.0))
        for i0, i1 in T.grid(64, 48):
            with T.sblock("F_reindex_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(F[v0, v1 // 16, v1 % 16 // 8, v1 % 8])
                T.writes(F_reindex_pad[v0, v1])
                F_reindex_pad[v0, v1] = T.if_then_else(v0 < 32, F[v0, v1 // 16, v1 % 16 // 8, v1 % 8], T.bfloat16(0.0))
        for ax0, ax1, ax2 in T.grid(192, 64, 48):
            with T.sblock("Y"):
                v0, v1, v2 = T.axis.remap("SSR", [ax0, ax1, ax2])
                T.reads(padded_reindex_pad[v0, v2], F_reindex_pad[v1, v2])
                T.writes(Y_acc_reindex_pad[v0, v1])
                with T.init():
                    Y_acc_reindex_pad[v0, v1] = T.float32(0.0)
                Y_acc_reindex_pad[v0, v1] = Y_acc_reindex_pad[v0, v1] + T.Cast("float32", padded_reindex_pad[v0, v2]) * T.Cast("float32", F_reindex_pad[v1, v2])
        for ax0, ax1 in T.grid(144, 32):
            with T.sblock("Y_cast"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(Y_acc_reindex_pad[v0, v1])
                T.writes(Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1])
                Y[v0 // 36, v0 % 36 // 6, v0 % 6, v1] = T.Cast("bfloat16", Y_acc_reindex_pad[v0, v1])
