# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((1536,), "float32"), B: T.Buffer((1536,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0 in T.thread_binding(48, thread="blockIdx.x"):
            for i_1 in T.thread_binding(32, thread="threadIdx.x"):
                with T.sblock("B"):
                    vi = T.axis.spatial(1536, i_0 * 32 + i_1)
                    T.reads(A[vi])
                    T.writes(B[vi])
                    B[vi] = T.max(A[vi], T.float32(0.0))
