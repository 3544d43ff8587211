# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1536,), "float32"), B: T.Buffer((1536,), "float32"), C: T.Buffer((1536,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0_0 in range(2):
            for i_0_1 in T.thread_binding(256, thread="threadIdx.x"):
                for i_1 in T.vectorized(4):
                    with T.sblock("C"):
                        vi = T.axis.spatial(1536, (i_0_0 * 256 + i_0_1) * 4 + i_1)
                        T.where(i_0_0 * 256 + i_0_1 < 384)
                        T.reads(A[vi], B[vi])
                        T.writes(C[vi])
                        C[vi] = A[vi] + B[vi]
