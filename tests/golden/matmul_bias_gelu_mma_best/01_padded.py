# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "bfloat16"), B: T.Buffer((96, 64), "bfloat16"), bias: T.Buffer((64,), "float32"), D: T.Buffer((32, 64), "bfloat16")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        A_pad = T.sblock_alloc_buffer((64, 96), "bfloat16")
        C_pad = T.sblock_alloc_buffer((64, 64))
        for i0, i1 in T.grid(64, 96):
            with T.sblock("A_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(A[v0, v1])
                T.writes(A_pad[v0, v1])
                A_pad[v0, v1] = T.if_then_else(v0 < 32, A[v0, v1], T.bfloat16(0.0))
        for i, j, k in T.grid(64, 64, 96):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A_pad[vi, vk], B[vk, vj])
                T.writes(C_pad[vi, vj])
                with T.init():
                    C_pad[vi, vj] = T.float32(0.0)
                C_pad[vi, vj] = C_pad[vi, vj] + T.Cast("float32", A_pad[vi, vk]) * T.Cast("float32", B[vk, vj])
        for i, j in T.grid(32, 64):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(C_pad[vi, vj], bias[vj])
                T.writes(D[vi, vj])
                D[vi, vj] = T.Cast("bfloat16", (C_pad[vi, vj] + bias[vj]) / (T.float32(1.0) + T.exp(T.float32(-1.5957691216057308) * (C_pad[vi, vj] + bias[vj] + T.float32(0.044714999999999998) * (C_pad[vi, vj] + bias[vj]) * (C_pad[vi, vj] + bias[vj]) * (C_pad[vi, vj] + bias[vj])))))
