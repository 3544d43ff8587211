# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 32, 96), "bfloat16"), B: T.Buffer((2, 96, 64), "bfloat16"), C: T.Buffer((2, 32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_pad = T.sblock_alloc_buffer((2, 64, 96), "bfloat16")
        C_acc_pad = T.sblock_alloc_buffer((2, 64, 64))
        for i0, i1, i2 in T.grid(2, 64, 96):
            with T.sblock("A_pad"):
                v0, v1, v2 = T.axis.remap("SSS", [i0, i1, i2])
                T.reads(A[v0, v1, v2])
                T.writes(A_pad[v0, v1, v2])
                A_pad[v0, v1, v2] = T.if_then_else(v1 < 32, A[v0, v1, v2], T.bfloat16(0.0))
        for b_fused in T.thread_binding(2, thread="blockIdx.z"):
            for i, j, k in T.grid(64, 64, 96):
                with T.sblock("C"):
                    vb, vi, vj, vk = T.axis.remap("SSSR", [b_fused, i, j, k])
                    T.reads(A_pad[vb, vi, vk], B[vb, vk, vj])
                    T.writes(C_acc_pad[vb, vi, vj])
                    with T.init():
                        C_acc_pad[vb, vi, vj] = T.float32(0.0)
                    C_acc_pad[vb, vi, vj] = C_acc_pad[vb, vi, vj] + T.Cast("float32", A_pad[vb, vi, vk]) * T.Cast("float32", B[vb, vk, vj])
        for b, i, j in T.grid(2, 32, 64):
            with T.sblock("C_cast"):
                vb, vi, vj = T.axis.remap("SSS", [b, i, j])
                T.reads(C_acc_pad[vb, vi, vj])
                T.writes(C[vb, vi, vj])
                C[vb, vi, vj] = T.Cast("bfloat16", C_acc_pad[vb, vi, vj])
