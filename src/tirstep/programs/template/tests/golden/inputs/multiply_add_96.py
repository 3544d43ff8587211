# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32"), C: T.Buffer((96,), "float32")):
        # with T.sblock("root"):
        for i in range(96):
            with T.sblock("C"):
                vi = T.axis.spatial(96, i)
                T.reads(A[vi], B[vi])
                T.writes(C[vi])
                C[vi] = A[vi] * B[vi] + A[vi]
