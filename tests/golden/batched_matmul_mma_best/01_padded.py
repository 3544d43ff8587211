# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 32, 96), "bfloat16"), B: T.Buffer((2, 96, 64), "bfloat16"), C: T.Buffer((2, 32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        B_pad = T.sblock_alloc_buffer((2, 96, 128), "bfloat16")
        C_acc_pad = T.sblock_alloc_buffer((2, 32, 128))
        for i0, i1, i2 in T.grid(2, 96, 128):
            with T.sblock("B_pad"):
                v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(B[v0, v1, v2])
                T.writes(B_pad[v0, v1, v2])
                B_pad[v0, v1, v2] = T.if_then_else(v2 < 64, B[v0, v1, v2], T.bfloat16(0.0))
        for b, i, j, k in T.grid(2, 32, 128, 96):
            with T.sblock("C"):
                vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                T.reads(A[vb, vi, vk], B_pad[vb, vk, vj])
                T.writes(C_acc_pad[vb, vi, vj])
                with T.init():
                    C_acc_pad[vb, vi, vj] = T.float32(0.0)
                C_acc_pad[vb, vi, vj] = C_acc_pad[vb, vi, vj] + T.Cast("float32", A[vb, vi, vk]) * T.Cast("float32", B_pad[vb, vk, vj])
        for b, i, j in T.grid(2, 32, 64):
            with T.sblock("C_cast"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                T.reads(C_acc_pad[vb, vi, vj])
                T.writes(C[vb, vi, vj])
                C[vb, vi, vj] = T.Cast("bfloat16", C_acc_pad[vb, vi, vj])
