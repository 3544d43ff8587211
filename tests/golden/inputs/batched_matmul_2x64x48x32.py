# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((2, 64, 32), "float32"), B: T.Buffer((2, 32, 48), "float32"), C: T.Buffer((2, 64, 48), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for b, i, j, k in T.grid(2, 64, 48, 32):
            with T.sblock("C"):
                vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
                T.reads(A[vb, vi, vk], B[vb, vk, vj])
                T.writes(C[vb, vi, vj])
                with T.init():
                    C[vb, vi, vj] = T.float32(0.0)
                C[vb, vi, vj] = C[vb, vi, vj] + A[vb, vi, vk] * B[vb, vk, vj]
