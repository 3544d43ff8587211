# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((6, 64), "float32"), B: T.Buffer((6, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"pass_config.tirx.disable_storage_rewrite": True})
            largest_local = T.sblock_alloc_buffer((6,), scope="local")
            power_local = T.sblock_alloc_buffer((6, 64), scope="local")
            total_local = T.sblock_alloc_buffer((6,), scope="local")
            for i in T.thread_binding(6, thread="blockIdx.x"):
                for ax0, ax1 in T.grid(1, 64):
                    with T.sblock("max"):
                        vi = T.axis.spatial(6, i + ax0)
                        vk = T.axis.reduce(64, ax1)
                        T.reads(A[vi, vk])
                        T.writes(largest_local[vi])
                        with T.init():
                            largest_local[vi] = T.float32(-340282346638528859811704183484516925440.0)
                        largest_local[vi] = T.max(largest_local[vi], A[vi, vk])
                for ax0, ax1 in T.grid(1, 64):
                    with T.sblock("exp"):
                        vi = T.axis.spatial(6, i + ax0)
                        vk = T.axis.spatial(64, ax1)
                        T.reads(A[vi, vk], largest_local[vi])
                        T.writes(power_local[vi, vk])
                        power_local[vi, vk] = T.exp(A[vi, vk] - largest_local[vi])
                for ax0, ax1 in T.grid(1, 64):
                    with T.sblock("sum"):
                        vi = T.axis.spatial(6, i + ax0)
                        vk = T.axis.reduce(64, ax1)
                        T.reads(power_local[vi, vk])
                        T.writes(total_local[vi])
                        with T.init():
                            total_local[vi] = T.float32(0.0)
                        total_local[vi] = total_local[vi] + power_local[vi, vk]
                for k in range(64):
                    with T.sblock("B"):
                        vi, vk = T.axis.remap("SS", [i, k])
                        T.reads(power_local[vi, vk], total_local[vi])
                        T.writes(B[vi, vk])
                        B[vi, vk] = power_local[vi, vk] / total_local[vi]
