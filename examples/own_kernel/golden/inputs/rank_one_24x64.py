# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((24,), "float32"), Y: T.Buffer((64,), "float32"), A: T.Buffer((24, 64), "float32"), B: T.Buffer((24, 64), "float32")):
        # with T.sblock("root"):
        for i, j in T.grid(24, 64):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj], X[vi], Y[vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] + X[vi] * Y[vj]
