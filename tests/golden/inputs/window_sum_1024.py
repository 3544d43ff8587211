# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1027,), "float32"), B: T.Buffer((1024,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i in range(1024):
            with T.sblock("C"):
                vi = T.axis.spatial(1024, i)
                T.reads(A[vi:vi + 3])
                T.writes(B[vi])
                B[vi] = A[vi] + A[vi + 1] + A[vi + 2]
