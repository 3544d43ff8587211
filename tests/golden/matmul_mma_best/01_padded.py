# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 96), "float16"), B: T.Buffer((96, 64), "float16"), C: T.Buffer((32, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        B_pad = T.sblock_alloc_buffer((96, 128), "float16")
        C_pad = T.sblock_alloc_buffer((32, 128))
        for i0, i1 in T.grid(96, 128):
            with T.sblock("B_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(B[v0, v1])
                T.writes(B_pad[v0, v1])
                B_pad[v0, v1] = T.if_then_else(v1 < 64, B[v0, v1], T.float16(0.0))
        for i, j, k in T.grid(32, 128, 96):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B_pad[vk, vj])
                T.writes(C_pad[vi, vj])
                with T.init():
                    C_pad[vi, vj] = T.float32(0.0)
                C_pad[vi, vj] = C_pad[vi, vj] + T.Cast("float32", A[vi, vk]) * T.Cast("float32", B_pad[vk, vj])
        for i0, i1 in T.grid(32, 64):
            with T.sblock("C_pad"):
                v0, v1 = T.axis.remap("SS", [i0, i1])
                T.reads(C_pad[v0, v1])
                T.writes(C[v0, v1])
                C[v0, v1] = C_pad[v0, v1]
