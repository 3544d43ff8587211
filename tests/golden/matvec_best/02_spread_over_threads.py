# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), x: T.Buffer((64,), "float32"), y: T.Buffer((6,), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True})
            y_local = T.sblock_alloc_buffer((6,), scope="local")
            for i in T.thread_binding(6, thread="blockIdx.x"):
                for k_0_0 in range(1):
                    for k_0_1 in T.thread_binding(16, thread="threadIdx.x"):
                        for k_1 in range(4):
                            with T.sblock("y"):
                                vi = T.axis.spatial(6, i)
                                vk = T.axis.reduce(64, k_0_0 * 64 + k_0_1 * 4 + k_1)
                                T.reads(A[vi, vk], x[vk])
                                T.writes(y_local[vi])
                                with T.init():
                                    y_local[vi] = T.float32(0.0)
                                y_local[vi] = y_local[vi] + A[vi, vk] * x[vk]
                for ax0, u_0_0 in T.grid(1, 1):
                    for u_0_1 in T.thread_binding(16, thread="threadIdx.x"):
                        for u_1 in range(1):
                            with T.sblock("y_local"):
                                v0 = T.axis.spatial(6, i + ax0)
                                T.where(u_0_0 * 16 + u_0_1 < 1)
                                T.reads(y_local[v0])
                                T.writes(y[v0])
                                y[v0] = y_local[v0]
