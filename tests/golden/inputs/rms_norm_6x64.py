# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), gain: T.Buffer((64,), "float32"), B: T.Buffer((6, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        squares = T.sblock_alloc_buffer((6,))
        for i, k in T.grid(6, 64):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(squares[vi])
                with T.init():
                    squares[vi] = T.float32(0.0)
                squares[vi] = squares[vi] + A[vi, vk] * A[vi, vk]
        for i, k in T.grid(6, 64):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SS", [i, k])
                T.reads(A[vi, vk], squares[vi], gain[vk])
                T.writes(B[vi, vk])
                B[vi, vk] = A[vi, vk] * T.rsqrt(squares[vi] / T.float32(64.0) + T.float32(1.0000000000000001e-05)) * gain[vk]
