# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1536,), "float32"), B: T.Buffer((1536,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0_0_0 in T.thread_binding(2, thread="blockIdx.x"):
            for i_0_0_1 in T.unroll(1):
                for i_0_1 in T.thread_binding(256, thread="threadIdx.x"):
                    for i_1 in T.vectorized(4):
                        with T.sblock("B"):
                            vi = T.axis.spatial(1536, (i_0_0_0 * 256 + i_0_0_1 * 256 + i_0_1) * 4 + i_1)
                            T.where((i_0_0_0 + i_0_0_1) * 256 + i_0_1 < 384)
                            T.reads(A[vi])
                            T.writes(B[vi])
                            B[vi] = T.max(A[vi], T.float32(0.0))
