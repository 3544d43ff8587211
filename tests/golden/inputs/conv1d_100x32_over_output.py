# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((100,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((131,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i, k in T.grid(131, 131):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vk], W[vi - vk])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0.0)
                B[vi] = B[vi] + T.if_then_else(vk >= 100 or vi - vk < 0 or vi - vk >= 32, T.float32(0.0), A[vk] * W[vi - vk])
