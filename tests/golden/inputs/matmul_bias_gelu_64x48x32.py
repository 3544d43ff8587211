# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((32, 48), "float32"), bias: T.Buffer((48,), "float32"), D: T.Buffer((64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        C = T.sblock_alloc_buffer((64, 48))
        for i, j, k in T.grid(64, 48, 32):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(A[vi, vk], B[vk, vj])
                T.writes(C[vi, vj])
                with T.init():
                    C[vi, vj] = T.float32(0.0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(64, 48):
            with T.sblock("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(C[vi, vj], bias[vj])
                T.writes(D[vi, vj])
                D[vi, vj] = (C[vi, vj] + bias[vj]) / (T.float32(1.0) + T.exp(T.float32(-1.5957691216057308) * (C[vi, vj] + bias[vj] + T.float32(0.044714999999999998) * (C[vi, vj] + bias[vj]) * (C[vi, vj] + bias[vj]) * (C[vi, vj] + bias[vj]))))
