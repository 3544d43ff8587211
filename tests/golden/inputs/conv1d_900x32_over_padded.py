# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((900,), "float32"), W: T.Buffer((32,), "float32"), B: T.Buffer((931,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        padded = T.sblock_alloc_buffer((2048,))
        sums = T.sblock_alloc_buffer((1024,))
        for x in range(2048):
            with T.sblock("padded"):
                vx = T.axis.spatial(2048, x)
                T.reads(A[vx - 32])
                T.writes(padded[vx])
                padded[vx] = T.if_then_else(vx >= 32 and vx < 932, A[vx - 32], T.float32(0.0))
        for i, r in T.grid(1024, 32):
            with T.sblock("sums"):
                vi, vr = T.axis.remap("SR", [i, r])
                T.reads(padded[vi + 32 - vr], W[vr])
                T.writes(sums[vi])
                with T.init():
                    sums[vi] = T.float32(0.0)
                sums[vi] = sums[vi] + padded[vi + 32 - vr] * W[vr]
        for i in range(931):
            with T.sblock("B"):
                vi = T.axis.spatial(931, i)
                T.reads(sums[vi])
                T.writes(B[vi])
                B[vi] = sums[vi]
