# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        W = T.sblock_alloc_buffer((6, 64))
        total = T.sblock_alloc_buffer((6,))
        top = T.sblock_alloc_buffer((6,))
        for i, k in T.grid(6, 64):
            with T.sblock("wide"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(A[vi, vk])
                T.writes(W[vi, vk])
                W[vi, vk] = A[vi, vk]
        for i, k in T.grid(6, 64):
            with T.sblock("statistics"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(W[vi, vk])
                T.writes(total[vi], top[vi])
                with T.init():
                    total[vi] = T.float32(0.0)
                    top[vi] = T.float32(-340282346638528859811704183484516925440.0)
                new_total: T.let[T.float32] = total[vi] * T.exp(top[vi] - T.max(top[vi], W[vi, vk])) + T.exp(T.float32(0.0)) * T.exp(W[vi, vk] - T.max(top[vi], W[vi, vk]))
                new_top: T.let[T.float32] = T.max(top[vi], W[vi, vk])
                total[vi] = new_total
                top[vi] = new_top
        for i, k in T.grid(6, 64):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(W[vi, vk], top[vi], total[vi])
                T.writes(B[vi, vk])
                B[vi, vk] = T.exp(W[vi, vk] - top[vi]) / total[vi]
