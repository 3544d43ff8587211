# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        largest = T.sblock_alloc_buffer((6,))
        power = T.sblock_alloc_buffer((6, 64))
        total = T.sblock_alloc_buffer((6,))
        for i, k in T.grid(6, 64):
            with T.sblock("max"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(largest[vi])
                with T.init():
                    largest[vi] = T.float32(-340282346638528859811704183484516925440.0)
                largest[vi] = T.max(largest[vi], A[vi, vk])
        for i, k in T.grid(6, 64):
            with T.sblock("exp"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(A[vi, vk], largest[vi])
                T.writes(power[vi, vk])
                power[vi, vk] = T.exp(A[vi, vk] - largest[vi])
        for i, k in T.grid(6, 64):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(power[vi, vk])
                T.writes(total[vi])
                with T.init():
                    total[vi] = T.float32(0.0)
                total[vi] = total[vi] + power[vi, vk]
        for i, k in T.grid(6, 64):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(power[vi, vk], total[vi])
                T.writes(B[vi, vk])
                B[vi, vk] = power[vi, vk] / total[vi]
