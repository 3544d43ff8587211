# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((64, 24), "float32"), gain: T.Buffer((24,), "float32"), W: T.Buffer((24, 96), "float32"), C: T.Buffer((64, 96), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        squares = T.sblock_alloc_buffer((64,))
        C_acc = T.sblock_alloc_buffer((64, 96))
        for i, k in T.grid(64, 24):
            with T.sblock("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(X[vi, vk])
                T.writes(squares[vi])
                with T.init():
                    squares[vi] = T.float32(0.0)
                squares[vi] = squares[vi] + X[vi, vk] * X[vi, vk]
        for i, j, k in T.grid(64, 96, 24):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads(X[vi, vk], squares[vi], gain[vk], W[vk, vj])
                T.writes(C_acc[vi, vj])
                with T.init():
                    C_acc[vi, vj] = T.float32(0.0)
                C_acc[vi, vj] = C_acc[vi, vj] + X[vi, vk] * T.rsqrt(squares[vi] / T.float32(24.0) + T.float32(1.0000000000000001e-05)) * gain[vk] * W[vk, vj]
        for i, j in T.grid(64, 96):
            with T.sblock("C_cast"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(C_acc[vi, vj])
                T.writes(C[vi, vj])
                C[vi, vj] = C_acc[vi, vj]
