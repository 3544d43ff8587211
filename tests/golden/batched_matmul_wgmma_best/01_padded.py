# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 64, 192), "bfloat16"), B: T.Buffer((2, 192, 128), "bfloat16"), C: T.Buffer((2, 64, 128), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C_acc = T.sblock_alloc_buffer((2, 64, 128))
        A_pad = T.sblock_alloc_buffer((2, 64, 256), "bfloat16")
        B_pad = T.sblock_alloc_buffer((2, 256, 128), "bfloat16")
        for i0, i1, i2 in T.grid(2, 64, 256):
            with T.sblock("A_pad"):
                v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(A[v0, v1, v2])
                T.writes(A_pad[v0, v1, v2])
                A_pad[v0, v1, v2] = T.if_then_else(v2 < 192, A[v0, v1, v2], T.bfloat16(0.0))
        for i0, i1, i2 in T.grid(2, 256, 128):
            with T.sblock("B_pad"):
                v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(B[v0, v1, v2])
                T.writes(B_pad[v0, v1, v2])
                B_pad[v0, v1, v2] = T.if_then_else(v1 < 192, B[v0, v1, v2], T.bfloat16(0.0))
        for b, i, j, k in T.grid(2, 64, 128, 256):
            with T.sblock("C"):
                vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                T.reads(A_pad[vb, vi, vk], B_pad[vb, vk, vj])
                T.writes(C_acc[vb, vi, vj])
                with T.init():
                    C_acc[vb, vi, vj] = T.float32(0.0)
                C_acc[vb, vi, vj] = C_acc[vb, vi, vj] + T.Cast("float32", A_pad[vb, vi, vk]) * T.Cast("float32", B_pad[vb, vk, vj])
        for b, i, j in T.grid(2, 64, 128):
            with T.sblock("C_cast"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                T.reads(C_acc[vb, vi, vj])
                T.writes(C[vb, vi, vj])
                C[vb, vi, vj] = T.Cast("bfloat16", C_acc[vb, vi, vj])
