# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i_0 in T.thread_binding(3, thread="blockIdx.x"):
            for i_1 in T.thread_binding(2, thread="threadIdx.x"):
                for k in range(64):
                    with T.sblock("B"):
                        vi = T.axis.spatial(6, i_0 * 2 + i_1)
                        vk = T.axis.reduce(64, k)
                        T.reads(A[vi, vk])
                        T.writes(B[vi])
                        with T.init():
                            B[vi] = T.float32(0.0)
                        B[vi] = B[vi] + A[vi, vk]
