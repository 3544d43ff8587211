# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), x: T.Buffer((64,), "float32"), y: T.Buffer((6,), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        for i in T.thread_binding(6, thread="blockIdx.x"):
            for k in range(64):
                with T.sblock("y"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(A[vi, vk], x[vk])
                    T.writes(y[vi])
                    with T.init():
                        y[vi] = T.float32(0.0)
                    y[vi] = y[vi] + A[vi, vk] * x[vk]
